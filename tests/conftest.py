"""One local system for all tests of a process; it stands aside for tests that start one of their own."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from local.system import LocalSystem

# What a test began and did not wait for ends within a second or so; on a busy machine it may stand still for some.
QUIET_SECONDS = 30.0

_started: list[LocalSystem] = []
_outlasting: set[threading.Thread] = set()


@pytest.fixture(scope="session")
def system() -> Iterator[LocalSystem]:
    """The local system with the product's own functions, state machines and sandboxes."""
    with LocalSystem().start() as running:
        _started.append(running)
        yield running
        _started.remove(running)


@pytest.fixture(scope="module")
def alone() -> Iterator[None]:
    """No local system runs in this process while the module's tests do; the session's one comes back afterwards."""
    if _started:
        _wait_until_quiet()
    aside = _started.copy()
    _started.clear()
    for running in aside:
        running.stop()
    yield
    for running in aside:
        running.start()
    _started.extend(aside)


@pytest.fixture(autouse=True)
def quiet() -> None:
    """What earlier tests began in the common system has ended: deletions, runs, and functions that nobody waits for.

    It would be counted, logged and crashed with what this test does.
    """
    if _started:
        _wait_until_quiet()


def _wait_until_quiet() -> None:
    from moto.stepfunctions.parser.utils import TMP_THREADS

    until = time.monotonic() + QUIET_SECONDS
    while (
        at_work := {
            thread
            for thread in [*threading.enumerate(), *TMP_THREADS]
            if thread.is_alive() and (thread in TMP_THREADS or thread.name.startswith(("lambda ", "sandbox ")))
        }
        - _outlasting
    ):
        left = until - time.monotonic()
        if left <= 0:
            # Nobody waits for these again.
            _outlasting.update(at_work)
            return
        next(iter(at_work)).join(left)
