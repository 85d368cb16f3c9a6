"""``POST /v1/replay``: which of the calls in the messages succeeded, as the turn's own records tell."""

from __future__ import annotations

from collections import Counter
from typing import Any

from workbench.conversations import fields
from workbench.conversations.conversation import require_active
from workbench.errors import InvalidRequest, NotFound
from workbench.http import Request, Response
from workbench.ids import TurnId, is_part
from workbench.keys import call_key, head_key, turn_key
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.tools.replay import ToolCall, replay, writing_calls


def post_replay(runtime: Runtime, request: Request) -> Response:
    """``{"turn", "messages"}`` -> ``{"messages"}``: the same ones, with what the turn has written cut.

    The record of the turn decides whether a call succeeded, when the portal used the model's call ids. For other
    calls, those of earlier turns among them, their results in the messages do; where neither tells, nothing is cut.
    """
    body = request.json()
    messages = body.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise InvalidRequest("`messages` must be a list of message objects.", field="messages")
    turn = TurnId.parse(fields.text(body.get("turn"), "turn", 200))
    calls = writing_calls(messages)
    records = _records(runtime, turn, {call.id for call in calls if is_part(call.id)})
    times = Counter(call.id for call in calls)

    def succeeded(call: ToolCall) -> bool:
        record = records.get(call.id)
        if record is None or not _is_of(record, call, once=times[call.id] == 1):
            return call.said is True
        return bool(record["step"]["outcome"] == "ok")

    return Response({"messages": replay(messages, succeeded)})


def _records(runtime: Runtime, turn: TurnId | None, ids: set[str]) -> dict[str, Item]:
    """The turn's stored calls by id; raises NotFound and Conflict for a turn that is not there any more."""
    if turn is None:
        raise _no_turn()
    head, record = head_key(turn.conversation), turn_key(turn)
    keys = {call_key(turn, call): call for call in ids}
    found = runtime.table.get_many([head, record, *keys])
    require_active(found.get(head))
    if head not in found or record not in found:
        raise _no_turn()
    return {call: found[key] for key, call in keys.items() if key in found and "step" in found[key]}


def _is_of(record: Item, call: ToolCall, *, once: bool) -> bool:
    """True when ``record`` is of this very call: ids such as ``call_1`` come again in every turn of some portals."""
    tool: Any = record["tool"].partition("@")[0]
    return bool(tool == call.tool and (once or record["digest"] == call.digest))


def _no_turn() -> NotFound:
    return NotFound("There is no such turn.")
