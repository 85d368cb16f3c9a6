"""A local system whose sandboxes are the tests' own: what they say, and when they die, is up to each test."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import SETTINGS, Begin, final
from tests.local.runs.sandbox import Launcher, Sandbox
from tests.local.talk import Talk


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture(scope="module")
def system(alone: None, launcher: Launcher) -> Iterator[LocalSystem]:
    with LocalSystem().start(settings=SETTINGS, start_sandbox=launcher.start) as running:
        yield running


@pytest.fixture
def talk(api: Api, unique: str) -> Talk:
    return Talk.open(api, unique)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


@pytest.fixture
def begin(talk: Talk, threads: ThreadPoolExecutor) -> Begin:
    """Send run_code in a thread; the future is its answer."""

    def send(call: str = "run", code: str = "pass", **arguments: Any) -> Future[dict[str, Any]]:
        return threads.submit(talk.call, "run_code", call=call, code=code, **arguments)

    return send


@pytest.fixture
def sandbox(begin: Begin, launcher: Launcher, api: Api) -> Iterator[Sandbox]:
    """A sandbox that has claimed the run of call ``run``."""
    answer = begin()
    started = launcher.next(api).claimed()
    yield started
    started.task.end()
    final(answer)
