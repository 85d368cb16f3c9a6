"""Keeping a stored result as a file: an artifact of origin ``tool_output``, which no reply carries and which expires.

For outputs that are worth more than the page a model reads of them. Nothing is captured unless somebody asks.
"""

from __future__ import annotations

from workbench.artifacts import exporting, model, store
from workbench.artifacts.exporting import Export
from workbench.artifacts.model import TOOL_OUTPUT
from workbench.conversations import fields
from workbench.conversations.turns import OPEN
from workbench.errors import Conflict
from workbench.http import Request, Response
from workbench.ids import CallId
from workbench.logs import audit
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.tools import recording
from workbench.tools.results import Stored, stored_result
from workbench.tools.turn import Turn
from workbench.workspace.storage.head import Head
from workbench.workspace.storage.writing import Tries
from workbench.workspace.text.seen import Seen


def capture(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/results/{ref}/capture``: the whole output as an artifact of the turn's person.

    It is never attached to a reply, and expires like every file that none carries. Captured again under the same name
    in the same turn, it is the first one.
    """
    body = request.json() if request.body else {}
    given = body.get("name")
    name = None if given is None else model.check_name(fields.text(given, "name", model.NAME_BYTES))
    tries = Tries(runtime)
    for attempt in tries:
        found = stored_result(runtime, request)
        if found.record["state"] != OPEN:
            raise Conflict("This turn is finished. Capture with the token of an open one.", state=found.record["state"])
        turn = _turn(runtime, found)
        output = recording.full_output(runtime, found.item).encode(errors="replace")
        wanted = Export(TOOL_OUTPUT, name or _name(found), "text/plain", output, None)
        done = exporting.export(turn, wanted, None)
        try:
            if not done.repeated:
                runtime.table.transact(turn.operations)
        except ConditionFailed:
            # The turn went on, the conversation went or the person is being erased: what is said then decides.
            tries.pause(attempt)
            continue
        made = store.find(runtime, done.artifact)
        if made is not None:
            audit("artifact.capture", artifact=done.artifact, ref=found.call.ref, bytes=done.bytes)
            return Response({"artifact": made.as_dict()}, 201)
    raise Conflict("The turn or its person keeps changing. Capture the result a little later.", retryAfterSeconds=5)


def _turn(runtime: Runtime, found: Stored) -> Turn:
    """The turn that asks, as an export sees it; the result may be that of an earlier one."""
    head = Head.from_item(found.turn.conversation, found.head)
    return Turn(runtime, CallId(found.turn, found.call.call), found.record, head, Seen(), "capture", "", 0)


def _name(found: Stored) -> str:
    return f"{found.item['tool'].partition('@')[0]}-{found.call.call}.txt"
