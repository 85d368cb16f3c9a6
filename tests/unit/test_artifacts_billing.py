"""Byte-hours from two sums: exact for whatever came and went, in whatever order it was written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.artifacts.billing import Month, change, totals, usage_key
from workbench.errors import InvalidRequest
from workbench.operations import Item, unmarshal_item

SEPTEMBER = Month.parse("2026-09")
OCTOBER = Month.parse("2026-10")
DAY = 86_400


def record(changes: list[tuple[int, float]]) -> list[Item]:
    """The items that the changes (bytes, moment) leave, as the table would add them up."""
    items: dict[tuple[str, str], Item] = {}
    for size, at in changes:
        request = change("research", "ada", size, at).request
        key = unmarshal_item(request["Key"])
        item = items.setdefault((key["PK"], key["SK"]), {"bytes": 0, "moment": 0, **key})
        more = unmarshal_item(request["ExpressionAttributeValues"])
        names = request["ExpressionAttributeNames"]
        for clause in request["UpdateExpression"].removeprefix("ADD ").split(", "):
            name, value = clause.split()
            item[names[name]] += more[value]
    return [items[key] for key in sorted(items)]


def test_months_begin_and_end_at_midnight_utc() -> None:
    assert SEPTEMBER.end == OCTOBER.start == Month.of(OCTOBER.start).start
    assert Month.of(OCTOBER.start - 1) == SEPTEMBER
    assert Month.parse("2026-12").end == Month.parse("2027-01").start
    assert usage_key("research", SEPTEMBER, "ada") == ("U#research", "2026-09#P#ada")


@pytest.mark.parametrize(
    "text", ["", "2026", "2026-13", "2026-00", "26-01", "2026-1", "2026-01-01", "²026-01", "0000-01"]
)
def test_what_is_no_month_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        Month.parse(text)


def test_a_file_counts_from_when_it_came_to_when_it_went() -> None:
    items = record([(1000, SEPTEMBER.end - 2 * DAY), (-1000, OCTOBER.start + DAY)])
    assert totals(items, SEPTEMBER, SEPTEMBER.end) == [{"person": "ada", "bytes": 1000, "byteHours": 48_000.0}]
    assert totals(items, OCTOBER, OCTOBER.end) == [{"person": "ada", "bytes": 0, "byteHours": 24_000.0}]
    assert totals(items, Month.parse("2026-08"), SEPTEMBER.start) == []
    assert totals(items, Month.parse("2026-11"), OCTOBER.end + DAY) == []


@given(
    st.lists(
        st.tuples(st.integers(1, 10**9), st.integers(0, 60 * DAY), st.integers(1, 90 * DAY)), min_size=1, max_size=20
    )
)
def test_the_sums_agree_with_adding_up_every_file(files: list[tuple[int, int, int]]) -> None:
    start = SEPTEMBER.start
    changes = [(size, start + came) for size, came, _ in files]
    changes += [(-size, start + came + stayed) for size, came, stayed in files]
    items = record(changes)
    for month in (SEPTEMBER, OCTOBER):
        seconds = sum(
            size * max(0, min(start + came + stayed, month.end) - max(start + came, month.start))
            for size, came, stayed in files
        )
        stored = sum(size for size, came, stayed in files if start + came < month.end <= start + came + stayed)
        rows = totals(items, month, month.end)
        assert sum(row["bytes"] for row in rows) == pytest.approx(stored)
        assert sum(row["byteHours"] for row in rows) == pytest.approx(seconds / 3600, abs=0.01)
