"""A system of their own for the tests of the reconciler, which looks at everything there is."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.reconciled import ShiftedClock, shifted


@pytest.fixture(scope="module")
def world(alone: None) -> Iterator[LocalSystem]:
    """A system whose buckets hold nothing but what the module's tests put there."""
    # A slice of a deletion may take a third of a lease: long enough for a machine that stands still on the way.
    with LocalSystem().start(sandbox="off", settings={"lease_seconds": 60.0}) as system:
        yield system


@pytest.fixture
def api(world: LocalSystem) -> Api:
    return Api(world.url)


@pytest.fixture(scope="module")
def clock(world: LocalSystem) -> Iterator[ShiftedClock]:
    """The world's clock, which only ever runs forward."""
    with shifted(world) as clock:
        yield clock
