"""When a watched program's end comes, on a clock that only waiting moves: a busy machine must not count."""

from __future__ import annotations

import os
import select
from collections.abc import Iterator
from itertools import chain
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox_container import reap, watch
from sandbox_container.output import Output
from workbench.clock import ManualClock

# Of stdout, of stderr, and of whoever asks to stop.
Pipes = list[tuple[int, int]]


class Watched(watch.Watch):
    """Without a look at memory and disks, which takes ``look`` seconds all the same."""

    def __init__(self, clock: ManualClock, pipes: Pipes, look: float) -> None:
        (stdout, _), (stderr, _), (wake, _) = pipes
        launch: Any = SimpleNamespace(stdout=stdout, stderr=stderr, pid=os.getpid())
        unused: Any = None
        super().__init__(0, launch, unused, Output(1_000), unused, unused, wake)
        self._clock, self._look = clock, look

    def _over_limits(self) -> None:
        self._clock.advance(self._look)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> ManualClock:
    """The watch's clock; a poll that finds nothing waits on it."""
    clock = ManualClock(0.0)

    class Poll:
        def __init__(self) -> None:
            self._poll = select.poll()
            self.register, self.unregister = self._poll.register, self._poll.unregister

        def poll(self, milliseconds: float) -> list[tuple[int, int]]:
            found = self._poll.poll(0)
            if not found:
                clock.advance(milliseconds / 1000)
            return found

    monkeypatch.setattr(watch, "time", clock)
    monkeypatch.setattr(watch, "select", SimpleNamespace(poll=Poll, POLLIN=select.POLLIN))
    # The children of this process are other tests'.
    monkeypatch.setattr(reap, "collect", lambda _statuses: None)
    return clock


@pytest.fixture
def pipes() -> Iterator[Pipes]:
    made = [os.pipe() for _ in range(3)]
    yield made
    for end in chain(*made):
        os.close(end)


@pytest.mark.parametrize("look", [0.0, 0.2])
def test_the_time_limit_is_not_overrun(clock: ManualClock, pipes: Pipes, look: float) -> None:
    """Also where the next look at memory, after one that took long, would come later than the end."""
    assert Watched(clock, pipes, look).until_end(3.0) == "timeout"
    # A poll waits for whole milliseconds, and one more.
    assert 3.0 <= clock.monotonic() < 3.01


def test_a_stop_is_obeyed_at_once(clock: ManualClock, pipes: Pipes) -> None:
    os.write(pipes[2][1], b"x")
    assert Watched(clock, pipes, 0.0).until_end(3.0) == "stopped"
    assert clock.monotonic() == 0.0
