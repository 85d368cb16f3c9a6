"""The routes by which an admin looks for what nothing names between two days, first as a dry run.

They start the state machine that runs once a day, and show what came of it. Only the portal itself may.
"""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from workbench import ids
from workbench.artifacts import access
from workbench.clock import iso
from workbench.conversations import fields
from workbench.errors import Forbidden, NotFound
from workbench.http import Request, Response
from workbench.logs import audit
from workbench.objects import code_of
from workbench.runtime import Runtime

ID_PREFIX = "rec_"
RUNNING, DONE, FAILED = "running", "done", "failed"
_STATUS = {"RUNNING": RUNNING, "SUCCEEDED": DONE}


def begin(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/reconciliations``: look for what nothing names; with ``dryRun`` false also remove it.

    Several at once are harmless: what one is at work on, the others leave.
    """
    _only_the_portal(request)
    dry_run = fields.flag(fields.given(request.json() if request.body else {}, "dryRun", True), "dryRun")
    reconciliation = ids.random_part(ID_PREFIX)
    runtime.clients.stepfunctions.start_execution(
        stateMachineArn=runtime.settings.reconcile_state_machine,
        name=reconciliation,
        input=json.dumps({"dryRun": dry_run}),
    )
    audit("reconciliation.begin", reconciliation=reconciliation, dryRun=dry_run)
    return Response({"reconciliation": {"id": reconciliation, "status": RUNNING, "dryRun": dry_run}}, 202)


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/reconciliations/{reconciliation}``: its status, and when it is done what it found.

    ``counts`` has for each kind how many were ``found``, ``repaired``, ``left`` (somebody was at work on them) and
    ``failed`` (a person has to look); ``listed`` the first of them as ``{"kind", "what", "count"}``.
    """
    _only_the_portal(request)
    reconciliation = request.parameters["reconciliation"]
    try:
        if not ids.is_part(reconciliation):
            raise _unknown()
        found = runtime.clients.stepfunctions.describe_execution(
            executionArn=f"{executions(runtime.settings.reconcile_state_machine)}:{reconciliation}"
        )
    except ClientError as error:
        if code_of(error) != "ExecutionDoesNotExist":
            raise
        raise _unknown() from None
    return Response({"reconciliation": _as_dict(reconciliation, found)})


def executions(machine: str) -> str:
    """What the ARNs of a state machine's executions begin with."""
    return machine.replace(":stateMachine:", ":execution:")


def _as_dict(reconciliation: str, found: dict[str, Any]) -> dict[str, Any]:
    status = _STATUS.get(found["status"], FAILED)
    answer = {
        "id": reconciliation,
        "status": status,
        "dryRun": bool(json.loads(found["input"]).get("dryRun", False)),
        "startedAt": iso(found["startDate"].timestamp()),
    }
    if status != DONE:
        return answer
    came = json.loads(found["output"])
    return {**answer, "counts": came["counts"], "listed": came["listed"]}


def _only_the_portal(request: Request) -> None:
    if access.viewer_of(request.headers) is not None:
        raise Forbidden("Only the portal itself looks after what nothing names; leave the X-Workbench headers out.")


def _unknown() -> NotFound:
    return NotFound("There is no such reconciliation, or it is three months old.")
