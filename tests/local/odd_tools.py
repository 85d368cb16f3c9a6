"""Tools that behave in ways that no tool of the product should, to be called through the real path.

They are reached like any other: a test puts them into the catalogue's table. What they shall do next is set on
``BEHAVIOUR``, because a tool's function keeps no state of its own.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated

from pydantic import Field

from local.work import Work
from workbench.errors import ToolError
from workbench.tools.answer import Answer
from workbench.tools.contract import tool
from workbench.tools.turn import Turn

HERE = "tests.local.odd_tools"
NAMES = (
    "slow_write",
    "patient_write",
    "slow_read",
    "flaky_read",
    "flaky_write",
    "wordy",
    "fussy",
    "other_fussy",
)
TABLE = {name: {"1.0.0": f"{HERE}:{name}"} for name in NAMES}


@dataclass
class Behaviour:
    """What the tools do: ``go`` lets slow ones go on, ``woken`` says that they did, ``failures`` are raised in turn."""

    go: threading.Event = field(default_factory=threading.Event)
    started: threading.Event = field(default_factory=threading.Event)
    woken: threading.Event = field(default_factory=threading.Event)
    failures: list[Exception] = field(default_factory=list)
    text: str = ""
    calls: int = 0
    at_work: Callable[[Turn], None] = lambda _turn: None


BEHAVIOUR = Behaviour()
# The budget, in seconds, of tools that must not run out of it, even when the machine stands still for a while.
PATIENCE = 30.0
# The calls of tools that wait, also of those that nobody waits for any more.
WAITING = Work()


@tool(step="write", risk="moderate", budget=0.4)
def slow_write(turn: Turn) -> Answer:
    """Write a file, after a while."""
    return _write(turn)


@tool(step="write", risk="moderate", budget=PATIENCE)
def patient_write(turn: Turn) -> Answer:
    """Write a file, with time to wait."""
    return _write(turn)


def _write(turn: Turn) -> Answer:
    with WAITING.piece():
        turn.workspace.write("late.txt", b"before the wait")
        _sleep(turn)
        turn.workspace.write("late.txt", b"after the wait")
        BEHAVIOUR.woken.set()
    return Answer.of("written")


@tool(step="read", budget=0.4)
def slow_read(turn: Turn) -> Answer:
    """Answer, after a while."""
    with WAITING.piece():
        _sleep(turn)
        turn.seen.saw("a.txt", "0" * 64, [(1, 9)], 0)
        BEHAVIOUR.woken.set()
    return Answer.of("read")


def _sleep(turn: Turn) -> None:
    BEHAVIOUR.calls += 1
    BEHAVIOUR.started.set()
    BEHAVIOUR.go.wait(30)
    BEHAVIOUR.at_work(turn)


@tool(step="read", budget=PATIENCE, retries=2)
def flaky_read(turn: Turn) -> Answer:
    """Fail as told, then answer."""
    return _flaky(turn)


@tool(step="write", budget=PATIENCE)
def flaky_write(turn: Turn) -> Answer:
    """Fail as told, then write."""
    return _flaky(turn)


def _flaky(turn: Turn) -> Answer:
    BEHAVIOUR.calls += 1
    if turn.tool.startswith("flaky_write"):
        turn.workspace.write("flaky.txt", b"written")
    else:
        turn.seen.saw(f"seen-{BEHAVIOUR.calls}.txt", "0" * 64, [(1, 1)], 0)
    if BEHAVIOUR.failures:
        raise BEHAVIOUR.failures.pop(0)
    return Answer.of("done")


@tool(step="read", budget=PATIENCE)
def wordy(turn: Turn) -> Answer:
    """Say what it was told to say."""
    return Answer.of(BEHAVIOUR.text)


@tool(step="read", budget=PATIENCE, breaker=3)
def fussy(
    turn: Turn,
    word: Annotated[str, Field(description="Refused unless it is fine.")] = "fine",
    code: Annotated[str, Field(description="The code of the refusal.")] = "not_found",
) -> Answer:
    """Refuse every word but one.

    Args:
        word: Refused unless it is fine.
        code: The code of the refusal.
    """
    BEHAVIOUR.calls += 1
    if word == "slow":
        _sleep(turn)
    elif word != "fine":
        raise ToolError(f"{word} is refused", code=code)
    return Answer.of("fine")


@tool(step="read", budget=PATIENCE, breaker=8)
def other_fussy(turn: Turn, word: Annotated[str, Field(description="Refused unless it is fine.")] = "fine") -> Answer:
    """Refuse every word but one, patiently.

    Args:
        word: Refused unless it is fine.
    """
    if word != "fine":
        raise ToolError(f"{word} is refused", code="not_found")
    return Answer.of("fine")
