"""``make bench``: one table, each row this project and its peer on the same input in the same run, as a ratio.

Figures are medians with their spread; machines are noisy, so the ratio is what to look at. ``python -m bench WORD …``
measures only the rows whose name holds one of the words, in any case. The exit status is 1 when a row misses its bar.

Peers live in ``build/bench-env``, which ``make bench`` fills from ``requirements/bench.lock``: the libraries that this
project runs on in the same versions as in ``.venv``, the peers, and this project itself. All of them run in one
process there and take turns. What cannot share a process with anything (interpreters, ripgrep, tar, cold imports,
sandboxes) runs as a process of its own on both sides, in turns as well.
"""

from __future__ import annotations

import logging
import sys
import time

from rich import box
from rich.console import Console
from rich.table import Table

from bench.measure import Row
from bench.rows import all_rows

WIDTH = 120


def main(words: list[str]) -> int:
    """Print the table; 1 when a row misses its bar, 2 when a word stands in no row's name."""
    known = all_rows()
    idle = [word for word in words if not any(word.lower() in name.lower() for name in known)]
    if idle:
        print(f"No row has this in its name: {', '.join(idle)}. The rows: {'; '.join(known)}.", file=sys.stderr)
        return 2
    wanted = [word.lower() for word in words] or [""]
    rows = {name: row for name, row in known.items() if any(word in name.lower() for word in wanted)}
    # Only the table: what handlers and sandboxes log is not for here.
    logging.disable(logging.CRITICAL)
    measured: dict[str, Row] = {}
    for name, measure in rows.items():
        print(f"{time.strftime('%H:%M:%S')} {name}", file=sys.stderr, flush=True)
        measured[name] = measure()
    Console(width=None if sys.stdout.isatty() else WIDTH).print(table(measured))
    for name, row in measured.items():
        if row.fault:
            print(f"{name}: {row.fault}")
    missed = [name for name, row in measured.items() if not row.held]
    print(f"Missed: {'; '.join(missed)}." if missed else "Every bar is held.")
    return 1 if missed else 0


def table(measured: dict[str, Row]) -> Table:
    """The rows as a table that fits 120 columns."""
    drawn = Table(title="Workbench against its peers: median (fastest-slowest)", title_justify="left", box=box.SIMPLE)
    for column in ("what", "peer", "Workbench", "peer's", "ratio", "bar", ""):
        drawn.add_column(column, justify="right" if column in ("Workbench", "peer's", "ratio") else "left")
    for name, row in measured.items():
        verdict = "[green]held[/]" if row.held else "[red]missed[/]"
        if row.held and row.most is None and row.more is None:
            verdict = ""
        ours, theirs = (str(figures) if figures else "" for figures in (row.ours, row.theirs))
        drawn.add_row(name, row.peer, ours, theirs, row.shown_ratio, row.bar, verdict)
    return drawn


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
