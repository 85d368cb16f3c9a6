"""Lines of a file, counted and cut on bytes: the one model behind reading, searching and editing.

A line ends at ``\\n``, ``\\r\\n`` or a lone ``\\r`` and at nothing else; the ending belongs to no line, and a closing
newline starts no further line. Nothing here changes a file, and nothing decodes more than it was asked for.

Positions are byte offsets into the whole file, byte-order mark included; lines count from 1.
"""

from __future__ import annotations

import codecs
from bisect import bisect_left, bisect_right
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Literal

from workbench.workspace.text.refusals import Binary

Encoding = Literal["utf-8", "utf-16-le", "utf-16-be"]

_MARKS: tuple[tuple[bytes, Encoding], ...] = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# The UTF-16 mark followed by a NUL unit is the mark of UTF-32, which no tool here reads as text.
_UTF32_MARK = codecs.BOM_UTF32_LE
# In the order in which a tie between endings is broken.
ENDINGS = ("\n", "\r\n", "\r")
_BLOCK_UNITS = 16 * 1024
_DECODED_AT_ONCE_BYTES = 1 << 20


def is_text(data: bytes) -> bool:
    """The one verdict on text or binary: a UTF-8 or UTF-16 mark means text, otherwise any NUL byte means binary."""
    return _mark_of(data) is not None


def encoding_of(data: bytes) -> Encoding | None:
    """How a text is encoded, None for a binary file."""
    mark = _mark_of(data)
    return mark[1] if mark else None


def measure(data: bytes) -> tuple[int, int] | None:
    """(lines, characters) of a text, None for a binary file.

    Characters are code points of the decoded text, line endings included and the byte-order mark not; each stretch
    of invalid bytes counts as the replacement characters that reading shows for it.
    """
    mark = _mark_of(data)
    if mark is None:
        return None
    bom, encoding = mark
    if encoding == "utf-8" and data.isascii():
        return _break_index(data, bom, encoding).count, len(data)
    decoder = codecs.getincrementaldecoder(encoding)("replace")
    characters = len(decoder.decode(b""))
    for start in range(len(bom), len(data), _DECODED_AT_ONCE_BYTES):
        characters += len(decoder.decode(data[start : start + _DECODED_AT_ONCE_BYTES]))
    characters += len(decoder.decode(b"", final=True))
    return _break_index(data, bom, encoding).count, characters


def parse(data: bytes, path: str | None = None) -> Document:
    """The lines of ``data``; raises :class:`Binary` (naming ``path``) when it is no text. Looks at little of it yet."""
    mark = _mark_of(data)
    if mark is None:
        raise Binary(path)
    bom, encoding = mark
    return as_document(data, encoding, bom)


def as_document(data: bytes, encoding: Encoding, bom: bytes = b"") -> Document:
    """The lines of bytes whose encoding is known, such as a part of a text; ``bom`` is what ``data`` begins with."""
    return Document(data, encoding, bom, _break_index(data, bom, encoding))


@dataclass(frozen=True, slots=True)
class Document:
    """A text file as its lines. ``len(document)`` is the number of lines, 0 for an empty file.

    Line numbers outside ``1..len`` raise IndexError. The work of finding lines is done when it is first needed, and
    only as far into the file as it is needed.
    """

    data: bytes
    encoding: Encoding
    bom: bytes
    _breaks: _BreakIndex = field(repr=False, compare=False)

    def __len__(self) -> int:
        return self._breaks.count

    @property
    def unit_bytes(self) -> int:
        """Bytes in one code unit: 1 or, in UTF-16, 2. Characters never begin between units."""
        return 1 if self.encoding == "utf-8" else 2

    def has_line(self, number: int) -> bool:
        """True when the file has a line of that number; cheaper than ``len``, which counts to the end."""
        return self._breaks.has_line(number)

    def span(self, number: int) -> tuple[int, int, int]:
        """(start, end, end with ending) of a line; line 1 starts after the byte-order mark."""
        start, end, after = self._breaks.span(number)
        return self._byte(start), self._byte(end), self._byte(after)

    def line_bytes(self, number: int) -> bytes:
        """The bytes of a line without its ending."""
        start, end, _ = self.span(number)
        return self.data[start:end]

    def ending(self, number: int) -> bytes:
        """The bytes of a line's ending, empty for a last line without one."""
        _, end, after = self.span(number)
        return self.data[end:after]

    def text(self, number: int) -> str:
        """A line as text, without its ending; U+FFFD stands for bytes that are not valid in the encoding."""
        return self.decode(self.line_bytes(number))

    def lines(self, first: int, last: int) -> list[str]:
        """The texts of lines ``first`` to ``last``, both included; ``[]`` when ``last < first``."""
        if last < first:
            return []
        start, after = self.span(first)[0], self.span(last)[2]
        return text_lines(self.decode(self.data[start:after]))

    def line_at(self, offset: int) -> int:
        """The line that holds the byte at ``offset``; an ending belongs to the line before it.

        The end of the file counts as the last line, the byte-order mark as line 1; 0 in an empty file.
        """
        if self.encoding == "utf-8":
            return self._breaks.line_at(max(offset, len(self.bom)))
        return self._breaks.line_at(max(0, offset - len(self.bom)) // 2)

    @property
    def endings(self) -> dict[str, int]:
        """How often each ending that the file uses occurs."""
        return self._breaks.endings()

    @property
    def dominant_ending(self) -> str:
        """The commonest ending; ties go to ``\\n``, then ``\\r\\n``; ``\\n`` where there is none."""
        if self._breaks.only_lf:
            return "\n"
        endings = self.endings
        return max(ENDINGS, key=lambda ending: endings.get(ending, 0))

    @property
    def final_newline(self) -> bool:
        """True when the last line has an ending; False in an empty file."""
        return self._breaks.closed

    @property
    def has_invalid(self) -> bool:
        """True when some bytes are not valid in the file's encoding."""
        try:
            codecs.decode(self.data, self.encoding)
        except UnicodeDecodeError:
            return True
        return False

    def split(self, part: bytes) -> list[bytes]:
        """A part of this file, or bytes meant for it, as lines with their endings."""
        if self.encoding == "utf-8":
            return part.splitlines(keepends=True)
        document = as_document(part, self.encoding)
        spans = (document.span(number) for number in range(1, len(document) + 1))
        return [part[start:after] for start, _, after in spans]

    def breaks_in(self, part: bytes) -> int:
        """How many line endings ``part`` holds, as in ``split``."""
        return len(self.split(part)) - (bool(part) and not self.ends_line(part))

    def ends_line(self, part: bytes) -> bool:
        """True when ``part``, as in ``split``, closes with a line ending."""
        return any(part.endswith(ending.encode(self.encoding)) for ending in ("\n", "\r"))

    def decode(self, data: bytes) -> str:
        """Bytes of this file as text, U+FFFD for what is invalid."""
        return data.decode(self.encoding, "replace")

    def _byte(self, unit: int) -> int:
        if self.encoding == "utf-8":
            return unit
        # A UTF-16 file may end in half a unit, which the index counts as a whole one.
        return min(len(self.bom) + unit * 2, len(self.data))


def text_lines(text: str) -> list[str]:
    """A text as its lines, without their endings, by the same rule as files."""
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    if not lines[-1]:
        lines.pop()  # what follows the last ending is no line
    return lines


def _mark_of(data: bytes) -> tuple[bytes, Encoding] | None:
    """The byte-order mark (empty when there is none) and encoding of a text; None for binary."""
    if not data.startswith(_UTF32_MARK):
        for bom, encoding in _MARKS:
            if data.startswith(bom):
                return bom, encoding
    return None if b"\0" in data else (b"", "utf-8")


def _break_index(data: bytes, bom: bytes, encoding: Encoding) -> _BreakIndex:
    if encoding == "utf-8":
        return _BreakIndex(data, len(bom))
    return _BreakIndex(_one_byte_per_unit(data[len(bom) :], encoding), 0)


# 0 stays 0 and every other value becomes 0xFF, which no line break uses.
_NON_ZERO_TO_FF = bytes([0]) + b"\xff" * 255


def _one_byte_per_unit(body: bytes, encoding: Encoding) -> bytes:
    """UTF-16 as one byte for each unit: ``\\r`` and ``\\n`` where they stand, 0xFF for all above U+00FF.

    A break is a whole unit, so looking for the bytes 0A 00 in the file itself would find the second half of one
    character with the first of the next. Half a unit at the end becomes 0xFF.
    """
    whole = len(body) // 2 * 2
    low_first = encoding == "utf-16-le"
    low, high = body[not low_first : whole : 2], body[low_first:whole:2]
    mask = int.from_bytes(high.translate(_NON_ZERO_TO_FF), "big")
    units = (int.from_bytes(low, "big") | mask).to_bytes(whole // 2, "big")
    return units if whole == len(body) else units + b"\xff"


class _BreakIndex:
    """Where the lines of one-byte units begin and end, from ``base`` on; found block by block, as far as asked for.

    Counting the breaks of a block is several times quicker than noting where each one stands, so the blocks on the
    way are only counted, and the one that holds the answer is cut into lines.
    """

    __slots__ = ("_cut", "_cut_ends", "_starts", "_totals", "_units", "only_lf")

    def __init__(self, units: bytes, base: int) -> None:
        self._units = units
        self.only_lf = b"\r" not in units
        # Block i is units[starts[i]:starts[i + 1]] and totals[i] breaks end before it.
        self._starts = [base]
        self._totals = [0]
        self._cut = -1
        self._cut_ends: list[int] = []

    @property
    def closed(self) -> bool:
        return self._units.endswith((b"\n", b"\r"))

    @property
    def count(self) -> int:
        return self._break_count() + (not self.closed and len(self._units) > self._starts[0])

    def has_line(self, number: int) -> bool:
        if number < 1:
            return False
        self._count_breaks_to(number)
        return number <= self._totals[-1] or number <= self.count

    def span(self, number: int) -> tuple[int, int, int]:
        if not self.has_line(number):
            raise IndexError(f"line {number} of {self.count}")
        start, after = self._after_break(number - 1), self._after_break(number)
        units = self._units
        end = after
        if units[end - 1 : end] == b"\n" and end > start:
            end -= 1
        if units[end - 1 : end] == b"\r" and end > start:
            end -= 1
        return start, end, after

    def line_at(self, unit: int) -> int:
        while self._starts[-1] <= unit and self._starts[-1] < len(self._units):
            self._add_block()
        block = bisect_right(self._starts, unit) - 1
        if block == len(self._totals) - 1:
            return self.count
        return self._totals[block] + bisect_right(self._ends_in(block), unit)

    def endings(self) -> dict[str, int]:
        units = self._units
        feeds = self._break_count() if self.only_lf else units.count(b"\n")
        pairs = 0 if self.only_lf else units.count(b"\r\n")
        returns = 0 if self.only_lf else units.count(b"\r")
        counts = {"\n": feeds - pairs, "\r\n": pairs, "\r": returns - pairs}
        return {ending: count for ending, count in counts.items() if count}

    def _break_count(self) -> int:
        while self._starts[-1] < len(self._units):
            self._add_block()
        return self._totals[-1]

    def _count_breaks_to(self, number: int) -> None:
        while self._totals[-1] < number and self._starts[-1] < len(self._units):
            self._add_block()

    def _add_block(self) -> None:
        units, start = self._units, self._starts[-1]
        end = min(start + _BLOCK_UNITS, len(units))
        if not self.only_lf and units[end - 1 : end + 1] == b"\r\n":
            end += 1  # a block never ends between \r and \n
        if self.only_lf:
            breaks = units.count(b"\n", start, end)
        else:
            breaks = len(units[start:end].splitlines()) - (units[end - 1 : end] not in (b"\n", b"\r"))
        self._starts.append(end)
        self._totals.append(self._totals[-1] + breaks)

    def _after_break(self, number: int) -> int:
        """Where break ``number`` ends; the base for break 0, the end of the text for a last line without a break."""
        if number == 0:
            return self._starts[0]
        self._count_breaks_to(number)
        if number > self._totals[-1]:
            return len(self._units)
        block = bisect_left(self._totals, number) - 1
        return self._ends_in(block)[number - self._totals[block]]

    def _ends_in(self, block: int) -> list[int]:
        """The block's start and then where each of its pieces ends; an unbroken rest is a piece as well."""
        if block != self._cut:
            start = self._starts[block]
            # bytes.splitlines, unlike that of str, knows exactly the three endings of this model.
            pieces = self._units[start : self._starts[block + 1]].splitlines(keepends=True)
            self._cut_ends = list(accumulate(map(len, pieces), initial=start))
            self._cut = block
        return self._cut_ends
