"""One local system for all tests of a process; it stands aside for tests that start one of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.system import LocalSystem

_started: list[LocalSystem] = []


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
    for running in _started:
        running.stop()
    yield
    for running in _started:
        running.start()
