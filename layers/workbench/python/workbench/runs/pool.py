"""The warm pool's rules: which sandbox may be taken, how many should wait, which are started or told to leave. Pure.

A fixed number of slots, each with a generation, hold at most one waiting sandbox each. A slot's sandbox goes
``starting`` -> ``idle`` (it has asked for work) -> ``assigned`` (a run awaits it) -> ``claimed``; on the way it may be
``leaving`` (told to) or ``gone``. Whoever has left ``idle`` never comes back: a sandbox serves one run. What is
stored, and who calls ECS, is the business of :mod:`workbench.runs.keeper` and :mod:`workbench.runs.assignment`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from workbench.keys import Key
from workbench.operations import Condition, Item

# A waiting sandbox asks at least every 20 s; the rest is the way there and back.
FRESH_SECONDS = 30.0
# Longer than a supervisor tries to reach the route: after a failure of ours, those that waited are not all ended.
SILENT_SECONDS = 90.0
# The supervisor leaves by itself after 3.6 to 4 hours; the pool lets it go before that, each at another time.
LIFE_SECONDS, LIFE_SPREAD = 4 * 3600.0, (0.75, 0.88)
# A successor is started this long before a sandbox leaves: about what a cold start takes.
RENEW_SECONDS = 120.0
# No keeper works longer: a start that it has not confirmed by then never happened, or nobody will hear of it.
UNCONFIRMED_SECONDS = 60.0
# Beyond the largest pool, for successors of those that will leave soon.
SPARE_SLOTS = 1
BACKOFF_SECONDS, LONGEST_BACKOFF_SECONDS = 30.0, 900.0
# Demand is what was wanted in the busiest window of the last ten. A window is about the time in which the pool cannot
# refill, because a task has to start.
WINDOW_SECONDS, WINDOWS = 120, 10

POOL = "POOL"
WINDOW_PREFIX, SLOT_PREFIX = "w", "SLOT#"
WAITING = ("starting", "idle")


def slot_key(number: int) -> Key:
    """A place for one waiting sandbox."""
    return POOL, f"{SLOT_PREFIX}{number:03d}"


def demand_key() -> Key:
    """How many runs asked for a sandbox, by window of time."""
    return POOL, "DEMAND"


# ---------------------------------------------------------------- one sandbox


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot and what is known of its sandbox. Times in Unix seconds; an empty slot has generation 0 and no sandbox."""

    number: int
    generation: int = 0
    failures: int = 0
    started_at: float = 0.0
    sandbox: str = ""
    state: str = "gone"
    seen_at: float | None = None
    expires_at: float = 0.0
    task: str | None = None

    @classmethod
    def from_items(cls, slot: Item, sandbox: Item | None) -> Slot:
        """Read a stored slot together with its sandbox's record, if that is still there."""
        number = int(str(slot["SK"]).removeprefix(SLOT_PREFIX))
        known = sandbox or {}
        return cls(
            number,
            slot["generation"],
            slot["failures"],
            slot["startedAt"],
            slot["sandbox"],
            known.get("state", "gone"),
            known.get("seenAt"),
            known.get("expiresAt", 0.0),
            known.get("task"),
        )

    def may_serve(self, now: float, seconds: float) -> bool:
        """Idle, heard of lately, and not due to leave within ``seconds``."""
        fresh = self.seen_at is not None and self.seen_at + FRESH_SECONDS >= now
        return self.state == "idle" and fresh and self.expires_at > now + seconds

    def may_come_back(self, now: float) -> bool:
        """Idle and not due to leave, and silent for so short a time that it may only have been cut off."""
        return self.state == "idle" and (self.seen_at or 0.0) + SILENT_SECONDS >= now and self.expires_at > now

    def is_starting(self, now: float, seconds: float) -> bool:
        """Asked for at most ``seconds`` ago and not yet heard of."""
        allowed = seconds if self.task else min(seconds, UNCONFIRMED_SECONDS)
        return self.state == "starting" and self.started_at + allowed > now

    @property
    def failed(self) -> bool:
        """It was started and never heard of."""
        return self.generation > 0 and self.state in ("starting", "gone") and self.seen_at is None

    @property
    def failures_now(self) -> int:
        """Starts in a row that led to nothing."""
        return self.failures + 1 if self.failed else 0

    def may_start(self, now: float) -> bool:
        """A sandbox may be started here; after failures only when a growing pause is over."""
        failures = self.failures_now
        return failures == 0 or self.started_at + backoff_seconds(failures) <= now


def backoff_seconds(failures: int) -> float:
    """The pause after so many starts in a row that failed."""
    return min(BACKOFF_SECONDS * 2.0 ** min(failures, 10), LONGEST_BACKOFF_SECONDS)


def lifetime_seconds(random: float) -> float:
    """How long a sandbox may wait for work; ``random`` from 0 to 1 spreads the ends of those started together."""
    shortest, longest = LIFE_SPREAD
    return LIFE_SECONDS * (shortest + (longest - shortest) * random)


def may_be_assigned(now: float, seconds: float) -> Condition:
    """The sandbox's record is still that of one that :meth:`Slot.may_serve`."""
    return Condition(
        "#state = :idle AND seenAt >= :seen AND expiresAt > :until",
        {"#state": "state"},
        {":idle": "idle", ":seen": now - FRESH_SECONDS, ":until": now + seconds},
    )


def state_is(*states: str) -> Condition:
    """The sandbox's record is in one of these states."""
    values = {f":state{number}": state for number, state in enumerate(states)}
    return Condition(f"#state IN ({', '.join(values)})", {"#state": "state"}, values)


# ---------------------------------------------------------------- the pool


@dataclass(frozen=True, slots=True)
class Plan:
    """What a keeper does: end the ``silent``, let the ``surplus`` leave, start sandboxes in the slots of ``start``.

    ``waiting`` are those that wait, or come up, and stay.
    """

    waiting: int
    silent: tuple[Slot, ...]
    surplus: tuple[Slot, ...]
    start: tuple[Slot, ...]


def plan(slots: Iterable[Slot], target: int, most: int, now: float, start_seconds: float) -> Plan:
    """Make as many sandboxes wait as ``target`` says, in ``most`` slots and the spare ones.

    Two keepers that see the same do the same, in the same order: the slots' generations let one of them through.
    """
    by_number = {slot.number: slot for slot in slots}
    counted, silent, free = [], [], []
    for number in sorted({*by_number, *range(most + SPARE_SLOTS)}):
        slot = by_number.get(number) or Slot(number)
        if slot.is_starting(now, start_seconds) or slot.may_serve(now, RENEW_SECONDS):
            counted.append(slot)
        elif slot.may_come_back(now):
            continue  # It keeps its slot, but a successor is due: it will leave soon, or has not been heard of lately.
        else:
            if slot.state in WAITING:
                silent.append(slot)
            if number < most + SPARE_SLOTS:
                free.append(slot)
    missing = max(0, target - len(counted))
    # The lowest free slots, also while they pause: a slot that fails must not make the next one be tried as well.
    start = [slot for slot in free[:missing] if slot.may_start(now)]
    return Plan(min(len(counted), target), tuple(silent), tuple(counted[target:]), tuple(start))


# ---------------------------------------------------------------- demand


def window(now: float) -> str:
    """The attribute that counts the runs that ask at this time."""
    return f"{WINDOW_PREFIX}{int(now) // WINDOW_SECONDS}"


def demand(item: Mapping[str, object] | None) -> dict[int, int]:
    """The counts of a stored demand item, by window."""
    names = [name for name in item or {} if name.startswith(WINDOW_PREFIX) and name[len(WINDOW_PREFIX) :].isdigit()]
    return {int(name[len(WINDOW_PREFIX) :]): int(str((item or {})[name])) for name in names}


def past_windows(counts: Mapping[int, int], now: float) -> Sequence[str]:
    """Attributes that no longer count."""
    oldest = int(now) // WINDOW_SECONDS - WINDOWS + 1
    return [f"{WINDOW_PREFIX}{number}" for number in sorted(counts) if number < oldest]


def target(counts: Mapping[int, int], now: float, least: int, most: int) -> int:
    """How many sandboxes should wait: as many as were wanted in the busiest of the last windows, within the bounds.

    A ``least`` of 0 turns the pool off, whatever was wanted.
    """
    if least == 0:
        return 0
    current = int(now) // WINDOW_SECONDS
    lately = [count for number, count in counts.items() if current - WINDOWS < number <= current]
    return max(least, min(most, max(lately, default=0)))
