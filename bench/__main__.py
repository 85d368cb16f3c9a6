"""``make bench``: one table, each row this project and its peer on the same input in the same run, as a ratio.

Figures are medians with their spread; machines are noisy, so the ratio is what to look at. ``python -m bench NAME …``
runs only the rows whose name holds one of the words.
"""

from __future__ import annotations

import logging
import sys

from rich.console import Console
from rich.table import Table

from bench.measure import Row
from bench.rows import all_rows


def main(words: list[str]) -> int:
    """Print the table; 1 when a row misses its bar."""
    table = Table(title="Workbench against its peers", title_justify="left")
    for column in ("what", "Workbench", "peer", "peer's", "ratio", "bar", ""):
        table.add_column(column, justify="right" if column in ("Workbench", "peer's", "ratio") else "left")
    # Only the table: what handlers and sandboxes log is not for here.
    logging.disable(logging.CRITICAL)
    console, missed = Console(width=150 if not sys.stdout.isatty() else None), 0
    for name, measure in all_rows().items():
        if words and not any(word in name for word in words):
            continue
        with console.status(name):
            row: Row = measure()
        held = row.held
        missed += not held
        table.add_row(
            name,
            str(row.ours),
            row.peer,
            str(row.theirs),
            row.shown_ratio,
            row.bar,
            "[green]held[/]" if held else "[red]missed[/]",
        )
    console.print(table)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
