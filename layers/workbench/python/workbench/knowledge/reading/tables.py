"""Rows: CSV of any dialect, Excel sheets, and what both share, a header row that is repeated where rows go on."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime, time, timedelta
from itertools import groupby
from typing import Any

from workbench.knowledge.passages import FULL_CHARACTERS, HEADER_CHARACTERS, Block
from workbench.knowledge.reading.outline import Full, Outline, Refused, clean, one_line
from workbench.workspace.text.visible import counted

# What a sheet may make a reader walk over, empty cells before a far one included.
CELLS = 5_000_000
DELIMITERS = ",;\t|"

_SAMPLE_CHARACTERS = 64 * 1024
_SAMPLE_ROWS = 50
_FIELD_CHARACTERS = 1_000_000
# So many empty cells in a row still show how many there are.
_GAP_CELLS = 3
_NUMBER = re.compile(r"[-+]?[\d.,'\s]*\d[\d.,'\s]*%?\Z")


def add_rows(rows: Iterable[tuple[int, Sequence[str]]], outline: Outline, part: str | None) -> int:
    """Add numbered rows, the first as header where it reads like one; returns how many are not empty.

    Rows are counted to their end even when the room for text is used up, which :class:`Full` says then.
    """
    count, held = 0, _Held(outline, part)
    for number, cells in rows:
        if not any(cells):
            continue
        count += 1
        if held.full:
            continue
        line = _line(cells)
        if count == 1 and len(line) <= HEADER_CHARACTERS and _is_header(cells):
            held.header, held.header_row = clean(line), number
        elif line:
            held.take(number, line)
    held.give()
    if held.full:
        outline.extent["rows"] = outline.extent.get("rows", 0) + count
        raise Full
    return count


class _Held:
    """Rows on their way into one block, which is as long as a passage: a block for each would cost too much."""

    def __init__(self, outline: Outline, part: str | None) -> None:
        self._outline, self._part = outline, part
        self._lines: list[str] = []
        self._first = self._last = self._size = 0
        self.header, self.header_row = "", 0
        self.full = False

    def take(self, number: int, line: str) -> None:
        if self._lines and self._size + len(line) >= FULL_CHARACTERS - len(self.header):
            self.give()
        if not self._lines:
            self._first = number
        self._lines.append(line)
        self._size += len(line) + 1
        self._last, self.header_row = number, 0

    def give(self) -> None:
        block: Block | None = None
        if self._lines:
            text = "\n".join(self._lines)
            block = Block(text, self._part, row=self._first, last_row=self._last, header=self.header, glue="\n")
        elif self.header_row:
            # A header with nothing below it is all that the sheet says.
            block = Block(self.header, self._part, row=self.header_row, last_row=self.header_row, glue="\n")
        self._lines.clear()
        self._size = 0
        try:
            if block is not None and not self.full:
                self._outline.add(block)
        except Full:
            self.full = True


def _line(cells: Sequence[str]) -> str:
    """The cells of a row on one line; a long gap shows as one mark."""
    last = len(cells)
    while last and not cells[last - 1]:
        last -= 1
    if cells[:last].count("") <= _GAP_CELLS:
        return " | ".join(map(one_line, cells[:last])).strip()
    shown: list[str] = []
    for filled, run in groupby(cells[:last], key=bool):
        part = [one_line(cell) for cell in run]
        shown += part if filled or len(part) <= _GAP_CELLS else ["…"]
    return " | ".join(shown).strip()


def _is_header(cells: Sequence[str]) -> bool:
    """Every cell that holds anything holds words."""
    filled = [cell for cell in cells if cell.strip()]
    return len(filled) > 1 and not any(_NUMBER.match(cell.strip()) for cell in filled)


# ---------------------------------------------------------------- CSV


def read_csv(text: str, outline: Outline) -> None:
    """Rows of cells; what is no table under any delimiter is one cell a line."""
    text = clean(text)
    delimiter, text = _delimiter(text)
    csv.field_size_limit(_FIELD_CHARACTERS)
    outline.extent["rows"] = 0
    try:
        count = add_rows(_csv_rows(text, delimiter), outline, None)
    except csv.Error as error:
        raise Refused(
            "broken",
            "The CSV has a cell that does not end, as after a lone quotation mark. Close it, or upload the file as "
            "plain text (.txt).",
        ) from error
    outline.extent["rows"] = count


def _csv_rows(text: str, delimiter: str) -> Iterator[tuple[int, Sequence[str]]]:
    return enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=delimiter), 1)


def _delimiter(text: str) -> tuple[str, str]:
    """The delimiter, and the text without a line that declares it (``sep=;``, as Excel writes)."""
    first, _, rest = text.partition("\n")
    if first.lower().startswith("sep=") and len(first) == 5:
        return first[4], rest
    sample = text[:_SAMPLE_CHARACTERS]
    if len(sample) < len(text):
        sample = sample[: sample.rfind("\n") + 1] or sample
    return max(DELIMITERS, key=lambda delimiter: _columns(sample, delimiter)), text


def _columns(sample: str, delimiter: str) -> tuple[float, int]:
    """How well ``delimiter`` parts the sample: the share of rows as wide as most, and that width; (0, 0) for none."""
    try:
        rows = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
        widths = [len(row) for _number, row in zip(range(_SAMPLE_ROWS), rows, strict=False) if row]
    except csv.Error:
        return 0.0, 0
    if not widths:
        return 0.0, 0
    usual = max(set(widths), key=lambda width: (widths.count(width), width))
    return (widths.count(usual) / len(widths), usual) if usual > 1 else (0.0, 0)


# ---------------------------------------------------------------- Excel


def read_xlsx(data: bytes, outline: Outline) -> None:
    """Every sheet's rows with the values that Excel last showed; formulas are not worked out here."""
    import openpyxl
    from openpyxl.worksheet import _read_only

    # The reader of rows takes its parser from here, and no argument says which.
    reader: Any = _read_only
    reader.WorkSheetParser = counting = _counting()
    book = openpyxl.load_workbook(io.BytesIO(data), read_only=True, data_only=True, keep_links=False)
    sheets = [sheet for sheet in book.worksheets if hasattr(sheet, "iter_rows")]
    outline.extent |= {"sheets": len(sheets), "rows": 0}
    for sheet in sheets:
        # What a sheet says of its own size may be wrong, or meant to be.
        sheet.reset_dimensions()
        hidden = " (hidden)" if sheet.sheet_state != "visible" else ""
        outline.extent["rows"] += add_rows(_sheet_rows(sheet), outline, f"sheet {one_line(sheet.title)}{hidden}")
    if counting.unknown:
        outline.notes.append(
            f"{counted(counting.unknown, 'formula')} without a value in the file, as in files that programs write: "
            "left out. Open the file in a spreadsheet program and save it, or work out the values with a program."
        )


def _counting() -> Any:
    """A parser of sheets, whose ``unknown`` counts the formulas whose values were never stored."""
    from openpyxl.worksheet._reader import FORMULA_TAG, VALUE_TAG, WorkSheetParser

    class Counting(WorkSheetParser):
        unknown = 0

        def parse_cell(self, element: Any) -> Any:
            cell = super().parse_cell(element)
            # An empty text that is stored is a formula's value, too.
            empty = cell["value"] is None and element.find(VALUE_TAG) is None
            if empty and element.find(FORMULA_TAG) is not None:
                Counting.unknown += 1
            return cell

    return Counting


def _sheet_rows(sheet: Any) -> Iterator[tuple[int, Sequence[str]]]:
    seen = 0
    for number, row in enumerate(sheet.iter_rows(values_only=True), 1):
        seen += len(row)
        if seen > CELLS:
            raise Refused(
                "too_large",
                f"The sheet `{one_line(sheet.title)}` spans more than {CELLS:,} cells. Split it, or save the part that "
                "matters as CSV.",
            )
        if row:
            yield number, [shown(value) for value in row]


def shown(value: Any) -> str:
    """A cell's value as text: dates as ISO 8601, whole numbers without a fraction."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, float):
        return format(value, ".15g")
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == time.min else value.isoformat(" ", "seconds")
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, timedelta):
        return str(value)
    return str(value)
