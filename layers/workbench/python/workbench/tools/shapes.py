"""The JSON kinds that parameters take: what fits, what is converted without losing anything, what is refused.

Kinds are decided here; bounds (lengths, ranges, patterns) are left to pydantic, which looks after this did.
"""

from __future__ import annotations

import math
import re
import types
import typing
from collections.abc import Mapping as MappingABC
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Len, MaxLen
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from workbench.tools.arguments import PROBLEMS_NAMED, Problem, decode, nearest, reported

LONGEST_ARRAY = 1_000
DEEPEST_NESTING = 32

# Compiled when first a number comes as text, which most functions never see.
_WHOLE = r"\s*([+-]?[0-9]{1,30})(?:\.0*)?\s*"
_DECIMAL = r"\s*[+-]?(?:[0-9]{1,40}\.?[0-9]{0,40}|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,4})?\s*"


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
        match = re.fullmatch(_WHOLE, value) if isinstance(value, str) else None
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
        if isinstance(value, str) and re.fullmatch(_DECIMAL, value) and math.isfinite(float(value)):
            whole = re.fullmatch(_WHOLE, value)
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
        reason = "it holds no list"
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
        if value is not None and (not attempt.problems or (isinstance(value, dict) and self.item.fits(value))):
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
