"""Changes to a file as byte ranges and what replaces them: put in place, guarded, and told.

How the ranges were found is the business of edit_find and edit_lines; here nothing depends on it, so the guard
checks both of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.workspace.text.lines import Document, as_document, encoding_of
from workbench.workspace.text.refusals import FileTooLarge, InvalidText, Place, UnsafeEdit, span
from workbench.workspace.text.seen import Range, Span
from workbench.workspace.text.visible import visible

_LINES_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Hunk:
    """Bytes ``start:end`` become ``new``, by which lines ``first`` to ``last`` become ``lines`` lines.

    Where nothing is replaced, ``last`` is ``first - 1``. A list of hunks is ascending, and no line is in two of them.
    """

    first: int
    last: int
    start: int
    end: int
    new: bytes
    lines: int


@dataclass(frozen=True, slots=True)
class Edited:
    """What an edit call made of a file.

    ``changed`` are line ranges in the new numbering, ascending: after a deletion ``(n, n - 1)``, ``(0, 0)`` when the
    file is empty now. ``shown`` are the changed lines as they now read, at most three of each range. ``moved`` is how
    many lines were added minus how many removed. ``spans`` says which old lines became which new ones, so that
    ``seen.shift`` can tell what the turn has seen of the file as it is now.
    """

    data: bytes
    changed: list[Range]
    notes: list[str]
    shown: list[str]
    moved: int
    spans: list[Span]


def new_text(document: Document, text: str, place: Place, parameter: str) -> bytes:
    """``text`` in the file's encoding, exactly; InvalidText when the file cannot hold it."""
    if "\0" in text and not document.bom:
        raise InvalidText(place, parameter, "holds a NUL character, which would turn the text file into a binary one.")
    try:
        return text.encode(document.encoding)
    except UnicodeEncodeError as error:
        raise half_of_a_pair(place, parameter, error.start) from None


def with_file_breaks(document: Document, text: str) -> str:
    """``text`` with the file's dominant ending for every line break in it."""
    if "\n" not in text and "\r" not in text:
        return text
    return text.replace("\r\n", "\n").replace("\r", "\n").replace("\n", document.dominant_ending)


def half_of_a_pair(place: Place, parameter: str, at: int) -> InvalidText:
    return InvalidText(
        place, parameter, f"holds half of a surrogate pair (character {at + 1}), which is no character.", position=at
    )


def apply_hunks(path: str, document: Document, hunks: Sequence[Hunk], limit_bytes: int) -> Edited:
    """The file with every hunk in place, told but for notes and sight; UnsafeEdit or FileTooLarge change nothing."""
    old = memoryview(document.data)
    pieces: list[bytes | memoryview] = []
    at = 0
    for hunk in hunks:
        pieces += (old[at : hunk.start], hunk.new)
        at = hunk.end
    pieces.append(old[at:])
    data = b"".join(pieces)
    if len(data) > limit_bytes:
        raise FileTooLarge(path, len(data), limit_bytes, after=True)
    _guard(path, document, hunks, data)
    spans = _spans(hunks)
    changed = [(one.new_first, one.new_last) for one in spans]
    if len(data) <= len(document.bom):
        changed = [(0, 0)]
    shown = _shown(document, hunks, spans, data)
    return Edited(data, changed, [], shown, sum(one.grown for one in spans), spans)


def _spans(hunks: Sequence[Hunk]) -> list[Span]:
    spans, moved = [], 0
    for hunk in hunks:
        one = Span(hunk.first, hunk.last, hunk.first + moved, hunk.first + moved + hunk.lines - 1)
        spans.append(one)
        moved += one.grown
    return spans


# ---------------------------------------------------------------- the guard


def _guard(path: str, document: Document, hunks: Sequence[Hunk], data: bytes) -> None:
    """Split the new bytes again and compare: refuse what differs in more than the hunks say.

    Equal bytes split alike except at their rims, where ``\\r`` and ``\\n`` may come together. So the kept bytes are
    compared as they are, and lines are counted anew around each hunk, from the line before it to the line after it.
    """
    if encoding_of(data) != document.encoding:
        raise UnsafeEdit(path, "the file would no longer begin like a text in its encoding.")
    at, shift = 0, 0
    for hunk in [*hunks, None]:
        end = len(document.data) if hunk is None else hunk.start
        if end < at or not data.startswith(document.data[at:end], at + shift):
            raise UnsafeEdit(path, "bytes outside the edited ranges would differ.")
        if hunk is not None:
            at, shift = hunk.end, shift + len(hunk.new) - (hunk.end - hunk.start)
    if len(data) != len(document.data) + shift:
        raise UnsafeEdit(path, "bytes outside the edited ranges would differ.")
    shift = 0
    for group in _neighbourhoods(hunks):
        first, last = group[0].first, group[-1].last
        before, after = max(1, first - 1), last + 1
        start = document.span(before)[0] if document.has_line(before) else group[0].start
        end = document.span(after)[2] if document.has_line(after) else len(document.data)
        grown = sum(len(hunk.new) - (hunk.end - hunk.start) for hunk in group)
        was = len(document.split(document.data[start:end]))
        now = len(document.split(data[start + shift : end + shift + grown]))
        meant = sum(one.grown for one in _spans(group))
        if now - was != meant:
            raise UnsafeEdit(
                path,
                f"near {span(first, max(first, last))}, a line break of the text that stays would join another one "
                f"({now - was:+d} lines instead of {meant:+d}). Replace these lines and the ones beside them together.",
                startLine=first,
                endLine=last,
            )
        shift += grown


def _neighbourhoods(hunks: Sequence[Hunk]) -> list[list[Hunk]]:
    """Hunks in groups with two untouched lines or more between them, so that each has lines of its own around it."""
    groups: list[list[Hunk]] = []
    for hunk in hunks:
        if groups and hunk.first <= groups[-1][-1].last + 2:
            groups[-1].append(hunk)
        else:
            groups.append([hunk])
    return groups


# ---------------------------------------------------------------- showing


def _shown(document: Document, hunks: Sequence[Hunk], spans: Sequence[Span], data: bytes) -> list[str]:
    """The changed lines, read from the new bytes."""
    shown, shift = [], 0
    for hunk, one in zip(hunks, spans, strict=True):
        grown = len(hunk.new) - (hunk.end - hunk.start)
        if hunk.lines == 0:
            shown.append(f"{span(one.old_first, one.old_last)} deleted")
        else:
            start = hunk.start if hunk.last < hunk.first else document.span(hunk.first)[0]
            end = hunk.end if hunk.last < hunk.first else document.span(hunk.last)[2]
            lines = as_document(data[start + shift : end + shift + grown], document.encoding)
            texts = lines.lines(1, min(_LINES_SHOWN, hunk.lines))
            shown += [f"line {number} now: {visible(text)}" for number, text in enumerate(texts, one.new_first)]
            if hunk.lines > _LINES_SHOWN:
                shown.append(f"… and {hunk.lines - _LINES_SHOWN:,} more to line {one.new_last}")
        shift += grown
    return shown
