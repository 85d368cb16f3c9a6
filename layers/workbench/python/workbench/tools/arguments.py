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
import math
import re
import types
import typing
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Len, MaxLen
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo

from workbench.errors import ToolError

LONGEST_ARRAY = 1_000
DEEPEST_NESTING = 32
PROBLEMS_NAMED = 10
SHOWN_CHARACTERS = 80
REPORTED_CHARACTERS = 200

_WHOLE = re.compile(r"\s*([+-]?[0-9]{1,30})(?:\.0*)?\s*")
_DECIMAL = re.compile(r"\s*[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?\s*")


class ArgumentObject(BaseModel):
    """Base of the objects that tools take as arguments: camelCase outside, unknown names refused."""

    model_config = ConfigDict(alias_generator=to_camel, extra="forbid", frozen=True)


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
        if isinstance(raw, str):
            if not raw.strip():
                return cls({}, digest({}))
            try:
                values = decode(raw)
            except ValueError as error:
                return cls({}, digest(raw), Problem("arguments", f"must be a JSON object ({error})", raw))
        else:
            values = {} if raw is None else raw
        if not isinstance(values, dict):
            return cls({}, digest(values), Problem("arguments", "must be a JSON object", values))
        try:
            return cls(values, digest(values))
        except RecursionError:
            return cls({}, digest("nested"), Problem("arguments", "must not be nested so deeply", given=False))


def digest(decoded: object) -> str:
    """SHA-256 of the canonical JSON of ``decoded``: sorted keys, no blanks, ASCII."""
    return hashlib.sha256(json.dumps(decoded, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def decode(text: str) -> Any:
    """The value of a JSON text; raises ValueError with a short reason."""
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        raise ValueError(f"not valid JSON: {error.msg} at character {error.pos}") from error
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except ValueError as error:
        raise ValueError(f"not valid JSON: {error}"[:100]) from error


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not a JSON number")


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


def nearest(name: str, known: typing.Iterable[str]) -> str | None:
    """The known name most like ``name``, if any is close."""
    import difflib  # needed on refusals only

    by_plain = {_letters(candidate): candidate for candidate in known}
    close = difflib.get_close_matches(_letters(name[:64]), by_plain, n=1, cutoff=0.6)
    return by_plain[close[0]] if close else None


def _letters(name: str) -> str:
    return name.replace("_", "").replace("-", "").lower()


# ---------------------------------------------------------------- reading values


@dataclass(slots=True)
class Notes:
    """What reading one call's arguments turned up."""

    conversions: list[dict[str, Any]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, at: str, rule: str, got: object) -> Any:
        self.problems.append(Problem(at, rule, got))
        return got

    def convert(self, at: str, before: object, after: Any) -> Any:
        self.conversions.append({"argument": at, "from": reported(before), "to": reported(after)})
        return after

    def merge(self, other: Notes) -> None:
        self.conversions += other.conversions
        self.problems += other.problems


class Shape:
    """What JSON a parameter takes. Bounds are pydantic's business; kinds and conversions are decided here."""

    nullable: bool = False

    def words(self) -> str:
        """What is taken, as a refusal says it after "must be"."""
        raise NotImplementedError

    def fits(self, value: object) -> bool:
        """True when ``value`` is of this JSON kind already."""
        raise NotImplementedError

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        """``value`` as this kind; conversions and problems go to ``notes``."""
        raise NotImplementedError


@dataclass(slots=True)
class Text(Shape):
    nullable: bool = False

    def words(self) -> str:
        return "text"

    def fits(self, value: object) -> bool:
        return isinstance(value, str)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if isinstance(value, str):
            return value
        advice = "must be text in quotes, written exactly as it is meant"
        return notes.refuse(at, "must be text" if value is None else advice, value)


@dataclass(slots=True)
class Integer(Shape):
    nullable: bool = False

    def words(self) -> str:
        return "a whole number"

    def fits(self, value: object) -> bool:
        return type(value) is int

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if type(value) is int:
            return value
        if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
            return notes.convert(at, value, int(value))
        match = _WHOLE.fullmatch(value) if isinstance(value, str) else None
        if match:
            return notes.convert(at, value, int(match[1]))
        return notes.refuse(at, "must be a whole number", value)


@dataclass(slots=True)
class Number(Shape):
    nullable: bool = False

    def words(self) -> str:
        return "a number"

    def fits(self, value: object) -> bool:
        return type(value) in (int, float)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if type(value) is int and abs(value) < 10**308:
            return value
        if type(value) is float and math.isfinite(value):
            return value
        if isinstance(value, str) and _DECIMAL.fullmatch(value) and math.isfinite(float(value)):
            whole = _WHOLE.fullmatch(value)
            return notes.convert(at, value, int(whole[1]) if whole else float(value))
        finite = "must be a finite number" if type(value) in (int, float) else "must be a number"
        return notes.refuse(at, finite, value)


@dataclass(slots=True)
class Boolean(Shape):
    nullable: bool = False

    def words(self) -> str:
        return "true or false"

    def fits(self, value: object) -> bool:
        return isinstance(value, bool)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if isinstance(value, bool):
            return value
        word = value.strip().lower() if isinstance(value, str) else None
        if word in ("true", "false"):
            return notes.convert(at, value, word == "true")
        return notes.refuse(at, "must be true or false", value)


@dataclass(slots=True)
class Choice(Shape):
    """One of a few fixed values (``Literal``)."""

    values: tuple[Any, ...]
    nullable: bool = False

    def words(self) -> str:
        return "one of " + ", ".join(map(str, self.values))

    def fits(self, value: object) -> bool:
        return any(type(value) is type(one) and value == one for one in self.values)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if self.fits(value):
            return value
        for shape in (Integer(), Boolean()):
            attempt = Notes()
            read = shape.read(value, at, attempt)
            if not attempt.problems and self.fits(read):
                notes.merge(attempt)
                return read
        return notes.refuse(at, f"must be {self.words()}", value)


@dataclass(slots=True)
class Array(Shape):
    item: Shape
    most: int = LONGEST_ARRAY
    advice: str = ""
    nullable: bool = False

    def words(self) -> str:
        return f"a list, each item {self.item.words()}"

    def fits(self, value: object) -> bool:
        return isinstance(value, list)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if isinstance(value, list):
            return self._items(value, at, notes)
        reason = ""
        if isinstance(value, str):
            try:
                decoded = decode(value)
            except ValueError as error:
                reason = str(error)
            else:
                attempt = Notes()
                if isinstance(decoded, list):
                    read = self._items(decoded, at, attempt)
                    # Text that happens to look like an array of something else is one item of text after all.
                    if not attempt.problems or not self.item.fits(value):
                        notes.convert(at, value, decoded)
                        notes.merge(attempt)
                        return read
                elif isinstance(decoded, dict) and not self.item.fits(value):
                    notes.convert(at, value, [decoded])
                    return self._items([decoded], at, notes)
        attempt = Notes()
        one = self.item.read(value, f"{at}[0]", attempt) if value is not None else None
        if value is not None and (not attempt.problems or isinstance(value, dict)):
            notes.convert(at, value, [value])
            notes.merge(attempt)
            return [one]
        if isinstance(value, str) and not self.item.fits(value):
            return notes.refuse(at, f"must be a list, not JSON inside a string ({reason}){self.advice}", value)
        return notes.refuse(at, f"must be {self.words()}", value)

    def _items(self, items: list[Any], at: str, notes: Notes) -> list[Any]:
        if len(items) > self.most:
            notes.problems.append(Problem(at, f"must have at most {self.most} items", len(items)))
            return items
        return [self.item.read(item, f"{at}[{position}]", notes) for position, item in enumerate(items)]


@dataclass(slots=True)
class Object(Shape):
    """A fixed set of named fields; ``optional`` holds the published names that have a default."""

    fields: dict[str, Shape]
    defaults: dict[str, Any]
    nullable: bool = False

    def words(self) -> str:
        return "an object with " + ", ".join(self.fields)

    def fits(self, value: object) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if isinstance(value, str):
            value = _decoded_object(value, at, notes)
        if not isinstance(value, dict):
            return notes.refuse(at, f"must be {self.words()}", value)
        found: dict[str, Any] = {}
        prefix = f"{at}." if at else ""
        for name, part in value.items():
            shape = self.fields.get(name)
            if shape is None:
                if len(notes.problems) < PROBLEMS_NAMED:
                    notes.problems.append(self._unknown(f"{prefix}{name}", name))
            elif part is None and not shape.nullable and name in self.defaults:
                notes.convert(f"{prefix}{name}", None, self.defaults[name])
            else:
                found[name] = part if part is None and shape.nullable else shape.read(part, f"{prefix}{name}", notes)
        return found

    def _unknown(self, at: str, name: str) -> Problem:
        near = nearest(name, self.fields)
        if near:
            hint = f"did you mean {near}?"
        else:
            hint = f"there are {', '.join(self.fields)}" if self.fields else "there are none"
        return Problem(reported(at), f"is no parameter here ({hint})", given=False)


def _decoded_object(text: str, at: str, notes: Notes) -> Any:
    try:
        decoded = decode(text)
    except ValueError:
        return text
    return notes.convert(at, text, decoded) if isinstance(decoded, dict) else text


@dataclass(slots=True)
class AnyObject(Shape):
    """A JSON object with free names (``dict[str, …]``)."""

    item: Shape
    nullable: bool = False

    def words(self) -> str:
        return "an object"

    def fits(self, value: object) -> bool:
        return isinstance(value, dict)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        if isinstance(value, str):
            value = _decoded_object(value, at, notes)
        if not isinstance(value, dict):
            return notes.refuse(at, "must be an object", value)
        if len(value) > LONGEST_ARRAY:
            notes.problems.append(Problem(at, f"must have at most {LONGEST_ARRAY} entries", given=False))
            return value
        return {name: self.item.read(part, f"{at}.{name}", notes) for name, part in value.items()}


@dataclass(slots=True)
class Anything(Shape):
    nullable: bool = True

    def words(self) -> str:
        return "any value"

    def fits(self, value: object) -> bool:  # noqa: ARG002 - everything fits
        return True

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        level = [value]
        for _ in range(DEEPEST_NESTING):
            level = [part for outer in level for part in _parts(outer)]
            if not level:
                return value
        notes.problems.append(Problem(at, f"must not be nested deeper than {DEEPEST_NESTING} levels", given=False))
        return value


def _parts(value: object) -> typing.Iterable[Any]:
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


@dataclass(slots=True)
class OneOf(Shape):
    members: tuple[Shape, ...]
    nullable: bool = False

    def words(self) -> str:
        return ", or ".join(member.words() for member in self.members)

    def fits(self, value: object) -> bool:
        return any(member.fits(value) for member in self.members)

    def read(self, value: Any, at: str, notes: Notes) -> Any:
        fitting = [member for member in self.members if member.fits(value)]
        if isinstance(value, dict):
            # Between several objects the names decide; the first wins a tie.
            fitting.sort(key=lambda member: -len(value.keys() & getattr(member, "fields", {}).keys()))
        if fitting:
            return fitting[0].read(value, at, notes)
        for member in self.members:
            attempt = Notes()
            read = member.read(value, at, attempt)
            if not attempt.problems:
                notes.merge(attempt)
                return read
        return notes.refuse(at, f"must be {self.words()}", value)


# ---------------------------------------------------------------- types to shapes

_PLAIN: dict[Any, type[Shape]] = {str: Text, int: Integer, float: Number, bool: Boolean, Any: Anything}


def shape_of(annotation: Any, metadata: typing.Sequence[Any] = ()) -> Shape:
    """The shape that a parameter's type stands for; raises TypeError for a type that no tool may take."""
    origin = get_origin(annotation)
    if origin is Annotated:
        inner, *extra = get_args(annotation)
        return shape_of(inner, [*extra, *metadata])
    if annotation in _PLAIN:
        return _PLAIN[annotation]()
    if origin in (Union, types.UnionType):
        return _union(get_args(annotation), metadata)
    if origin is Literal:
        return Choice(get_args(annotation))
    if origin is list:
        return Array(shape_of(get_args(annotation)[0]), _most(metadata))
    if origin in (dict, MappingABC):
        return AnyObject(shape_of(get_args(annotation)[1]))
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return object_of(annotation)
    raise TypeError(f"a tool cannot take a parameter of type {annotation!r}")


def object_of(model: type[BaseModel]) -> Object:
    """The shape of a pydantic model, by its published names."""
    fields: dict[str, Shape] = {}
    defaults: dict[str, Any] = {}
    for name, info in model.model_fields.items():
        published = info.alias or name
        fields[published] = shape_of(info.annotation, info.metadata)
        if not info.is_required():
            defaults[published] = info.get_default(call_default_factory=False)
    direct = fields.keys()
    for shape in fields.values():
        if isinstance(shape, Array) and isinstance(shape.item, Object):
            shared = [name for name in shape.item.fields if name in direct]
            if shared:
                shape.advice = f"; send a real list, or use the direct fields {', '.join(shared)}"
            else:
                shape.advice = "; send a real list"
    return Object(fields, defaults)


def _union(arguments: tuple[Any, ...], metadata: typing.Sequence[Any]) -> Shape:
    members = tuple(shape_of(member, metadata) for member in arguments if member is not type(None))
    shape = members[0] if len(members) == 1 else OneOf(members)
    shape.nullable = len(members) < len(arguments)
    return shape


def _most(metadata: typing.Sequence[Any]) -> int:
    for note in metadata:
        for part in note.metadata if isinstance(note, FieldInfo) else [note]:
            if isinstance(part, MaxLen | Len) and part.max_length is not None:
                return part.max_length
    return LONGEST_ARRAY
