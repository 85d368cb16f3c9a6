"""Literal queries against the lines of a text: which lines hold which query, and where.

Nothing is a pattern. Positions and line numbers always mean the original text, also where upper and lower case are
taken as equal: there, two texts are equal when Unicode's full case folding makes them so, and a match covers whole
characters (``strasse`` is found in ``straße``; ``s`` is not half of ``ß``).
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from workbench.errors import ToolError
from workbench.workspace.paths import printable
from workbench.workspace.text.lines import Document

QUERIES = 5
QUERY_CHARACTERS = 1_000
# Far more lines of one file than an answer has room for; what follows them is not looked at.
LINES_PER_QUERY = 4_000

# A block of nothing but matches gives a list of as many tuples, so blocks bound the memory of a scan.
_BLOCK_BYTES = 128 * 1024
# With several patterns the library may look for a few rare bytes of them instead of their beginnings. On prose that
# is up to ten times slower (tried), and four more beginnings rule it out. UTF-8 has none of these bytes.
_NEVER_IN_TEXT = [bytes([byte] * 4) for byte in (0xF8, 0xF9, 0xFA, 0xFB)]
# After a file with so many matches the next one is likely to be such a file, too.
_DENSE_MATCHES = 64
_LINES_AT_ONCE = 2_000


class InvalidQueries(ToolError):
    """Not one to five literal texts; the message names the rule."""

    code = "invalid_args"


def check_queries(queries: object) -> list[str]:
    """The queries in order, each once; a lone text counts as a list of one. Raises :class:`InvalidQueries`."""
    given = [queries] if isinstance(queries, str) else queries
    if not isinstance(given, Sequence) or not all(isinstance(query, str) for query in given):
        raise InvalidQueries("`queries` must be a list of texts.", argument="queries")
    if not 1 <= len(given) <= QUERIES:
        raise InvalidQueries(
            f"`queries` holds {len(given)} texts; give 1 to {QUERIES}. Search for the others in a second call.",
            argument="queries",
        )
    for number, query in enumerate(given, 1):
        fault = _fault(query)
        if fault:
            raise InvalidQueries(
                f"Query {number} of `queries` {fault}.", argument="queries", query=printable(query[:80])
            )
    return list(dict.fromkeys(given))


def _fault(query: str) -> str | None:
    if not query:
        return "is empty, which would be found everywhere. Give the text to look for"
    if len(query) > QUERY_CHARACTERS:
        return f"has {len(query)} characters; at most {QUERY_CHARACTERS} are searched for. Give a telling part of it"
    if "\n" in query or "\r" in query:
        return "spans lines; a query is text within one line. Search for its first line, with context for the rest"
    if any("\ud800" <= character <= "\udfff" for character in query):
        return "holds half a character (a lone surrogate), which no file can. Take it out"
    return None


@dataclass(frozen=True, slots=True)
class LineHit:
    """A line and the indexes of the queries it holds, ascending."""

    line: int
    queries: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Found:
    """The lines of one file that hold a query, ascending; ``more`` when the file may have others after the last."""

    lines: list[LineHit]
    more: bool = False


class Matcher:
    """Checked queries, ready for many files."""

    def __init__(self, queries: Sequence[str], *, ignore_case: bool = False) -> None:
        # Imported here: only a search needs it.
        from ahocorasick_rs import BytesAhoCorasick, MatchKind

        self.queries = tuple(queries)
        self.ignore_case = ignore_case
        self._wanted = [query.casefold() if ignore_case else query for query in queries]
        # Where case is ignored only ASCII files are scanned as bytes, and no other query can be in one.
        self._needles = [query.encode() for query in self._wanted if query.isascii() or not ignore_case]
        self._overlap = max(map(len, self._needles), default=1) - 1
        # Leftmost-first is the kind that has a vectorised scan.
        patterns = self._needles + _NEVER_IN_TEXT if len(self._needles) > 1 else self._needles
        automaton = BytesAhoCorasick(patterns, matchkind=MatchKind.LeftmostFirst) if patterns else None
        self._scan: Callable[[bytes | memoryview], list[tuple[int, int, int]]] = (
            automaton.find_matches_as_indexes if automaton else lambda _: []
        )
        self._dense = False

    def may_match(self, data: bytes) -> bool:
        """False when no line of these UTF-8 bytes holds a query; quick, because that is what most files are."""
        if self.ignore_case:
            if not data.isascii():
                return True
            data = data.lower()
        if self._dense:
            # The scan would list every match of such a file; this stops at the first.
            self._dense = any(needle in data for needle in self._needles)
            return self._dense
        if len(data) <= _BLOCK_BYTES:
            matches = self._count(data)
        else:
            view = memoryview(data)
            starts = range(0, len(data), _BLOCK_BYTES)
            blocks = (view[start : start + _BLOCK_BYTES + self._overlap] for start in starts)
            matches = next((count for block in blocks if (count := self._count(block))), 0)
        self._dense = matches > _DENSE_MATCHES
        return matches > 0

    def _count(self, block: bytes | memoryview) -> int:
        matches = self._scan(block)
        return sum(pattern < len(self._needles) for pattern, _, _ in matches) if matches else 0

    def is_exact(self, data: bytes) -> bool:
        """True when :meth:`may_match` is not a guess for these bytes."""
        return not self.ignore_case or data.isascii()

    def find(self, document: Document) -> Found:
        """The lines of a text that hold a query; each hit is credited to all queries the line holds."""
        if not self.ignore_case:
            return self._find_bytes(
                document, document.data, [query.encode(document.encoding) for query in self._wanted]
            )
        if document.encoding == "utf-8" and document.data.isascii():
            return self._find_bytes(document, document.data.lower(), [query.encode() for query in self._wanted])
        return self._find_folded(document)

    def positions(self, text: str, limit: int) -> list[tuple[int, int, int]]:
        """(start, end, query index) of at most ``limit`` matches of each query in one line, in order of start."""
        folded, starts = self._folded(text)
        found: list[tuple[int, int, int]] = []
        for index, query in enumerate(self._wanted):
            taken, at = 0, folded.find(query)
            while at >= 0 and taken < limit:
                place = _whole(starts, at, at + len(query))
                if place is None:
                    at = folded.find(query, at + 1)
                    continue
                found.append((*place, index))
                taken += 1
                at = folded.find(query, at + len(query))
        return sorted(found)

    def _folded(self, text: str) -> tuple[str, list[int] | None]:
        """The text as it is compared and, where folding made it longer, where each of its characters starts there."""
        if not self.ignore_case:
            return text, None
        folded = text.casefold()
        # Folding never drops a character, so equal lengths mean that each became exactly one.
        if len(folded) == len(text):
            return folded, None
        starts = [0]
        for character in text:
            starts.append(starts[-1] + len(character.casefold()))
        return folded, starts

    def _find_bytes(self, document: Document, haystack: bytes, needles: list[bytes]) -> Found:
        """By byte offsets; ``haystack`` has the same offsets as the document's bytes."""
        by_query = [list(_hit_lines(document, haystack, needle)) for needle in needles]
        return _merged(by_query)

    def _find_folded(self, document: Document) -> Found:
        """Line by line, for texts whose folded form has other offsets; a stretch without a hit is passed over."""
        by_query: list[list[int]] = [[] for _ in self._wanted]
        first = 1
        while document.has_line(first) and not all(len(lines) >= LINES_PER_QUERY for lines in by_query):
            last = first + _LINES_AT_ONCE - 1
            texts = document.lines(first, last if document.has_line(last) else len(document))
            stretch = "\n".join(texts).casefold()
            wanted = [index for index, query in enumerate(self._wanted) if query in stretch]
            for number, text in enumerate(texts if wanted else [], first):
                folded = text.casefold()
                if any(self._wanted[index] in folded for index in wanted):
                    for index in {index for _, _, index in self.positions(text, 1)}:
                        by_query[index].append(number)
            first = last + 1
        return _merged([lines[:LINES_PER_QUERY] for lines in by_query])


def _whole(starts: list[int] | None, start: int, end: int) -> tuple[int, int] | None:
    """The characters that a stretch of folded text is; None when it begins or ends inside one."""
    if starts is None:
        return start, end
    first, last = bisect_left(starts, start), bisect_left(starts, end)
    return (first, last) if starts[first] == start and starts[last] == end else None


def _hit_lines(document: Document, haystack: bytes, needle: bytes) -> Iterator[int]:
    """Lines in which ``needle`` stands, each once, at most LINES_PER_QUERY."""
    unit, begin = document.unit_bytes, len(document.bom)
    at = haystack.find(needle, begin)
    found = 0
    while at >= 0 and found < LINES_PER_QUERY:
        if (at - begin) % unit:
            # Halves of two UTF-16 units that look like one.
            at = haystack.find(needle, at + 1)
            continue
        line = document.line_at(at)
        yield line
        found += 1
        at = haystack.find(needle, document.span(line)[2])


def _merged(by_query: list[list[int]]) -> Found:
    """Hits of all queries by line; complete up to where the first query that had too many was given up."""
    given_up = [lines[-1] for lines in by_query if len(lines) >= LINES_PER_QUERY]
    end = min(given_up, default=None)
    queries: dict[int, list[int]] = {}
    for index, lines in enumerate(by_query):
        for line in lines:
            if end is None or line <= end:
                queries.setdefault(line, []).append(index)
    return Found([LineHit(line, tuple(queries[line])) for line in sorted(queries)], more=end is not None)
