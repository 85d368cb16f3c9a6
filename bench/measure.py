"""Measuring several things in turns, so that a machine that slows down slows all of them, and comparing medians."""

from __future__ import annotations

import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Figures:
    """What several runs took, in ``unit`` (milliseconds unless it says otherwise)."""

    runs: tuple[float, ...]
    unit: str = "ms"

    @property
    def median(self) -> float:
        return statistics.median(self.runs)

    def __str__(self) -> str:
        digits = 0 if self.median >= 100 else 1 if self.median >= 10 else 2
        return f"{self.median:,.{digits}f} {self.unit} ({min(self.runs):,.{digits}f}-{max(self.runs):,.{digits}f})"


@dataclass(frozen=True)
class Row:
    """One line of the table. ``most`` bounds the ratio of the medians, ``more`` instead their difference.

    Without ``theirs`` there is no peer and no bar. ``fault`` says why a row counts as missed whatever its figures are.
    """

    ours: Figures | None
    peer: str
    theirs: Figures | None
    bar: str
    most: float | None = None
    more: float | None = None
    fault: str | None = None

    @property
    def difference(self) -> float | None:
        return self.ours.median - self.theirs.median if self.ours and self.theirs else None

    @property
    def ratio(self) -> float | None:
        return self.ours.median / self.theirs.median if self.ours and self.theirs else None

    @property
    def shown_ratio(self) -> str:
        if self.difference is None or self.ours is None:
            return ""
        return f"{self.ratio:.2f}x" if self.more is None else f"{self.difference:+,.1f} {self.ours.unit}"

    @property
    def held(self) -> bool:
        if self.fault:
            return False
        if self.more is not None:
            return self.difference is not None and self.difference <= self.more
        return self.most is None or (self.ratio is not None and self.ratio <= self.most)


def timed(work: Callable[[], object]) -> float:
    """Milliseconds of one run."""
    started = time.perf_counter()
    work()
    return (time.perf_counter() - started) * 1000


def spent(work: Callable[[], object]) -> float:
    """Milliseconds of processor time that one run's child processes took, all of which it waits for.

    For a child with one thread that waits for nothing, this is its time on a machine that has nothing else to do.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    work()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) * 1000


def in_turns(
    *works: Callable[[], object], runs: int = 15, measure: Callable[[Callable[[], object]], float] = timed
) -> tuple[Figures, ...]:
    """Run each once to warm up, then ``measure`` all in turns; the figures of each.

    Every second round goes backwards, so that none is always the one that follows the same other.
    """
    for work in works:
        work()
    measured: list[list[float]] = [[] for _ in works]
    for number in range(runs):
        order = range(len(works)) if number % 2 == 0 else reversed(range(len(works)))
        for index in order:
            measured[index].append(measure(works[index]))
    return tuple(Figures(tuple(times)) for times in measured)
