"""Edits that name their place by its exact text. Nothing is matched loosely, except that a line break is any ending."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice, pairwise

from workbench.workspace.text.hunks import Hunk, half_of_a_pair, new_text, with_file_breaks
from workbench.workspace.text.lines import Document, as_document
from workbench.workspace.text.refusals import (
    EmptyText,
    NoMatch,
    NotOnLine,
    NotUnique,
    Place,
    RangeOutside,
    RangesOverlap,
    SameText,
)

# Enough to list in a refusal; nobody needs to know about the thousandth.
_OCCURRENCES_LISTED = 100


@dataclass(frozen=True, slots=True)
class FindEdit:
    """Replace the one place where ``find`` stands by ``replace``; ``line`` picks the one that starts on that line."""

    find: str
    replace: str
    line: int | None = None


@dataclass(frozen=True, slots=True)
class _Match:
    """Bytes ``start:end`` of the file, on lines ``first`` to ``last``, and what replaces them."""

    start: int
    end: int
    first: int
    last: int
    new: bytes
    edit: int


def find_hunks(path: str, document: Document, edits: Sequence[FindEdit]) -> list[Hunk]:
    """Where every edit's text stands; raises unless each is met exactly once and no two share a byte."""
    haystack = Haystack(document, [edit.find for edit in edits])
    places = [Place(path, number, len(edits)) for number in range(1, len(edits) + 1)]
    for place, edit in zip(places, edits, strict=True):
        _check(place, edit)
    matches = [
        _match(haystack, place, edit, [other.replace for other in edits if other is not edit])
        for place, edit in zip(places, edits, strict=True)
    ]
    matches.sort(key=lambda match: match.start)
    for one, other in pairwise(matches):
        if other.start < one.end:
            raise RangesOverlap(path, (one.edit, other.edit), ((one.first, one.last), (other.first, other.last)))
    return _by_line(document, matches)


def _check(place: Place, edit: FindEdit) -> None:
    if not edit.find:
        raise EmptyText(place, "find")
    try:
        edit.find.encode()
    except UnicodeEncodeError as error:
        raise half_of_a_pair(place, "find", error.start) from None
    if edit.find == edit.replace:
        raise SameText(place)


class Haystack:
    """Where texts stand in a file. Its own bytes are searched where they are UTF-8 and no ending can be in the way.

    Otherwise its text is, as one run of UTF-8 in which every ending is ``\\n``. One plain search then finds any ending,
    and none can stop between ``\\r`` and ``\\n``: what it finds is a line and a place in it, the same in the file.
    """

    def __init__(self, document: Document, finds: Sequence[str]) -> None:
        self.document = document
        alike = b"\r" not in document.data or not any("\n" in find or "\r" in find for find in finds)
        if document.encoding == "utf-8" and alike:
            self._lines = document
            return
        body = document.data[len(document.bom) :]
        if document.encoding != "utf-8":
            whole = len(body) // 2 * 2
            text = body[:whole].decode(document.encoding, "surrogatepass")
            body = text.encode("utf-8", "surrogatepass") + b"\xff" * (len(body) - whole)
        self._lines = as_document(body.replace(b"\r\n", b"\n").replace(b"\r", b"\n"), "utf-8")

    def occurrences(self, find: str, line: int | None = None) -> Iterator[int]:
        """Where ``find`` begins, overlapping occurrences too; only those that begin on ``line`` when it is given."""
        needle, data = self.needle(find), self._lines.data
        start, stop = len(self._lines.bom), len(data)
        if line is not None:
            start, _, after = self._lines.span(line)
            stop = min(stop, after + len(needle) - 1)
        while (start := data.find(needle, start, stop)) >= 0:
            yield start
            start += 1

    @staticmethod
    def needle(find: str) -> bytes:
        return find.replace("\r\n", "\n").replace("\r", "\n").encode()

    def line_at(self, offset: int) -> int:
        return self._lines.line_at(offset)

    def text(self) -> str:
        """The whole text, every ending as ``\\n``."""
        text = self._lines.decode(self._lines.data[len(self._lines.bom) :])
        return text.replace("\r\n", "\n").replace("\r", "\n")

    def in_file(self, offset: int) -> int:
        """The place in the file of a place in the haystack."""
        if self._lines is self.document:
            return offset
        if offset == len(self._lines.data):
            return len(self.document.data)
        line = self._lines.line_at(offset)
        before = self._lines.data[self._lines.span(line)[0] : offset]
        if self.document.encoding != "utf-8":
            before = before.decode("utf-8", "surrogatepass").encode(self.document.encoding, "surrogatepass")
        return self.document.span(line)[0] + len(before)


def _match(haystack: Haystack, place: Place, edit: FindEdit, others: list[str]) -> _Match:
    document = haystack.document
    if edit.line is not None and not document.has_line(edit.line):
        raise RangeOutside(place, "line", edit.line, len(document))
    found: list[int] = []
    for start in haystack.occurrences(edit.find, edit.line):
        found.append(start)
        if len(found) > (1 if edit.line is not None else _OCCURRENCES_LISTED):
            break
    if not found and edit.line is not None:
        elsewhere = islice(haystack.occurrences(edit.find), _OCCURRENCES_LISTED)
        lines = list(dict.fromkeys(map(haystack.line_at, elsewhere)))
        if lines:
            raise NotOnLine(place, edit.line, lines)
    if not found:
        from workbench.workspace.text.near_misses import why_no_match

        raise NoMatch(place, why_no_match(edit.find, haystack.text(), others))
    if len(found) > 1:
        lines = [haystack.line_at(start) for start in found[:_OCCURRENCES_LISTED]]
        raise NotUnique(place, lines, more=len(found) > _OCCURRENCES_LISTED, line=edit.line)
    first = found[0]
    after = first + len(haystack.needle(edit.find))
    new = new_text(document, with_file_breaks(document, edit.replace), place, "replace")
    return _Match(
        haystack.in_file(first),
        haystack.in_file(after),
        haystack.line_at(first),
        haystack.line_at(after - 1),
        new,
        place.edit,
    )


def _by_line(document: Document, matches: Sequence[_Match]) -> list[Hunk]:
    """Matches as hunks: those that share a line, or whose lines become one, belong together."""
    groups: list[_Group] = []
    for match in matches:
        if groups and match.first <= groups[-1].last:
            group = groups[-1]
            group.pieces += (document.data[group.end : match.start], match.new)
            group.last, group.end = max(group.last, match.last), match.end
        else:
            groups.append(_Group(match.first, match.last, match.start, match.end, [match.new]))
        _take_in_what_joins(document, groups[-1])
    return [
        Hunk(group.first, group.last, group.start, group.end, b"".join(group.pieces), _line_count(document, group))
        for group in groups
    ]


@dataclass(slots=True)
class _Group:
    """A hunk in the making; ``pieces`` are new texts and, between them, what is kept."""

    first: int
    last: int
    start: int
    end: int
    pieces: list[bytes]

    def whole_lines(self, document: Document) -> list[bytes]:
        """The pieces with what is kept of the first and the last line around them."""
        before = document.data[document.span(self.first)[0] : self.start]
        after = document.data[self.end : document.span(self.last)[2]]
        return [before, *self.pieces, after]


def _take_in_what_joins(document: Document, group: _Group) -> None:
    """Where the last line loses its ending, the line that follows becomes part of it."""
    text = b"".join(group.whole_lines(document))
    if text and not document.ends_line(text) and document.has_line(group.last + 1):
        group.last += 1


def _line_count(document: Document, group: _Group) -> int:
    """Lines by the breaks in each piece: the guard then notices when the breaks of two pieces have become one."""
    pieces = group.whole_lines(document)
    text = b"".join(pieces)
    return sum(map(document.breaks_in, pieces)) + (bool(text) and not document.ends_line(text))
