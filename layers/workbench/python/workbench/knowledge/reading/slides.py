"""PPTX: slide by slide, titles as headings, tables, charts' figures, drawn diagrams, and the speaker's notes."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

from workbench.knowledge.passages import Block
from workbench.knowledge.reading.outline import Outline, one_line
from workbench.knowledge.reading.tables import shown

_DIAGRAM = "/diagramData"
_A = "{http://schemas.openxmlformats.org/drawingml/2006/main}"
_C = "{http://schemas.openxmlformats.org/drawingml/2006/chart}"


def read_pptx(data: bytes, outline: Outline) -> None:
    """The text of every slide in order."""
    from pptx import Presentation

    slides = Presentation(io.BytesIO(data)).slides
    outline.extent["slides"] = len(slides)
    for number, slide in enumerate(slides, 1):
        part = f"slide {number}"
        title = slide.shapes.title
        if title is not None:
            outline.add(Block(_lines(title.text_frame.text), part=part, level=1))
        for shape in _shapes(slide.shapes):
            if title is None or shape.shape_id != title.shape_id:
                for text in _texts(shape):
                    outline.add(Block(text, part=part))
        for text in _diagrams(slide.part):
            outline.add(Block(text, part=part))
        if slide.has_notes_slide:
            notes = slide.notes_slide.notes_text_frame
            if notes is not None:
                outline.add(Block(_lines(notes.text), part=f"{part} notes"))


def _shapes(shapes: Any) -> Iterator[Any]:
    """Every shape, those in groups included, in the order in which they lie on the slide."""
    waiting = list(reversed(list(shapes)))
    while waiting:
        shape = waiting.pop()
        if hasattr(shape, "shapes"):
            waiting.extend(reversed(list(shape.shapes)))
        else:
            yield shape


def _texts(shape: Any) -> Iterator[str]:
    if shape.has_text_frame:
        yield _lines(shape.text_frame.text)
    elif getattr(shape, "has_table", False):
        rows = [" | ".join(one_line(cell.text) for cell in row.cells).rstrip(" |") for row in shape.table.rows]
        yield "\n".join(row for row in rows if row)
    elif getattr(shape, "has_chart", False):
        yield _chart(shape.chart.element)


def _chart(root: Any) -> str:
    """The titles of a chart and its axes, then a line for each series: ``Sales: East 19.2, West 21.4``."""
    titles = ["".join(text.text or "" for text in title.iter(f"{_A}t")) for title in root.iter(f"{_C}title")]
    return "\n".join(filter(str.strip, [*titles, *map(_series, root.iter(f"{_C}ser"))]))


def _series(series: Any) -> str:
    names, values = _points(series, "tx"), _points(series, "val") or _points(series, "yVal")
    of = _points(series, "cat") or _points(series, "xVal")
    told = ", ".join(f"{of.get(place, '')} {values[place]}".strip() for place in sorted(values))
    return ": ".join(filter(None, [*list(names.values())[:1], told]))


def _points(series: Any, what: str) -> dict[int, str]:
    """What Office stored last of the names, categories or values of a series, by their places."""
    found: dict[int, str] = {}
    for part in series.findall(f"{_C}{what}"):
        # Categories in groups have a level for themselves and one for each kind of group, the innermost first.
        for level in list(part.iter(f"{_C}lvl")) or [part]:
            names = _level(level)
            found = _grouped(found, names) if found else names
    return found


def _level(level: Any) -> dict[int, str]:
    text_of = _dates(level) or one_line
    return {
        int(point.get("idx")): text_of(value.text or "")
        for point in level.iter(f"{_C}pt")
        for value in point.findall(f"{_C}v")
    }


def _dates(level: Any) -> Callable[[str], str] | None:
    """What makes ``2024-01-31`` of 45322, the day as spreadsheets count; None when the values are no dates."""
    code = level.findtext(f".//{_C}formatCode", "General")
    if code == "General":
        return None
    from openpyxl.styles.numbers import is_date_format
    from openpyxl.utils.datetime import CALENDAR_MAC_1904, CALENDAR_WINDOWS_1900, from_excel

    if not is_date_format(code):
        return None
    mac = level.getroottree().getroot().find(f"{_C}date1904")
    epoch = CALENDAR_WINDOWS_1900 if mac is None or mac.get("val") in ("0", "false") else CALENDAR_MAC_1904

    def dated(days: str) -> str:
        try:
            return shown(from_excel(float(days), epoch))
        except (ValueError, OverflowError):
            return one_line(days)

    return dated


def _grouped(names: dict[int, str], groups: dict[int, str]) -> dict[int, str]:
    """``names`` with the group before each; a group stands at the place of its first member."""
    group, found = "", {}
    for place in sorted(names.keys() | groups.keys()):
        group = groups.get(place, group)
        if place in names:
            found[place] = f"{group} {names[place]}".strip()
    return found


def _diagrams(part: Any) -> Iterator[str]:
    from pptx.oxml import parse_xml

    for relation in part.rels.values():
        if relation.reltype.endswith(_DIAGRAM) and not relation.is_external:
            root = parse_xml(relation.target_part.blob)
            paragraphs = ("".join(text.text or "" for text in node.iter(f"{_A}t")) for node in root.iter(f"{_A}p"))
            yield "\n".join(filter(str.strip, paragraphs))


def _lines(text: str) -> str:
    # A line break inside a paragraph is a vertical tab here.
    return text.replace("\v", "\n")
