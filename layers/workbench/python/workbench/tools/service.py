"""Whether a tool is in service in a conversation: the breaker's rules (``breaker.py``) on the item they are kept in.

The item ``C#conv/BRK`` is the whole state, so that every function of the deployment sees the same.
"""

from __future__ import annotations

from workbench.clock import iso
from workbench.errors import ToolError
from workbench.keys import breaker_key
from workbench.operations import Condition, Item, Operation, Update, update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.tools import breaker
from workbench.tools.answer import Answer
from workbench.tools.contract import Tool
from workbench.tools.recording import failed

PROBE_TRIES = 3


def admit(runtime: Runtime, conversation: str, state: Item, tool: Tool, digest: str) -> tuple[Item, Answer | None]:
    """The state as it is now, and the answer while the tool is out of service (None: go on).

    After the wait one caller wins a conditional write and works; to the others the tool stays out of service. A
    closed breaker costs nothing.
    """
    now, key = runtime.clock.now(), breaker_key(conversation)
    for _ in range(PROBE_TRIES):
        opened = breaker.check(state, tool, now)
        probe = None if opened else breaker.probe(state, tool, now, digest)
        if opened is not None:
            return state, _out_of_service(opened, now)
        if probe is None:
            return state, None
        before = state[tool.name]["openUntil"]
        unchanged = Condition("#tool.openUntil = :before", {"#tool": tool.name}, {":before": before})
        try:
            runtime.table.update(key, Update().set(tool.name, probe[tool.name]), unchanged)
        except ConditionFailed:
            # Another call tries it, or has just closed it: what stands there now decides.
            state = runtime.table.get(key) or {}
        else:
            return state, None
    tried = breaker.Open(now + tool.budget_seconds, f"Other calls are trying {tool.name} right now. Wait for them.")
    return state, _out_of_service(tried, now)


def after_call(
    runtime: Runtime,
    conversation: str,
    state: Item,
    tool: Tool,
    digest: str,
    outcome: str,
    error: tuple[str | None, str],
) -> list[Operation]:
    """What the call's final write must tell the breaker; nothing without a streak. ``error`` is code and message."""
    now, cooldown = runtime.clock.now(), runtime.settings.breaker_cooldown_seconds
    after = breaker.after(state, tool, outcome, digest, *error, now, cooldown)
    if after is None:
        return []
    change, name = Update(), tool.name
    change = change.set(name, after[name]) if name in after else change.remove(name)
    return [update(breaker_key(conversation), change)]


def _out_of_service(opened: breaker.Open, now: float) -> Answer:
    wait = round(max(0.1, opened.until - now), 1)
    error = ToolError(opened.reason, code="circuit_open", until=iso(opened.until), retryAfterSeconds=wait)
    return failed(error, "circuit_open")
