"""Keeps the warm pool: replaces sandboxes that are gone or silent, follows demand, lets surplus ones leave.

Runs every minute, and once more after each run that asked for a sandbox. Any number of keepers may work at once and
each may die at any point: a slot's generation goes up by one conditional write before a task is started for it.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from workbench import ids
from workbench import runtime as runtimes
from workbench.keys import sandbox_key
from workbench.logs import logger, measured
from workbench.operations import ABSENT, Condition, Item, Update, put
from workbench.runs import pool, starter
from workbench.runs.pool import Slot
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

FUNCTION = "pool_keeper"
# What runs send when they ask for a sandbox; the scheduled rounds send nothing of the kind.
WANTED = {"wanted": True}
# Metrics of the function: sandboxes that wait or come up after its round, and starts that ECS refused in it.
WAITING, FAILED_STARTS = "WaitingSandboxes", "FailedSandboxStarts"


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """The Lambda behind the schedule and behind every run that asked for a sandbox."""
    keep(runtimes.current(), wanted=event.get("wanted") is True)
    return {}


def keep(runtime: Runtime, *, wanted: bool = False) -> None:
    """One round. ``wanted`` counts a run that has just asked. What cannot be started is logged and tried later."""
    settings, now = runtime.settings, runtime.clock.now()
    items = {item["SK"]: item for item in runtime.table.query(pool.POOL)}
    counts = _count(runtime, items.get(pool.demand_key()[1]), now, wanted=wanted)
    target = pool.target(counts, now, settings.warm_sandboxes, settings.warm_sandboxes_most)
    slots = known(runtime, [item for name, item in items.items() if name.startswith(pool.SLOT_PREFIX)])
    todo = pool.plan(slots, target, settings.warm_sandboxes_most, now, settings.claim_seconds)
    works: list[Callable[[], object]] = [partial(_end, runtime, slot) for slot in todo.silent]
    works += [partial(_dismiss, runtime, slot.sandbox, "leaving") for slot in todo.surplus]
    works += [partial(_start, runtime, slot) for slot in todo.start]
    done = runtime.clients.together(*works)
    failed = sum(outcome is False for outcome in done[len(done) - len(todo.start) :])
    counts_of = {WAITING: todo.waiting + len(todo.start) - failed, FAILED_STARTS: failed}
    measured("the pool was looked after", settings.function_prefix + FUNCTION, counts_of, target=target)


def known(runtime: Runtime, items: list[Item]) -> list[Slot]:
    """The stored slots with what their sandboxes' records say, in one request."""
    found = runtime.table.get_many([sandbox_key(item["sandbox"]) for item in items])
    return [Slot.from_items(item, found.get(sandbox_key(item["sandbox"]))) for item in items]


def _count(runtime: Runtime, item: Item | None, now: float, *, wanted: bool) -> dict[int, int]:
    if not wanted:
        return pool.demand(item)
    change = Update().add(pool.window(now), 1)
    for name in pool.past_windows(pool.demand(item), now):
        change.remove(name)
    return pool.demand(runtime.table.update(pool.demand_key(), change))


# ---------------------------------------------------------------- the end of a sandbox


def _dismiss(runtime: Runtime, sandbox: str, state: str) -> bool:
    """Take a waiting sandbox out of the pool; it is told to leave when it next asks. False when a run has it by now."""
    try:
        runtime.table.update(sandbox_key(sandbox), Update().set("state", state), pool.state_is(*pool.WAITING))
    except ConditionFailed:
        return False
    return True


def _end(runtime: Runtime, slot: Slot) -> None:
    """Give up one that fell silent or never came; its task, if there is one, is ended so that nobody pays for it."""
    if _dismiss(runtime, slot.sandbox, "gone"):
        logger.info("a waiting sandbox is given up", extra={"sandbox": slot.sandbox, "slot": slot.number})
        if slot.task:
            starter.stop(runtime, slot.task, "it does not ask for work")


# ---------------------------------------------------------------- the start of a sandbox


def _start(runtime: Runtime, slot: Slot) -> bool:
    """Start the slot's next sandbox, unless another keeper does; False when ECS refuses."""
    sandbox, secret, now = starter.new_id(), ids.new_secret(), runtime.clock.now()
    # Tokens of a table that was removed today must not be met again: a new slot begins with the time, in milliseconds.
    generation = slot.generation + 1 if slot.generation else int(1000 * now)
    pk, sk = pool.slot_key(slot.number)
    stored = {
        "PK": pk,
        "SK": sk,
        "generation": generation,
        "sandbox": sandbox,
        "startedAt": now,
        "failures": slot.failures_now,
    }
    waits_until = now + pool.lifetime_seconds(random.random())  # noqa: S311 - no secret
    try:
        runtime.table.transact(
            [
                put(stored, _still(slot.generation)),
                put(starter.record(sandbox, secret, "starting", waits_until, slot=slot.number)),
            ]
        )
    except ConditionFailed:
        return True
    try:
        task = starter.run_task(runtime, sandbox, secret, f"{slot.number}-{generation}")
    except starter.NoSandbox as error:
        logger.warning("no warm sandbox could be started", extra={"slot": slot.number, "reason": str(error)})
        _dismiss(runtime, sandbox, "gone")
        return False
    if task:
        # Only for ending it: whatever it does meanwhile, it has this task.
        runtime.table.update(sandbox_key(sandbox), Update().set("task", task))
    return True


def _still(generation: int) -> Condition:
    """No other keeper was faster."""
    return Condition("generation = :generation", {}, {":generation": generation}) if generation else ABSENT
