"""Timing two things in turns, so that a machine that slows down slows both, and comparing their medians."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Milliseconds of several runs."""

    runs: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    def __str__(self) -> str:
        digits = 1 if self.median >= 10 else 3
        return f"{self.median:,.{digits}f} ms ({min(self.runs):,.{digits}f}-{max(self.runs):,.{digits}f})"


@dataclass(frozen=True)
class Row:
    """One line of the table. ``most`` bounds the ratio of the medians, ``more`` instead the difference in ms."""

    ours: Times
    peer: str
    theirs: Times
    bar: str
    most: float | None = None
    more: float | None = None

    @property
    def ratio(self) -> float:
        return self.ours.median / self.theirs.median

    @property
    def shown_ratio(self) -> str:
        if self.more is not None:
            return f"{self.ours.median - self.theirs.median:+,.1f} ms"
        return f"{self.ratio:.2f}x"

    @property
    def held(self) -> bool:
        if self.more is not None:
            return self.ours.median - self.theirs.median <= self.more
        return self.most is None or self.ratio <= self.most


def in_turns(ours: Callable[[], object], theirs: Callable[[], object], runs: int = 15) -> tuple[Times, Times]:
    """Run both once to warm up, then in turns; milliseconds of each."""
    ours(), theirs()
    first, second = [], []
    for _ in range(runs):
        first.append(timed(ours))
        second.append(timed(theirs))
    return Times(tuple(first)), Times(tuple(second))


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one run."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000
