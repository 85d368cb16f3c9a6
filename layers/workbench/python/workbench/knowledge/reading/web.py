"""HTML as a reader sees it: headings, paragraphs, list items, table rows. Nothing is run, loaded or followed."""

from __future__ import annotations

import re

from workbench.knowledge.passages import Block
from workbench.knowledge.reading.outline import Outline, one_line

_META_CHARSET = re.compile(rb"<meta[^>]{0,200}charset\s*=\s*[\"']?([A-Za-z0-9_-]{1,40})", re.IGNORECASE)
_HEAD_BYTES = 4_096
_SPACES = re.compile(r"\s+")
# Stands between cells until their row is whole; no page has a use for this character.
_CELL_ENDS = "\x02"
_DROPPED = frozenset({"script", "style", "template", "noscript", "svg", "iframe", "object", "canvas", "select"})
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CELLS = frozenset({"td", "th"})
_INLINE = frozenset(
    {
        *(
            "a",
            "abbr",
            "acronym",
            "b",
            "bdi",
            "bdo",
            "big",
            "br",
            "cite",
            "code",
            "data",
            "del",
            "dfn",
            "em",
            "font",
            "i",
        ),
        *("img", "ins", "kbd", "label", "mark", "q", "rp", "rt", "ruby", "s", "samp", "small", "span", "strike"),
        *("strong", "sub", "sup", "time", "tt", "u", "var", "wbr"),
    }
)


def charset_of(data: bytes) -> str | None:
    """The encoding that the page itself declares."""
    match = _META_CHARSET.search(data[:_HEAD_BYTES])
    return match[1].decode("ascii") if match else None


def read_html(text: str, outline: Outline) -> None:
    """Blocks of text in the order of the page; scripts, styles and what is like them are left out."""
    from lxml import etree  # type: ignore[import-untyped]

    # Into events, never into a tree: a tree has a limit of depth, behind which text is lost without a word.
    parser = etree.HTMLParser(target=_Page(outline), encoding="utf-8", no_network=True, huge_tree=True)
    parser.feed(text.encode("utf-8", "replace") or b" ")
    parser.close()


class _Page:
    """Gathers inline text until something ends the line: a block's begin or end, a line break, a row."""

    def __init__(self, outline: Outline) -> None:
        self._outline = outline
        self._pieces: list[str] = []
        self._level = 0
        self._kept_as_is = 0
        self._in_cell = 0
        self._dropped = 0

    def start(self, tag: str, _attributes: object) -> None:
        if tag in _DROPPED:
            self._dropped += 1
        elif tag == "br":
            self._pieces.append(" " if self._in_cell else "\n")
        elif tag in _CELLS:
            self._in_cell += 1
        elif tag == "tr" or (tag not in _INLINE and not self._in_cell):
            self._flush()
        if tag == "pre":
            self._kept_as_is += 1
        elif tag == "li":
            self._pieces.append("- ")
        if not self._dropped:
            self._level = _HEADINGS.get(tag, self._level)

    def end(self, tag: str) -> None:
        if tag in _DROPPED:
            self._dropped = max(0, self._dropped - 1)
        elif tag in _CELLS:
            self._in_cell = max(0, self._in_cell - 1)
            self._pieces.append(_CELL_ENDS)
        elif tag == "tr" or (tag not in _INLINE and not self._in_cell):
            self._flush()
        elif tag not in _INLINE:
            self._pieces.append(" ")
        if tag == "pre":
            self._kept_as_is = max(0, self._kept_as_is - 1)

    def data(self, text: str) -> None:
        if not self._dropped:
            self._pieces.append(text if self._kept_as_is else _SPACES.sub(" ", text))

    def close(self) -> None:
        self._flush()

    def _flush(self) -> None:
        text = "".join(self._pieces)
        self._pieces.clear()
        if not text.strip():
            return
        level, self._level = self._level, 0
        if self._kept_as_is:
            self._outline.add(Block(text.strip("\n"), level=level))
            return
        lines = [one_line(line.strip(f" {_CELL_ENDS}").replace(_CELL_ENDS, " | ")) for line in text.split("\n")]
        shown = "\n".join(line for line in lines if line)
        if shown != "-":
            self._outline.add(Block(shown, level=level))
