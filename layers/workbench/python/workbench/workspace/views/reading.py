"""Numbered lines of text files under one character budget: what ``read_file`` shows and what it says of the rest.

Bytes come through a ``load`` callable. A page says which limit cut it and where to go on, and going on always shows
something new.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from workbench.errors import ToolError
from workbench.workspace.paths import printable
from workbench.workspace.text.lines import Document, parse
from workbench.workspace.views.cuts import cut_before
from workbench.workspace.views.images import claimed_picture

READ_BUDGET_CHARACTERS = 24_000
READ_LINE_CAP = 2_000

# No code point takes more bytes than this in any encoding that is read, so more bytes than four times the budget
# cannot fit into it.
_BYTES_PER_CHARACTER = 4
_COUNTED_AT_ONCE_BYTES = 1 << 20
_FEWEST_CHARACTERS = 40
REPLACEMENT = "\N{REPLACEMENT CHARACTER}"

Cap = Literal["characters", "lines"]
Offers = Callable[[str], bool]


class InvalidRange(ToolError):
    """Not a range of lines; ``details["argument"]`` names the argument."""

    code = "invalid_args"

    def __init__(self, argument: str, value: object, rule: str) -> None:
        super().__init__(f"`{argument}` is {printable(repr(value)[:80])}: {rule}.", argument=argument)


def line_number(value: object, argument: str) -> int | None:
    """A line number given as a number or as digits; None stays None. Raises :class:`InvalidRange`."""
    if value is None:
        return None
    number = value
    if isinstance(number, str) and number.isascii() and number.isdigit() and len(number) < 20:
        number = int(number)
    if isinstance(number, float) and number.is_integer():
        number = int(number)
    if not isinstance(number, int) or isinstance(number, bool):
        raise InvalidRange(argument, value, "give a whole number, counted from 1")
    if number < 1:
        raise InvalidRange(argument, value, "lines count from 1")
    return number


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A file and the lines wanted of it: from ``start_line`` (1 when None) through ``end_line`` (the last when None).

    Raises :class:`InvalidRange` for a range that counts from 0, backwards or in fractions.
    """

    path: str
    start_line: int | None = None
    end_line: int | None = None

    def __post_init__(self) -> None:
        start = line_number(self.start_line, "startLine")
        end = line_number(self.end_line, "endLine")
        object.__setattr__(self, "start_line", start)
        object.__setattr__(self, "end_line", end)
        if end is not None and end < (start or 1):
            raise InvalidRange("endLine", end, f"a range ends at or after the line it begins with, here {start or 1}")


@dataclass(frozen=True, slots=True)
class Page:
    """What one path gets. ``text`` holds the numbered lines, ``notes`` the sentences a reader needs beside them.

    ``start_line`` to ``end_line`` are the lines shown, 0 and 0 of an empty file, ``end_line = start_line - 1`` when
    none is. ``next_line`` is set when there is more to ask for than was shown; ``cap`` names the limit that cut the
    page. ``partial`` means that the only line shown is shown in part. A path that cannot be read has its ``refusal``.
    """

    path: str
    text: str = ""
    start_line: int = 0
    end_line: int = 0
    total_lines: int = 0
    next_line: int | None = None
    cap: Cap | None = None
    partial: bool = False
    notes: tuple[str, ...] = ()
    refusal: ToolError | None = None

    @property
    def seen(self) -> tuple[int, int] | None:
        """The lines shown whole, both included; None when there is no such line."""
        if self.partial or self.refusal or self.end_line < max(1, self.start_line):
            return None
        return self.start_line, self.end_line

    def structured(self) -> dict[str, Any]:
        """``{path, startLine, endLine, totalLines, nextLine?, cap?}``, with ``error`` when the path was refused."""
        facts: dict[str, Any] = {
            "path": self.path,
            "startLine": self.start_line,
            "endLine": self.end_line,
            "totalLines": self.total_lines,
        }
        if self.next_line is not None:
            facts["nextLine"] = self.next_line
        if self.cap is not None:
            facts["cap"] = self.cap
        if self.refusal is not None:
            facts["error"] = {"code": self.refusal.code, "message": self.refusal.message}
        return facts


def share_budget(
    requests: Sequence[ReadRequest],
    load: Callable[[str], bytes],
    budget: int = READ_BUDGET_CHARACTERS,
    line_cap: int = READ_LINE_CAP,
    *,
    offers: Offers = lambda _: False,
) -> list[Page]:
    """One page for each request, in order; rendered together they take at most ``budget`` characters.

    Each path gets an equal share of what is left when its turn comes. A path that cannot be read spoils no other: its
    page carries the refusal. A single request raises it instead. ``offers`` tells which tools a note may name.
    """
    pages: list[Page] = []
    left = budget
    for number, request in enumerate(requests):
        share = left // (len(requests) - number) - len(_heading(request.path, len(requests)))
        reader = _Reader(request, share, line_cap, alone=len(requests) == 1, budget=budget, offers=offers)
        try:
            page = reader.page(load(request.path))
        except ToolError as refusal:
            if len(requests) == 1:
                raise
            page = Page(request.path, notes=(refusal.message,), refusal=refusal)
        pages.append(page)
        left = max(0, left - len(_block(page, len(requests))) - len(_BETWEEN))
    return pages


def render(pages: Sequence[Page]) -> str:
    """The pages as the text a model reads: one as it is, several under a heading each."""
    return _BETWEEN.join(_block(page, len(pages)) for page in pages)


_BETWEEN = "\n\n"


def _heading(path: str, count: int) -> str:
    return f"== {printable(path)} ==\n" if count > 1 else ""


def _block(page: Page, count: int) -> str:
    notes = "\n".join(f"[{note}]" for note in page.notes)
    return _heading(page.path, count) + "\n".join(part for part in (page.text, notes) if part)


@dataclass(frozen=True, slots=True)
class _Reader:
    """Makes the page of one request within ``share`` characters, notes included."""

    request: ReadRequest
    share: int
    line_cap: int
    alone: bool
    budget: int
    offers: Offers

    def page(self, data: bytes) -> Page:
        document = parse(data, self.request.path)
        total, first = len(document), self.request.start_line or 1
        name = printable(self.request.path)
        if total == 0:
            return Page(self.request.path, notes=(f"{name} is empty: it has 0 lines.", *self._claim()))
        if first > total:
            words = "1 line" if total == 1 else f"{total} lines"
            note = f"{name} has {words}; there is no line {first}. Ask for lines from 1 to {total}."
            return Page(self.request.path, "", first, first - 1, total, notes=(note,))
        wanted = min(self.request.end_line or total, total)
        last = min(wanted, first + self.line_cap - 1)
        numbered = self._numbered(document, first, last)
        count = _fitting(numbered, self.share)
        while count:
            page = self._lines_page(document, numbered[:count], first, wanted)
            fitting = _fitting(numbered, self.share - _cost(page.notes))
            if fitting >= count:
                return page
            count = fitting
        return self._partial_page(document, first, wanted)

    def _numbered(self, document: Document, first: int, last: int) -> list[str]:
        """As many numbered lines as could fit at all, so that a long file is not decoded for nothing."""
        start, most = document.span(first)[0], max(0, self.share) * _BYTES_PER_CHARACTER
        if document.span(last)[1] - start > most:
            low, high = first - 1, last
            while high - low > 1:
                middle = (low + high) // 2
                if document.span(middle)[1] - start > most:
                    high = middle
                else:
                    low = middle
            last = low
        return [f"{number}\t{text}" for number, text in enumerate(document.lines(first, last), first)]

    def _lines_page(self, document: Document, numbered: list[str], first: int, wanted: int) -> Page:
        total, last = len(document), first + len(numbered) - 1
        text = "\n".join(numbered)
        shown = f"Line {first} of {total}" if first == last else f"Lines {first}-{last} of {total}"
        notes: list[str] = []
        cap: Cap | None = None
        if last < wanted and len(numbered) == self.line_cap:
            cap = "lines"
            notes.append(f"{shown}: a path gets at most {self.line_cap} lines a call. Read on from line {last + 1}.")
        elif last < wanted:
            cap = "characters"
            notes.append(
                f"{shown}: the characters of this call are used up because lines are long. "
                f"Go on from line {last + 1} with a narrower range."
            )
        elif (first, last) != (1, total):
            notes.append(f"{shown}.")
        notes += [*self._invalid(document, text), *self._claim()]
        return Page(self.request.path, text, first, last, total, last + 1 if cap else None, cap, notes=tuple(notes))

    def _partial_page(self, document: Document, number: int, wanted: int) -> Page:
        """The beginning of a line that has no room, and how to get at the rest; the same request would not."""
        start, end, _ = document.span(number)
        length = _characters(document, start, end)
        following = number + 1 if number < wanted else None
        size = max(0, self.share)
        head = _head(document, start, end, size)
        while True:
            notes = (
                self._partial_note(document, number, length, size, following),
                *self._invalid(document, head),
                *self._claim(),
            )
            room = self.share - _cost(notes) - len(f"{number}\t")
            fitting = cut_before(head, room) if room >= _FEWEST_CHARACTERS else 0
            if fitting >= size:
                break
            size = fitting
        text = f"{number}\t{head[:size]}"
        total = len(document)
        return Page(self.request.path, text, number, number, total, following, "characters", True, notes)

    def _partial_note(self, document: Document, number: int, length: int, size: int, following: int | None) -> str:
        note = f"Line {number} of {len(document)} has {length} characters; only the first {size} are shown."
        # A page read by itself still needs room for its notes.
        if not self.alone and length + _ROOM_FOR_NOTES <= self.budget:
            note += f" To see all of it, read this path by itself from line {number}."
        else:
            ways = [words for tool, words in _REST_OF_A_LINE if self.offers(tool)]
            note += f" To see the rest, {' or '.join(ways)}." if ways else " The rest of it cannot be shown."
        return note + (f" Go on from line {following}." if following else "")

    def _invalid(self, document: Document, text: str) -> list[str]:
        if REPLACEMENT not in text or not document.has_invalid:
            return []
        return [
            f"Bytes that are not valid {document.encoding[:6].upper()} are shown as {REPLACEMENT}; "
            "they stay as they are unless an edit replaces them."
        ]

    def _claim(self) -> list[str]:
        kind = claimed_picture(self.request.path)
        return [f"Its name claims a {kind.name}; its bytes are text."] if kind else []


_ROOM_FOR_NOTES = 600
_REST_OF_A_LINE = (
    ("search_files", "search for a text in it with search_files"),
    ("run_code", "cut it into pieces with run_code"),
    ("grep", "search for a text in it with grep"),
    ("execute", "cut it into pieces with execute"),
)


def _cost(notes: Sequence[str]) -> int:
    return sum(len(note) + len("[]\n") for note in notes)


def _fitting(numbered: list[str], room: int) -> int:
    """How many of the lines fit into ``room`` characters, each with its line break."""
    for count, line in enumerate(numbered):
        room -= len(line) + 1
        if room < 0:
            return count
    return len(numbered)


def _characters(document: Document, start: int, end: int) -> int:
    """Characters of a stretch of bytes, without holding the text of a huge one at once."""
    decoder = codecs.getincrementaldecoder(document.encoding)("replace")
    counted = 0
    for at in range(start, end, _COUNTED_AT_ONCE_BYTES):
        counted += len(decoder.decode(document.data[at : min(end, at + _COUNTED_AT_ONCE_BYTES)]))
    return counted + len(decoder.decode(b"", final=True))


def _head(document: Document, start: int, end: int, characters: int) -> str:
    """At least the first ``characters`` of a line, if it has so many, and no half character at the cut."""
    stop = min(end, start + (characters + 2 * _FEWEST_CHARACTERS) * _BYTES_PER_CHARACTER)
    decoder = codecs.getincrementaldecoder(document.encoding)("replace")
    return decoder.decode(document.data[start:stop], final=stop == end)
