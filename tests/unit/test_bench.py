"""The benchmarks' arithmetic, and that every row can be made and says what it compares; nothing is timed here."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console

from bench import edits
from bench.__main__ import WIDTH, main, table
from bench.measure import Figures, Row, in_turns
from bench.rows import all_rows


def row(ours: float, theirs: float, **bars: float) -> Row:
    return Row(Figures((ours,)), "peer", Figures((theirs,)), "bar", **bars)


def test_a_figure_is_the_median_with_its_spread() -> None:
    figures = Figures((30.0, 10.0, 20.0, 1_000.0))
    assert figures.median == 25.0
    assert str(figures) == "25.0 ms (10.0-1,000.0)"


@pytest.mark.parametrize(("ours", "held"), [(20.0, True), (20.1, False)])
def test_a_ratio_holds_up_to_its_bar(ours: float, held: bool) -> None:
    assert row(ours, 10.0, most=2.0).held is held


@pytest.mark.parametrize(("ours", "held"), [(110.0, True), (110.1, False)])
def test_a_difference_holds_up_to_its_bar(ours: float, held: bool) -> None:
    assert row(ours, 10.0, more=100.0).held is held


def test_a_row_without_a_bar_is_for_information() -> None:
    assert row(1_000.0, 1.0).held


def test_a_fault_or_a_missing_peer_counts_as_missed() -> None:
    assert not Row(Figures((1.0,)), "peer", Figures((2.0,)), "bar", most=1.0, fault="other bytes").held
    assert not Row(None, "peer", None, "bar", most=1.0).held


def test_works_take_turns_and_each_round_turns_round() -> None:
    order: list[str] = []
    figures = in_turns(lambda: order.append("a"), lambda: order.append("b"), runs=2)
    assert order == ["a", "b", "a", "b", "b", "a"]
    assert [len(of_one.runs) for of_one in figures] == [2, 2]


def test_every_handler_and_every_comparison_has_a_row() -> None:
    rows = all_rows()
    assert all(map(callable, rows.values()))
    handlers = {path.parent.name for path in Path("functions").glob("*/handler.py")}
    assert {f"cold import of {handler}" for handler in handlers} <= rows.keys()
    for words in (
        "deepagents",
        "MCP",
        "simpleeval",
        "asteval",
        "FastMCP",
        "pydantic-ai",
        "search",
        "mount",
        "memory",
        "TF-IDF",
        "index",
    ):
        assert any(words in name for name in rows)


def test_the_table_fits_its_width_and_names_what_missed() -> None:
    measured = {"a row with a name as long as they get": row(12_345.0, 1.0, most=2.0), "held": row(1.0, 2.0, most=2.0)}
    written = io.StringIO()
    Console(file=written, width=WIDTH).print(table(measured))
    lines = written.getvalue().splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert any("missed" in line and "12345.00x" in line for line in lines)


def test_a_word_in_no_row_measures_nothing() -> None:
    assert main(["no row is called that"]) == 2


def test_only_our_edit_keeps_the_bytes_it_was_not_asked_to_change(tmp_path: Path) -> None:
    assert edits.is_exact(edits.edit_in_place, tmp_path)
    assert not edits.is_exact(edits.read_replace_write, tmp_path)
