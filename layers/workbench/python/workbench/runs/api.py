"""``GET /v1/runs/{run}``: how a run stands, what it printed so far, and its answer when it is over."""

from __future__ import annotations

import math

from workbench.clock import iso
from workbench.conversations.conversation import require_active
from workbench.errors import InvalidRequest, NotFound
from workbench.http import Request, Response
from workbench.ids import RUN_PREFIX, CallId
from workbench.keys import Key, call_key, head_key, run_key, run_output_key
from workbench.operations import Item
from workbench.runs.items import FINAL, shown_output, shown_status
from workbench.runs.waiting import look_until
from workbench.runtime import Runtime
from workbench.tools.recording import load_answer

NO_OUTPUT = {"stdout": "", "stderr": "", "truncated": False}


def show(runtime: Runtime, request: Request) -> Response:
    """The run, after waiting up to ``wait`` seconds for its end; NotFound when there is none."""
    call = CallId.parse(request.parameters.get("run"), RUN_PREFIX)
    seconds = _wait_seconds(runtime, request.query.get("wait"))
    if call is None:
        raise _not_found()
    keys: list[Key] = [
        run_key(call.run),
        run_output_key(call.run),
        call_key(call.turn, call.call),
        head_key(call.turn.conversation),
    ]
    found = look_until(
        runtime.clock, seconds, lambda: runtime.table.get_many(keys), lambda seen: _over(seen.get(keys[0]))
    )
    record, output, called, head = (found.get(key) for key in keys)
    require_active(head)
    if record is None:
        raise _not_found()
    over, output = _over(record), shown_output(record, output)
    return Response(
        {
            "run": {
                "id": call.run,
                "status": shown_status(record),
                "startedAt": iso(record["startedAt"]),
                "output": {name: output[name] for name in NO_OUTPUT} if output else NO_OUTPUT,
                "answer": load_answer(runtime, called) if over and called and called["state"] != "running" else None,
            }
        }
    )


def _over(record: Item | None) -> bool:
    return record is None or record["status"] in FINAL


def _wait_seconds(runtime: Runtime, text: str | None) -> float:
    try:
        seconds = float(text) if text else 0.0
    except ValueError:
        seconds = math.nan
    if not 0 <= seconds < math.inf:
        raise InvalidRequest("wait must be a number of seconds, 0 or more.")
    return min(seconds, runtime.settings.longest_wait_seconds)


def _not_found() -> NotFound:
    return NotFound("There is no such run.")
