"""Gives a waiting run its sandbox: a warm one while there is one, otherwise one that is started for it.

Part of the workflow's Claim state. A warm sandbox that was given the run claims it in a fraction of a second. This
watches it do so, because it may have died without anybody knowing; then another gets the run, and at last a cold one.
Only the sandbox that the run's record awaits can claim it, so that one that was given up comes too late.
"""

from __future__ import annotations

import json
import random
from concurrent.futures import Future
from typing import Any

from workbench.keys import head_key, run_key, sandbox_key
from workbench.logs import logger, measured
from workbench.operations import Condition, Item, Update, all_of, update
from workbench.runs import keeper, pool, starter
from workbench.runs.items import attempt_is, status_in
from workbench.runs.pool import Slot
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

# So many may fail to claim before one is started: each has cost the run three seconds.
UNCLAIMED_AT_MOST = 2
FUNCTION = "workflow"
# Metrics of the workflow's function: runs that found a sandbox waiting, and runs for which one had to be started.
METRICS = WARM, COLD = "WarmRuns", "ColdRuns"
FIRST_LOOK_SECONDS, LONGEST_LOOK_SECONDS, GROWTH = 0.03, 0.25, 1.4
# Where the writes of an assignment stand in its transaction.
RUN_AT = 1


class Assignment:
    """One run that waits, and the token with which its Claim state does."""

    def __init__(self, runtime: Runtime, record: Item, token: str) -> None:
        self._runtime = runtime
        self._run: str = record["run"]
        self._conversation: str = record["conversation"]
        self._attempt: int = record["attempt"]
        self._token = token
        self._awaited: str | None = None
        self._beside: list[Future[Any]] = []

    def carry_out(self) -> None:
        """Store the token and see to it that a sandbox claims the run, or comes up in order to.

        Raises ConditionFailed when the run has moved on (stopped, claimed for an earlier token, gone), NoSandbox.
        """
        try:
            self._serve()
        finally:
            for work in self._beside:
                _note_failure(work)

    def _serve(self) -> None:
        unclaimed = 0
        for slot in _candidates(self._runtime):
            if not self._assign(slot):
                continue
            if unclaimed == 0:
                self._beside.append(self._runtime.clients.submit(ask_for_another, self._runtime))
            if self._is_claimed(slot.sandbox):
                self._count(WARM)
                return
            self._give_up(slot)
            unclaimed += 1
            if unclaimed == UNCLAIMED_AT_MOST:
                break
        self._start_one(unclaimed)

    # ------------------------------------------------------------ a warm one

    def _assign(self, slot: Slot) -> bool:
        """One transaction: the sandbox is this run's and the run awaits it. False when another run was faster."""
        runtime, settings = self._runtime, self._runtime.settings
        now = runtime.clock.now()
        given = (
            Update()
            .set("state", "assigned")
            .set("run", self._run)
            .set("attempt", self._attempt)
            .set("expiresAt", now + settings.claim_seconds)
        )
        awaited = self._awaits(slot.sandbox).set("watchedUntil", now + 2 * settings.warm_claim_seconds)
        awaited = awaited.set("task", slot.task) if slot.task else awaited.remove("task")
        free = pool.may_be_assigned(now, settings.warm_claim_seconds)
        try:
            runtime.table.transact(
                [
                    update(sandbox_key(slot.sandbox), given, free),
                    update(run_key(self._run), awaited, self._unmoved()),
                ]
            )
        except ConditionFailed as failed:
            if failed.failed(RUN_AT):
                raise
            return False
        self._awaited = slot.sandbox
        return True

    def _is_claimed(self, sandbox: str) -> bool:
        """Watch the sandbox; True when it took the run, or somebody else decides about the run now."""
        runtime, clock = self._runtime, self._runtime.clock
        deadline, pause = clock.monotonic() + runtime.settings.warm_claim_seconds, FIRST_LOOK_SECONDS
        while True:
            clock.sleep(pause)
            pause = min(GROWTH * pause, LONGEST_LOOK_SECONDS)
            found = runtime.table.get_many([run_key(self._run), sandbox_key(sandbox)])
            record, item = found.get(run_key(self._run)), found.get(sandbox_key(sandbox))
            if record is None or record["status"] != "starting" or record["awaited"] != sandbox:
                return True
            if item is None or item["state"] == "gone":
                return False
            if clock.monotonic() >= deadline:
                return self._is_held_up(record) and self._leave_to_itself(sandbox)

    def _is_held_up(self, record: Item) -> bool:
        """It is there: somebody else writes in the workspace, or the tree that is being pinned is a large one."""
        head = self._runtime.table.get(head_key(self._conversation))
        return "busy" in record or bool(head and (head.get("lease") or {}).get("owner") == self._run)

    def _leave_to_itself(self, sandbox: str) -> bool:
        """From now on its end is the run's; False when it ended just before."""
        try:
            self._runtime.table.update(run_key(self._run), Update().remove("watchedUntil"), self._unmoved())
        except ConditionFailed:
            return True
        item = self._runtime.table.get(sandbox_key(sandbox))
        return item is not None and item["state"] != "gone"

    def _give_up(self, slot: Slot) -> None:
        """It can claim nothing any more, unless it just has: then the next write finds the run moved on."""
        logger.warning("a warm sandbox did not claim its run", extra={"sandbox": slot.sandbox, "run": self._run})
        try:
            self._runtime.table.update(
                sandbox_key(slot.sandbox), Update().set("state", "gone"), pool.state_is("assigned")
            )
        except ConditionFailed:
            return
        if slot.task:
            self._beside.append(
                self._runtime.clients.submit(starter.stop, self._runtime, slot.task, "it did not claim")
            )

    # ------------------------------------------------------------ a cold one

    def _start_one(self, unclaimed: int) -> None:
        pool_is_on = self._runtime.settings.warm_sandboxes > 0
        if pool_is_on and unclaimed == 0:
            self._beside.append(self._runtime.clients.submit(ask_for_another, self._runtime))
        sandbox = starter.new_id()
        awaited = self._awaits(sandbox).remove("watchedUntil").remove("task")
        record = self._runtime.table.update(run_key(self._run), awaited, self._unmoved())
        self._awaited = sandbox
        if pool_is_on:
            self._count(COLD)
        starter.start(self._runtime, sandbox, record)

    def _count(self, outcome: str) -> None:
        function = self._runtime.settings.function_prefix + FUNCTION
        measured("a run got its sandbox", function, {outcome: 1}, run=self._run, sandbox=self._awaited)

    # ------------------------------------------------------------ the run's record

    def _awaits(self, sandbox: str) -> Update:
        return (
            Update()
            .set("claimToken", self._token)
            .set("status", "starting")
            .set("awaited", sandbox)
            .set("awaitedAt", self._runtime.clock.now())
            # Whether the workspace is busy is for the new one to find out.
            .remove("busy")
        )

    def _unmoved(self) -> Condition:
        """The run still waits, and for nobody but whom this has chosen."""
        if self._awaited is None:
            return all_of(status_in(["queued", "starting"]), attempt_is(self._attempt))
        ours = Condition("awaited = :awaited", {}, {":awaited": self._awaited})
        return all_of(status_in(["starting"]), attempt_is(self._attempt), ours)


def _candidates(runtime: Runtime) -> list[Slot]:
    """The warm sandboxes that may serve, in any order, so that runs of one moment reach for different ones."""
    settings = runtime.settings
    if not settings.warm_sandboxes:
        return []
    now = runtime.clock.now()
    slots = keeper.known(runtime, runtime.table.query(pool.POOL, pool.SLOT_PREFIX))
    fresh = [slot for slot in slots if slot.may_serve(now, settings.warm_claim_seconds)]
    random.shuffle(fresh)
    return fresh


def ask_for_another(runtime: Runtime) -> None:
    """Wake the keeper; what comes of it is no business of the run's. One request, and the keeper works by itself."""
    runtime.clients.lambda_.invoke(
        FunctionName=runtime.settings.function_prefix + keeper.FUNCTION,
        InvocationType="Event",
        Payload=json.dumps(keeper.WANTED).encode(),
    )


def _note_failure(work: Future[Any]) -> None:
    """The next scheduled round does what this could not ask for."""
    error = work.exception()
    if isinstance(error, Exception):
        logger.warning("the pool could not be told", exc_info=error)
    elif error is not None:
        raise error
