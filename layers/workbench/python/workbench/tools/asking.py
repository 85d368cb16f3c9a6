"""A tool call as it was asked for, and everything that is stored about it, found in one batch read."""

from __future__ import annotations

from dataclasses import dataclass

from workbench.conversations.turns import unauthorized
from workbench.errors import InvalidRequest
from workbench.http import Request
from workbench.ids import CallId, TurnId, is_part
from workbench.keys import breaker_key, call_key, head_key, seen_key, turn_key
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.tools.arguments import Given

# No tool's name is longer; what is longer is named by its beginning.
NAME_CHARACTERS = 64


@dataclass(frozen=True)
class Asked:
    """A well-formed request for a tool call."""

    name: str
    call: CallId
    token: str | None
    arguments: Given
    wait_seconds: float


def read_request(runtime: Runtime, name: str, request: Request) -> Asked:
    """Read the request; raises InvalidRequest, and Unauthorized when its path names no turn."""
    turn = TurnId.parse(request.parameters.get("turn"))
    body = request.json()
    if unknown := sorted(set(body) - {"callId", "arguments", "wait"}):
        raise InvalidRequest(f"Unknown field {unknown[0]!r}. A tool call has callId, arguments and wait.")
    if not is_part(body.get("callId")):
        raise InvalidRequest("callId is required: 1 to 64 characters of A-Z, a-z, 0-9, _ and -.")
    if turn is None:
        raise unauthorized()
    settings = runtime.settings
    wait = body.get("wait")
    if wait is None:
        wait = settings.default_wait_seconds
    if isinstance(wait, bool) or not isinstance(wait, int | float) or wait < 0:
        raise InvalidRequest("wait must be a number of seconds, 0 or more.")
    return Asked(
        name[:NAME_CHARACTERS],
        CallId(turn, body["callId"]),
        request.headers.get("x-turn-token"),
        Given.read(body.get("arguments", {})),
        float(min(wait, settings.longest_wait_seconds)),
    )


@dataclass
class State:
    """What one batch read found."""

    head: Item | None
    turn: Item | None
    call: Item | None
    breaker: Item
    seen: Item


def read_state(runtime: Runtime, asked: Asked) -> State:
    """Everything that the call's path needs to know, strongly consistent. One request."""
    turn = asked.call.turn
    keys = [
        head_key(turn.conversation),
        turn_key(turn),
        call_key(turn, asked.call.call),
        breaker_key(turn.conversation),
        seen_key(turn),
    ]
    found = runtime.table.get_many(keys)
    head, turn_item, call, broken, seen = (found.get(key) for key in keys)
    return State(head, turn_item, call, broken or {}, seen or {})
