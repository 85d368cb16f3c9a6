"""Who has the last word on a run: its report, the news that its sandbox ended, or a request to stop it.

One conditional write (``reported``) picks the winner and only the winner calls Step Functions. A token that the
workflow has not stored yet is no hindrance: the step that stores it finds the verdict and acts on it.
"""

from __future__ import annotations

import json
from typing import Any, Literal

from botocore.exceptions import ClientError

from workbench.keys import run_key
from workbench.logs import logger
from workbench.operations import Condition, Item, Update, all_of
from workbench.runs.items import AT_WORK, attempt_is, status_in
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

Kind = Literal["report", "lost", "stopped", "refused"]

# The errors under which a waiting state ends; Abort reads the record, these are for people who read the history.
ERRORS = {"lost": "Workbench.SandboxLost", "stopped": "Workbench.Stopped", "refused": "Workbench.Refused"}
# Somebody completed the token before, or its state is over: either way the workflow has moved on.
_MOVED_ON = frozenset({"TaskTimedOut", "TaskDoesNotExist", "InvalidToken"})


def settle(runtime: Runtime, run: str, kind: Kind, facts: dict[str, Any], also: Condition | None = None) -> Item | None:
    """Try to have the last word; returns the record when this call won, None when somebody else had it."""
    verdict = {"kind": kind, "at": runtime.clock.now(), **facts}
    condition = status_in(AT_WORK)
    try:
        return runtime.table.update(
            run_key(run),
            Update().set("status", "reported").set("verdict", verdict),
            all_of(condition, also) if also else condition,
        )
    except ConditionFailed:
        return None


def act_on(runtime: Runtime, record: Item) -> None:
    """Complete the token that the workflow waits with, as the verdict says; nothing when no token is stored yet."""
    verdict = record["verdict"]
    if "sandbox" in record and "runToken" not in record:
        # A claim that died before its last word left the workflow waiting for it; the next state finds the verdict.
        succeed(runtime, record["claimToken"])
        return
    token = record["runToken"] if "sandbox" in record else record.get("claimToken")
    if token is None:
        return
    if verdict["kind"] == "report":
        succeed(runtime, token)
    else:
        fail(runtime, token, ERRORS[verdict["kind"]], str(verdict.get("reason", "")))


def stop_run(
    runtime: Runtime, run: str, reason: str = "its turn or conversation was ended", attempt: int | None = None
) -> bool:
    """Stop a run; True when this call had the last word. Its workflow then aborts it and frees what it holds.

    ``reason`` completes "The run was stopped: …". Never StopExecution, which would skip the workflow's Abort.
    """
    also = attempt_is(attempt) if attempt is not None else None
    record = settle(runtime, run, "stopped", {"reason": reason}, also)
    if record is not None:
        act_on(runtime, record)
    return record is not None


def succeed(runtime: Runtime, token: str) -> bool:
    """SendTaskSuccess; False when the workflow has moved on."""
    return _completed(runtime.clients.stepfunctions.send_task_success, taskToken=token, output=json.dumps({}))


def fail(runtime: Runtime, token: str, error: str, cause: str) -> bool:
    """SendTaskFailure; False when the workflow has moved on."""
    return _completed(runtime.clients.stepfunctions.send_task_failure, taskToken=token, error=error, cause=cause[:1000])


def beat(runtime: Runtime, token: str) -> bool:
    """SendTaskHeartbeat; False when the state that waits with ``token`` is over."""
    try:
        runtime.clients.stepfunctions.send_task_heartbeat(taskToken=token)
    except ClientError as error:
        # An unknown token is not yet a sign of the end: the beat may be earlier than the state that waits for it.
        if error.response["Error"]["Code"] not in _MOVED_ON:
            raise
        return bool(error.response["Error"]["Code"] == "InvalidToken")
    return True


def _completed(call: Any, **request: str) -> bool:
    try:
        call(**request)
    except ClientError as error:
        if error.response["Error"]["Code"] not in _MOVED_ON:
            raise
        logger.info("the workflow has moved on", extra={"code": error.response["Error"]["Code"]})
        return False
    return True
