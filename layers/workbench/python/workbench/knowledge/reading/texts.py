"""Plain text and Markdown: from bytes in whatever encoding to paragraphs with their line numbers."""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

from workbench.knowledge.passages import Block
from workbench.knowledge.reading.outline import Outline, clean

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
# Encodings that a declaration may name. Python knows others that are no encodings of text or take forever.
_NAMED = re.compile(
    r"utf-?(8|16|32)(-?[lb]e)?\Z|(windows-|cp)(125[0-8]|874|437|850|852|866|932|936|949|950)\Z|iso-?8859-?\d{1,2}\Z|"
    r"latin-?\d\Z|koi8-[ru]\Z|shift[-_]jis\Z|euc-(jp|kr)\Z|gb(2312|k|18030)\Z|big5(-hkscs)?\Z|mac(intosh|-?roman)\Z|"
    r"us-ascii\Z|ascii\Z|tis-620\Z",
    re.IGNORECASE,
)
_LAST_RESORT = "cp1252"
_SAMPLE_BYTES = 64 * 1024
_CONTROLS = bytes(set(range(32)) - {7, 8, 9, 10, 12, 13, 27})


def decode(data: bytes, charset: str | None) -> tuple[str, list[str]]:
    """The text and notes about its encoding. A mark decides, then UTF-8, then ``charset``, then a guess."""
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _decoded(data[len(mark) :], encoding)
    if (wide := _without_mark(data)) is not None:
        return _decoded(data, wide)
    try:
        return data.decode(), []
    except UnicodeDecodeError:
        pass
    if charset and _NAMED.match(charset):
        try:
            return data.decode(charset), []
        except (UnicodeDecodeError, LookupError):
            pass
    text = data.decode(_LAST_RESORT, "replace")
    return text, ["The file is not UTF-8 and names no encoding that fits; it was read as Windows-1252 (Latin-1)."]


def is_text(data: bytes) -> bool:
    """True when bytes without any known signature read as text."""
    if any(data.startswith(mark) for mark, _encoding in _MARKS) or _without_mark(data) is not None:
        return True
    sample = data[:_SAMPLE_BYTES]
    if b"\0" in data:
        return False
    return len(sample.translate(None, delete=_CONTROLS)) >= 0.99 * len(sample)


def _without_mark(data: bytes) -> str | None:
    """UTF-16 without a mark gives itself away by its zeros: in nearly every second byte, always the same half."""
    sample = data[:4096]
    if len(sample) < 4 or len(data) % 2 or b"\0" not in sample:
        return None
    for offset, encoding in ((1, "utf-16-le"), (0, "utf-16-be")):
        zeros = sample[offset::2].count(0)
        if zeros > 0.4 * len(sample[offset::2]) and sample[1 - offset :: 2].count(0) == 0:
            return encoding
    return None


def _decoded(data: bytes, encoding: str) -> tuple[str, list[str]]:
    text = data.decode(encoding, "replace")
    broken = "\ufffd" in text
    return text, ["Some bytes of the file are no valid text; they show as \ufffd."] if broken else []


# ---------------------------------------------------------------- plain text


def read_plain(text: str, outline: Outline) -> None:
    """Paragraphs, parted by blank lines."""
    lines = clean(text).split("\n")
    outline.extent["lines"] = len(lines) - (not lines[-1])
    for first, last in _paragraphs(lines):
        outline.add(Block("\n".join(lines[first : last + 1]), line=first + 1, last_line=last + 1))


def _paragraphs(lines: list[str]) -> Iterator[tuple[int, int]]:
    first: int | None = None
    for number, line in enumerate(lines):
        if line.strip():
            first = number if first is None else first
        elif first is not None:
            yield first, number - 1
            first = None
    if first is not None:
        yield first, len(lines) - 1


# ---------------------------------------------------------------- Markdown

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})(?:[ \t]|$)")
_UNDERLINE = re.compile(r" {0,3}(=+|-+)[ \t]*$")


def read_markdown(text: str, outline: Outline) -> None:
    """Headings, fenced blocks kept in one piece, paragraphs; the text stays as it is written."""
    lines = clean(text).split("\n")
    outline.extent["lines"] = len(lines) - (not lines[-1])
    for first, last, level in _markdown_blocks(lines):
        outline.add(Block("\n".join(lines[first : last + 1]), level=level, line=first + 1, last_line=last + 1))


def _markdown_blocks(lines: list[str]) -> Iterator[tuple[int, int, int]]:
    """First line, last line and heading level of each block."""
    first, fence = None, ""
    for number, line in enumerate(lines):
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        heading, underline = _HEADING.match(line), _UNDERLINE.match(line)
        if underline and first == number - 1 and first is not None:
            yield first, number, 1 if "=" in line else 2
            first = None
        elif heading:
            if first is not None:
                yield first, number - 1, 0
            yield number, number, len(heading[1])
            first = None
        elif not line.strip():
            if first is not None:
                yield first, number - 1, 0
            first = None
        else:
            first = number if first is None else first
            fence = mark[1] if mark else ""
    if first is not None:
        yield first, len(lines) - 1, 0
