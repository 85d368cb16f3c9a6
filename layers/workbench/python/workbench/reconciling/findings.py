"""What a sweep finds, as data: looking and repairing are apart, so that a dry run is a run without the repairs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from workbench.conversations.conversation import DAY_SECONDS
from workbench.logs import logger
from workbench.runtime import Runtime

# Whoever stored something has named it, or died, long before this: calls and runs end within an hour.
SAFE_AGE_SECONDS = DAY_SECONDS
# A deletion or an erasure whose workflow works takes minutes.
STALLED_SECONDS = 3600

Repair = Callable[[], object]


@dataclass(frozen=True)
class Finding:
    """Something that nothing names, or that should be over. ``what`` is an id or a key, never contents.

    ``count`` is how many objects or records it is. Without ``repair`` only a person can help.
    """

    kind: str
    what: str
    repair: Repair | None
    count: int = 1


@dataclass(frozen=True)
class Step:
    """What one look found, and ``after``: where another sweep of the kind goes on. ``notes`` are kept for next time."""

    after: str
    findings: Sequence[Finding] = ()
    notes: Sequence[Repair] = field(default=())


# Looks at what lies behind the cursor (empty: at everything), a little at a time, and changes nothing.
Sweep = Callable[[Runtime, str], Iterator[Step]]


def guarded(what: str, look: Callable[[], Iterable[Finding]]) -> list[Finding]:
    """What ``look`` finds. A record that cannot be read is a finding itself and keeps nobody else's from being read."""
    try:
        return list(look())
    except Exception:  # noqa: BLE001 - see above
        logger.exception("a record cannot be judged", extra={"what": what})
        return [Finding("unreadable_records", what, None)]


def safe_before(runtime: Runtime) -> float:
    """What was stored before this moment (Unix seconds) cannot be waiting to be named any more."""
    # A call may be sent again, and name its result, as long as its turn is valid.
    return runtime.clock.now() - max(SAFE_AGE_SECONDS, 2 * runtime.settings.turn_seconds)


def stalled_before(runtime: Runtime) -> float:
    """Work that began before this moment and is not over needs to be begun again."""
    return runtime.clock.now() - STALLED_SECONDS


def today(runtime: Runtime) -> str:
    """Names work that is begun again at most once a day."""
    return f"/again/{int(runtime.clock.now() // DAY_SECONDS)}"
