"""Passages: a document's text in ordered pieces that a model can read one of, each with the place it comes from. Pure.

Splitting follows what the document itself marks (pages, slides, headings, paragraphs, rows) and packs neighbours until
a passage is full. It is deterministic and loses nothing: the passages' texts together are the blocks' texts, in order,
with header rows repeated where rows go on.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import pairwise

# A passage is packed up to the first figure; only what cannot be parted before it may reach the second.
FULL_CHARACTERS = 1_200
MOST_CHARACTERS = 1_500
# A heading begins a passage of its own once this much stands before it.
HEADING_AFTER_CHARACTERS = 300
# A longer header row is not repeated: it would fill the passages instead of the rows.
HEADER_CHARACTERS = 400
SECTION_CHARACTERS = 80
# Of two titles in one place.
TWO_SECTIONS_CHARACTERS = 40

# Where a text that is too long is best parted, best first: paragraph, line, sentence, clause, word.
_CUTS = (
    re.compile(r"\n{2,}"),
    re.compile(r"\n"),
    re.compile("[.!?\u2026][\"')\\]\u201d\u00bb]*\\s+|[\u3002\uff01\uff1f]\\s*"),
    re.compile("[,;:\u3001\uff0c]\\s*"),
    re.compile(r"\s+"),
)
_UNDERLINED = re.compile(r"\n[ ]{0,3}(?:=+|-+)[ \t]*\Z")
# A cut in the last half of the room wastes little of it.
_CUT_FROM = 0.5


@dataclass(frozen=True, slots=True)
class Passage:
    """``number`` counts from 1; ``place`` says where in the document: "page 3", "sheet Data rows 2-40" …, or None."""

    number: int
    text: str
    place: str | None


@dataclass(frozen=True, slots=True)
class Block:
    """A piece of a document that its own structure marks: a paragraph, a heading, a row.

    A passage never spans two ``part``s (a page, a slide, a sheet). ``row`` and ``last_row`` number its rows, ``header``
    is the header row that a passage of them begins with; ``line`` and ``last_line`` are those of a text file. ``level``
    is a heading's, 0 for everything else. ``glue`` stands between this block and the one before it.
    """

    text: str
    part: str | None = None
    level: int = 0
    row: int | None = None
    last_row: int | None = None
    header: str = ""
    line: int | None = None
    last_line: int | None = None
    glue: str = "\n\n"


def split(blocks: Iterable[Block]) -> list[Passage]:
    """The passages of ``blocks``, numbered in order."""
    packed = _pack(_cut(blocks))
    return [Passage(number, text, place) for number, (text, place) in enumerate(packed, 1)]


def encode(document: str, name: str, passages: Iterable[Passage]) -> bytes:
    """The passages as they are stored and as a program finds them under inputs/passages/.

    ``{"document", "name", "passages": [{"number", "place", "text"}]}`` in UTF-8.
    """
    listed = [{"number": passage.number, "place": passage.place, "text": passage.text} for passage in passages]
    whole = {"document": document, "name": name, "passages": listed}
    return json.dumps(whole, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def decode(data: bytes) -> list[Passage]:
    """The passages of an object that :func:`encode` made."""
    return [Passage(entry["number"], entry["text"], entry["place"]) for entry in json.loads(data)["passages"]]


# ---------------------------------------------------------------- cutting what is too long


def _cut(blocks: Iterable[Block]) -> Iterator[Block]:
    for block in blocks:
        if not block.text.strip():
            continue
        kept = block if len(block.header) <= HEADER_CHARACTERS else replace(block, header="")
        room = MOST_CHARACTERS - (len(kept.header) + 1 if kept.header else 0)
        if len(kept.text) <= room:
            yield kept
        else:
            yield from _pieces(kept, room - (MOST_CHARACTERS - FULL_CHARACTERS))


def _pieces(block: Block, room: int) -> Iterator[Block]:
    """The block in pieces of at most ``room`` characters, which put together are its text."""
    text, begin, line = block.text, 0, block.line
    while begin < len(text):
        end = _end_of_piece(text, begin, room)
        piece = text[begin:end]
        last = None if line is None else line + piece.rstrip("\n").count("\n")
        first = begin == 0
        yield replace(
            block, text=piece, line=line, last_line=last, glue=block.glue if first else "", level=block.level * first
        )
        line = None if line is None else line + piece.count("\n")
        begin = end


def _end_of_piece(text: str, begin: int, room: int) -> int:
    if len(text) - begin <= room:
        return len(text)
    earliest, latest = begin + int(room * _CUT_FROM), begin + room
    for pattern in _CUTS:
        ends = [match.end() for match in pattern.finditer(text, earliest, latest)]
        if ends:
            return ends[-1]
    # Nowhere to part it: at least not between a letter and what is written onto it.
    end = latest
    while end > earliest and _joined_to_its_left(text[end]):
        end -= 1
    return end if end > earliest else latest


def _joined_to_its_left(letter: str) -> bool:
    return unicodedata.category(letter) in ("Mn", "Mc", "Me", "Cf")


# ---------------------------------------------------------------- packing what is short


@dataclass
class _Passage:
    """A passage being packed: its blocks and how many characters they make."""

    blocks: list[Block]
    size: int
    section: str | None

    @classmethod
    def of(cls, block: Block, section: str | None) -> _Passage:
        return cls([block], len(block.text) + (len(block.header) + 1 if block.header else 0), section)

    def takes(self, block: Block) -> bool:
        first = self.blocks[0]
        if (first.part, first.header, first.row is None) != (block.part, block.header, block.row is None):
            return False
        if block.level and self.size >= HEADING_AFTER_CHARACTERS:
            return False
        # A heading alone would be a passage that says nothing.
        room = MOST_CHARACTERS if all(one.level for one in self.blocks) else FULL_CHARACTERS
        return self.size + len(block.glue) + len(block.text) <= room

    def add(self, block: Block) -> None:
        self.blocks.append(block)
        self.size += len(block.glue) + len(block.text)

    def give_up_headings(self, block: Block) -> list[Block]:
        """The headings at the end, which belong with ``block`` that follows them, when they fit there."""
        count = 0
        while count < len(self.blocks) and self.blocks[-1 - count].level:
            count += 1
        if count in (0, len(self.blocks)) or self.blocks[-1].part != block.part or block.row is not None:
            return []
        moved = self.blocks[-count:]
        if sum(len(one.text) + len(one.glue) for one in moved) + len(block.text) > MOST_CHARACTERS:
            return []
        del self.blocks[-count:]
        return moved

    def finished(self) -> tuple[str, str | None]:
        first = self.blocks[0]
        head = f"{first.header}\n" if first.header else ""
        text = head + first.text + "".join(block.glue + block.text for block in self.blocks[1:])
        return text, _place(self.blocks, self.section)


def _pack(blocks: Iterable[Block]) -> Iterator[tuple[str, str | None]]:
    held: _Passage | None = None
    section: str | None = None
    for block in blocks:
        if held is not None and held.takes(block):
            held.add(block)
        else:
            moved = held.give_up_headings(block) if held is not None else []
            if held is not None:
                yield held.finished()
            # A heading that moved, or one that begins the passage, is the section that the passage is of.
            if moved:
                held = _Passage.of(moved[0], _title(moved[0]))
                for one in [*moved[1:], block]:
                    held.add(one)
            else:
                held = _Passage.of(block, _title(block) if block.level else section)
        if block.level:
            section = _title(block)
    if held is not None:
        yield held.finished()


def _title(heading: Block) -> str:
    # Of a Markdown heading without its marks: those before it, behind it or, on a line of their own, below it.
    return _shortened(" ".join(_UNDERLINED.sub("", heading.text).split()).strip("# "), SECTION_CHARACTERS)


def _shortened(title: str, characters: int) -> str:
    return title if len(title) <= characters else f"{title[: characters - 1]}…"


def _sections(blocks: list[Block], section: str | None) -> str | None:
    """The section of a passage, or from which to which it goes: short ones share a passage."""
    # A heading right below another one begins nothing new: it says more of the same.
    begun = [_title(block) for before, block in pairwise(blocks) if block.level and not before.level]
    if not begun or begun[-1] == section:
        return f"section {section}" if section else None
    last = _shortened(begun[-1], TWO_SECTIONS_CHARACTERS)
    return f"sections {_shortened(section, TWO_SECTIONS_CHARACTERS)} to {last}" if section else f"up to section {last}"


def _place(blocks: list[Block], section: str | None) -> str | None:
    first, last = blocks[0], blocks[-1]
    parts: list[str] = []
    if first.part is not None:
        parts.append(first.part)
    elif sections := _sections(blocks, section):
        parts.append(sections)
    if first.row is not None and last.last_row is not None:
        rows = _range("row", first.row, last.last_row)
        return f"{parts[0]} {rows}" if parts else rows
    if first.line is not None and last.last_line is not None:
        parts.append(_range("line", first.line, last.last_line))
    return ", ".join(parts) or None


def _range(unit: str, first: int, last: int) -> str:
    return f"{unit} {first}" if first == last else f"{unit}s {first}-{last}"
