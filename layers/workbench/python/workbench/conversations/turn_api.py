"""The routes of a turn: open it, finish it, read its trace and its receipt."""

from __future__ import annotations

from workbench.conversations import fields, finishing, opening, turn_record
from workbench.http import Request, Response
from workbench.ids import TurnId
from workbench.logs import audit
from workbench.runtime import Runtime


def open_turn(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/conversations/{conversation}/turns``: a new turn and the token that its tool calls need."""
    conversation = request.parameters["conversation"]
    opened = opening.open_turn(runtime, conversation, opening.read_request(request.json(), conversation))
    audit("turn.open", turn=str(opened.turn), tools=sorted(opened.tools))
    turn = {
        "id": str(opened.turn),
        "conversation": conversation,
        "tools": [{"name": name, "version": version} for name, version in opened.tools.items()],
        "skills": [{"name": name, "version": version} for name, version in opened.skills.items()],
        "instructions": opened.instructions,
    }
    return Response({"turn": turn, "token": opened.token}, 201)


def finish(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/turns/{turn}/finish``: the reply with its files, and the receipt. Finishing again answers the same."""
    body = request.json()
    outcome = fields.choice(body.get("outcome"), "outcome", finishing.OUTCOMES)
    text = fields.text(fields.given(body, "text", ""), "text", finishing.TEXT_BYTES)
    turn = TurnId.parse(request.parameters["turn"])
    reply = finishing.finish(runtime, turn, outcome, text)
    return Response({"reply": reply, "receipt": _receipt(runtime, turn)})


def trace(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/turns/{turn}/trace``: one step for each call, in order."""
    turn = TurnId.parse(request.parameters["turn"])
    finishing.read_state(runtime, turn)
    assert turn is not None
    return Response({"steps": turn_record.trace(turn_record.calls(runtime, turn))})


def receipt(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/turns/{turn}/receipt``: files, artifacts, runs and approvals of the turn so far."""
    turn = TurnId.parse(request.parameters["turn"])
    finishing.read_state(runtime, turn)
    return Response({"receipt": _receipt(runtime, turn)})


def _receipt(runtime: Runtime, turn: TurnId | None) -> dict[str, list[dict[str, object]]]:
    assert turn is not None
    return turn_record.receipt(turn_record.calls(runtime, turn))
