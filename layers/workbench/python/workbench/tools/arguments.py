"""A model's arguments as they arrive: decoded, converted by type where nothing is lost, refused in words otherwise.

What lives here knows JSON kinds and parameter types, not tools. Three rules carry it:

- A conversion may change how a value is written, never what it says: ``"3"`` to 3, ``"true"`` to true, 3.0 to 3, a
  JSON string where an array or object is expected, one value where a list is expected. Each is reported.
- Text is never looked into. A ``str`` parameter keeps ``12`` or ``{"a":1}`` exactly as sent, and a number or object
  sent for it is refused rather than written out in a form nobody chose.
- Every problem of a call is named at once, with the parameter and the rule.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from workbench.errors import ToolError

PROBLEMS_NAMED = 10
SHOWN_CHARACTERS = 80
REPORTED_CHARACTERS = 200

_canonical = json.JSONEncoder(sort_keys=True, separators=(",", ":")).encode


class ArgumentObject(BaseModel):
    """Base of the objects that tools take as arguments: camelCase outside, unknown names refused."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="forbid", frozen=True)


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing wrong with one argument: ``{argument} {rule}, got {got}`` (no ``got`` when nothing was given)."""

    argument: str
    rule: str
    got: Any = None
    given: bool = True

    @property
    def text(self) -> str:
        return f"{self.argument} {self.rule}, got {shown(self.got)}" if self.given else f"{self.argument} {self.rule}"

    def as_dict(self) -> dict[str, Any]:
        return {"argument": self.argument, "rule": self.rule, "got": reported(self.got) if self.given else None}


class InvalidArguments(ToolError):
    """The call cannot be made as written. ``details.problems`` holds every problem; nothing was done."""

    code = "invalid_args"

    def __init__(self, problems: list[Problem]) -> None:
        named = problems[:PROBLEMS_NAMED]
        text = "; ".join(problem.text for problem in named)
        if len(problems) > len(named):
            text += f"; and {len(problems) - len(named)} more"
        super().__init__(f"{text}.", problems=[problem.as_dict() for problem in named])


@dataclass(frozen=True, slots=True)
class Given:
    """The arguments of one call as decoded JSON, and their digest: what "the same arguments" means.

    ``problem`` is set when they are no JSON object; the digest is then of what came instead.
    """

    values: dict[str, Any]
    digest: str
    problem: Problem | None = None

    @classmethod
    def read(cls, raw: object) -> Given:
        """Decode ``raw``, an object or a JSON string of one (blank or null means no arguments). Never raises."""
        values: object = {} if raw is None or (isinstance(raw, str) and not raw.strip()) else raw
        if isinstance(values, str):
            try:
                values = decode(values)
            except ValueError as error:
                return cls({}, digest(raw), Problem("arguments", f"must be a JSON object ({error})", raw))
        try:
            sha256 = digest(values)
        except RecursionError:
            return cls({}, digest("nested"), Problem("arguments", "must not be nested so deeply", given=False))
        if not isinstance(values, dict):
            return cls({}, sha256, Problem("arguments", "must be a JSON object", values))
        return cls(values, sha256)


def digest(decoded: object) -> str:
    """SHA-256 of the canonical JSON of ``decoded``: sorted keys, no blanks, ASCII."""
    return hashlib.sha256(_canonical(decoded).encode()).hexdigest()


def decode(text: str) -> Any:
    """The value of a JSON text; raises ValueError with a short reason."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except _NoConstant as error:
        raise ValueError(f"not valid JSON: {error}") from error
    except ValueError as error:
        # Python reads whole numbers of up to some thousand digits, and says so in words of its own.
        raise ValueError("not valid JSON: a number in it has too many digits") from error


class _NoConstant(ValueError):
    """NaN or an infinity, which Python would read."""


def _refuse_constant(name: str) -> None:
    raise _NoConstant(f"{name} is not a JSON number")


# ---------------------------------------------------------------- how values are shown


def shown(value: object) -> str:
    """``value`` as a reader of the refusal sees it: JSON, one line, cut."""
    if isinstance(value, dict) and value:
        return f"an object with {len(value)} " + ("entry" if len(value) == 1 else "entries")
    if isinstance(value, list) and len(value) > 3:
        return f"an array of {len(value)} items"
    text = _json(value[: 2 * SHOWN_CHARACTERS] if isinstance(value, str) else value)
    return text if len(text) <= SHOWN_CHARACTERS else text[:SHOWN_CHARACTERS] + "…"


def reported(value: object) -> Any:
    """``value`` for a program, replaced by a shortened text when its JSON is long (a report is not a second copy)."""
    if isinstance(value, str):
        cut = value if len(value) <= REPORTED_CHARACTERS else value[:REPORTED_CHARACTERS] + " ... [clipped]"
        return _printable(cut)
    if value is None or type(value) in (bool, float) or (type(value) is int and value.bit_length() <= 64):
        return value
    text = _json(value)
    return json.loads(text) if len(text) <= REPORTED_CHARACTERS else shown(value)


def _json(value: object) -> str:
    try:
        text = json.dumps(value, ensure_ascii=False, default=_plain)
    except (RecursionError, ValueError):
        text = f"a {type(value).__name__}"
    return _printable(text)


def _plain(value: object) -> Any:
    return value.model_dump(by_alias=True) if isinstance(value, BaseModel) else str(value)


def _printable(text: str) -> str:
    # A lone surrogate is valid in a JSON string and cannot be sent back as UTF-8.
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name most like ``name``, if any is close."""
    import difflib  # needed on refusals only

    by_plain = {_letters(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_letters(name[:64]), by_plain, n=1, cutoff=0.6)
    return by_plain[close[0]] if close else None


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()
