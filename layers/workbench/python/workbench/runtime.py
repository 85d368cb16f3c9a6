"""The objects one process works with: settings, clients, clock, table. Built at the first request, never at import."""

from __future__ import annotations

import os
import threading
from functools import cached_property
from typing import TYPE_CHECKING

from workbench.clients import Clients
from workbench.clock import Clock, SystemClock
from workbench.settings import Settings
from workbench.table import Table

if TYPE_CHECKING:
    from workbench.retrieval.index_cache import IndexCache
    from workbench.workspace.storage.store import WorkspaceStore


class Runtime:
    """Everything a handler needs, made once per process and shared by its requests."""

    def __init__(self, settings: Settings, clients: Clients, clock: Clock) -> None:
        self.settings = settings
        self.clients = clients
        self.clock = clock

    @cached_property
    def table(self) -> Table:
        return Table(self.clients, self.settings.table, self.clock)

    @cached_property
    def workspaces(self) -> WorkspaceStore:
        from workbench.workspace.storage.store import WorkspaceStore

        return WorkspaceStore(self)

    @cached_property
    def indexes(self) -> IndexCache:
        from workbench.retrieval.index_cache import IndexCache

        settings = self.settings
        return IndexCache(self.clients, settings.workspace_bucket, settings.cache_directory, settings.cache_bytes)


_current: Runtime | None = None
_making = threading.Lock()


def current() -> Runtime:
    """This process's runtime, made from the environment at the first call."""
    global _current
    with _making:
        if _current is None:
            _current = Runtime(Settings.from_environment(os.environ), Clients(), SystemClock())
        return _current


def install(runtime: Runtime | None) -> None:
    """Use ``runtime`` from now on (the local system and tests); None forgets it."""
    global _current
    with _making:
        _current = runtime
