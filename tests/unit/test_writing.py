"""How long a write that lost to others waits before it tries again."""

from __future__ import annotations

import pytest

from workbench.clients import Clients
from workbench.clock import ManualClock
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.workspace.storage.writing import COMMIT_TRIES, LONGEST_PAUSE_SECONDS, SHORTEST_TRY_SECONDS, Tries


def pauses(took: float, samples: int = 100) -> list[list[float]]:
    """For each try, how long the pauses after it were when every try took so many seconds."""
    clock = ManualClock()
    runtime = Runtime(Settings(), Clients("eu-central-1"), clock)
    found: list[list[float]] = [[] for _ in range(COMMIT_TRIES)]
    for _ in range(samples):
        tries = Tries(runtime)
        for attempt in tries:
            clock.advance(took)
            before = clock.monotonic()
            tries.pause(attempt)
            found[attempt].append(clock.monotonic() - before)
    return found


@pytest.mark.parametrize("took", [0.04, 0.3])
def test_a_pause_grows_with_what_a_try_takes_and_doubles(took: float) -> None:
    """Where a try takes long, short pauses would only have the same writers meet again."""
    for attempt, found in enumerate(pauses(took)):
        longest = min(LONGEST_PAUSE_SECONDS, took * 2**attempt)
        assert 0.5 * longest < max(found) <= longest + 1e-6 and min(found) < 0.5 * longest


def test_a_pause_is_never_so_long_that_nobody_waits_for_it() -> None:
    assert LONGEST_PAUSE_SECONDS / 2 < max(max(found) for found in pauses(took=5.0)) <= LONGEST_PAUSE_SECONDS + 1e-6


def test_tries_that_take_no_time_are_still_apart() -> None:
    assert SHORTEST_TRY_SECONDS / 2 < max(pauses(took=0)[0]) <= SHORTEST_TRY_SECONDS + 1e-6
