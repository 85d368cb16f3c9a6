"""The three tools that compute: an expression, a unit, the time. None touches the workspace."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from workbench.arithmetic import calculator
from workbench.clock import iso
from workbench.errors import ToolError
from workbench.tools.answer import Answer, TextPart
from workbench.tools.contract import tool

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

SHOWN_CHARACTERS = 200


class NothingCalculated(ToolError):
    """No expression of the call has an answer; the entries hold the reasons."""

    code = "calculation_failed"


# What they work out is bounded by itself, and takes milliseconds: the time is for a machine that stands still.
@tool(step="compute", tags={"arithmetic"}, budget=10.0)
def calculate(
    turn: Turn,  # noqa: ARG001 - every tool gets the turn
    expressions: Annotated[list[str], Field(min_length=1, max_length=20)],
    precision: Annotated[int, Field(ge=0, le=10)] | None = None,
) -> Answer:
    """Work out arithmetic exactly, on decimals. Use it for every figure instead of estimating.

    Takes numbers (12, 0.5, 1.2e-3), + - * / ^ (or **), parentheses, min, max, abs, sqrt and round(x, places).
    -4^2 is -16; 2^3^2 is 2^9; halves round away from zero. There are no variables, no percent sign (write 15/100) and
    no commas in numbers (write 3000). Answers have 12 significant digits; expressions do not see each other.

    Args:
        expressions: Up to 20 expressions of up to 1,000 characters, like "3 * (4.5 - 1)".
        precision: Round each answer to this many decimal places.
    """
    entries = [_entry(expression, precision) for expression in expressions]
    lines = [_line(entry) for entry in entries]
    answer = Answer([TextPart("\n".join(lines))], {"entries": entries})
    if all(entry["error"] for entry in entries):
        answer.error = NothingCalculated(lines[0] if len(lines) == 1 else f"No expression has an answer. {lines[0]}")
    return answer


@tool(step="compute", tags={"arithmetic", "units"}, budget=10.0)
def convert_units(
    turn: Turn,  # noqa: ARG001 - every tool gets the turn
    value: Annotated[float, Field(allow_inf_nan=False)],
    from_unit: Annotated[str, Field(alias="from", min_length=1, max_length=80)],
    to: Annotated[str, Field(min_length=1, max_length=80)],
) -> Answer:
    """Convert a value from one unit to another, such as 20 degC to degF, 1 mile to km, 3 kg*m/s^2 to newton.

    Args:
        value: The number to convert.
        from_unit: The unit that it is in; names or symbols, joined by * and /, with powers like m^2.
        to: The unit that is wanted, of the same kind.
    """
    from workbench.arithmetic import units  # the library behind it takes half a second to load

    done = units.convert(value, from_unit, to)
    about = "≈" if done.rounded else "="
    return Answer.of(
        f"{_quantity(done.given, done.given_unit)} {about} {_quantity(done.value, done.unit)}",
        value=done.value,
        unit=done.unit,
        rounded=done.rounded,
        given={"value": done.given, "unit": done.given_unit},
    )


@tool(step="compute", tags={"time"}, budget=10.0)
def current_time(turn: Turn, zone: Annotated[str, Field(min_length=1, max_length=64)] = "UTC") -> Answer:
    """Tell the date, the time and the weekday now, in a time zone.

    Args:
        zone: IANA name of the zone, such as Europe/Berlin or America/New_York.
    """
    from workbench.arithmetic import times

    now = turn.clock.now()
    there = times.moment(now, zone)
    return Answer.of(
        f"{there.time} ({there.weekday}, {there.zone}, {there.abbreviation}, week {there.week})",
        time=there.time,
        utc=iso(now),
        zone=there.zone,
        weekday=there.weekday,
        week=there.week,
        unix=int(now),
    )


def _quantity(value: str, unit: str) -> str:
    return f"{value} {unit.removeprefix('1 ')}"


def _entry(expression: str, precision: int | None) -> dict[str, Any]:
    # Half of a surrogate pair, which JSON can carry, cannot be stored: it is refused as the mark that stands for it.
    expression = expression.encode(errors="replace").decode()
    too_long = len(expression) > calculator.LONGEST_EXPRESSION
    shown = expression[:SHOWN_CHARACTERS] + "…" if too_long else expression
    try:
        result = calculator.evaluate(expression, precision)
    except calculator.CalculationError as error:
        return {"expression": shown, "value": None, "rounded": False, "error": str(error)}
    return {"expression": shown, "value": result.value, "rounded": result.rounded, "error": None}


def _line(entry: dict[str, Any]) -> str:
    expression = " ".join(entry["expression"].split())
    if len(expression) > SHOWN_CHARACTERS:
        expression = expression[:SHOWN_CHARACTERS] + "…"
    if entry["error"]:
        return f"{expression}: {entry['error']}"
    return f"{expression} {'≈' if entry['rounded'] else '='} {entry['value']}"
