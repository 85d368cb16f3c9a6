"""When a tool is taken out of service for a while, so that a looping model stops paying for the same failure.

A pure state machine over the plain map that the item ``C#conv/BRK`` keeps, one entry per tool that has a streak:
``{streak, same, digest, code, message, openUntil, probe?}``. It tells looping from exploring: three times the *same*
call with the same error opens it, other failures only after the tool's own number in a row.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.clock import iso
from workbench.tools.contract import Tool

SAME_CALLS = 3
COOLDOWN_SECONDS = 30.0
MESSAGE_CHARACTERS = 300

Entry = dict[str, Any]
State = Mapping[str, Entry]

_COUNTED = frozenset({"error", "timeout", "invalid_args"})
# Somebody else's work or load: no fault of the call, no sign of a loop.
_NOT_THE_CALL = frozenset({"workspace_busy", "throttled"})
# The tool did its work; what failed is the program that the model wrote, and trying again is how programs get right.
_THE_PROGRAM = frozenset({"SANDBOX_ERROR", "SANDBOX_MEMORY", "SANDBOX_DISK", "SANDBOX_OUTPUT_TOO_LARGE"})


@dataclass(frozen=True, slots=True)
class Open:
    """The tool is out of service until ``until`` (Unix seconds); ``reason`` says what kept failing."""

    until: float
    reason: str


def check(state: State, tool: Tool, now: float) -> Open | None:
    """None when the call may go on, else until when the tool is out of service and why."""
    entry = state.get(tool.name)
    if not entry or entry["openUntil"] <= now:
        return None
    return Open(entry["openUntil"], _reason(tool, entry))


def probe(state: State, tool: Tool, now: float, digest: str) -> dict[str, Entry] | None:
    """The state to write before a half-open call, or None when the breaker is closed and nothing needs writing.

    The write must be conditional on the entry's old ``openUntil``: of several callers one wins and works, to the
    others the breaker is still open. A caller that dies gives way to the next after the tool's budget. ``digest`` is
    the call's, so that :func:`after` knows the probe again.
    """
    entry = state.get(tool.name)
    if not entry or not entry["openUntil"] or entry["openUntil"] > now:
        return None
    return {**state, tool.name: {**entry, "openUntil": now + tool.budget_seconds, "probe": digest}}


def after(
    state: State,
    tool: Tool,
    outcome: str,
    digest: str,
    code: str | None,
    message: str,
    now: float,
    cooldown: float = COOLDOWN_SECONDS,
) -> dict[str, Entry] | None:
    """The state after a call, or None when it is unchanged.

    ``digest`` is the arguments', ``code`` and ``message`` the error's; ``cooldown`` is in seconds.
    """
    entry = state.get(tool.name)
    opened = entry["openUntil"] if entry else 0
    # While the breaker is open only its probe counts: what is turned away must neither prolong nor end the wait.
    if entry and outcome != "ok" and opened > now and (entry.get("probe") != digest or outcome == "circuit_open"):
        return None
    if outcome == "ok" or code in _THE_PROGRAM:
        return {name: other for name, other in state.items() if name != tool.name} if entry else None
    if outcome not in _COUNTED or code in _NOT_THE_CALL:
        # A probe that says nothing about the tool makes room for the next one at once.
        return {**state, tool.name: {**entry, "openUntil": now}} if entry and opened else None
    again = entry is not None and (entry["digest"], entry["code"]) == (digest, code)
    streak = entry["streak"] + 1 if entry else 1
    same = entry["same"] + 1 if entry and again else 1
    opens = opened > 0 or same >= SAME_CALLS or streak >= tool.breaker_after
    failed = {
        "streak": streak,
        "same": same,
        "digest": digest,
        "code": code,
        "message": message[:MESSAGE_CHARACTERS],
        "openUntil": now + cooldown if opens else 0,
    }
    return {**state, tool.name: failed}


def _reason(tool: Tool, entry: Entry) -> str:
    what = (
        f"the same call failed {entry['same']} times in a row"
        if entry["same"] >= SAME_CALLS
        else f"its last {entry['streak']} calls failed"
    )
    return (
        f"{tool.name} is out of service until {iso(entry['openUntil'])}, because {what}. "
        f"What kept failing: {entry['message'].rstrip('.')}. Until then, do something else; then change the arguments."
    )
