"""A process apart is given up by what it has written and by its time, whichever comes first."""

from __future__ import annotations

import pytest

from workbench import apart


def test_the_answer_may_have_as_many_bytes_as_were_allowed_and_no_more() -> None:
    program = "sys.stdout.write(sys.stdin.read())"
    assert apart.run(program, [], b"x" * 1_000, seconds=60, most=1_000) == b"x" * 1_000
    with pytest.raises(apart.NoAnswer):
        apart.run(program, [], b"x" * 1_001, seconds=60, most=1_000)


def test_what_came_before_the_time_was_over_is_no_answer() -> None:
    program = "import time; print('half', flush=True); time.sleep(600)"
    with pytest.raises(apart.NoAnswer):
        apart.run(program, [], b"", seconds=0.5, most=1_000)
