"""The part of a model in ``workbench inspect``: a few rules pick a tool for a sentence and draft its arguments.

Rules, no model and no key. Arguments are drafted as models send them, numbers as text among them, so that the call
path has something to convert.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any
from zoneinfo import available_timezones

# What the router knows how to draft; the last answers anything that is neither arithmetic, a unit nor the time.
CANDIDATES = ("calculate", "convert_units", "current_time", "search_docs")

_NUMBER = r"-?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?"
_UNIT = r"[^\W\d_][\w/^*·²³°%. -]{0,40}?|°[CF]|%"
_CONVERT = re.compile(rf"({_NUMBER})\s*({_UNIT})\s+(?:to|in|into|as)\s+({_UNIT})\s*[?.!]*$", re.IGNORECASE)
_HOW_MANY = re.compile(
    rf"how (?:many|much)\s+({_UNIT})\s+(?:(?:is|are) in|is|are|in|make|equals?)\s+({_NUMBER})\s*({_UNIT})\s*[?.!]*$",
    re.IGNORECASE,
)
_TIME = re.compile(r"\b(what time|the time|current time|time is it|what day|which day|the date|today|o'clock)\b", re.I)
_PLACE = re.compile(r"\b(?:in|at|for)\s+([A-Za-z][A-Za-z_/' -]{1,40}?)\s*[?.!]*$")
_PLACES = re.compile(r"(?:to|with|at)\s+(\d{1,2})\s+(?:decimal places?|decimals?|places?|digits?)", re.IGNORECASE)
_ASKED = re.compile(
    r"^\s*(?:please\s+)?(?:calculate|compute|evaluate|work out|solve|how much is|what(?:'s| is| are))\b[:\s]*", re.I
)
_TOLD = re.compile(r"^\s*(?:please\s+)?(?:calculate|compute|evaluate|work out|solve)\b", re.IGNORECASE)
_ARITHMETIC = re.compile(r"[\d.]\s*[-+*/^×÷−]|\b(?:sqrt|min|max|abs|round)\s*\(")
_WORDS = (
    (rf"({_NUMBER})\s*(?:%|percent)\s+of\s+", r"\1 / 100 * "),
    (r"\b(?:the )?square root of\s+(\d[\d.]*)", r"sqrt(\1)"),
    (r"\bto the power of\b", "^"),
    (r"\s*\bsquared\b", "^2"),
    (r"\s*\bcubed\b", "^3"),
    (r"\b(?:multiplied by|times)\b", "*"),
    (r"\bdivided by\b", "/"),
    (r"\bplus\b", "+"),
    (r"\bminus\b", "-"),
    (r"(?<=\d)\s+x\s+(?=\d)", " * "),
)


@dataclass(frozen=True)
class Choice:
    """The tool for a sentence, why, and its arguments as drafted."""

    tool: str
    because: str
    arguments: dict[str, Any]


def choose(sentence: str, available: Collection[str]) -> Choice:
    """Pick one of the ``available`` tools; raises ValueError when none of them fits the sentence."""
    for rule in (_convert, _time, _calculate, _search):
        found = rule(sentence.strip())
        if found is not None and found.tool in available:
            return found
    raise ValueError(f"none of {', '.join(available) or 'no tools'} fits the sentence")


def _convert(sentence: str) -> Choice | None:
    asked = _CONVERT.search(sentence)
    turned = _HOW_MANY.search(sentence)
    if turned:
        target, value, source = turned.groups()
    elif asked:
        value, source, target = asked.groups()
    else:
        return None
    drafted = {"value": value.replace(",", ""), "from": _unit(source), "to": _unit(target)}
    return Choice("convert_units", "a number with a unit, and another unit that it is wanted in", drafted)


def _time(sentence: str) -> Choice | None:
    if not _TIME.search(sentence):
        return None
    place = _PLACE.search(sentence)
    if place is None:
        return Choice("current_time", "it asks for the time or the date", {})
    wanted = place[1].strip().replace(" ", "_")
    cities = {zone.rpartition("/")[2].lower(): zone for zone in sorted(available_timezones()) if "/" in zone}
    zone = cities.get(wanted.lower(), wanted)
    return Choice("current_time", f"it asks for the time or the date, in {place[1].strip()}", {"zone": zone})


def _calculate(sentence: str) -> Choice | None:
    """Whatever follows a word like *calculate* is drafted as it stands: judging it is the calculator's business."""
    precision = _PLACES.search(sentence)
    text = _PLACES.sub("", sentence) if precision else sentence
    text = _ASKED.sub("", text).rstrip(" ?!.,")
    for words, operator in _WORDS:
        text = re.sub(words, operator, text, flags=re.IGNORECASE)
    told = _TOLD.match(sentence) is not None
    if not text or not (told or _ARITHMETIC.search(text)):
        return None
    # Lone strings for lists and text for numbers: what small models send.
    drafted: dict[str, Any] = {"expressions": " ".join(text.split())}
    if precision:
        drafted["precision"] = precision[1]
    because = "it says to calculate" if told else "numbers with operators between them"
    return Choice("calculate", because, drafted)


def _search(sentence: str) -> Choice:
    because = "no arithmetic, no units, no time: the documents are searched"
    return Choice("search_docs", because, {"query": sentence, "k": "3"})


def _unit(text: str) -> str:
    return re.sub(r"^(?:degrees?|deg)\s+(?=[CFcfKk])", "", text.strip(" ?.!"))
