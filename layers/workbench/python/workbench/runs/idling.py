"""A sandbox of the pool waits: its request is held until a run has been given to it, its time is over, or 20 s are.

Nothing is claimed here. Who held on through an assignment is told to ask again, and that question claims: it proves
that the sandbox is alive, which a request that it sent some seconds ago does not.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from workbench.keys import sandbox_key
from workbench.logs import logger
from workbench.operations import Item, Update
from workbench.runs import pool
from workbench.runs.protocol import HOLD_SECONDS, LEAVE, WAIT
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

# Half of it is what an assignment waits for on average, and each look is one strongly consistent read.
LOOK_SECONDS = 0.15

# What is asked of AWS while this is set belongs to no call of anybody.
at_rest: ContextVar[bool] = ContextVar("at_rest", default=False)


def hold(runtime: Runtime, sandbox: str, item: Item, verified: str) -> dict[str, Any]:
    """What to answer the sandbox whose record ``item`` names no run: ``wait`` (ask again) or ``leave``."""
    token = at_rest.set(True)
    try:
        return _hold(runtime, sandbox, item, verified)
    finally:
        at_rest.reset(token)


def _hold(runtime: Runtime, sandbox: str, before: Item, verified: str) -> dict[str, Any]:
    clock, key = runtime.clock, sandbox_key(sandbox)
    if not _may_stay(runtime, before):
        return LEAVE
    item: Item | None
    try:
        seen = Update().set("state", "idle").set("seenAt", clock.now())
        item = runtime.table.update(key, seen, pool.state_is(*pool.WAITING))
    except ConditionFailed:
        item = runtime.table.get(key)
    if before["state"] == "starting":
        logger.info("a sandbox waits for work", extra={"sandbox": sandbox, "verified": verified})
    deadline = clock.monotonic() + HOLD_SECONDS
    while item is not None and "run" not in item and _may_stay(runtime, item):
        clock.sleep(LOOK_SECONDS)
        if clock.monotonic() >= deadline:
            return WAIT
        item = runtime.table.get(key)
    return WAIT if item is not None and item["state"] == "assigned" else LEAVE


def _may_stay(runtime: Runtime, item: Item) -> bool:
    in_time = item["expiresAt"] > runtime.clock.now()
    return in_time and item["state"] in pool.WAITING and runtime.settings.warm_sandboxes > 0
