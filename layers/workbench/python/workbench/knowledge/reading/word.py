"""DOCX: headings, paragraphs, tables, text boxes, then notes, comments, headers and footers. Macros stay bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

from workbench.knowledge.passages import Block
from workbench.knowledge.reading.outline import Outline, Refused, one_line
from workbench.knowledge.reading.tables import add_rows

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_FALLBACK = "{http://schemas.openxmlformats.org/markup-compatibility/2006}Fallback"
_P, _TABLE, _ROW, _CELL, _RUN = f"{_W}p", f"{_W}tbl", f"{_W}tr", f"{_W}tc", f"{_W}r"
_WRAPPERS = frozenset(f"{_W}{name}" for name in ("sdt", "sdtContent", "customXml", "smartTag", "ins", "moveTo"))
_TEXTS = {f"{_W}tab": "\t", f"{_W}br": "\n", f"{_W}cr": "\n", f"{_W}noBreakHyphen": "-", f"{_W}softHyphen": ""}
_MACROS = (
    "application/vnd.ms-word.document.macroEnabled.main+xml",
    "application/vnd.ms-word.template.macroEnabledTemplate.main+xml",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.template.main+xml",
)
_HEADING_STYLE = re.compile(r"heading ([1-9])\Z", re.IGNORECASE)
# ECMA-376, 17.9.9 outlineLvl: 0 to 8 are headings, 9 is text.
_OUTLINE_LEVELS = tuple("012345678")
# Small tables read on with the paragraphs around them.
_SMALL_TABLE_CHARACTERS = 600
_OTHER_PARTS = {
    "footnotes": "footnotes",
    "endnotes": "endnotes",
    "comments": "comments",
    "header": "headers and footers",
    "footer": "headers and footers",
}


def read_docx(data: bytes, outline: Outline) -> None:
    """The document's text in reading order. Raises :class:`Refused`."""
    from docx.opc.constants import RELATIONSHIP_TYPE
    from docx.opc.part import PartFactory
    from docx.package import Package
    from docx.parts.document import DocumentPart

    for content_type in _MACROS:
        PartFactory.part_type_for[content_type] = DocumentPart
    part = Package.open(io.BytesIO(data)).main_document_part
    body = part.element.find(f"{_W}body")
    if body is None:
        raise Refused("broken", "The DOCX has no body; it may be damaged.")
    styles = next((rel for rel in part.rels.values() if rel.reltype == RELATIONSHIP_TYPE.STYLES), None)
    levels = _heading_levels(styles.target_part.element) if styles is not None else {}
    _read_body(body, levels, outline, None)
    for name in dict.fromkeys(_OTHER_PARTS.values()):
        _read_others(part, name, outline)


def _read_body(body: Any, levels: dict[str, int], outline: Outline, part: str | None) -> None:
    _remove_what_is_not_shown(body)
    for element in _blocks(body):
        if element.tag == _TABLE:
            _read_table(element, outline, part)
        else:
            style = element.find(f"{_W}pPr/{_W}pStyle")
            level = levels.get(style.get(f"{_W}val"), 0) if style is not None else 0
            outline.add(Block(_text(element), part=part, level=level))


def _read_others(part: Any, name: str, outline: Outline) -> None:
    """Notes, comments, headers and footers; a header that every section repeats is taken once."""
    from docx.oxml.parser import parse_xml

    seen: set[str] = set()
    for relation in part.rels.values():
        kind = relation.reltype.rpartition("/")[2]
        if relation.is_external or _OTHER_PARTS.get(kind) != name:
            continue
        target = relation.target_part
        root = target.element if hasattr(target, "element") else parse_xml(target.blob)
        _remove_what_is_not_shown(root)
        for element in root if kind in ("footnotes", "endnotes", "comments") else [root]:
            text = "\n".join(filter(str.strip, (_text(block) for block in _blocks(element))))
            if text not in seen:
                seen.add(text)
                outline.add(Block(text, part=name))


def _blocks(parent: Any) -> Iterator[Any]:
    """Paragraphs and tables in order, out of whatever wraps them."""
    waiting = list(reversed(parent))
    while waiting:
        element = waiting.pop()
        if element.tag in (_P, _TABLE):
            yield element
        elif element.tag in _WRAPPERS:
            waiting.extend(reversed(element))


def _read_table(table: Any, outline: Outline, part: str | None) -> None:
    rows = [[one_line(_text(cell)) for cell in _inside(row, _CELL)] for row in _inside(table, _ROW)]
    lines = [" | ".join(row).rstrip(" |") for row in rows]
    if sum(map(len, lines)) <= _SMALL_TABLE_CHARACTERS:
        outline.add(Block("\n".join(line for line in lines if line), part=part))
    else:
        add_rows(enumerate(rows, 1), outline, part or "table")


def _inside(parent: Any, tag: str) -> Iterator[Any]:
    """Rows of a table or cells of a row, also those in content controls."""
    waiting = list(reversed(parent))
    while waiting:
        element = waiting.pop()
        if element.tag == tag:
            yield element
        elif element.tag in _WRAPPERS:
            waiting.extend(reversed(element))


def _text(element: Any) -> str:
    """The text of an element, its text boxes and inner tables included, with a line end between paragraphs."""
    pieces: list[str] = []
    for node in element.iter():
        tag = node.tag
        if tag == f"{_W}t":
            pieces.append(node.text or "")
        elif tag == _P and pieces:
            pieces.append("\n")
        # Tab stops of a paragraph have the same name as tabs in its text.
        elif tag in _TEXTS and node.getparent().tag == _RUN:
            pieces.append(_TEXTS[tag])
    return "".join(pieces)


def _remove_what_is_not_shown(root: Any) -> None:
    """Text that was deleted or moved away under tracked changes, and copies for old readers."""
    from lxml import etree  # type: ignore[import-untyped]

    etree.strip_elements(root, f"{_W}del", f"{_W}moveFrom", _FALLBACK, with_tail=False)


def _heading_levels(styles: Any) -> dict[str, int]:
    """The level of each style that is a heading, by its id."""
    levels: dict[str, int] = {}
    for style in styles.findall(f"{_W}style"):
        name = style.find(f"{_W}name")
        shown = name.get(f"{_W}val", "") if name is not None else ""
        outline_level = style.find(f"{_W}pPr/{_W}outlineLvl")
        if match := _HEADING_STYLE.match(shown):
            levels[style.get(f"{_W}styleId")] = int(match[1])
        elif shown.lower() == "title":
            levels[style.get(f"{_W}styleId")] = 1
        elif outline_level is not None and (depth := outline_level.get(f"{_W}val", "")) in _OUTLINE_LEVELS:
            levels[style.get(f"{_W}styleId")] = int(depth) + 1
    return levels
