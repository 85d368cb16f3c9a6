"""The steps of the RunCode state machine, one small function each, all in one Lambda.

An event is ``{"step", "run"}`` and, where a state waits, its ``token``. Every step may run twice; what it did before
it finds in the run's record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench import runtime as runtimes
from workbench.errors import Conflict, NotFound, ToolError, WorkspaceBusy
from workbench.keys import head_key, run_key
from workbench.logs import logger
from workbench.operations import Item, Operation, Update, all_of, update
from workbench.runs import beginning, effects, ending, starter, verdict, wording
from workbench.runs.assignment import Assignment
from workbench.runs.effects import Effects, Pack
from workbench.runs.items import FINAL, attempt_is, staging_prefix, status_in
from workbench.runs.phrases import without_insides
from workbench.runs.sandbox_route import changes_key
from workbench.runs.verdict import stop_run
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage.head import Head, held, read_head
from workbench.workspace.storage.store import WorkingCopy

Step = Callable[[Runtime, Item, Mapping[str, Any]], None]


# When a conversation was deleted with its runs, these have nothing left to do.
LAST_STEPS = ("finish", "abort")


class RunGone(Exception):
    """There is no record of this run: its conversation was deleted."""


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """The Lambda behind every state; raises to fail the state."""
    runtime = runtimes.current()
    record = runtime.table.get(run_key(event["run"]))
    if record is not None:
        STEPS[event["step"]](runtime, record, event)
    elif event["step"] not in LAST_STEPS:
        raise RunGone(event["run"])
    return {}


# ---------------------------------------------------------------- before the sandbox


def prepare(runtime: Runtime, record: Item, _event: Mapping[str, Any]) -> None:
    """Stage the inputs that the tool authorised."""
    if not any("ref" in stored for stored in record["inputs"]):
        return
    from workbench.runs import inputs  # with it come artifacts and documents, which no other step needs

    try:
        staged = inputs.stage(runtime, record)
    except inputs.InputsTooLarge as refusal:
        # The next step finds the verdict and fails its token with it.
        verdict.settle(runtime, record["run"], "refused", {"reason": str(refusal), "code": "too_large"})
        return
    runtime.table.update(run_key(record["run"]), Update().set("inputs", staged), attempt_is(record["attempt"]))


def claim(runtime: Runtime, record: Item, event: Mapping[str, Any]) -> None:
    """Keep the token and find a sandbox: it may ask for the job before this returns."""
    token = event["token"]
    try:
        Assignment(runtime, record, token).carry_out()
    except ConditionFailed:
        _token_came_late(runtime, record["run"], token, claiming=True)
    except starter.NoSandbox as error:
        _no_sandbox(runtime, record, str(error))


def _no_sandbox(runtime: Runtime, record: Item, reason: str) -> None:
    settled = verdict.settle(
        runtime,
        record["run"],
        "lost",
        {"reason": f"no sandbox could be started: {reason}"},
        attempt_is(record["attempt"]),
    )
    if settled is not None:
        verdict.act_on(runtime, settled)


def run(runtime: Runtime, record: Item, event: Mapping[str, Any]) -> None:
    """Keep the token; a report that came before it is acted on now."""
    token = event["token"]
    try:
        runtime.table.update(
            run_key(record["run"]),
            Update().set("runToken", token),
            all_of(status_in(["running"]), attempt_is(record["attempt"])),
        )
    except ConditionFailed:
        _token_came_late(runtime, record["run"], token, claiming=False)


def _token_came_late(runtime: Runtime, name: str, token: str, *, claiming: bool) -> None:
    """The run moved on before the token was stored: complete it as the record says."""
    record = runtime.table.get(run_key(name))
    if record is None or record["status"] in FINAL:
        verdict.fail(runtime, token, "Workbench.Over", "the run is over")
    elif "verdict" in record and not (claiming and "sandbox" in record):
        verdict.act_on(runtime, record | {"claimToken": token, "runToken": token})
    else:
        # A sandbox claimed the run for an earlier try of the Claim state.
        verdict.succeed(runtime, token)


# ---------------------------------------------------------------- after the sandbox


def commit(runtime: Runtime, record: Item, _event: Mapping[str, Any]) -> None:
    """Check what the sandbox left and swap the head under the run's fence, all in one transaction."""
    try:
        record = runtime.table.update(
            run_key(record["run"]),
            Update().set("status", "committing"),
            all_of(status_in(["reported", "committing"]), attempt_is(record["attempt"])),
        )
    except ConditionFailed:
        if _is_over(runtime, record["run"]):
            return
        raise
    report = record["verdict"]["report"]
    condition = all_of(status_in(["committing"]), attempt_is(record["attempt"]))
    head = _our_head(runtime, record)
    taken = _lost(record) if head is None else _take(runtime, record, head, report)
    if taken.commit is not None:
        runtime.clients.together(*taken.commit.uploads())
    answer = wording.finished(record, report, taken)
    try:
        ending.close(runtime, record, answer, _head_operations(record, head, taken), condition)
    except ConditionFailed as failed:
        _close_after_loss(runtime, record, report, failed, condition)
    else:
        ending.audit(record, answer)


def _is_over(runtime: Runtime, name: str) -> bool:
    record = runtime.table.get(run_key(name))
    return record is None or record["status"] in FINAL


def _take(runtime: Runtime, record: Item, head: Head, report: Mapping[str, Any]) -> Effects:
    if report["tree"] != "ok":
        return effects.no_tree(head.version, report, runtime.settings)
    packs = _packs(runtime, record, report["packParts"])
    stream = _changes(runtime, record, report["changeParts"])
    if packs is None or stream is None:
        return effects.void(
            head.version,
            "Not all of what the run left was sent. The workspace is as it was before the run.",
        )
    return effects.take(
        runtime, WorkingCopy(runtime, head), stream, packs, record["tool"].partition("@")[0], record["turn"]
    )


def _our_head(runtime: Runtime, record: Item) -> Head | None:
    """The head while the run still holds its lease, else None."""
    try:
        head = read_head(runtime, record["conversation"])
    except (NotFound, Conflict):
        return None
    return head if head.fence == record["fence"] else None


def _lost(record: Item) -> Effects:
    return effects.void(
        record["base"],
        "Another writer took the workspace before the run could commit. Run it again on the files as they now are.",
        code="workspace_busy",
    )


def _head_operations(record: Item, head: Head | None, taken: Effects) -> list[Operation]:
    if head is None:
        return []
    if taken.commit is not None:
        return taken.commit.operations(lease_fence=record["fence"])
    given_back = Update().set("leaseUntil", 0).remove("lease")
    return [update(head_key(record["conversation"]), given_back, held(record["fence"]))]


def _close_after_loss(
    runtime: Runtime, record: Item, report: Mapping[str, Any], failed: ConditionFailed, condition: Any
) -> None:
    """Nothing was written. End the run without its files where the head, or without its call where that, is gone."""
    if failed.failed(ending.RUN_AT):
        # Somebody else ended it: a twin of this step, or Abort.
        return
    answer = wording.finished(record, report, _lost(record))
    if failed.failed(ending.CALL_AT):
        ending.close_without_call(runtime, record, answer, condition)
    else:
        ending.close(runtime, record, answer, [], condition)


def _packs(runtime: Runtime, record: Item, count: int) -> dict[int, Pack] | None:
    """The packs that really came, by part; None when one is missing."""
    if count == 0:
        return {}
    items = runtime.table.query(f"R#{record['run']}", "PACK#")
    packs = {item["part"]: Pack(item["sha256"], item["bytes"]) for item in items if item["part"] < count}
    return packs if len(packs) == count else None


def _changes(runtime: Runtime, record: Item, count: int) -> bytes | None:
    """The whole changes stream; None when a part is missing."""
    s3, bucket = runtime.clients.s3, runtime.settings.workspace_bucket

    def part(number: int) -> bytes:
        key = changes_key(record["conversation"], record["run"], number)
        data: bytes = s3.get_object(Bucket=bucket, Key=key)["Body"].read()
        return data

    try:
        return b"".join(runtime.clients.together(*(partial(part, number) for number in range(count))))
    except s3.exceptions.NoSuchKey:
        return None


def finish(runtime: Runtime, record: Item, _event: Mapping[str, Any]) -> None:
    """Free the run's place and remove what was staged."""
    ending.clean_up(runtime, record)
    _remove_staged(runtime, record)


def _remove_staged(runtime: Runtime, record: Item) -> None:
    s3, bucket = runtime.clients.s3, runtime.settings.workspace_bucket
    prefix = staging_prefix(record["conversation"], record["run"])
    listed = s3.list_objects_v2(Bucket=bucket, Prefix=prefix).get("Contents", [])
    if listed:
        s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": found["Key"]} for found in listed], "Quiet": True})


# ---------------------------------------------------------------- abort


def abort(runtime: Runtime, record: Item, event: Mapping[str, Any]) -> None:
    """End the run without a commit, whatever state it is in; nothing of its files is kept."""
    if record["status"] not in FINAL:
        error = why_aborted(runtime, record, event.get("error") or {})
        logger.warning("run aborted", extra={"run": record["run"], "code": error.code, "cause": event.get("error")})
        beginning.give_up(runtime, record, error)
    else:
        ending.clean_up(runtime, record)
    _remove_staged(runtime, record)
    if "task" in record:
        starter.stop(runtime, record["task"])


def why_aborted(runtime: Runtime, record: Item, failure: Mapping[str, Any]) -> ToolError:
    """What went wrong, from the record first: a state's error name says less than who had the last word."""
    unchanged = "The workspace is as it was before the run."
    settled = record.get("verdict") or {}
    if settled.get("kind") == "stopped":
        return ToolError(f"The run was stopped: {settled['reason']}. {unchanged}", code="SANDBOX_ERROR")
    if settled.get("kind") == "lost":
        reason = without_insides(settled["reason"])
        return ToolError(
            f"The sandbox was lost: {reason}. {unchanged} The same code may be run again in a new call.",
            code="SANDBOX_UNAVAILABLE",
        )
    if settled.get("kind") == "refused":
        return ToolError(settled["reason"], code=settled["code"])
    if settled.get("kind") == "report":
        return ToolError(
            f"The program ended, but its results could not be stored. {unchanged} Run it again in a new call.",
            code="SANDBOX_ERROR",
        )
    if record["status"] == "running":
        return _lost_while_running(runtime, record, unchanged)
    if "busy" in record:
        return WorkspaceBusy(f"The run could not get the workspace in time. {record['busy']}", retryAfterSeconds=5)
    if failure.get("Error") in ("States.Timeout", "States.HeartbeatTimeout"):
        return ToolError(
            f"No sandbox was ready within {runtime.settings.claim_seconds} seconds. {unchanged} Try a new call.",
            code="SANDBOX_UNAVAILABLE",
        )
    return ToolError(f"The run could not be started. {unchanged} Try again in a new call.", code="SANDBOX_UNAVAILABLE")


def _lost_while_running(runtime: Runtime, record: Item, unchanged: str) -> ToolError:
    silent = runtime.clock.now() - record["lastBeat"]
    if silent < 2 * runtime.settings.heartbeat_seconds + runtime.settings.skew_seconds:
        limit = record["job"]["timeoutSeconds"]
        return ToolError(
            f"The run was not over long after its limit of {limit} seconds and was given up. {unchanged}",
            code="SANDBOX_TIMEOUT",
            timeoutSeconds=limit,
        )
    return ToolError(
        f"The sandbox fell silent while the program ran. {unchanged} The same code may be run again in a new call.",
        code="SANDBOX_UNAVAILABLE",
    )


STEPS: dict[str, Step] = {
    "prepare": prepare,
    "claim": claim,
    "run": run,
    "commit": commit,
    "finish": finish,
    "abort": abort,
}

# Whoever ends turns and conversations stops runs through here.
__all__ = ["STEPS", "RunGone", "handler", "stop_run"]
