"""What the tests of runs look at: the answer, the record, and that nothing is held any more."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from local.system import LocalSystem
from tests.local.runs.sandbox import PATIENCE_SECONDS, Sandbox
from tests.local.talk import Talk
from workbench.keys import head_key, run_key
from workbench.runs.items import admission_key, at_work_key

# No time runs out by itself, however long a busy machine lets a thread stand still. Tests of what happens when one does
# make it short.
SETTINGS = {
    "lease_seconds": 60.0,
    "heartbeat_seconds": 10.0,
    "skew_seconds": 0.1,
    "busy_wait_seconds": 1.0,
    "claim_seconds": 60,
    "runs_at_once": 3,
    "workspace_bytes": 12 * 1024 * 1024,
    "workspace_files": 20,
    "longest_wait_seconds": 60,
}

Begin = Callable[..., "Future[dict[str, Any]]"]


def final(answer: Future[dict[str, Any]]) -> dict[str, Any]:
    return answer.result(timeout=PATIENCE_SECONDS)


def record(system: LocalSystem, sandbox: Sandbox) -> dict[str, Any]:
    found = system.runtime.table.get(run_key(sandbox.run))
    assert found is not None
    return found


def free(system: LocalSystem, talk: Talk) -> None:
    """Nothing is held any more: the next writer and the next run get in at once."""
    head = system.runtime.table.get(head_key(talk.conversation))
    assert head is not None
    assert head["leaseUntil"] == 0
    assert system.runtime.table.get(at_work_key(talk.conversation)) is None
    talk.put("afterwards.txt", b"free")


def settled_admission(system: LocalSystem, run: str) -> None:
    """The run's place is given back; that is the workflow's last step, so it may come a moment after the answer."""
    clock = system.runtime.clock
    deadline = clock.monotonic() + PATIENCE_SECONDS
    while run in (system.runtime.table.get(admission_key()) or {}).get("runs", ()):
        assert clock.monotonic() < deadline, "the place was never given back"
        clock.sleep(0.02)
