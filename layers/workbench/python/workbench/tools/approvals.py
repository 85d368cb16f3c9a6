"""Parked calls, the decisions of people on them, and the grants that decisions leave behind.

The gate's rules (``gate.py``) are pure; here they meet the table. Nothing is read unless a rating asks: an ordinary
call pays nothing. A decision opens the parked call's id, so that the same callId may be sent again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.clock import iso
from workbench.conversations.turns import OPEN
from workbench.errors import Conflict, InvalidRequest, NotFound, ToolError
from workbench.http import Request, Response
from workbench.ids import APPROVAL_PREFIX, CallId
from workbench.keys import Key, conversation_key, turn_key
from workbench.logs import audit
from workbench.operations import ABSENT, Condition, Item, Operation, Update, put, update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.tools.answer import Answer, TextPart
from workbench.tools.contract import Tool
from workbench.tools.gate import LEVELS, Judge, Rating, decide, helps, rate, unjudged
from workbench.tools.turn import Turn
from workbench.workspace.storage.head import read_head

DECISIONS = ("allow", "deny")
SCOPES = ("once", "turn", "conversation", "person")
LONGEST_NAME = 128

PENDING = Condition("#status = :pending", {"#status": "status"}, {":pending": "pending"})


@dataclass
class Passed:
    """The gate let the call through; ``approvals`` are those that it went through by, for the receipt."""

    approvals: list[dict[str, Any]] = field(default_factory=list)


def pass_gate(turn: Turn, tool: Tool, values: Mapping[str, Any], judge: Judge = unjudged) -> Passed | Answer:
    """Whether the call may go on: an answer with ``denied`` or ``approval_required`` when it may not.

    ``judge`` may raise what the rules say. Whatever fails here fails the call: nothing goes on unrated.
    """
    settings = turn.settings
    rating = judge(tool, rate(tool, values, lambda folder: _paths_below(turn, folder)))
    decision = decide(rating, settings.ask_from, settings.deny_from)
    if decision == "proceed":
        return Passed()
    if decision == "refuse":
        return _denied(f"This deployment does not allow it: {rating.reason}", rating)
    asked = turn.runtime.table.get(_key(turn.call))
    if asked is not None and asked["digest"] != turn.digest:
        return _other_call(turn)
    if asked is not None and asked["status"] == "allowed":
        return Passed([_receipt_line(asked)]) if _no_riskier(rating, asked) else _riskier(rating, asked)
    standing = [grant for grant in _grants(turn) if helps(grant["pattern"], rating, settings.ask_from)]
    against = asked if asked and asked["status"] == "denied" else next(filter(_is_denial, standing), None)
    if against is not None:
        answer = _denied(f"{against['by']} decided against it.", rating)
        answer.effects["approvals"] = [_receipt_line(against)]
        return answer
    if decide(rating, settings.ask_from, settings.deny_from, [grant["pattern"] for grant in standing]) == "proceed":
        return Passed([_receipt_line(grant) for grant in standing])
    if asked is None:
        _park(turn, tool, rating)
    return _waiting(turn, rating)


def _paths_below(turn: Turn, folder: str) -> Iterator[str]:
    return (entry.path for entry in turn.workspace.entries(folder))


def _key(call: CallId) -> Key:
    return conversation_key(call.turn.conversation, f"APPR#{call.approval}")


def _denied(why: str, rating: Rating) -> Answer:
    error = ToolError(
        f"{why} Nothing was changed. Do something else, or ask the person what they want.",
        code="not_allowed",
        rating=rating.level,
        pattern=rating.pattern,
    )
    return Answer([TextPart(error.message)], error=error, outcome="denied")


def _no_riskier(rating: Rating, asked: Item) -> bool:
    return LEVELS.index(rating.level) <= LEVELS.index(asked["rating"])


def _riskier(rating: Rating, asked: Item) -> Answer:
    """The same call has become another matter since a person allowed it, such as a folder that now holds a key."""
    return _denied(
        f"It was allowed when it was rated {asked['rating']}, and now it is {rating.level}: {rating.reason} "
        "Send it under a new call id to ask again.",
        rating,
    )


def _other_call(turn: Turn) -> Answer:
    """What a person was asked about must not change under the same id."""
    error = ToolError(
        f"{turn.call.approval} was asked for other arguments. Send these under a new call id.", code="invalid_args"
    )
    return Answer([TextPart(error.message)], error=error, outcome="invalid_args")


def _waiting(turn: Turn, rating: Rating) -> Answer:
    error = ToolError(
        f"A person must approve this first: {rating.reason.rstrip('.')} (rated {rating.level}). Nothing was changed. "
        f"When {turn.call.approval} is allowed, send the same call again under the same call id.",
        code="approval_required",
        approval=turn.call.approval,
        rating=rating.level,
        pattern=rating.pattern,
    )
    return Answer(
        [TextPart(error.message)],
        {"approval": turn.call.approval, "pattern": rating.pattern},
        error=error,
        outcome="approval_required",
    )


def _park(turn: Turn, tool: Tool, rating: Rating) -> None:
    pk, sk = _key(turn.call)
    item = {
        "PK": pk,
        "SK": sk,
        "id": turn.call.approval,
        "turn": str(turn.id),
        "callId": turn.call.call,
        "tool": tool.name,
        "digest": turn.digest,
        "pattern": rating.pattern,
        "rating": rating.level,
        "reason": rating.reason,
        "status": "pending",
        "user": turn.caller.user,
        "at": turn.clock.now(),
        "expiresAt": turn.item["expiresAt"],
    }
    try:
        turn.runtime.table.put(item, ABSENT)
    except ConditionFailed:
        return
    audit("approval.asked", approval=item["id"], tool=tool.name, pattern=rating.pattern, rating=rating.level)


# ---------------------------------------------------------------- grants


def _grants(turn: Turn) -> Iterator[Item]:
    table = turn.runtime.table
    conversation = f"C#{turn.conversation}"
    yield from table.query(conversation, f"T#{turn.id.part}#GRANT#")
    yield from table.query(conversation, "GRANT#")
    yield from table.query(f"P#{turn.caller.user}", "GRANT#")


def _is_denial(grant: Item) -> bool:
    return bool(grant["status"] == "denied")


def _grant(decided: Mapping[str, Any], call: CallId) -> Operation | None:
    """What a decision that is meant for more than one call leaves behind, in the place of an earlier one."""
    name = "GRANT#" + hashlib.sha256(decided["pattern"].encode()).hexdigest()
    keys: dict[str, Key] = {
        "turn": conversation_key(call.turn.conversation, f"T#{call.turn.part}#{name}"),
        "conversation": conversation_key(call.turn.conversation, name),
        "person": (f"P#{decided['user']}", name),
    }
    if decided["scope"] not in keys:
        return None
    pk, sk = keys[decided["scope"]]
    facts = {field: decided[field] for field in ("id", "pattern", "status", "by")}
    return put({"PK": pk, "SK": sk, **facts, "at": decided["decidedAt"]})


def _receipt_line(item: Mapping[str, Any]) -> dict[str, Any]:
    decision = "allow" if item["status"] == "allowed" else "deny"
    return {"id": item["id"], "pattern": item["pattern"], "decision": decision, "by": item["by"]}


# ---------------------------------------------------------------- routes


def list_approvals(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/approvals?conversation=``: parked calls and what was decided, oldest first."""
    conversation = request.query.get("conversation")
    if not conversation:
        raise InvalidRequest("Say which conversation: /v1/approvals?conversation=ID.")
    read_head(runtime, conversation)
    items = sorted(runtime.table.query(f"C#{conversation}", "APPR#"), key=lambda item: item["at"])
    return Response({"approvals": [_facts(item, runtime.clock.now()) for item in items]})


def decide_approval(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/approvals/{approval}``: ``{"decision", "scope", "by"}``. Deciding twice the same is harmless."""
    call = CallId.parse(request.parameters["approval"], APPROVAL_PREFIX)
    body = request.json()
    decision, scope, by = body.get("decision"), body.get("scope", "once"), body.get("by")
    if decision not in DECISIONS:
        raise InvalidRequest("decision must be allow or deny.")
    if scope not in SCOPES:
        raise InvalidRequest("scope must be once, turn, conversation or person.")
    if not isinstance(by, str) or not 0 < len(by) <= LONGEST_NAME or not by.isprintable():
        raise InvalidRequest(f"by must name who decided, in 1 to {LONGEST_NAME} printable characters.")
    if call is None:
        raise NotFound("There is no such approval.")
    read_head(runtime, call.turn.conversation)
    found = runtime.table.get_many([_key(call), turn_key(call.turn)])
    asked, turn = found.get(_key(call)), found.get(turn_key(call.turn))
    now = runtime.clock.now()
    if asked is None or turn is None:
        raise NotFound("There is no such approval.")
    if asked["expiresAt"] <= now or turn["state"] != OPEN:
        raise Conflict("The turn of this approval has ended, so there is nothing left to decide.")
    status = "allowed" if decision == "allow" else "denied"
    decided = {**asked, "status": status, "scope": scope, "by": by, "decidedAt": now}
    change = Update().set("status", status).set("scope", scope).set("by", by).set("decidedAt", now)
    grant = _grant(decided, call)
    operations = [update(_key(call), change, PENDING), *([grant] if grant else [])]
    try:
        runtime.table.transact(operations)
    except ConditionFailed:
        before = runtime.table.get(_key(call))
        if before is None:
            raise NotFound("There is no such approval.") from None
        if (before["status"], before["scope"]) != (status, scope):
            raise Conflict(
                f"This approval was already {before['status']} ({before['scope']}) by {before['by']}.",
                status=before["status"],
                scope=before["scope"],
            ) from None
        return Response({"approval": _facts(before, now)})
    audit("approval.decided", approval=asked["id"], decision=decision, scope=scope, by=by)
    return Response({"approval": _facts(decided, now)})


def _facts(item: Mapping[str, Any], now: float) -> dict[str, Any]:
    names = ("id", "turn", "callId", "tool", "pattern", "rating", "reason")
    expired = item["status"] == "pending" and item["expiresAt"] <= now
    facts = {name: item[name] for name in names} | {"status": "expired" if expired else item["status"]}
    facts |= {name: item[name] for name in ("scope", "by") if name in item}
    return facts | {"at": iso(item["at"])}
