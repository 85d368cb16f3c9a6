"""The pool with real sandboxes: runs are served by processes that waited, and none outlives the system."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.talk import Talk
from workbench.keys import run_key, sandbox_key

WAIT_SECONDS = 60.0
WARM = {"warm_sandboxes": 1, "warm_sandboxes_most": 2, "warm_claim_seconds": WAIT_SECONDS}


@pytest.fixture(scope="module")
def system(alone: None) -> Iterator[LocalSystem]:
    with LocalSystem().start(settings=WARM) as running:
        yield running


def test_runs_are_served_by_sandboxes_that_waited_each_by_another(system: LocalSystem, api: Api, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.put("a.txt", b"before")
    used = set()
    for number in range(3):
        assert system.has_warm_sandbox(WAIT_SECONDS)
        code = f"import os; open('workspace/a.txt', 'a').write('{number}'); print(os.getuid())"
        made = talk.ok("run_code", code=code)
        assert made["structured"]["modified"] == ["a.txt"]
        record = system.runtime.table.get(run_key(made["structured"]["run"]))
        assert record is not None
        item = system.runtime.table.get(sandbox_key(record["sandbox"]))
        assert item is not None
        assert (item["state"], "slot" in item) == ("claimed", True)
        used.add(record["sandbox"])
    assert len(used) == 3
    assert talk.bytes_of("a.txt") == b"before012"


def test_a_program_in_a_warm_sandbox_sees_neither_its_secret_nor_its_name(
    system: LocalSystem, api: Api, unique: str
) -> None:
    talk = Talk.open(api, unique)
    assert system.has_warm_sandbox(WAIT_SECONDS)
    code = """
import os, pathlib
print(sorted(name for name in os.environ if name.startswith("WORKBENCH")))
for process in pathlib.Path("/proc").glob("[0-9]*/environ"):
    try:
        text = process.read_bytes()
    except OSError:
        continue
    assert b"WORKBENCH_SECRET" not in text and b"sbx_" not in text, process
"""
    assert talk.ok("run_code", code=code)["structured"]["stdout"] == "[]\n"


def test_stopping_the_system_ends_those_that_wait(system: LocalSystem) -> None:
    assert system.has_warm_sandbox(WAIT_SECONDS)
    assert _sandboxes()
    system.stop()
    try:
        # They are killed and waited for; on a busy machine the last may be there for another moment.
        until = time.monotonic() + WAIT_SECONDS
        while left := _sandboxes():
            assert time.monotonic() < until, left
            time.sleep(0.02)
    finally:
        system.start(settings=WARM)


def _sandboxes() -> list[str]:
    """Command lines of the sandboxes that this process has started, as long as they are there."""
    found = []
    for children in Path("/proc/self/task").glob("*/children"):
        # Threads and processes end while one looks at them.
        with suppress(OSError):
            for child in children.read_text().split():
                with suppress(OSError):
                    line = Path(f"/proc/{child}/cmdline").read_text().replace("\0", " ")
                    if "confine.py" in line:
                        found.append(line)
    return found
