"""Edits that name their place by line number, checked against anchors and against what the turn has seen.

The numbers of all edits mean the file before the call. Two slips are forgiven, each on one exact condition and each
told in a note: a line that moved but can be told by its anchor, and a new line that lost its indentation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from workbench.workspace.text.freshness import Freshness, excerpt
from workbench.workspace.text.hunks import Hunk, new_text, with_file_breaks
from workbench.workspace.text.lines import Document, text_lines
from workbench.workspace.text.refusals import (
    AnchorIsLastLine,
    AnchorMoved,
    ChangedSinceRead,
    InvalidText,
    NotRead,
    Place,
    RangeOutside,
    RangeReversed,
    RangesOverlap,
)
from workbench.workspace.text.visible import counted, visible

_LINES_AROUND = 7


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Replace lines ``start_line`` to ``end_line`` (None: that one line) by ``content``; empty content deletes them.

    ``anchor`` and ``end_anchor`` are the texts of the first and the last line as last read; None or empty is no anchor.
    A line break at the end of ``content`` ends its last line and starts no further one, so ``"\\n"`` is one empty line.
    """

    start_line: int
    end_line: int | None = None
    anchor: str | None = None
    end_anchor: str | None = None
    content: str = ""

    @property
    def last(self) -> int:
        return self.start_line if self.end_line is None else self.end_line


@dataclass(frozen=True, slots=True)
class _Target:
    """An edit and the lines it means; ``proven`` when an anchor vouches for a single line."""

    place: Place
    edit: LineEdit
    first: int
    last: int
    proven: bool = False


def line_hunks(
    path: str, document: Document, edits: Sequence[LineEdit], freshness: Freshness
) -> tuple[list[Hunk], list[str]]:
    """(hunks, notes on forgiven slips); raises the first refusal in the documented order."""
    targets = [
        _Target(Place(path, number, len(edits)), edit, edit.start_line, edit.last)
        for number, edit in enumerate(edits, 1)
    ]
    for target in targets:
        if target.last < target.first:
            raise RangeReversed(target.place, target.first, target.last)
    _refuse_overlap(path, targets)
    for target in targets:
        _refuse_outside(document, target)
    notes: list[str] = []
    targets = [_anchored(document, target, notes) for target in targets]
    # A line that was found by its anchor may be one that another edit names.
    _refuse_overlap(path, targets)
    for target in targets:
        _refuse_stale(document, target, freshness)
    hunks = [_hunk(document, target, notes) for target in targets]
    hunks.sort(key=lambda hunk: hunk.first)
    return _keep_unterminated(document, hunks), notes


# ---------------------------------------------------------------- checks, in the order of refusals


def _refuse_overlap(path: str, targets: Sequence[_Target]) -> None:
    ordered = sorted(targets, key=lambda target: (target.first, target.last))
    for one, other in pairwise(ordered):
        if other.first <= one.last:
            first, second = sorted((one, other), key=lambda target: target.place.edit)
            raise RangesOverlap(
                path,
                (first.place.edit, second.place.edit),
                ((first.first, first.last), (second.first, second.last)),
            )


def _refuse_outside(document: Document, target: _Target) -> None:
    for parameter, line in (("startLine", target.first), ("endLine", target.last)):
        if not document.has_line(line):
            raise RangeOutside(target.place, parameter, line, len(document))


def _anchored(document: Document, target: _Target, notes: list[str]) -> _Target:
    """The target with its anchors checked; a single line whose anchor stands on one other line moves there."""
    edit, place = target.edit, target.place
    single = target.first == target.last
    anchor, end_anchor = edit.anchor, edit.end_anchor
    if single and not anchor:
        anchor, end_anchor = end_anchor, None  # the last line is the first one
    if anchor and not _holds(document, target.first, anchor):
        if not single and _holds(document, target.last, anchor):
            raise AnchorIsLastLine(place, target.first, target.last, document.text(target.first))
        found = _lines_holding(document, anchor)
        if not single or len(found) != 1 or _reads_so_already(document, target):
            raise _anchor_moved(document, place, "anchor" if edit.anchor else "endAnchor", target.first, anchor, found)
        notes.append(
            f"{place.prefix}line {target.first} does not read {visible(anchor)}; line {found[0]}, the only one that "
            "does, was edited instead."
        )
        target = replace(target, first=found[0], last=found[0])
    if end_anchor and not _holds(document, target.last, end_anchor):
        found = _lines_holding(document, end_anchor)
        raise _anchor_moved(document, place, "endAnchor", target.last, end_anchor, found)
    return replace(target, proven=single and bool(anchor))


def _reads_so_already(document: Document, target: _Target) -> bool:
    """The numbered line is what the edit makes of it: sent twice, the edit must not look for another victim."""
    wanted = target.edit.content.strip()
    return bool(wanted) and document.text(target.first).strip() == wanted


def _holds(document: Document, line: int, anchor: str) -> bool:
    return document.text(line).rstrip() == anchor.rstrip()


def _lines_holding(document: Document, anchor: str) -> list[int]:
    wanted = anchor.rstrip()
    texts = document.lines(1, len(document))
    return [number for number, text in enumerate(texts, 1) if text.rstrip() == wanted]


def _anchor_moved(
    document: Document, place: Place, parameter: str, line: int, anchor: str, found: list[int]
) -> AnchorMoved:
    from workbench.workspace.text.near_misses import why_anchor_differs

    now = document.text(line)
    near = found[0] if found else line
    reads = (max(1, near - _LINES_AROUND), min(len(document), near + _LINES_AROUND))
    hint = None if found else why_anchor_differs(parameter, anchor, now)
    return AnchorMoved(place, parameter, line, now, found, hint, reads)


def _refuse_stale(document: Document, target: _Target, freshness: Freshness) -> None:
    """A single line needs its anchor or to have been seen; a longer range must have been seen, and still read so."""
    if target.proven:
        return
    state = freshness.state(target.first, target.last)
    if state != "fresh":
        refusal = ChangedSinceRead if state == "changed" else NotRead
        raise refusal(target.place, target.first, target.last, excerpt(document, target.first, target.last))


# ---------------------------------------------------------------- new lines


def _hunk(document: Document, target: _Target, notes: list[str]) -> Hunk:
    place, first, last = target.place, target.first, target.last
    start, (_, end, after) = document.span(first)[0], document.span(last)
    texts = text_lines(target.edit.content)
    if not texts:
        return Hunk(first, last, start, after, b"", 0)
    _refuse_shown_replacement(document, target)
    if first == last and len(texts) == 1:
        indentation = _lost_indentation(document.text(first), texts[0])
        if indentation:
            texts = [indentation + texts[0]]
            notes.append(f"{place.prefix}line {first} keeps its indentation ({_named(indentation)}).")
    new = new_text(document, with_file_breaks(document, "\n".join(texts)), place, "content")
    if end == after and not texts[-1]:
        # Without an ending an empty last line would be no line at all.
        new += document.dominant_ending.encode(document.encoding)
        notes.append(f"{place.prefix}the last line is empty, so the file now ends with a line break.")
    return Hunk(first, last, start, end, new, len(texts))


def _refuse_shown_replacement(document: Document, target: _Target) -> None:
    """Reading shows U+FFFD for bytes that are no text; written back, it would replace them."""
    if "\ufffd" not in target.edit.content:
        return
    was = document.data[document.span(target.first)[0] : document.span(target.last)[1]]
    if document.decode(was).count("\ufffd") > was.count("\ufffd".encode(document.encoding)):
        raise InvalidText(
            target.place,
            "content",
            "holds U+FFFD, and so do these lines as they are shown, where the file has bytes that are no valid text. "
            "Written back, it would destroy them. Change the text around them by find, which keeps them.",
        )


def _lost_indentation(old: str, new: str) -> str:
    """The old line's blanks and tabs when the new line was evidently meant to have them, else nothing."""
    indentation = old[: len(old) - len(old.lstrip(" \t"))]
    meant = new and new[0] not in " \t" and old.strip() != new.strip()
    return indentation if meant else ""


def _named(indentation: str) -> str:
    kinds = [(indentation.count(" "), "space"), (indentation.count("\t"), "tab")]
    return " and ".join(counted(number, kind) for number, kind in kinds if number)


def _keep_unterminated(document: Document, hunks: list[Hunk]) -> list[Hunk]:
    """A file without a final newline keeps having none: when its last lines go, so does the break before them.

    Not when the line before is empty, since without its break it would be gone as well.
    """
    if not hunks or hunks[-1].lines or document.ending(hunks[-1].last) or document.has_line(hunks[-1].last + 1):
        return hunks
    at = len(hunks) - 1
    while at and not hunks[at - 1].lines and hunks[at - 1].last == hunks[at].first - 1:
        at -= 1
    line = hunks[at].first - 1
    if line == 0:
        return hunks
    start, end, _ = document.span(line)
    if at and hunks[at - 1].last == line:
        new = hunks[at - 1].new
        stays_empty = not new or document.ends_line(new)
    else:
        stays_empty = start == end
    if not stays_empty:
        hunks[at] = replace(hunks[at], start=end)
    return hunks
