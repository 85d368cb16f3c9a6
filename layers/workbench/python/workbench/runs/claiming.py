"""How a sandbox gets its one job: its secret is checked, the lease taken, the tree pinned, a session opened.

The claim is the moment the workspace is frozen for the run, so that a cold start blocks nobody. The secret that a task
was started with can be read by whoever may describe tasks, so a sandbox's first question exchanges it for one that the
sandbox made itself.
"""

from __future__ import annotations

from typing import Any, TypeGuard

from workbench import ids
from workbench.errors import Conflict, NotFound, Unauthorized, WorkspaceBusy
from workbench.keys import head_key, run_key, sandbox_key
from workbench.logs import logger
from workbench.operations import ACTIVE, Condition, Item, Update, all_of, check, update
from workbench.runs import idling, plan, pool, protocol, verdict
from workbench.runs.items import (
    AROUND_SECONDS,
    attempt_is,
    program_path,
    secret_matches,
    staging_prefix,
    status_in,
)
from workbench.runs.plan import Mount, Plan, Source
from workbench.runs.protocol import HOLD_SECONDS, LEAVE, WAIT
from workbench.runtime import Runtime
from workbench.selfcheck.reach import reach_of
from workbench.settings import MIB, Settings
from workbench.skills import mounting as skill_files
from workbench.skills.store import BytesGone
from workbench.table import ConditionFailed
from workbench.workspace.storage import head as lease
from workbench.workspace.storage.head import Head

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 1.0

OPEN_FILES = 1_024
OUTPUT_BYTES = 4 * MIB
OUTPUT_CHARACTERS = 12_000
# A tree a little over the limits is still reported, so that giving up spill files may save the rest.
SPARE_FILES, SPARE_BYTES = 16, 2 * OUTPUT_BYTES

# One that was started for a run, and one of the pool that a run was given to.
CLAIMING = ("starting", "assigned")


def claim(runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
    """The job, ``wait`` (ask again) after 20 s without one, or ``leave``; raises Unauthorized on a wrong secret."""
    sandbox, secret = protocol.word(body, "sandbox"), protocol.word(body, "secret")
    own = protocol.own_secret(body)
    verified = protocol.self_report(body)
    clock = runtime.clock
    deadline, pause = clock.monotonic() + HOLD_SECONDS, FIRST_PAUSE_SECONDS
    while True:
        item = _known(runtime, sandbox, secret, own)
        if "run" not in item:
            return idling.hold(runtime, sandbox, item, verified)
        answer = _try_claim(runtime, sandbox, item)
        if answer is not None:
            logger.info("sandbox claims", extra={"sandbox": sandbox, "status": answer["status"], "verified": verified})
            return answer
        clock.sleep(pause)
        if clock.monotonic() >= deadline:
            return WAIT
        pause = min(1.6 * pause, LONGEST_PAUSE_SECONDS)


def _known(runtime: Runtime, sandbox: str, secret: str, own: str) -> Item:
    """The sandbox's record, once its own secret opens it; from then on the start secret is nobody's key."""
    item = runtime.table.get(sandbox_key(sandbox))
    if _opened_by(item, own):
        return item
    if not _opened_by(item, secret):
        raise Unauthorized("The sandbox or its secret is unknown.")
    return _exchange(runtime, sandbox, secret, own)


def _exchange(runtime: Runtime, sandbox: str, secret: str, own: str) -> Item:
    """Put the sandbox's own secret in the place of its start secret: once, for whoever comes first.

    An answer that is lost costs nothing: the sandbox asks again with both, and its own opens the record by then.
    """
    started = Condition("secretHash = :start", {}, {":start": ids.digest(secret)})
    try:
        return runtime.table.update(sandbox_key(sandbox), Update().set("secretHash", ids.digest(own)), started)
    except ConditionFailed:
        item = runtime.table.get(sandbox_key(sandbox))
        if not _opened_by(item, own):
            raise Unauthorized("The sandbox or its secret is unknown.") from None
        return item


def _opened_by(item: Item | None, secret: str) -> TypeGuard[Item]:
    return item is not None and secret_matches(secret, item.get("secretHash"))


def _try_claim(runtime: Runtime, sandbox: str, item: Item) -> dict[str, Any] | None:
    """One look at the run of the sandbox's record ``item``; None when there is nothing to claim yet."""
    record = runtime.table.get(run_key(item["run"]))
    if item["state"] not in CLAIMING:
        _answer_was_lost(runtime, sandbox, record)
        return LEAVE
    if item["expiresAt"] <= runtime.clock.now():
        return LEAVE
    if record is None or record["attempt"] != item["attempt"]:
        return LEAVE
    if record["status"] == "queued":
        return None
    if record["status"] != "starting" or record["awaited"] != sandbox:
        return LEAVE
    return _take(runtime, sandbox, record)


def _answer_was_lost(runtime: Runtime, sandbox: str, record: Item | None) -> None:
    # It would not ask again had it got the job, and the session that went with it is known to nobody else.
    if record and record["status"] == "running" and record.get("sandbox") == sandbox and not record["beats"]:
        lost = verdict.settle(
            runtime, record["run"], "lost", {"reason": "the job did not reach the sandbox"}, _claimed_by(sandbox)
        )
        if lost is not None:
            verdict.act_on(runtime, lost)


def _claimed_by(sandbox: str) -> Condition:
    return Condition("sandbox = :sandbox AND beats = :none", {}, {":sandbox": sandbox, ":none": 0})


# ---------------------------------------------------------------- taking the job


def _take(runtime: Runtime, sandbox: str, record: Item) -> dict[str, Any] | None:
    run, conversation = record["run"], record["conversation"]
    try:
        head = lease.acquire(runtime, conversation, owner=run, purpose="run_code")
    except WorkspaceBusy as busy:
        _note_busy(runtime, record, busy)
        return None
    except (NotFound, Conflict):
        verdict.stop_run(runtime, run, "its conversation was deleted", record["attempt"])
        return LEAVE
    try:
        session = ids.new_secret()
        made = _plan(runtime, record, head)
        _bind(runtime, sandbox, record, head, session, made)
    except ConditionFailed:
        # The run was stopped, its token replaced, or another sandbox of it was faster: look again.
        lease.release(runtime, conversation, head.fence)
        return None
    except BytesGone:
        lease.release(runtime, conversation, head.fence)
        verdict.stop_run(runtime, run, "a skill that it names was withdrawn", record["attempt"])
        return LEAVE
    except BaseException:
        lease.release(runtime, conversation, head.fence)
        raise
    if not verdict.succeed(runtime, record["claimToken"]):
        return LEAVE
    return {"status": "job", "run": run, "session": session, "job": _job(runtime.settings, record, made)}


def _note_busy(runtime: Runtime, record: Item, busy: WorkspaceBusy) -> None:
    """Keep why the run waits, for Abort; a lease that this run's own broken claim left is given back."""
    item = runtime.table.get(head_key(record["conversation"]))
    if item and (item.get("lease") or {}).get("owner") == record["run"]:
        lease.release(runtime, record["conversation"], item["fence"])
        return
    if "busy" not in record:
        try:
            runtime.table.update(
                run_key(record["run"]), Update().set("busy", busy.message), attempt_is(record["attempt"])
            )
        except ConditionFailed:
            return


def _plan(runtime: Runtime, record: Item, head: Head) -> Plan:
    """The run's plan, stored under its fence, so that no other claim of the run can change it."""
    mounts = [*plan.from_entries(runtime.workspaces.manifest(head).entries()), *_inputs(runtime, record)]
    made = plan.build([*mounts, _program(record)])
    runtime.clients.s3.put_object(
        Bucket=runtime.settings.workspace_bucket,
        Key=plan_key(record["conversation"], record["run"], head.fence),
        Body=made.encode(),
    )
    return made


def plan_key(conversation: str, run: str, fence: int) -> str:
    """Where the plan of a claimed run lies."""
    return f"{staging_prefix(conversation, run)}plan-{fence}"


def _inputs(runtime: Runtime, record: Item) -> list[Mount]:
    mounts: list[Mount] = []
    for stored in record["inputs"]:
        if stored["root"] == skill_files.ROOT:
            mounts += skill_files.mounts(runtime, stored)
            continue
        source = Source(stored["place"], stored["key"], 0, stored["bytes"])
        mounts.append(Mount(stored["root"], stored["path"], 0o444, stored["sha256"], source))
    return mounts


def _program(record: Item) -> Mount:
    program = record["program"]
    source = Source("workspace", program["key"], 0, program["bytes"])
    return Mount("program", program_path(record["job"]), 0o444, program["sha256"], source)


def _bind(runtime: Runtime, sandbox: str, record: Item, head: Head, session: str, made: Plan) -> None:
    """One transaction: this sandbox, and no other, has the run, under this fence and with this session."""
    now = runtime.clock.now()
    # The run may have been given to another sandbox since this one looked.
    ours = Condition(
        "claimToken = :token AND awaited = :sandbox", {}, {":token": record["claimToken"], ":sandbox": sandbox}
    )
    claimed = (
        Update()
        .set("status", "running")
        .set("sandbox", sandbox)
        .set("sessionHash", ids.digest(session))
        .set("fence", head.fence)
        .set("base", head.version)
        .set("beats", 0)
        .set("lastBeat", now)
        .set("claimedAt", now)
        .set("parts", {"plan": made.plan_parts, "data": made.data_parts})
    )
    runtime.table.transact(
        [
            update(sandbox_key(sandbox), Update().set("state", "claimed"), pool.state_is(*CLAIMING)),
            update(
                run_key(record["run"]),
                claimed,
                all_of(status_in(["starting"]), attempt_is(record["attempt"]), ours),
            ),
            check(
                head_key(record["conversation"]),
                all_of(ACTIVE, Condition("fence = :fence", {}, {":fence": head.fence})),
            ),
        ]
    )


def _job(settings: Settings, record: Item, made: Plan) -> dict[str, Any]:
    job = record["job"]
    return {
        "language": job["language"],
        "timeoutSeconds": job["timeoutSeconds"],
        "environment": settings.sandbox_env,
        "heartbeatSeconds": settings.heartbeat_seconds,
        "planParts": made.plan_parts,
        "dataParts": made.data_parts,
        "reach": reach_of(record["conversation"]),
        "limits": {
            "memoryBytes": settings.run_memory_bytes,
            "diskBytes": settings.run_disk_bytes,
            "processes": settings.run_processes,
            "fileBytes": settings.workspace_bytes,
            "openFiles": OPEN_FILES,
            "outputBytes": OUTPUT_BYTES,
            "outputCharacters": OUTPUT_CHARACTERS,
            "workspaceFiles": settings.workspace_files + SPARE_FILES,
            "workspaceBytes": settings.workspace_bytes + SPARE_BYTES,
        },
    }


def run_seconds(timeout_seconds: int) -> int:
    """How long the workflow waits for a claimed run's report."""
    return timeout_seconds + AROUND_SECONDS
