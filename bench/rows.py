"""Every row of the table by name, in the order of the table in the design's quality bars."""

from __future__ import annotations

from collections.abc import Callable

from bench import cold_import, runs, writes
from bench.measure import Row


def all_rows() -> dict[str, Callable[[], Row]]:
    """Row name -> measuring function. Imports of handlers make one row each."""
    return {
        "one write at 50,000 files against 50": writes.large_against_small,
        "run_code: `pass` through the supervisor": runs.overhead,
        **cold_import.rows(),
    }
