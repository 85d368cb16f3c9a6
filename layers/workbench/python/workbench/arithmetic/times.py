"""The time in a zone, from the IANA data that Python's zoneinfo reads (the system's, or the tzdata package's)."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from workbench.errors import ToolError
from workbench.tools.arguments import nearest

_ZONE_NAME = re.compile(r"[A-Z][A-Za-z0-9_+-]*(?:/[A-Za-z0-9_+-]+){0,2}")


class UnknownZone(ToolError):
    """No zone has that name; ``details.nearest`` holds the most similar one."""

    code = "unknown_zone"


@dataclass(frozen=True, slots=True)
class Moment:
    """``time`` is ISO 8601 with the zone's offset, to the second."""

    time: str
    zone: str
    abbreviation: str
    weekday: str
    week: int


def moment(seconds: float, zone: str) -> Moment:
    """Unix ``seconds`` as people in ``zone`` read them; raises :class:`UnknownZone`."""
    known = _zone(zone)
    local = datetime.fromtimestamp(int(seconds), known)
    return Moment(local.isoformat(), known.key, local.tzname() or "", local.strftime("%A"), local.isocalendar().week)


def _zone(name: str) -> ZoneInfo:
    # The name becomes part of a file's path, so only names that no path trick fits in are looked up.
    if len(name) <= 64 and _ZONE_NAME.fullmatch(name):
        try:
            return ZoneInfo(name)
        except (ZoneInfoNotFoundError, ValueError, OSError):
            pass
    zones = sorted(available_timezones())
    wanted = name[:64].replace(" ", "_").lower()
    spelled = next((zone for zone in zones if zone.lower() == wanted), None)
    if spelled:
        return ZoneInfo(spelled)
    city = next((zone for zone in zones if zone.rpartition("/")[2].lower() == wanted), None)
    near = city or nearest(name, zones)
    hint = f"Did you mean {near}?" if near else "Give an IANA name such as Europe/Berlin or UTC."
    raise UnknownZone(f"There is no time zone {name[:64]!r}. {hint}", nearest=near)
