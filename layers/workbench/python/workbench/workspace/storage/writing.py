"""Short writes outside a tool call (raw files, restoring a version): stage, PUT, commit; again on a newer head."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from workbench.operations import Operation
from workbench.runtime import Runtime
from workbench.table import ConditionFailed, Contended
from workbench.workspace.storage.head import read_head
from workbench.workspace.storage.store import BlobGone, Commit, WorkingCopy

COMMIT_TRIES = 8

Stage = Callable[[WorkingCopy], Sequence[Operation] | None]


def write(runtime: Runtime, conversation: str, tool: str, stage: Stage) -> Commit:
    """Commit what ``stage`` stages on the current version, with the operations it returns; returns what was committed.

    ``stage`` may be called several times, each time with a fresh working copy. Raises WorkspaceBusy when a lease
    outlasts ``busy_wait_seconds`` or others keep committing first, and whatever ``stage`` raises.
    """
    clock, settings = runtime.clock, runtime.settings
    give_up = clock.monotonic() + settings.busy_wait_seconds
    for attempt in range(COMMIT_TRIES):
        head = read_head(runtime, conversation)
        while head.leased(clock.now(), settings.skew_seconds):
            if clock.monotonic() >= give_up:
                raise head.busy(clock.now())
            clock.sleep(random.uniform(0.05, 0.25))  # noqa: S311
            head = read_head(runtime, conversation)
        copy = WorkingCopy(runtime, head)
        gone = None
        try:
            extra = stage(copy) or ()
            commit = copy.prepare(tool, None)
            runtime.clients.together(*commit.uploads())
            runtime.table.transact([*commit.operations(), *extra])
        except (ConditionFailed, Contended):
            clock.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311
        except BlobGone as error:
            # Thinning dropped the version that was read: a newer one has taken its place.
            gone = error
        else:
            return commit
    raise gone or head.busy(clock.now())
