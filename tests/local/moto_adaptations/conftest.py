"""Mocked AWS of a module's own, and what a probe finds there without an adaptation and with it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from moto import mock_aws

from local import executions
from local.moto_adaptations import MOTO_CONFIG
from tests.local.moto_adaptations.lab import WAIT_SECONDS, Both, Lab


@pytest.fixture(scope="module")
def lab(alone: None) -> Iterator[Lab]:
    mocks = mock_aws(config=MOTO_CONFIG)
    mocks.start()
    yield Lab()
    # Whoever runs a system next would wait for them.
    assert executions.end(WAIT_SECONDS)
    mocks.stop()


@pytest.fixture
def both(lab: Lab) -> Both:
    """``both(adaptation, probe)`` is what ``probe`` returns without the adaptation and with it."""

    def run(adaptation: str, probe: Callable[[], Any]) -> tuple[Any, Any]:
        with lab.adapted(without=[adaptation]):
            stock = probe()
        with lab.adapted():
            return stock, probe()

    return run
