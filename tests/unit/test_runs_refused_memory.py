"""What programs say when the kernel gives them no more memory, as they said it; and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.runs.refused_memory import refused_memory

TRACEBACK = 'Traceback (most recent call last):\n  File "/sandbox/program.py", line 1, in <module>\n'
NODE = "node:internal/buffer:1122\n\nRangeError: Array buffer allocation failed\n    at new ArrayBuffer (<anonymous>)\n"


def says(stderr: str, **changed: Any) -> bool:
    return refused_memory({"outcome": "finished", "exitCode": 1, "signal": None, "stderr": stderr, **changed})


@pytest.mark.parametrize(
    "stderr",
    [
        TRACEBACK + "    block = bytearray(2 ** 40)\nMemoryError\n",
        TRACEBACK + "MemoryError: out of room",
        TRACEBACK
        + "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with shape (1,)\n",
        TRACEBACK + "OSError: [Errno 12] Cannot allocate memory\n",
        TRACEBACK + "OSError: [Errno 12] Cannot allocate memory: 'file'\n\n",
        NODE + "\nNode.js v24.19.0\n",
        "sort: memory exhausted\n",
        "program.sh: 1: Cannot fork: Cannot allocate memory\n",
    ],
)
def test_a_program_that_was_refused_memory_says_so(stderr: str) -> None:
    assert says(stderr)


def test_one_that_aborts_says_so_too() -> None:
    heap = (
        "<--- Last few GCs --->\n\nFATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
    )
    assert says(heap + "----- Native stack trace -----\n 1: 0x5\n", exitCode=None, signal=6)
    thrown = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    assert says(thrown, exitCode=None, signal=6)


@pytest.mark.parametrize(
    "stderr",
    [
        "",
        "MemoryError\nbut then something else failed\n",
        TRACEBACK + "ValueError: MemoryError\n",
        TRACEBACK + "OSError: [Errno 28] No space left on device\n",
        TRACEBACK + "MemoryErrors: 3\n",
        "warning: RangeError: Array buffer allocation failed\n",
        TRACEBACK
        + "MemoryError\n\nDuring handling of the above exception, another exception occurred:\n\nKeyError: 1\n",
    ],
)
def test_what_only_looks_like_it_is_an_ordinary_failure(stderr: str) -> None:
    assert not says(stderr)


@pytest.mark.parametrize("changed", [{"exitCode": 0}, {"outcome": "timeout", "exitCode": None, "signal": 9}])
def test_only_a_failure_of_its_own_counts(changed: dict[str, Any]) -> None:
    assert not says(TRACEBACK + "MemoryError\n", **changed)


def test_a_long_error_output_costs_little() -> None:
    assert not says("x" * 200_000)
    assert not says("a.b" * 50_000 + "!")
