"""What a trial was: the slips in its calls, how it ended, and what an editor without rules would have done. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from bench.edit_eval.models import Call
from bench.edit_eval.tasks import Task

# The classes of failure, in the order in which a trial is given one.
NO_CALL, SEVERAL_CALLS, OTHER_CALL = "no_call", "several_calls", "other_call"
LINE_AS_TEXT, EMPTY_FIND, RETYPED = "line_as_text", "empty_find", "retyped_neighbour"
OFF_BY_ONE, FURTHER_OFF, LOST_INDENTATION = "off_by_one", "further_off", "lost_indentation"
OTHER = "other"
CLASSES = (
    LOST_INDENTATION,
    OFF_BY_ONE,
    FURTHER_OFF,
    RETYPED,
    NO_CALL,
    SEVERAL_CALLS,
    LINE_AS_TEXT,
    EMPTY_FIND,
    OTHER_CALL,
    OTHER,
)


def failure(task: Task, calls: Sequence[Call]) -> str:
    """The class of a trial that did not end as it should."""
    found = slips(task, calls)
    return found[0] if found else OTHER


def slips(task: Task, calls: Sequence[Call]) -> list[str]:
    """Everything that is wrong with the calls, the most telling first; ``task`` is as the file stood at the call."""
    if not calls:
        return [NO_CALL]
    found = [] if len(calls) == 1 else [SEVERAL_CALLS]
    call = calls[0]
    edits = edits_of(call)
    if call.tool != "edit_file" or not edits:
        return [*found, OTHER_CALL]
    edit = edits[0]
    number = _number(edit.get("startLine", edit.get("line")))
    content = edit.get("content", edit.get("replace"))
    if any(isinstance(edit.get(name), str) for name in ("startLine", "endLine", "line")):
        found.append(LINE_AS_TEXT)
    if edit.get("find") == "":
        found.append(EMPTY_FIND)
    if number is not None and number != task.number:
        found.append(OFF_BY_ONE if abs(number - task.number) == 1 else FURTHER_OFF)
    if isinstance(content, str):
        if len(content.rstrip("\r\n").splitlines()) > 1 and "endLine" not in edit:
            found.append(RETYPED)
        elif content.strip() == task.new.strip() and content.rstrip() != task.new.rstrip():
            found.append(LOST_INDENTATION)
    return found


def edits_of(call: Call) -> list[dict[str, Any]]:
    """The edits of a call in whatever form they came; none when there are none to be read."""
    arguments = _decoded(call.arguments)
    edits = _decoded(arguments.get("edits")) if isinstance(arguments, dict) else None
    edits = [edits] if isinstance(edits, dict) else edits
    return [edit for edit in edits if isinstance(edit, dict)] if isinstance(edits, list) else []


def blindly(task: Task, calls: Sequence[Call]) -> bytes:
    """What an editor would have written that takes numbers as they are and finds text whatever its white space."""
    lines = list(task.lines)
    for call in calls:
        for edit in edits_of(call):
            number = _number(edit.get("startLine"))
            if number is not None and 1 <= number <= len(lines):
                lines[number - 1 : number] = str(edit.get("content", "")).split("\n")
            elif edit.get("find"):
                _replace_loosely(lines, str(edit["find"]), str(edit.get("replace", "")), _number(edit.get("line")))
    text = task.ending.join(lines) + (task.ending if task.final_newline else "")
    return task.mark + text.encode()


def _replace_loosely(lines: list[str], find: str, replace: str, number: int | None) -> None:
    wanted = [_loose(line) for line in find.split("\n")]
    for start in range(len(lines) - len(wanted) + 1):
        if [_loose(line) for line in lines[start : start + len(wanted)]] == wanted and number in (None, start + 1):
            lines[start : start + len(wanted)] = replace.split("\n")
            return


def _loose(line: str) -> str:
    return " ".join(line.split())


def _number(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        digits = re.search(r"\d+", value)
        return int(digits[0]) if digits else None
    return int(value) if isinstance(value, int | float) else None


def _decoded(value: Any) -> Any:
    try:
        return json.loads(value) if isinstance(value, str) else value
    except ValueError:
        return None
