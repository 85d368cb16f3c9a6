"""The pool's rules: who may be taken, who counts, who is started, who leaves, and how demand moves the target."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.runs import pool
from workbench.runs.pool import Slot

NOW = 1_800_000_000.0
START_SECONDS = 180.0

IDLE = Slot(0, 1, 0, NOW - 100, "sbx_a", "idle", NOW - 5, NOW + 3600, "task")
STARTING = replace(IDLE, state="starting", seen_at=None, started_at=NOW - 20)
ASSIGNED = replace(IDLE, state="assigned")
GONE = replace(IDLE, state="gone")


def planned(*slots: Slot, target: int = 1, most: int = 3) -> tuple[list[int], list[int], list[int]]:
    """The numbers of the silent, the surplus and the started slots."""
    made = pool.plan(slots, target, most, NOW, START_SECONDS)
    silent, surplus, start = ([slot.number for slot in part] for part in (made.silent, made.surplus, made.start))
    return silent, surplus, start


# ---------------------------------------------------------------- one sandbox


@pytest.mark.parametrize(
    ("slot", "serves"),
    [
        (IDLE, True),
        (replace(IDLE, seen_at=NOW - pool.FRESH_SECONDS), True),
        (replace(IDLE, seen_at=NOW - pool.FRESH_SECONDS - 0.1), False),
        (replace(IDLE, seen_at=None), False),
        (replace(IDLE, expires_at=NOW + 3), False),
        (STARTING, False),
        (ASSIGNED, False),
        (replace(IDLE, state="leaving"), False),
        (GONE, False),
    ],
)
def test_only_an_idle_sandbox_that_was_heard_of_and_stays_may_be_taken(slot: Slot, serves: bool) -> None:
    assert slot.may_serve(NOW, 3.0) is serves


def test_a_start_that_nobody_confirmed_is_waited_for_less_long() -> None:
    slow = replace(STARTING, started_at=NOW - pool.UNCONFIRMED_SECONDS - 1)
    assert slow.is_starting(NOW, START_SECONDS)
    assert not replace(slow, task=None).is_starting(NOW, START_SECONDS)
    assert not replace(slow, started_at=NOW - START_SECONDS - 1).is_starting(NOW, START_SECONDS)


def test_lives_end_at_different_times_and_before_the_supervisor_would_leave_by_itself() -> None:
    assert pool.lifetime_seconds(0.0) == 3 * 3600
    assert pool.lifetime_seconds(0.0) < pool.lifetime_seconds(0.5) < pool.lifetime_seconds(1.0) < 0.9 * 4 * 3600


def test_a_slot_is_read_with_what_is_known_of_its_sandbox() -> None:
    stored = {"PK": "POOL", "SK": "SLOT#012", "generation": 7, "failures": 2, "startedAt": NOW, "sandbox": "sbx_a"}
    known = {"state": "idle", "seenAt": NOW, "expiresAt": NOW + 9, "task": "arn"}
    assert Slot.from_items(stored, known) == Slot(12, 7, 2, NOW, "sbx_a", "idle", NOW, NOW + 9, "arn")
    assert Slot.from_items(stored, None).state == "gone"
    assert pool.slot_key(12) == ("POOL", "SLOT#012")


# ---------------------------------------------------------------- the pool


def test_an_empty_pool_starts_what_should_wait() -> None:
    assert planned(target=2) == ([], [], [0, 1])


def test_those_that_wait_or_come_up_count() -> None:
    assert planned(IDLE, replace(STARTING, number=1), target=2) == ([], [], [])


@pytest.mark.parametrize("taken", [ASSIGNED, replace(IDLE, state="claimed"), GONE, replace(IDLE, state="leaving")])
def test_one_that_a_run_has_or_that_is_gone_leaves_its_slot_free(taken: Slot) -> None:
    assert planned(taken) == ([], [], [0])


def test_a_silent_one_is_ended_and_replaced() -> None:
    assert planned(replace(IDLE, seen_at=NOW - pool.SILENT_SECONDS - 1)) == ([0], [], [0])
    never_came = replace(STARTING, started_at=NOW - START_SECONDS - 1)
    assert planned(never_came) == ([0], [], [0])


def test_one_that_may_only_be_cut_off_is_not_ended_but_another_comes() -> None:
    quiet = replace(IDLE, seen_at=NOW - pool.FRESH_SECONDS - 1)
    assert planned(quiet) == ([], [], [1])
    # It is back, and one of the two is too many.
    assert planned(IDLE, replace(STARTING, number=1)) == ([], [1], [])


def test_one_that_will_leave_soon_still_serves_while_its_successor_starts() -> None:
    ageing = replace(IDLE, expires_at=NOW + pool.RENEW_SECONDS - 1)
    assert planned(ageing) == ([], [], [1])
    assert planned(ageing, replace(STARTING, number=1)) == ([], [], [])
    # A full pool has a spare slot for successors.
    full = [replace(IDLE, number=number, expires_at=NOW + 60) for number in range(3)]
    assert planned(*full, target=3) == ([], [], [3])


def test_surplus_ones_leave_from_the_highest_slots() -> None:
    waiting = [replace(IDLE, number=number) for number in range(4)]
    assert planned(*waiting, target=2) == ([], [2, 3], [])
    assert planned(*waiting, target=0) == ([], [0, 1, 2, 3], [])
    # Also those beyond what the pool may have now.
    assert planned(IDLE, replace(IDLE, number=9), target=1) == ([], [9], [])


def test_a_start_that_failed_is_repeated_after_a_growing_pause_and_nowhere_else() -> None:
    failed = replace(GONE, seen_at=None, started_at=NOW - 59)
    assert (failed.failures_now, planned(failed)) == (1, ([], [], []))
    assert planned(replace(failed, started_at=NOW - 60)) == ([], [], [0])
    assert planned(replace(failed, started_at=NOW - 60, failures=1)) == ([], [], [])
    pauses = [pool.backoff_seconds(failures) for failures in range(1, 8)]
    assert pauses == [60, 120, 240, 480, 900, 900, 900]
    # One that was heard of did not fail, whatever came before.
    assert replace(GONE, failures=5).failures_now == 0


slots_strategy = st.builds(
    Slot,
    number=st.integers(0, 7),
    generation=st.integers(1, 5),
    failures=st.integers(0, 4),
    started_at=st.floats(NOW - 20_000, NOW),
    sandbox=st.just("sbx"),
    state=st.sampled_from(["starting", "idle", "assigned", "claimed", "leaving", "gone"]),
    seen_at=st.none() | st.floats(NOW - 100, NOW),
    expires_at=st.floats(NOW - 100, NOW + 20_000),
    task=st.none() | st.just("arn"),
)


@given(st.lists(slots_strategy, unique_by=lambda slot: slot.number), st.integers(0, 4))
def test_a_plan_never_has_more_wait_than_wanted_and_never_replaces_one_that_serves(
    slots: list[Slot], target: int
) -> None:
    made = pool.plan(slots, target, 4, NOW, START_SECONDS)
    counted = [s for s in slots if s.is_starting(NOW, START_SECONDS) or s.may_serve(NOW, pool.RENEW_SECONDS)]
    assert len(counted) - len(made.surplus) + len(made.start) <= max(target, 0)
    assert not {slot.number for slot in made.start} & {slot.number for slot in slots if slot.may_serve(NOW, 0)}
    assert not {slot.number for slot in made.start} & {slot.number for slot in counted}
    assert all(slot.state in pool.WAITING for slot in (*made.silent, *made.surplus))
    assert not (made.start and made.surplus)
    assert len({slot.number for slot in made.start}) == len(made.start)
    assert all(slot.number <= 4 for slot in made.start)


# ---------------------------------------------------------------- demand


def counts(*ago: int) -> dict[int, int]:
    """One run in each of the windows that many windows ago, more where a window is named more than once."""
    current = int(NOW) // pool.WINDOW_SECONDS
    return {current - number: ago.count(number) for number in ago}


@pytest.mark.parametrize(
    ("wanted", "most", "target"),
    [
        (counts(), 5, 1),
        (counts(0), 5, 1),
        (counts(0, 0, 0), 5, 3),
        (counts(*[0] * 30), 5, 5),
        (counts(*[9] * 3), 5, 3),
        (counts(*[10] * 3), 5, 1),
        (counts(0, 1, 2, 3), 5, 1),
        (counts(-1, -1), 5, 1),
    ],
    ids=["nothing", "one", "a burst", "more than allowed", "a while ago", "too long ago", "steady", "another's clock"],
)
def test_the_target_is_what_the_busiest_of_the_last_windows_wanted(
    wanted: dict[int, int], most: int, target: int
) -> None:
    assert pool.target(wanted, NOW, 1, most) == target


def test_the_minimum_holds_without_demand_and_zero_turns_the_pool_off() -> None:
    assert pool.target({}, NOW, 2, 5) == 2
    assert pool.target(counts(*[0] * 9), NOW, 0, 5) == 0


def test_windows_are_counted_in_attributes_and_forgotten() -> None:
    name = pool.window(NOW)
    item = {"PK": "POOL", "SK": "DEMAND", name: 3, "w12": 1, "wanted": "x"}
    assert pool.demand(item) == {int(name[1:]): 3, 12: 1}
    assert pool.demand(None) == {}
    assert pool.past_windows(pool.demand(item), NOW) == ["w12"]
