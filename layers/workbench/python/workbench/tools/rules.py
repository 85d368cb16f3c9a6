"""pydantic's findings in the words of a refusal: ``k must be <= 5, got 99``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pydantic import ValidationError

from workbench.tools.arguments import Problem
from workbench.tools.shapes import AnyObject, Array, Object, OneOf, Shape

_RULES: dict[str, Callable[[dict[str, Any]], str]] = {
    "greater_than": lambda c: f"must be > {c['gt']:g}",
    "greater_than_equal": lambda c: f"must be >= {c['ge']:g}",
    "less_than": lambda c: f"must be < {c['lt']:g}",
    "less_than_equal": lambda c: f"must be <= {c['le']:g}",
    "multiple_of": lambda c: f"must be a multiple of {c['multiple_of']:g}",
    "string_too_short": lambda c: f"must have at least {_count(c['min_length'], 'character')}",
    "string_too_long": lambda c: f"must have at most {_count(c['max_length'], 'character')}",
    "string_pattern_mismatch": lambda c: f"must match the pattern {c['pattern']}",
    "string_unicode": lambda _: "must be text that can be stored as UTF-8 (it holds half of a surrogate pair)",
    "too_short": lambda c: f"must have at least {_count(c['min_length'], 'item')}",
    "too_long": lambda c: f"must have at most {_count(c['max_length'], 'item')}",
    "missing": lambda _: "is required",
    "value_error": lambda c: str(c["error"]),
}
# Kinds were checked before pydantic looked; of a union's members it also reports those that were never meant.
_KIND_FINDINGS = ("_type", "_parsing", "is_instance_of", "none_required")


def problems_of(error: ValidationError, shape: Object, leave_out: set[str]) -> list[Problem]:
    """One problem per finding, with the published path; ``leave_out`` names parameters that have a problem already."""
    problems: dict[tuple[str, str], Problem] = {}
    kinds: dict[tuple[str, str], Problem] = {}
    for finding in error.errors(include_url=False):
        if finding["loc"] and finding["loc"][0] in leave_out:
            continue
        kind, context = finding["type"], finding.get("ctx", {})
        words = _RULES.get(kind)
        rule = words(context) if words else finding["msg"][:1].lower() + finding["msg"][1:]
        path = _path(finding["loc"], shape)
        given = kind != "missing"
        problem = Problem(path, rule, _measured(kind, context, finding["input"]) if given else None, given)
        found = kinds if kind.endswith(_KIND_FINDINGS) else problems
        found.setdefault((path, rule), problem)
    return list(problems.values()) or list(kinds.values())


def _measured(kind: str, context: dict[str, Any], value: Any) -> Any:
    if kind.startswith("string_too"):
        return len(value)
    return context.get("actual_length", value) if kind.startswith("too_") else value


def _path(location: tuple[int | str, ...], shape: Shape) -> str:
    """``edits[1].startLine``, without the names that pydantic gives the members of a union."""
    path = ""
    here: Shape | None = shape
    for part in location:
        if isinstance(here, OneOf):
            here = next((member for member in here.members if isinstance(member, Object | Array)), None)
            continue
        if isinstance(part, int):
            path += f"[{part}]"
        else:
            path += f".{part}" if path else part
        if isinstance(here, Object):
            here = here.fields.get(str(part))
        elif isinstance(here, Array | AnyObject):
            here = here.item
    return path


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
