"""Why an edit is refused. The raiser gives the facts; the class words them: what is wrong, what is there, what next.

``details`` carries the same facts for programs. No refusal names a tool, since the turn may lack it; where lines are
shown whole, ``details["shown"]`` holds their ranges, so that they can count as seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workbench.errors import Advice, ToolError
from workbench.workspace.text.visible import counted, visible

_LINES_LISTED = 20


@dataclass(frozen=True, slots=True)
class Place:
    """Which edit of a call is meant, counted from 1."""

    path: str
    edit: int
    edits: int

    @property
    def prefix(self) -> str:
        return f"Edit {self.edit} of {self.edits}: " if self.edits > 1 else ""


@dataclass(frozen=True, slots=True)
class Excerpt:
    """Lines of the file as a refusal shows them. ``whole`` is the range shown in full, empty when ``last < first``."""

    text: str
    whole: tuple[int, int]
    complete: bool


class Refusal(ToolError):
    """An edit call that changed nothing; ``details`` has ``path`` and, where one edit is to blame, ``edit``."""

    def __init__(self, path: str | None, message: str, **details: Any) -> None:
        super().__init__(f"{message} Nothing was changed.", path=path, **details)


class EditRefusal(Refusal):
    """One edit of the call is to blame, which refuses them all."""

    def __init__(self, place: Place, message: str, **details: Any) -> None:
        super().__init__(place.path, f"{place.prefix}{message}", edit=place.edit, **details)


# ---------------------------------------------------------------- the file


class Binary(Refusal):
    """The file is no text: it holds a NUL byte and begins with no byte-order mark."""

    code = "binary"

    def __init__(self, path: str | None = None) -> None:
        super().__init__(
            path, f"{path or 'The file'} is binary, not text: it has no lines to read or edit. Only code can change it."
        )


class FileTooLarge(Refusal):
    """The file is, or the edit would make it, larger than edits may be."""

    code = "too_large"

    def __init__(self, path: str, size: int, limit: int, *, after: bool) -> None:
        if after:
            message = (
                f"{path} would have {size:,} bytes and may have {limit:,} at most. Put the rest into another file."
            )
        else:
            message = f"{path} has {size:,} bytes; files of up to {limit:,} can be edited. Only code can change it."
        super().__init__(path, message, bytes=size, limit=limit)
        self._after = after

    @property
    def advice(self) -> Advice:
        return "fix_arguments" if self._after else "do_something_else"


class UnsafeEdit(Refusal):
    """The guard: the bytes to be written would differ in more than what was asked for."""

    code = "unsafe_edit"

    def __init__(self, path: str, why: str, **details: Any) -> None:
        super().__init__(path, f"This edit of {path} would change more than it names: {why}", **details)


# ---------------------------------------------------------------- the call


class NoEdits(Refusal):
    code = "no_edits"

    def __init__(self, path: str) -> None:
        super().__init__(path, "The list of edits is empty. Give at least one.")


class TooManyEdits(Refusal):
    code = "too_many_edits"

    def __init__(self, path: str, edits: int, limit: int) -> None:
        message = f"{edits} edits in one call; {limit} are allowed. Edit longer ranges, or send several calls."
        super().__init__(path, message, edits=edits, limit=limit)


class MixedForms(Refusal):
    code = "mixed_forms"

    def __init__(self, path: str) -> None:
        super().__init__(
            path,
            "Some edits name their place by find, others by startLine. Use one form in a call, and two calls for both.",
        )


class EmptyText(EditRefusal):
    """``find`` or ``append`` is empty, which names no place or adds nothing."""

    code = "empty_text"

    def __init__(self, place: Place, parameter: str) -> None:
        advice = (
            "Give text of the file, exactly as it stands there." if parameter == "find" else "Give the text to add."
        )
        super().__init__(place, f"{parameter} is empty. {advice}", parameter=parameter)


class SameText(EditRefusal):
    """``find`` and ``replace`` are equal: a mistake in every case, since the file cannot change by it."""

    code = "no_change"

    def __init__(self, place: Place) -> None:
        super().__init__(place, "find and replace are the same text. Put the new text in replace.")


class InvalidText(EditRefusal):
    """New text that this file cannot hold."""

    code = "invalid_text"

    def __init__(self, place: Place, parameter: str, why: str, **details: Any) -> None:
        super().__init__(place, f"{parameter} {why}", parameter=parameter, **details)


# ---------------------------------------------------------------- ranges and anchors


class RangesOverlap(Refusal):
    """Two edits of a call want the same bytes; reading again cannot cure it."""

    code = "ranges_overlap"

    def __init__(self, path: str, edits: tuple[int, int], ranges: tuple[tuple[int, int], tuple[int, int]]) -> None:
        super().__init__(
            path,
            f"Edits {edits[0]} and {edits[1]} overlap ({span(*ranges[0])} and {span(*ranges[1])}). All edits of a call "
            "mean the file as it was before the call, whatever their order. Join the two into one edit.",
            edits=list(edits),
            ranges=[list(one) for one in ranges],
        )


class RangeReversed(EditRefusal):
    code = "range_reversed"

    def __init__(self, place: Place, first: int, last: int) -> None:
        super().__init__(
            place,
            f"endLine {last} is before startLine {first}. Lines are replaced from startLine to endLine, both included.",
            startLine=first,
            endLine=last,
        )


class RangeOutside(EditRefusal):
    """A line number that the file does not have. ``parameter`` is ``startLine``, ``endLine`` or ``line``."""

    code = "range_outside"

    def __init__(self, place: Place, parameter: str, line: int, lines: int) -> None:
        if lines == 0:
            there = f"{place.path} is empty and has no lines. Use append to write to it."
        else:
            there = (
                f"{place.path} has {counted(lines, 'line')}, counted from 1. To add lines at the end, use append or "
                f"replace line {lines} by itself and the new lines."
            )
        super().__init__(place, f"There is no line {line} ({parameter}): {there}", line=line, lines=lines)


class AnchorIsLastLine(EditRefusal):
    """``anchor`` is the text of the range's last line; reading again will not cure it."""

    code = "anchor_is_last_line"

    def __init__(self, place: Place, first: int, last: int, now: str) -> None:
        super().__init__(
            place,
            f"anchor is the text of line {last}, the last of the range. It must be that of the first, line {first}, "
            f"which reads {visible(now)}. No need to read again: correct anchor, or give this text as endAnchor.",
            startLine=first,
            endLine=last,
            now=now,
        )


class AnchorMoved(EditRefusal):
    """The line does not hold its anchor. ``found`` are the lines that do; ``hint`` says how the two differ."""

    code = "anchor_moved"

    def __init__(
        self,
        place: Place,
        parameter: str,
        line: int,
        now: str,
        found: Sequence[int],
        hint: str | None,
        reads: tuple[int, int],
    ) -> None:
        if hint:
            cure = f"{hint} Correct {parameter} if line {line} is the one you mean."
        elif found:
            cure = f"The text of {parameter} stands on {listed(found)}. Read {span(*reads)} again before you edit."
        else:
            cure = f"The text of {parameter} stands on no line of the file. Read {span(*reads)} again before you edit."
        super().__init__(
            place,
            f"Line {line} of {place.path} now reads {visible(now)}, not what {parameter} says. {cure}",
            parameter=parameter,
            line=line,
            now=now,
            found=list(found[:_LINES_LISTED]),
        )


class _StaleRange(EditRefusal):
    _fault = ""
    _fault_of_one = ""

    def __init__(self, place: Place, first: int, last: int, excerpt: Excerpt) -> None:
        fault, them = (self._fault_of_one, "it") if first == last else (self._fault, "them")
        if excerpt.complete:
            cure = f"Check {them} against your edit and send it again, corrected if need be."
        else:
            cure = f"Read {span(first, last)} in full before you edit {them}."
        super().__init__(
            place,
            f"{span(first, last).capitalize()} of {place.path} {fault}. The file as it stands now:\n"
            f"{excerpt.text}\n{cure}",
            startLine=first,
            endLine=last,
            shown=[list(excerpt.whole)] if excerpt.whole[0] <= excerpt.whole[1] else [],
        )


class ChangedSinceRead(_StaleRange):
    """The turn saw these lines, but somebody else has changed them since."""

    code = "changed_since_read"
    _fault = "changed after this turn last saw them"
    _fault_of_one = "changed after this turn last saw it"


class NotRead(_StaleRange):
    """The turn has not seen all of these lines, and no anchor proves a single one."""

    code = "not_read"
    _fault = "were not all read in this turn"
    _fault_of_one = "was not read in this turn"


# ---------------------------------------------------------------- find


class NotUnique(EditRefusal):
    """``find`` occurs more than once, overlapping occurrences included."""

    code = "not_unique"

    def __init__(self, place: Place, lines: Sequence[int], *, more: bool, line: int | None) -> None:
        distinct = list(dict.fromkeys(lines))
        if line is not None:
            message = f"find occurs more than once on line {line}. Add text around it, so that it is met once there."
        else:
            times = f"more than {len(lines)} times" if more else f"{len(lines)} times"
            alternative = ", or say with line on which line it starts" if len(distinct) > 1 else ""
            message = (
                f"find occurs {times} in {place.path}, on {listed(distinct)}. Add text around it until it is met "
                f"once{alternative}."
            )
        super().__init__(place, message, lines=distinct[:_LINES_LISTED], more=more)


class NotOnLine(EditRefusal):
    """``find`` occurs, but does not start on the line that was asked for."""

    code = "no_match"

    def __init__(self, place: Place, line: int, lines: Sequence[int]) -> None:
        super().__init__(
            place,
            f"find does not start on line {line} of {place.path}, but on {listed(lines)}. Correct line.",
            line=line,
            lines=list(lines[:_LINES_LISTED]),
        )


class NoMatch(EditRefusal):
    """``find`` occurs nowhere. ``near`` is what near_misses says: a sentence, the lines it points to, and facts."""

    code = "no_match"

    def __init__(self, place: Place, near: tuple[str, list[int], dict[str, Any]] | None) -> None:
        cure, lines, facts = near or (
            "Nothing there comes near it: read the file again and copy the text exactly.",
            [],
            {},
        )
        super().__init__(
            place,
            f"find does not occur in {place.path}, exactly as given. {cure}",
            lines=lines[:_LINES_LISTED],
            **facts,
        )


# ---------------------------------------------------------------- words


def span(first: int, last: int) -> str:
    """``line 4`` or ``lines 4-6``."""
    return f"line {first}" if first == last else f"lines {first}-{last}"


def listed(lines: Sequence[int]) -> str:
    """``line 4``, ``lines 1 and 4`` or, of many, the first and how many more."""
    numbers = list(map(str, lines))
    if len(numbers) == 1:
        return f"line {numbers[0]}"
    if len(numbers) > _LINES_LISTED:
        return f"lines {', '.join(numbers[:_LINES_LISTED])} and {len(numbers) - _LINES_LISTED} more"
    return f"lines {', '.join(numbers[:-1])} and {numbers[-1]}"
