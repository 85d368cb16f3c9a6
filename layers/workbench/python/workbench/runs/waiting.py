"""Waiting for a run: the caller's Lambda looks at the records again and again, with growing pauses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from workbench.clock import Clock

# Locally a run takes about a tenth of a second, in the cloud one or more: short runs are answered at once.
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS, GROWTH = 0.01, 0.5, 1.3

T = TypeVar("T")


def look_until(clock: Clock, seconds: float, look: Callable[[], T], done: Callable[[T], bool]) -> T:
    """Call ``look`` until what it gives is ``done`` or ``seconds`` have passed; the last look is returned."""
    deadline, pause = clock.monotonic() + seconds, FIRST_PAUSE_SECONDS
    while True:
        seen = look()
        left = deadline - clock.monotonic()
        if done(seen) or left <= 0:
            return seen
        clock.sleep(min(pause, left))
        pause = min(GROWTH * pause, LONGEST_PAUSE_SECONDS)
