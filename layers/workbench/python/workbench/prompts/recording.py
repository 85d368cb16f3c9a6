"""For whom a prompt is filled in, and what is kept of it: the turn's trace says which version, a conversation keeps its
variant."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Any

from workbench.clock import iso
from workbench.conversations.conversation import load as load_conversation
from workbench.conversations.finishing import read_state
from workbench.conversations.turns import OPEN
from workbench.errors import Conflict, InvalidRequest
from workbench.ids import TurnId
from workbench.keys import call_key, head_key, turn_key
from workbench.operations import ACTIVE, Condition, Item, Operation, check, put
from workbench.prompts.store import choice_key
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

STEP = "prompt"


@dataclass(frozen=True, slots=True)
class Scope:
    """The conversation that keeps its variant, and the turn whose trace tells of it."""

    conversation: str | None
    turn: TurnId | None


def scope(runtime: Runtime, conversation: object, turn: object) -> Scope:
    """Check what a request names; raises InvalidRequest, NotFound and Conflict (deleted, finished)."""
    if conversation is not None and not isinstance(conversation, str):
        raise InvalidRequest("`conversation` must be the id of a conversation.", field="conversation")
    if turn is not None:
        parsed = TurnId.parse(turn)
        if parsed is not None and conversation not in (None, parsed.conversation):
            raise InvalidRequest("`turn` is a turn of another conversation than `conversation`.", field="turn")
        if read_state(runtime, parsed).item["state"] != OPEN:
            raise _finished()
        assert parsed is not None
        return Scope(parsed.conversation, parsed)
    if conversation is not None:
        load_conversation(runtime, conversation).require_active()
    return Scope(conversation, None)


def record(
    runtime: Runtime, scope: Scope, experiment: str, item: Item, *, started: float, characters: int, chosen: bool
) -> None:
    """Keep the choice for the conversation and tell of it in the turn's trace, both or neither."""
    if scope.conversation is None or (scope.turn is None and not chosen):
        return
    operations = [check(head_key(scope.conversation), ACTIVE)]
    if scope.turn is not None:
        operations.append(
            check(turn_key(scope.turn), Condition("#state = :open", {"#state": "state"}, {":open": OPEN}))
        )
        operations.append(_step(runtime, scope.turn, experiment, item, started, characters))
    if chosen:
        pk, sk = choice_key(scope.conversation, experiment)
        operations.append(put({"PK": pk, "SK": sk, "name": item["name"], "version": item["version"]}))
    try:
        runtime.table.transact(operations)
    except ConditionFailed as failed:
        if failed.failed(0):
            load_conversation(runtime, scope.conversation).require_active()
        raise _finished() from None


def _step(runtime: Runtime, turn: TurnId, experiment: str, item: Item, started: float, characters: int) -> Operation:
    """What the trace shows. It stands beside the turn's calls under a name that no call id can have."""
    pk, sk = call_key(turn, f"@{experiment}")
    step: dict[str, Any] = {
        "callId": f"prompt-{hashlib.sha256(experiment.encode()).hexdigest()[:16]}",
        "tool": f"{item['name']}@{item['version']}",
        "step": STEP,
        "outcome": "ok",
        "code": None,
        "at": iso(started),
        "milliseconds": round((runtime.clock.now() - started) * 1000, 2),
        "bytes": characters,
        "refs": [],
        "prompt": {"name": item["name"], "version": item["version"], "asked": experiment},
    }
    return put({"PK": pk, "SK": sk, "state": "done", "step": step, "effects": {}})


def _finished() -> Conflict:
    return Conflict("The turn is finished: nothing more can be recorded in its trace. Open a new turn.", field="turn")
