"""Models that make one known slip each, so that the tool's rules can be measured without a model.

Each is what the slip looks like when nothing else is wrong: a stale number still comes with the line's text, a retyped
neighbour is retyped as one would from memory, with single blanks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from bench.edit_eval.models import Call, Conversation
from bench.edit_eval.tasks import WHITESPACE, Task

PATH, EDITS = "path", "edits"


@dataclass(frozen=True)
class Scripted:
    """``script`` makes the calls for a task; ``meanwhile`` lines are put on top of the file after it was read."""

    name: str
    script: Callable[[Task, int], list[Call]]
    meanwhile: tuple[str, ...] = ()

    def calls(self, conversation: Conversation) -> list[Call]:
        return self.script(conversation.task, conversation.attempt)


def _edit(task: Task, **edit: Any) -> Call:
    return Call("edit_file", {PATH: task.path, EDITS: [edit]})


def _by_line(task: Task, number: int | str, content: str, anchor: str | None) -> list[Call]:
    edit = {"startLine": number, "content": content}
    return [_edit(task, **edit, **({"anchor": anchor} if anchor is not None else {}))]


def flawless(task: Task, attempt: int) -> list[Call]:
    """By number with the line's text, and by text, in turn."""
    if attempt % 2:
        return [_edit(task, find=task.old, replace=task.new, line=task.number)]
    return _by_line(task, task.number, task.new, task.old)


def lost_indentation(task: Task, _attempt: int) -> list[Call]:
    """The new line as people say it: ``return 10``. A change of white space has no such slip."""
    content = task.new if task.kind == WHITESPACE else task.new.lstrip()
    return _by_line(task, task.number, content, task.old)


def off_by_one(task: Task, attempt: int) -> list[Call]:
    """The line above or below the right one, with the right line's text."""
    number = task.number + (1 if attempt == 1 and task.number < len(task.lines) else -1)
    return _by_line(task, max(1, number) if number != 0 else 2, task.new, task.old)


def further_off(task: Task, attempt: int) -> list[Call]:
    """Some other line, with the right line's text."""
    others = [number for number in range(1, len(task.lines) + 1) if abs(number - task.number) > 1]
    return _by_line(task, others[attempt % len(others)] if others else task.number, task.new, task.old)


def stale_number(task: Task, _attempt: int) -> list[Call]:
    """A right number, but the file has grown at the top since it was read."""
    return _by_line(task, task.number, task.new, task.old)


def stale_number_alone(task: Task, _attempt: int) -> list[Call]:
    """The same without the line's text."""
    return _by_line(task, task.number, task.new, None)


def retyped_neighbour(task: Task, _attempt: int) -> list[Call]:
    """The line and the next one (or the one before), both retyped: in what to find and in what to put there."""
    last = task.number == len(task.lines)
    neighbour = re.sub(r"(?<=\S)[ \t]{2,}(?=\S)", " ", task.lines[task.number - 2 if last else task.number])
    find, replace = (f"{neighbour}\n{line}" if last else f"{line}\n{neighbour}" for line in (task.old, task.new))
    return [_edit(task, find=find, replace=replace)]


def line_as_text(task: Task, attempt: int) -> list[Call]:
    """The number as a text, which can be converted, and as words, which cannot."""
    return _by_line(task, str(task.number) if attempt % 2 else f"line {task.number}", task.new, task.old)


def empty_find(task: Task, _attempt: int) -> list[Call]:
    return [_edit(task, find="", replace=task.new, line=task.number)]


def no_call(_task: Task, _attempt: int) -> list[Call]:
    return []


def several_calls(task: Task, _attempt: int) -> list[Call]:
    """The right edit, and then once more."""
    return _by_line(task, task.number, task.new, task.old) * 2


ABOVE = ("# generated", "# do not edit by hand")
SCRIPTED: tuple[Scripted, ...] = (
    Scripted("flawless", flawless),
    Scripted("lost indentation", lost_indentation),
    Scripted("off by one", off_by_one),
    Scripted("further off", further_off),
    Scripted("stale number", stale_number, ABOVE),
    Scripted("stale number, no anchor", stale_number_alone, ABOVE),
    Scripted("retyped neighbour", retyped_neighbour),
    Scripted("line sent as text", line_as_text),
    Scripted("empty find", empty_find),
    Scripted("no call", no_call),
    Scripted("several calls", several_calls),
)
