"""How the commands look: tables, sizes and times, questions before something goes. What is shown is never obeyed."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rich.bar import Bar
from rich.cells import cell_len
from rich.console import Console, RenderableType
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from local.admin.client import AdminError
from workbench.workspace.paths import printable

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
BAR_COLUMNS = 24
# Blanks between two columns, and a width that holds every line.
GAP, UNBOUNDED = 2, 100_000

Cell = str | Text | Bar


def say(result: RenderableType = "") -> None:
    """Print a result, with no blanks at line ends. Where nobody looks on, a line is as long as what it says."""
    needed = (
        sum(column.width or 0 for column in result.columns) + GAP * len(result.columns)
        if isinstance(result, Table)
        else 0
    )
    console = Console(highlight=False, width=max(screen(), needed))
    with console.capture() as printed:
        console.print(result)
    for line in printed.get().removesuffix("\n").split("\n"):
        print(line.rstrip(" "))


def screen() -> int:
    """Characters in a line: those of the terminal, or more than anything takes."""
    return Console().width if sys.stdout.isatty() else UNBOUNDED


def notes() -> Console:
    """Where progress, questions and complaints go, so that standard output holds results alone."""
    return Console(stderr=True, highlight=False)


def as_json(value: Any) -> None:
    print(json.dumps(value, ensure_ascii=True, indent=2))


def plain(value: object) -> Text:
    """Text of others, shown as it is: no markup, no control characters."""
    return Text(printable(str(value)))


def size(count: float) -> str:
    """Bytes as people read them: ``1.5 MiB``."""
    unit = 0
    while count >= 1024 and unit < len(_UNITS) - 1:
        count /= 1024
        unit += 1
    return f"{count:.0f} B" if unit == 0 else f"{count:.1f} {_UNITS[unit]}"


def byte_hours(count: float) -> str:
    """Bytes kept for hours: ``1.5 MiB·h`` is 1.5 MiB kept for one."""
    return f"{size(count)}·h"


def count(number: int, one: str, many: str = "") -> str:
    """``1 file``, ``2 files``."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def when(time: str | None) -> str:
    """A time as ``2026-11-30 19:28``, UTC."""
    return "" if time is None else time[:16].replace("T", " ")


def table(columns: Sequence[tuple[str, str]], rows: Iterable[Sequence[Cell]], footer: Sequence[str] = ()) -> Table:
    """``columns`` are (title, "left" or "right"). The first one, which holds what to copy, and numbers stay whole."""
    made = Table(box=None, pad_edge=False, header_style="bold", show_footer=bool(footer), footer_style="bold")
    shown = [[plain(cell) if isinstance(cell, str) else cell for cell in row] for row in rows]
    below = [*footer, *[""] * (len(columns) - len(footer))]
    widths = [
        max(cell_len(title), cell_len(below[number]), *(_width(row[number]) for row in shown), 0)
        for number, (title, _) in enumerate(columns)
    ]
    least = [
        widths[number] if number == 0 or side == "right" else cell_len(title)
        for number, (title, side) in enumerate(columns)
    ]
    fitted = _fitted(widths, least, screen() - GAP * (len(columns) - 1))
    for (title, side), foot, width in zip(columns, below, fitted, strict=True):
        made.add_column(
            title, justify="right" if side == "right" else "left", overflow="fold", footer=foot, width=width
        )
    for row in shown:
        made.add_row(*row)
    return made


def _fitted(widths: Sequence[int], least: Sequence[int], room: int) -> list[int]:
    """``widths`` in ``room``, by narrowing the widest, none below its ``least``: what is left over is too wide."""
    fitted = list(widths)
    while sum(fitted) > room:
        spare = [number for number, width in enumerate(fitted) if width > least[number]]
        if not spare:
            break
        fitted[max(spare, key=fitted.__getitem__)] -= 1
    return fitted


def _width(cell: Text | Bar) -> int:
    return cell.cell_len if isinstance(cell, Text) else BAR_COLUMNS


def facts(pairs: Iterable[tuple[str, object]]) -> Table:
    """One thing, a line for each fact."""
    made = Table(box=None, show_header=False, pad_edge=False)
    made.add_column(style="bold")
    made.add_column(overflow="fold")
    for name, value in pairs:
        made.add_row(name, value if isinstance(value, Text) else plain(value))
    return made


def bar(part: float, whole: float) -> Bar:
    return Bar(size=max(whole, 1e-9), begin=0, end=part, width=BAR_COLUMNS)


@contextmanager
def progress() -> Iterator[Progress]:
    """Bars on standard error; they vanish when the work is done."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    console = notes()
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as made:
        yield made


def confirm(question: str, *, yes: bool, exactly: str = "yes") -> None:
    """Ask before something goes; raises AdminError unless the answer is ``exactly`` that word."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise AdminError("Nobody can be asked here. Look with --dry-run first, then add --yes. Nothing was changed.")
    said = notes().input(Text(f'{question} Type "{printable(exactly)}" to go on: '))
    if said.strip() != exactly:
        raise AdminError("Nothing was changed.")
