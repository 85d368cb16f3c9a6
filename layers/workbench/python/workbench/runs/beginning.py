"""How a run begins: its call, its record, the conversation's one place and one of the deployment's, all or none.

After that transaction the run exists exactly once; starting its workflow may be repeated, because the same attempt
always names the same execution.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from workbench.clock import iso
from workbench.conversations.turns import OPEN
from workbench.errors import ToolError
from workbench.keys import call_key, head_key, run_key, turn_key
from workbench.logs import logger
from workbench.operations import ABSENT, ACTIVE, Condition, Item, Operation, all_of, check, put
from workbench.runs import admission, ending, wording
from workbench.runs.claiming import run_seconds
from workbench.runs.items import (
    FINAL,
    MISSED_BEATS,
    RECORD_SECONDS,
    at_work_key,
    attempt_is,
    execution_name,
    staging_prefix,
    status_in,
)
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.tools.recording import NOT_DONE

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

# Past this long after its last deadline nothing works for a run any more.
SPARE_SECONDS = 900
TRIES = 3
# Where each write stands in the transaction, so that a false condition can be told.
CALL_AT, RUN_AT, PLACE_AT, ADMISSION_AT, HEAD_AT, TURN_AT = range(6)


@dataclass(frozen=True)
class Order:
    """What is to be run. ``inputs`` are as :func:`workbench.runs.inputs.resolve` gives them."""

    code: bytes
    language: str
    timeout_seconds: int
    inputs: list[Item]


def begin(turn: Turn, order: Order) -> None:
    """Admit the run and start its workflow; nothing when a twin of this call was faster.

    Raises ToolError (``throttled``) when there is no place.
    """
    runtime, record = turn.runtime, _record(turn, order)
    runtime.clients.s3.put_object(
        Bucket=runtime.settings.workspace_bucket, Key=record["program"]["key"], Body=order.code
    )
    for _ in range(TRIES):
        try:
            runtime.table.transact(_operations(turn, record))
        except ConditionFailed as failed:
            if failed.failed(CALL_AT):
                return
            record = _make_way(turn, record, failed)
        else:
            start(runtime, record)
            return
    raise admission.full(runtime)


def start(runtime: Runtime, record: Item) -> None:
    """Start the run's workflow; a run that cannot be started ends at once and says so."""
    settings = runtime.settings
    beats = max(1, round(MISSED_BEATS * settings.heartbeat_seconds))
    waits = {
        "run": record["run"],
        "claimSeconds": settings.claim_seconds,
        "heartbeatSeconds": beats,
        "runSeconds": max(run_seconds(record["job"]["timeoutSeconds"]), beats + 1),
    }
    try:
        runtime.clients.stepfunctions.start_execution(
            stateMachineArn=settings.run_state_machine,
            name=execution_name(record["run"], record["attempt"]),
            input=json.dumps(waits),
        )
    except ClientError as error:
        if error.response["Error"]["Code"] != "ExecutionAlreadyExists":
            logger.exception("the workflow could not be started", extra={"run": record["run"]})
            unavailable = "The run could not be started. Nothing was run. Try again in a new call."
            give_up(runtime, record, ToolError(unavailable, code="SANDBOX_UNAVAILABLE"))


def give_up(runtime: Runtime, record: Item, error: ToolError) -> None:
    """End a run for which nothing works any more, and free what it holds. Harmless when it is over."""
    ending.abandon(runtime, record, wording.aborted(record, error))
    ending.clean_up(runtime, record)


# ---------------------------------------------------------------- the one transaction


def _record(turn: Turn, order: Order) -> Item:
    run, now, digest = turn.call.run, turn.clock.now(), hashlib.sha256(order.code).hexdigest()
    settings = turn.settings
    pk, sk = run_key(run)
    return {
        "PK": pk,
        "SK": sk,
        "run": run,
        "conversation": turn.conversation,
        "turn": str(turn.id),
        "tool": turn.tool,
        "digest": turn.digest,
        "mayPage": turn.offers("read_result"),
        "readers": [name for name in ("read_file", "search_files") if turn.offers(name)],
        "conversions": list(turn.conversions),
        "approvals": list(turn.approvals),
        "status": "queued",
        "attempt": 1,
        "startedAt": now,
        "deadline": now + settings.claim_seconds + run_seconds(order.timeout_seconds) + SPARE_SECONDS,
        "job": {"language": order.language, "timeoutSeconds": order.timeout_seconds},
        # Named by its content: a twin of this call with another program must not replace this one.
        "program": {
            "key": f"{staging_prefix(turn.conversation, run)}program-{digest}",
            "bytes": len(order.code),
            "sha256": digest,
        },
        "inputs": order.inputs,
        "ttl": int(now) + RECORD_SECONDS,
    }


def _operations(turn: Turn, record: Item) -> list[Operation]:
    place_pk, place_sk = at_work_key(turn.conversation)
    place = {"PK": place_pk, "SK": place_sk, "run": record["run"], "turn": record["turn"], "since": record["startedAt"]}
    before = record["attempt"] - 1
    ended_before = all_of(attempt_is(before), status_in(FINAL)) if before else ABSENT
    return [
        put(_call_item(turn, record), NOT_DONE),
        put(record, ended_before),
        put(place, ABSENT),
        admission.enter(turn.runtime, record["run"]),
        check(head_key(turn.conversation), ACTIVE),
        # Ending a turn stops its run at work: none may begin behind its back.
        check(turn_key(turn.id), Condition("#state = :open", {"#state": "state"}, {":open": OPEN})),
    ]


def _call_item(turn: Turn, record: Item) -> dict[str, Any]:
    pk, sk = call_key(turn.id, turn.call.call)
    return {
        "PK": pk,
        "SK": sk,
        "tool": turn.tool,
        "digest": turn.digest,
        "state": "running",
        "run": record["run"],
        "step": {
            "callId": turn.call.call,
            "tool": turn.tool,
            "step": "run",
            "outcome": "running",
            "code": None,
            "at": iso(record["startedAt"]),
            "milliseconds": 0,
            "bytes": 0,
            "refs": [],
        },
        "effects": {},
    }


def _make_way(turn: Turn, record: Item, failed: ConditionFailed) -> Item:
    """Find out whether the way is really blocked; returns the record to try with. Raises ToolError."""
    runtime = turn.runtime
    if failed.failed(PLACE_AT):
        _end_stale_run(turn)
    if failed.failed(ADMISSION_AT) and not _free_a_place(runtime):
        raise admission.full(runtime)
    if failed.failed(HEAD_AT):
        raise ToolError("The conversation was deleted. Nothing was run.", code="not_allowed")
    if failed.failed(TURN_AT):
        raise ToolError("The turn was finished. Nothing was run. Open a new turn.", code="not_allowed")
    if failed.failed(RUN_AT):
        # The same call was tried before and may be sent again: this is its next attempt.
        earlier = runtime.table.get(run_key(record["run"]))
        if earlier is not None:
            record = record | {"attempt": earlier["attempt"] + 1}
    return record


def _free_a_place(runtime: Runtime) -> bool:
    """Free places of the deployment in which nothing works; True when there were any."""
    freed, lost = admission.throw_out_finished(runtime)
    if freed or not lost:
        return freed
    # One is enough for this call, and ending one costs several requests.
    end_if_stale(runtime, lost[0])
    return True


def end_if_stale(runtime: Runtime, record: Item) -> None:
    """End a run that outlived every deadline: whatever worked for it is gone."""
    if record["status"] not in FINAL and record["deadline"] <= runtime.clock.now():
        lost = "The run was lost. The workspace is as it was before it. Try again in a new call."
        give_up(runtime, record, ToolError(lost, code="SANDBOX_UNAVAILABLE"))


def _end_stale_run(turn: Turn) -> None:
    """The conversation's place is taken: by a run at work, or by one that a crash left behind."""
    place = turn.runtime.table.get(at_work_key(turn.conversation))
    if place is None:
        return
    other = turn.runtime.table.get(run_key(place["run"]))
    if other is None:
        # Its record is gone with its time; so is whatever worked for it.
        turn.runtime.table.delete(
            at_work_key(turn.conversation), Condition("#run = :run", {"#run": "run"}, {":run": place["run"]})
        )
    elif other["deadline"] > turn.clock.now():
        raise admission.one_at_a_time(place["run"])
    else:
        end_if_stale(turn.runtime, other)
