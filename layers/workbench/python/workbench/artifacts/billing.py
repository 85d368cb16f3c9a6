"""Who pays for stored files: bytes and byte-hours for each department, month and person.

A month's record holds two sums that only ever get added to: the bytes that came and went, and each of those times the
second of the month at which it did. From them the byte-hours up to any moment follow exactly, whoever wrote first.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from workbench.errors import InvalidRequest
from workbench.keys import Key
from workbench.operations import Condition, Item, Operation, Update, update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

HOUR_SECONDS = 3600
# An expired object goes up to days late, and the news of it must still find who pays.
LATE_SECONDS = 14 * 86_400

_STILL_BILLED = Condition("attribute_exists(PK) AND attribute_not_exists(unbilledAt)")


@dataclass(frozen=True, slots=True)
class Month:
    """A calendar month in UTC; ``start`` and ``end`` in Unix seconds."""

    name: str
    start: int
    end: int

    @classmethod
    def of(cls, seconds: float) -> Month:
        at = datetime.fromtimestamp(seconds, UTC)
        return cls._made(at.year, at.month)

    @classmethod
    def parse(cls, text: str) -> Month:
        """The month written ``yyyy-mm``; raises InvalidRequest."""
        year, dash, month = text.partition("-")
        digits = text.isascii() and year.isdigit() and month.isdigit()
        if not (digits and dash and len(year) == 4 and len(month) == 2 and 1 <= int(month) <= 12 and int(year) >= 1970):
            raise InvalidRequest("`month` must be a month such as `2026-09`.", field="month")
        return cls._made(int(year), int(month))

    @classmethod
    def _made(cls, year: int, month: int) -> Month:
        following = (year + 1, 1) if month == 12 else (year, month + 1)
        start, end = (int(datetime(*date, 1, tzinfo=UTC).timestamp()) for date in ((year, month), following))
        return cls(f"{year:04d}-{month:02d}", start, end)


def usage_key(department: str, month: Month, user: str) -> Key:
    return f"U#{department}", f"{month.name}#P#{user}"


def change(department: str, user: str, bytes_more: int, at: float) -> Operation:
    """The write that notes ``bytes_more`` (negative when they went) at that moment."""
    month = Month.of(at)
    sums = Update().add("bytes", bytes_more).add("moment", bytes_more * (int(at) - month.start))
    return update(usage_key(department, month, user), sums)


def take_off(runtime: Runtime, version: Item) -> None:
    """Note once that a version's bytes are gone; repeating it changes nothing."""
    now = runtime.clock.now()
    marked = update((version["PK"], version["SK"]), Update().set("unbilledAt", now), _STILL_BILLED)
    paid = change(version["department"], version["owner"], -version["bytes"], now)
    try:
        runtime.table.transact([marked, paid])
    except ConditionFailed:
        return


def usage(runtime: Runtime, department: str, month: Month) -> list[dict[str, Any]]:
    """``{"person", "bytes", "byteHours"}`` for everybody with stored bytes in that month, up to now or its end."""
    items = runtime.table.query(f"U#{department}")
    return totals(items, month, min(runtime.clock.now(), month.end))


def totals(items: Iterable[Item], month: Month, until: float) -> list[dict[str, Any]]:
    """The usage that the department's records (in order of month) give for ``month`` up to ``until``."""
    carried: dict[str, int] = {}
    seconds: dict[str, float] = {}
    passed = until - month.start
    for item in items:
        name, _, person = item["SK"].partition("#P#")
        if name > month.name:
            continue
        carried[person] = carried.get(person, 0) + item["bytes"]
        if name == month.name:
            # What came this month counts from when it came, not from the month's beginning.
            seconds[person] = -item["moment"]
    rows = [
        {
            "person": person,
            "bytes": stored,
            "byteHours": round((stored * passed + seconds.get(person, 0)) / HOUR_SECONDS, 2),
        }
        for person, stored in sorted(carried.items())
    ]
    return [row for row in rows if row["bytes"] or row["byteHours"]]
