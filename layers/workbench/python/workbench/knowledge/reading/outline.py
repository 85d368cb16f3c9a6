"""What a reader hands over: blocks in order, what it counted, what people should know. Knows the limit of text."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from workbench.knowledge.passages import Block

# What of one document is split into passages: two copies of the Bible. The file itself is always kept whole.
TEXT_CHARACTERS = 5_000_000

_NO_TEXT = re.compile("[\x00-\x08\x0e-\x1f\x7f]")
_LINE_ENDS = re.compile("\r\n|[\r\x0b\x0c\x85\u2028\u2029]")
_SURROGATE = re.compile("[\ud800-\udfff]")


class Refused(Exception):
    """The file is not taken. ``code`` is ``encrypted``, ``broken``, ``unsupported_type`` or ``too_large``."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class Full(Exception):
    """The limit of text is reached; what was added so far stays."""


@dataclass
class Outline:
    """A document's blocks as a reader finds them; ``extent`` counts pages, slides, sheets or rows."""

    blocks: list[Block] = field(default_factory=list)
    extent: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    room: int = TEXT_CHARACTERS

    def add(self, block: Block) -> None:
        """Take the block, cleaned; raises :class:`Full` when it ends the room."""
        text = clean(block.text).strip("\n")
        if not text.strip():
            return
        full = len(text) > self.room
        if full:
            text = text[: self.room]
        self.room -= len(text)
        self.blocks.append(replace(block, text=text))
        if full:
            raise Full


def clean(text: str) -> str:
    """``text`` with one kind of line end, without control characters and half characters."""
    return _SURROGATE.sub("\ufffd", _NO_TEXT.sub("", _LINE_ENDS.sub("\n", text)))


def one_line(text: str) -> str:
    """``text`` with every run of white space as one space."""
    return " ".join(text.split())
