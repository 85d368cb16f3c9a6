"""Unit conversion on pint's definitions, on decimals.

pint parses expressions, so a unit is read here first, by a grammar without numbers to compute: names, whole powers,
``*``, ``/`` and *per*. pint only ever sees names that it defines.
"""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any

from workbench.arithmetic.calculator import notation, shorten
from workbench.errors import ToolError
from workbench.tools.arguments import nearest

LONGEST_UNIT = 80
MOST_FACTORS = 8
LARGEST_POWER = 9
# Two decimals that agree to this relative difference differ by the working precision only.
NOTHING_LOST = Decimal("1e-20")

_SUPERSCRIPTS = str.maketrans({"²": "^2", "³": "^3", "·": "*", "×": "*", "⋅": "*", "÷": "/", "−": "-"})
_FACTOR = re.compile(
    r"\s*(?:(?P<operator>\*(?!\*)|/)\s*)?(?P<name>[^\W\d][\w]*|°[CFcf]?|%|Å|Ω)(?:\s*(?:\^|\*\*)\s*(?P<power>-?\d))?"
)
_LETTERED_TEMPERATURES = {"C": "degC", "F": "degF", "c": "degC", "f": "degF"}
_TEMPERATURES = frozenset({"k", "kelvin", "degc", "degf", "celsius", "fahrenheit", "°c", "°f", "rankine", "degr"})

_loading = threading.Lock()


class UnitRefused(ToolError):
    """A unit that is not known, or two that measure different things."""

    code = "unknown_unit"


@dataclass(frozen=True, slots=True)
class Conversion:
    """A converted value as it is shown, with the units' full names; ``rounded`` when digits were lost."""

    value: str
    unit: str
    given: str
    given_unit: str
    rounded: bool


def convert(value: float, source: str, target: str) -> Conversion:
    """``value`` in ``source`` as so much of ``target``; raises :class:`UnitRefused`."""
    pint, registry = _pint()
    source, target = _meant(source.strip(), target.strip())
    units = [_unit(text, pint, registry) for text in (source, target)]
    number = Decimal(repr(value))
    try:
        exact = registry.Quantity(number, units[0]).to(units[1]).magnitude
    except pint.DimensionalityError as error:
        raise UnitRefused(
            f"{source} and {target} measure different things: {_dimension(units[0])} and {_dimension(units[1])}. "
            "Give two units of the same kind.",
            code="incompatible_units",
        ) from error
    except (pint.errors.PintError, TypeError, ArithmeticError) as error:
        raise UnitRefused(
            f"{source} cannot be converted to {target}: logarithmic units such as dB and values beyond the range of "
            "the library are not supported.",
            code="incompatible_units",
        ) from error
    shown = shorten(exact)
    lost = abs(shown - exact) > abs(exact) * NOTHING_LOST
    return Conversion(notation(shown), str(units[1]), notation(number), str(units[0]), lost)


@cache
def _load() -> tuple[Any, Any]:
    # Half a second that no other tool should pay at import.
    import pint

    return pint, pint.UnitRegistry(non_int_type=Decimal)


def _pint() -> tuple[Any, Any]:
    with _loading:
        return _load()


def _meant(source: str, target: str) -> tuple[str, str]:
    """C and F are coulomb and farad, unless the other side shows that temperatures are meant."""
    kinds = [text.lower() for text in (source, target)]
    if all(kind in ("c", "f") or kind in _TEMPERATURES for kind in kinds):
        return _LETTERED_TEMPERATURES.get(source, source), _LETTERED_TEMPERATURES.get(target, target)
    return source, target


def _unit(text: str, pint: Any, registry: Any) -> Any:
    if not text or len(text) > LONGEST_UNIT:
        raise UnitRefused(f"A unit has 1 to {LONGEST_UNIT} characters, like km/hour; this has {len(text)}.")
    # The library's customary units are those of the US; "nautical mile" is one name, "meter second" is not.
    text = re.sub(r"\A(?:US|U\.S\.)\s+", "", text)
    whole = _name("_".join(text.split()), registry)
    if whole:
        return registry.parse_units(whole)
    words = re.sub(r"\bper\b", "/", text.translate(_SUPERSCRIPTS))
    words = re.sub(r"\b(?:square|sq)\s+([^\W\d]\w*)", r"\1^2", words)
    words = re.sub(r"\bcubic\s+([^\W\d]\w*)", r"\1^3", words)
    factors: list[str] = []
    position = 0
    while position < len(words.rstrip()):
        match = _FACTOR.match(words, position)
        if not match or len(factors) == MOST_FACTORS or (not factors and match["operator"]):
            raise UnitRefused(
                f"{text!r} cannot be read as a unit. Write names joined by * and /, with whole powers up to "
                f"{LARGEST_POWER}: kg*m/s^2."
            )
        name = _name(match["name"], registry)
        if factors and not match["operator"]:
            raise _unknown("_".join(text.split()), registry)
        if name is None:
            raise _unknown(match["name"], registry)
        power = int(match["power"] or 1) * (-1 if match["operator"] == "/" else 1)
        factors.append(f"{name}**{power}")
        position = match.end()
    try:
        return registry.parse_units("*".join(factors))
    except (pint.errors.PintError, ValueError) as error:
        raise UnitRefused(f"{text!r} cannot be read as a unit.") from error


def _name(text: str, registry: Any) -> str | None:
    """``text`` or its lower-case form, whichever the registry defines (a prefix and a plural s allowed)."""
    if text in ("%", "°C", "°F", "°c", "°f", "°"):
        return {"%": "percent", "°": "degree"}.get(text, f"deg{text[-1].upper()}")
    if not re.fullmatch(r"[^\W\d]\w*", text) or "__" in text:
        return None
    return next((name for name in (text, text.lower()) if registry.parse_unit_name(name)), None)


def _unknown(name: str, registry: Any) -> UnitRefused:
    near = nearest(name, (unit for unit in registry if "_" not in unit[:1]))
    hint = f"Did you mean {near}?" if near else "Write its usual symbol or English name, like km, degF or gallon."
    return UnitRefused(f"There is no unit {name[:40]!r}. {hint}", unit=name[:40], nearest=near)


def _dimension(unit: Any) -> str:
    return str(unit.dimensionality).replace("[", "").replace("]", "")
