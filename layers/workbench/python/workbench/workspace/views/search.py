"""Literal search over many files: one pass over each, one character budget over all, and no file starves another.

Files come as paths with a way to load their bytes, in path order. What is found is rendered as ``N:`` and the line for
a match, ``N-`` and the line for context, each after a tab, under the path it belongs to.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.workspace.paths import printable
from workbench.workspace.text.lines import Document, is_text, parse
from workbench.workspace.views.excerpts import PLACES_SHOWN, WHOLE_LINE_CHARACTERS, beginning, excerpt
from workbench.workspace.views.matching import Found, Matcher, check_queries

SEARCH_BUDGET_CHARACTERS = 24_000
CONTEXT_LINES = 3
SKIPPED_NAMED = 3

_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_BETWEEN = "\n\n"
_NAME_CHARACTERS = 200

Loader = Callable[[], bytes | None]


@dataclass(frozen=True, slots=True)
class Match:
    """A line that holds the named queries, and that is in the text."""

    path: str
    line: int
    queries: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SearchResult:
    """What is shown and what is known of the rest.

    ``matches`` are exactly the matching lines in ``text``. ``shown`` holds, by path, the ranges of lines shown whole.
    ``searched`` of ``total`` files were looked at, ``skipped`` of them only to see that they are binary;
    ``matching_files`` hold a query. ``next`` is the path behind which a further search finds what is missing here,
    None when only narrower queries would.
    """

    text: str
    matches: tuple[Match, ...]
    shown: dict[str, tuple[tuple[int, int], ...]]
    searched: int
    total: int
    skipped: int
    matching_files: int
    truncated: bool
    next: str | None

    def structured(self) -> dict[str, Any]:
        """``{matches: [{path, line, queries}], skipped, truncated, searched, total, next?}``."""
        facts: dict[str, Any] = {
            "matches": [
                {"path": match.path, "line": match.line, "queries": list(match.queries)} for match in self.matches
            ],
            "skipped": self.skipped,
            "truncated": self.truncated,
            "searched": self.searched,
            "total": self.total,
        }
        if self.next is not None:
            facts["next"] = self.next
        return facts


def search(
    files: Iterable[tuple[str, Loader]],
    queries: Sequence[str] | str,
    context: int = 0,
    ignore_case: bool = False,
    budget: int = SEARCH_BUDGET_CHARACTERS,
    deadline: Callable[[], bool] | None = None,
) -> SearchResult:
    """Search ``files`` (path and loader, in path order) for 1 to 5 literal queries.

    A loader gives the file's bytes, or None for one that is known to be binary. ``context`` lines (0 to 3) are shown
    around each match. ``deadline`` tells whether time is up; it is asked before each file. Raises
    :class:`~workbench.workspace.views.matching.InvalidQueries`.
    """
    wanted = check_queries(queries)
    scan = _Scan(Matcher(wanted, ignore_case=ignore_case), max(0, min(context, CONTEXT_LINES)), budget)
    remaining = iter(files)
    may_match = scan.matcher.may_match
    for path, load in remaining:
        # The first file is searched in any case, so that going on always gets somewhere.
        if deadline is not None and scan.searched and deadline():
            scan.stopped = True
            scan.unsearched = 1 + sum(1 for _ in remaining)
            break
        data = load()
        scan.searched += 1
        scan.last_path = path
        # A NUL makes a file binary unless a mark says that it is UTF-16, which hardly ever is without one.
        if data is None or b"\0" in data or data[:2] in _UTF16_MARKS:
            scan.take_other(path, data)
        elif may_match(data):
            scan.take(path, data)
    return scan.result()


@dataclass(slots=True)
class _Line:
    """A line as it is rendered. ``queries`` is None for context."""

    number: int
    text: str
    queries: tuple[int, ...] | None
    whole: bool


@dataclass(slots=True)
class _FileHits:
    """A file's matches as units that are shown or left out as one: a match and the context it brings along.

    Each line belongs to one unit, so context never repeats and a match is never shown as mere context.
    """

    path: str
    units: list[list[_Line]]
    matching: int
    more: bool
    shown: int = 0

    @property
    def heading(self) -> str:
        if self.shown == self.matching and not self.more:
            return printable(self.path)
        total = f"{self.matching}{' or more' if self.more else ''}"
        return f"{printable(self.path)} ({self.shown} of {total} matching lines)"

    def lines(self) -> list[_Line]:
        return [line for unit in self.units[: self.shown] for line in unit]

    def ranges(self) -> tuple[tuple[int, int], ...]:
        """Ranges of the lines shown whole."""
        ranges: list[tuple[int, int]] = []
        for line in self.lines():
            if not line.whole:
                continue
            if ranges and ranges[-1][1] == line.number - 1:
                ranges[-1] = ranges[-1][0], line.number
            else:
                ranges.append((line.number, line.number))
        return tuple(ranges)


@dataclass(slots=True)
class _Scan:
    matcher: Matcher
    context: int
    budget: int
    stopped: bool = False
    unsearched: int = 0
    searched: int = 0
    last_path: str | None = None
    matching_files: int = 0
    files: list[_FileHits] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    skipped_matching: list[str] = field(default_factory=list)
    # Characters that the first unit of each file takes: past the budget, further files are only counted.
    _needed: int = 0
    _sizes: list[int] = field(default_factory=list)

    def take_other(self, path: str, data: bytes | None) -> None:
        """A file that holds a NUL or begins with the mark of UTF-16: one of the two, or known to be binary."""
        if data is not None and is_text(data):
            self.take(path, data)
            return
        self.skipped.append(path)
        if data is not None and len(self.skipped_matching) < SKIPPED_NAMED and self.matcher.may_match(data):
            self.skipped_matching.append(path)

    def take(self, path: str, data: bytes) -> None:
        """A text that holds a query, or may."""
        full = self._needed > self.budget
        if full and self.matcher.is_exact(data) and data[:2] not in _UTF16_MARKS:
            self.matching_files += 1
            return
        document = parse(data, path)
        found = self.matcher.find(document)
        if found.lines:
            self.matching_files += 1
            if not full:
                self._keep(path, document, found)

    def _keep(self, path: str, document: Document, found: Found) -> None:
        share = self.budget // (len(self.files) + 1)
        # No sharing can give this file more than what is left when every earlier one takes no more than its share.
        room = self.budget - sum(min(size, share) for size in self._sizes)
        units: list[list[_Line]] = []
        size = 0
        for index in range(len(found.lines)):
            units.append(self._unit(document, found, index))
            size += self._cost(units[-1])
            if size > max(room, share):
                break
        hits = _FileHits(path, units, len(found.lines), found.more)
        self.files.append(hits)
        self._sizes.append(size)
        self._needed += len(hits.heading) + self._cost(units[0]) + len(_BETWEEN)

    def _unit(self, document: Document, found: Found, index: int) -> list[_Line]:
        """A match with the context before it that no earlier unit shows, and after it up to the next match."""
        hit = found.lines[index]
        before = found.lines[index - 1].line + self.context if index else 0
        first = max(hit.line - self.context, before + 1, 1)
        after = found.lines[index + 1].line - 1 if index + 1 < len(found.lines) else None
        last = hit.line
        while last < hit.line + self.context and last != after and document.has_line(last + 1):
            last += 1
        unit: list[_Line] = []
        for number in range(min(first, hit.line), last + 1):
            text = document.text(number)
            if number != hit.line:
                shown = beginning(text)
                unit.append(_Line(number, shown, None, shown is text))
            elif len(text) <= WHOLE_LINE_CHARACTERS:
                unit.append(_Line(number, text, hit.queries, True))
            else:
                places = self.matcher.positions(text, PLACES_SHOWN)
                unit.append(_Line(number, excerpt(text, places), hit.queries, False))
        return unit

    def _cost(self, unit: list[_Line]) -> int:
        return sum(len(self._rendered(line)) + 1 for line in unit)

    def _rendered(self, line: _Line) -> str:
        if line.queries is None:
            return f"{line.number}-\t{line.text}"
        if len(self.matcher.queries) == 1:
            return f"{line.number}:\t{line.text}"
        return f"{line.number}:[{','.join(str(index + 1) for index in line.queries)}]\t{line.text}"

    # ------------------------------------------------------------ sharing and words

    def result(self) -> SearchResult:
        """Share the budget between the files and word the answer."""
        total = self.searched + self.unsearched
        self._share(self.budget - len(self._summary()) - len(_BETWEEN) - self._room_for_notes(total))
        shown = [file for file in self.files if file.shown]
        complete = len(shown) == self.matching_files and all(
            file.shown == file.matching and not file.more for file in shown
        )
        following = None
        if len(shown) < self.matching_files:
            following = shown[-1].path if shown else None
        elif self.stopped:
            following = self.last_path
        blocks = ["\n".join([file.heading, *map(self._rendered, file.lines())]) for file in shown]
        notes = "\n".join(f"[{note}]" for note in self._notes(total, len(shown), complete, following))
        return SearchResult(
            text=_BETWEEN.join(part for part in [self._summary(), *blocks, notes] if part),
            matches=tuple(
                Match(file.path, line.number, tuple(self.matcher.queries[index] for index in line.queries))
                for file in shown
                for line in file.lines()
                if line.queries is not None
            ),
            shown={file.path: ranges for file in shown if (ranges := file.ranges())},
            searched=self.searched,
            total=total,
            skipped=len(self.skipped),
            matching_files=self.matching_files,
            truncated=self.stopped or not complete,
            next=following,
        )

    def _share(self, room: int) -> None:
        """Give each file its first unit, in order, and then always the next one to whoever has the least."""
        used: list[tuple[int, int]] = []
        for at, file in enumerate(self.files):
            file.shown = 1
            cost = self._cost(file.units[0]) + len(file.heading) + len(_BETWEEN)
            if cost > room:
                file.shown = 0
                break
            room -= cost
            used.append((cost, at))
        heapq.heapify(used)
        while used:
            size, at = heapq.heappop(used)
            file = self.files[at]
            if file.shown == len(file.units):
                continue
            cost, heading = self._cost(file.units[file.shown]), len(file.heading)
            file.shown += 1
            cost += len(file.heading) - heading
            if cost > room:
                file.shown -= 1
                continue
            room -= cost
            heapq.heappush(used, (size + cost, at))

    def _summary(self) -> str:
        files = _counted(self.searched - len(self.skipped), "file")
        if not self.matching_files:
            return f"Nothing found in {files}."
        return f"Found in {_counted(self.matching_files, 'file')}; searched {files}."

    def _notes(self, total: int, shown: int, complete: bool, following: str | None) -> list[str]:
        notes: list[str] = []
        if self.matching_files and len(self.matcher.queries) > 1:
            notes.append("Numbers in brackets say which queries a line holds, in the order they were given.")
        if not complete:
            left = self.matching_files - shown
            rest = f"{_counted(left, 'more file')} with matches" if left else "More matching lines of files above"
            notes.append(f"{rest} did not fit. Narrow queries, path or glob.")
        if self.stopped:
            notes.append(f"Time was up after {self.searched} of {total} files.")
        if following is not None:
            notes.append(f"To go on, search again with after: {printable(following)}")
        if self.skipped:
            notes.append(self._skipped_note())
        return notes

    def _skipped_note(self) -> str:
        count = len(self.skipped)
        note = (
            f"{_counted(count, 'binary file')} {'was' if count == 1 else 'were'} not searched: {_names(self.skipped)}."
        )
        if self.skipped_matching:
            note += f" Their bytes hold a query: {_names(self.skipped_matching)}."
        return note

    def _room_for_notes(self, total: int) -> int:
        """Room for the longest notes this search can need."""
        paths = [file.path for file in self.files] + [self.last_path or ""]
        longest = max(paths, key=lambda path: len(printable(path)))
        return len(_BETWEEN) + max(
            sum(len(note) + len("[]\n") for note in self._notes(total, shown, False, longest))
            for shown in (0, self.matching_files)
        )


def _counted(count: int, noun: str) -> str:
    if noun == "more file":
        return f"{count} more {'file' if count == 1 else 'files'}"
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _names(paths: Sequence[str]) -> str:
    names = [printable(path) for path in paths[:SKIPPED_NAMED]]
    listed = ", ".join(name if len(name) <= _NAME_CHARACTERS else f"{name[:_NAME_CHARACTERS]}…" for name in names)
    return f"{listed} and {len(paths) - SKIPPED_NAMED} more" if len(paths) > SKIPPED_NAMED else listed
