"""How a run ends: its record, its call's answer, the head and the conversation's place, in one transaction.

Commit and Abort both end here. Whatever a crash leaves undone, the next try of the step does, and doing it twice
changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from workbench.ids import RUN_PREFIX, CallId
from workbench.keys import head_key, run_key
from workbench.operations import Condition, Item, Operation, Update, all_of, delete, update
from workbench.runs import admission
from workbench.runs.items import FINAL, at_work_key, attempt_is
from workbench.runtime import Runtime
from workbench.table import ConditionFailed, Contended
from workbench.tools.answer import Answer
from workbench.tools.recording import STILL_RUNNING, CallFacts, Record, audit_effects, outcome_of, record
from workbench.workspace.storage import head as lease

# Where each operation stands in the one transaction, so that a false condition can be told.
RUN_AT, CALL_AT = 0, 1
TRIES = 5


def close(runtime: Runtime, run: Item, answer: Answer, others: Sequence[Operation], condition: Condition) -> None:
    """End the run: ``condition`` is on its record. Raises ConditionFailed (``failed(RUN_AT)``, ``failed(CALL_AT)``)."""
    made = _call_record(runtime, run, answer)
    if made.object_key is not None:
        runtime.clients.s3.put_object(
            Bucket=runtime.settings.workspace_bucket, Key=made.object_key, Body=made.object_body
        )
    runtime.table.transact(
        [
            _run_update(runtime, run, answer, condition),
            made.operation(STILL_RUNNING),
            delete(at_work_key(run["conversation"]), _is_ours(run)),
            *others,
        ]
    )


def close_without_call(runtime: Runtime, run: Item, answer: Answer, condition: Condition) -> None:
    """End a run whose call is gone (its conversation was deleted): nothing of the conversation is written again."""
    runtime.table.transact(
        [_run_update(runtime, run, answer, condition), delete(at_work_key(run["conversation"]), _is_ours(run))]
    )


def abandon(runtime: Runtime, run: Item, answer: Answer) -> None:
    """End a run of which nothing is kept, together with its lease, so that whoever reads the answer may write at once.

    Harmless when the run is over.
    """
    condition = _not_over(run)
    for _ in range(TRIES):
        try:
            close(runtime, run, answer, _give_lease_back(runtime, run), condition)
        except ConditionFailed as failed:
            if failed.failed(RUN_AT):
                return
            if failed.failed(CALL_AT):
                with suppress(ConditionFailed):
                    close_without_call(runtime, run, answer, condition)
                return
            # The lease changed hands between the look and the write.
        else:
            return
    raise Contended


def _give_lease_back(runtime: Runtime, run: Item) -> list[Operation]:
    key = head_key(run["conversation"])
    head = runtime.table.get(key)
    if head is None or (head.get("lease") or {}).get("owner") != run["run"]:
        return []
    return [update(key, Update().set("leaseUntil", 0).remove("lease"), lease.held(head["fence"]))]


def audit(run: Item, answer: Answer) -> None:
    """Tell of the files that a committed run changed."""
    call = CallId.parse(run["run"], RUN_PREFIX)
    assert call is not None
    audit_effects(call, answer)


def clean_up(runtime: Runtime, run: Item) -> None:
    """Give back what the run may still hold: its place in the deployment, and a lease that it never used."""
    admission.leave(runtime, run["run"])
    for operation in _give_lease_back(runtime, run):
        with suppress(ConditionFailed):
            runtime.table.transact([operation])


def _not_over(run: Item) -> Condition:
    """The record is of this attempt and nothing ended it yet."""
    names = {f":final{number}": status for number, status in enumerate(FINAL)}
    open_still = Condition(f"NOT #status IN ({', '.join(names)})", {"#status": "status"}, names)
    return all_of(attempt_is(run["attempt"]), open_still)


def _is_ours(run: Item) -> Condition:
    return Condition("attribute_not_exists(PK) OR #run = :run", {"#run": "run"}, {":run": run["run"]})


def _run_update(runtime: Runtime, run: Item, answer: Answer, condition: Condition) -> Operation:
    ended = (
        Update()
        .set("status", "succeeded" if outcome_of(answer) == "ok" else "failed")
        .set("finishedAt", runtime.clock.now())
        .remove("claimToken")
        .remove("runToken")
    )
    return update(run_key(run["run"]), ended, condition)


def _call_record(runtime: Runtime, run: Item, answer: Answer) -> Record:
    call = CallId.parse(run["run"], RUN_PREFIX)
    assert call is not None
    facts = CallFacts(
        call=call,
        tool=run["tool"],
        step="run",
        digest=run["digest"],
        started_at=run["startedAt"],
        milliseconds=(runtime.clock.now() - run["startedAt"]) * 1000,
        conversions=tuple(run["conversions"]),
        may_page=run["mayPage"],
    )
    made = record(answer, facts, runtime.settings)
    made.item["run"] = run["run"]
    if run["approvals"]:
        made.item["effects"]["approvals"] = run["approvals"]
    return made
