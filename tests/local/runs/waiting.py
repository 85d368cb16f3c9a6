"""Sandboxes of the pool, played by hand: each asks for work in a thread of its own, until it gets a job or leaves."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from local.system import LocalSystem
from tests.local.runs.sandbox import PATIENCE_SECONDS, Launcher, Sandbox
from workbench.keys import sandbox_key
from workbench.operations import Update
from workbench.runs import keeper, pool


class Asking:
    """A sandbox that asks again whenever it is told to wait, as the supervisor does."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.waits = 0
        self._answer: dict[str, Any] = {}
        self._over = threading.Event()
        threading.Thread(target=self._ask, daemon=True).start()

    def _ask(self) -> None:
        try:
            self._answer = self.sandbox.claim()[1]
            while self._answer.get("status") == "wait":
                self.waits += 1
                self._answer = self.sandbox.claim()[1]
        finally:
            self._over.set()

    @property
    def told(self) -> str | None:
        """``job`` or ``leave``; waits for it."""
        assert self._over.wait(PATIENCE_SECONDS), "the sandbox was told nothing"
        return self._answer.get("status")


class Pool:
    """The pool of a system whose sandboxes a test starts through ``launcher``."""

    def __init__(self, system: LocalSystem, launcher: Launcher, api: Any) -> None:
        self._system, self._launcher, self._api = system, launcher, api
        self._passed_over: list[Sandbox] = []
        self.table = system.runtime.table

    def keep(self, *, wanted: bool = False) -> None:
        """One round of the keeper."""
        keeper.keep(self._system.runtime, wanted=wanted)

    def started(self) -> Sandbox:
        """The sandbox that was started next for the pool."""
        if self._passed_over:
            return self._passed_over.pop(0)
        sandbox = self._launcher.next(self._api)
        assert "slot" in self.item(sandbox)
        return sandbox

    def cold(self) -> Sandbox:
        """The sandbox that was started next for a run; the pool's, which come at the same time, are kept for later."""
        while "slot" in self.item(sandbox := self._launcher.next(self._api)):
            self._passed_over.append(sandbox)
        return sandbox

    def waiting(self) -> Asking:
        """The sandbox that was started next, once the pool has heard of it."""
        asking = Asking(self.started())
        self.until(asking.sandbox, "idle")
        return asking

    def deaf(self) -> Sandbox:
        """The sandbox that was started next, which has asked for work once and never will again."""
        sandbox = self.started()
        self.change(sandbox, state="idle", seenAt=self._system.runtime.clock.now())
        return sandbox

    def item(self, sandbox: Sandbox) -> dict[str, Any]:
        found = self.table.get(sandbox_key(sandbox.id))
        assert found is not None
        return found

    def until(self, sandbox: Sandbox, *states: str) -> None:
        """Wait until the sandbox's record is in one of these states."""
        clock = self._system.runtime.clock
        deadline = clock.monotonic() + PATIENCE_SECONDS
        while self.item(sandbox)["state"] not in states:
            assert clock.monotonic() < deadline, self.item(sandbox)
            clock.sleep(0.01)

    def change(self, sandbox: Sandbox, **facts: Any) -> None:
        """Make the sandbox's record say something else."""
        self._change(sandbox_key(sandbox.id), facts)

    def change_slot(self, number: int, **facts: Any) -> None:
        self._change(pool.slot_key(number), facts)

    def _change(self, key: tuple[str, str], facts: dict[str, Any]) -> None:
        change = Update()
        for name, value in facts.items():
            change.set(name, value)
        self.table.update(key, change)

    def slots(self) -> list[pool.Slot]:
        return keeper.known(self._system.runtime, self.table.query(pool.POOL, pool.SLOT_PREFIX))

    def kept(self) -> list[str]:
        """The sandboxes that wait or come up."""
        return [slot.sandbox for slot in self.slots() if slot.state in pool.WAITING]

    def empty(self) -> None:
        """Forget everything, as a new deployment; whoever waits leaves."""
        self.settle()
        for slot in self.slots():
            self.table.update(sandbox_key(slot.sandbox), Update().set("state", "gone"))
            self.table.delete(pool.slot_key(slot.number))
        self.table.delete(pool.demand_key())

    def settle(self) -> None:
        """Wait for the runs' workflows and the keepers that they have woken: both work on after a run's answer."""
        runtime = self._system.runtime
        workflows = {"stateMachineArn": runtime.settings.run_state_machine, "statusFilter": "RUNNING"}
        deadline = runtime.clock.monotonic() + PATIENCE_SECONDS
        while runtime.clients.stepfunctions.list_executions(**workflows)["executions"]:
            assert runtime.clock.monotonic() < deadline, "a run's workflow does not end"
            runtime.clock.sleep(0.01)
        for thread in threading.enumerate():
            if thread.name == f"lambda {keeper.FUNCTION}":
                thread.join(PATIENCE_SECONDS)


@contextmanager
def tuned(system: LocalSystem, **settings: Any) -> Iterator[None]:
    """Other settings while the block lasts."""
    before = system.runtime.settings
    system.runtime.settings = before.model_copy(update=settings)
    try:
        yield
    finally:
        system.runtime.settings = before
