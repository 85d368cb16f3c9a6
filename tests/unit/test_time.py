"""The time in a zone, by the injected clock; names that could be paths are never looked up."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.arithmetic import times
from workbench.arithmetic.tools import current_time
from workbench.clock import ManualClock
from workbench.errors import ToolError

WINTER, SUMMER = 1_800_000_000.0, 1_816_000_000.0

# A busy machine takes its time over drawing examples, which says nothing about the code.
calmly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def test_the_tool_reads_the_turns_clock_and_defaults_to_utc():
    answer = current_time.function(SimpleNamespace(clock=ManualClock(WINTER)), **current_time.bind({}).values)
    assert answer.text == "2027-01-15T08:00:00+00:00 (Friday, UTC, UTC, week 2)"
    assert answer.structured["utc"] == "2027-01-15T08:00:00.000Z"
    assert answer.structured["unix"] == 1_800_000_000


@pytest.mark.parametrize(
    ("zone", "seconds", "shown"),
    [
        ("Europe/Berlin", WINTER, "2027-01-15T09:00:00+01:00"),
        ("Europe/Berlin", SUMMER, "2027-07-19T14:26:40+02:00"),
        ("Asia/Kolkata", WINTER, "2027-01-15T13:30:00+05:30"),
        ("America/Argentina/Buenos_Aires", WINTER, "2027-01-15T05:00:00-03:00"),
        ("Pacific/Kiritimati", WINTER, "2027-01-15T22:00:00+14:00"),
        ("europe/berlin", WINTER, "2027-01-15T09:00:00+01:00"),
        ("utc", WINTER, "2027-01-15T08:00:00+00:00"),
    ],
)
def test_zones(zone, seconds, shown):
    assert times.moment(seconds, zone).time == shown


@pytest.mark.parametrize(
    ("typed", "near"),
    [("berlin", "Europe/Berlin"), ("new york", "America/New_York"), ("Europe/Berln", "Europe/Berlin")],
)
def test_an_unknown_zone_is_refused_with_the_nearest(typed, near):
    with pytest.raises(times.UnknownZone, match=f"Did you mean {near}"):
        times.moment(WINTER, typed)


@pytest.mark.parametrize(
    "hostile",
    ["../../etc/passwd", "/etc/passwd", "Europe/../../etc/passwd", "Europe", "Europe/", "UTC\n", "UTC\x00",
     "C:\\zones", "a" * 5_000,
     "posixrules", "zone.tab", "tzdata.zi", "\ud800", "Z" * 64, "Etc//UTC", "."],
)  # fmt: skip
def test_names_that_could_be_paths_are_refused(hostile):
    with pytest.raises(times.UnknownZone) as caught:
        times.moment(WINTER, hostile)
    assert len(caught.value.message) < 300


@calmly
@given(st.text("EuropBln/._-+ UTC0aws", max_size=40))
def test_any_name_is_a_zone_or_refused(zone):
    try:
        assert times.moment(WINTER, zone).zone
    except ToolError as error:
        assert error.code == "unknown_zone"
