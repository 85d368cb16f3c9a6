"""The running system changed for a while: its settings, its cache, what its AWS requests meet, what is stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local.system import LocalSystem
from workbench.clients import Clients
from workbench.workspace.storage.head import read_head
from workbench.workspace.storage.store import WorkingCopy, WorkspaceStore


class Crashed(BaseException):
    """The function's process ended here: nothing of ours may catch it."""


@contextmanager
def settings(system: LocalSystem, **changes: Any) -> Iterator[None]:
    """Other settings for the handlers, which read them at every request."""
    before = system.runtime.settings
    system.runtime.settings = before.model_copy(update=changes)
    try:
        yield
    finally:
        system.runtime.settings = before


@contextmanager
def hooked(system: LocalSystem, hook: Callable[[str, str], None]) -> Iterator[None]:
    """``hook(service, operation)`` is called before each AWS request, and may raise."""
    system.runtime.clients.hook = hook
    try:
        yield
    finally:
        system.runtime.clients.hook = None


@dataclass
class Crash:
    """What was sent before it, as ``service:operation``, and whether it came to it."""

    sent: list[str] = field(default_factory=list)
    happened: bool = False


@contextmanager
def crashing(clients: Clients, requests: int) -> Iterator[Crash]:
    """The block's process ends instead of sending one AWS request more than ``requests``; the test goes on after it."""
    crash = Crash()

    def hook(service: str, operation: str) -> None:
        if len(crash.sent) >= requests:
            raise Crashed
        crash.sent.append(f"{service}:{operation}")

    clients.hook = hook
    try:
        yield crash
    except Crashed:
        crash.happened = True
    finally:
        clients.hook = None


def cold(system: LocalSystem) -> None:
    """Forget what was cached, as a function does that starts anew."""
    system.runtime.workspaces = WorkspaceStore(system.runtime)


def store_many(system: LocalSystem, conversation: str, files: Mapping[str, bytes], tool: str = "run_code") -> None:
    """Store many files in one version, as a run does."""
    copy = WorkingCopy(system.runtime, read_head(system.runtime, conversation))
    for path, data in files.items():
        copy.write(path, data)
    commit = copy.prepare(tool, None)
    system.runtime.clients.together(*commit.uploads())
    system.runtime.table.transact(commit.operations())
