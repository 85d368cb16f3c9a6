"""How a write meets others: it waits for a lease, and is done again on a newer head.

:class:`Tries` is that patience, for tool calls and for the short writes here (raw files, restoring a version): stage,
PUT, commit.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence

from workbench.operations import Operation
from workbench.runtime import Runtime
from workbench.table import ConditionFailed, Contended
from workbench.workspace.storage.head import Head, read_head
from workbench.workspace.storage.store import BlobGone, Commit, WorkingCopy

# Conflicts are rare and short; this many losses in a row mean that somebody writes without pause.
COMMIT_TRIES = 8
# Who lost waits a share of what a try takes here and now, doubled each time: many writers at once then come one after
# the other, on a slow machine too, where pauses of fixed length would have them all collide again.
SHORTEST_TRY_SECONDS = 0.02
LONGEST_PAUSE_SECONDS = 3.0

Stage = Callable[[WorkingCopy], Sequence[Operation] | None]


class Tries:
    """The tries of one write. Iterating numbers them from 0; what it may wait for leases counts over all of them."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._waiting_until: float | None = None
        self._began = runtime.clock.monotonic()

    def __iter__(self) -> Iterator[int]:
        for attempt in range(COMMIT_TRIES):
            self._began = self._runtime.clock.monotonic()
            yield attempt

    def pause(self, attempt: int) -> None:
        """Let those go first who won the try of that number."""
        took = max(SHORTEST_TRY_SECONDS, self._runtime.clock.monotonic() - self._began)
        self._runtime.clock.sleep(random.uniform(0, min(LONGEST_PAUSE_SECONDS, took * 2**attempt)))  # noqa: S311

    def unleased(self, head: Head) -> Head:
        """``head`` itself when nobody holds the lease, otherwise the head as it is once they have given it back.

        Raises WorkspaceBusy when that outlasts ``busy_wait_seconds``.
        """
        clock, settings = self._runtime.clock, self._runtime.settings
        while head.leased(clock.now(), settings.skew_seconds):
            if self._waiting_until is None:
                self._waiting_until = clock.monotonic() + settings.busy_wait_seconds
            if clock.monotonic() >= self._waiting_until:
                raise head.busy(clock.now())
            clock.sleep(random.uniform(0.05, 0.25))  # noqa: S311
            head = read_head(self._runtime, head.conversation)
            # Waiting for the holder is no part of a try.
            self._began = clock.monotonic()
        return head


def write(runtime: Runtime, conversation: str, tool: str, stage: Stage) -> Commit:
    """Commit what ``stage`` stages on the current version, with the operations it returns; returns what was committed.

    ``stage`` may be called several times, each time with a fresh working copy. Raises WorkspaceBusy when a lease
    outlasts ``busy_wait_seconds`` or others keep committing first, and whatever ``stage`` raises.
    """
    tries = Tries(runtime)
    for attempt in tries:
        head = tries.unleased(read_head(runtime, conversation))
        copy = WorkingCopy(runtime, head)
        gone = None
        try:
            extra = stage(copy) or ()
            commit = copy.prepare(tool, None)
            runtime.clients.together(*commit.uploads())
            runtime.table.transact([*commit.operations(), *extra])
        except (ConditionFailed, Contended):
            tries.pause(attempt)
        except BlobGone as error:
            # Thinning dropped the version that was read: a newer one has taken its place.
            gone = error
        else:
            return commit
    raise gone or head.busy(runtime.clock.now())
