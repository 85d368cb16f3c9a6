"""The fields of a request body, checked one by one. Every refusal names the field, the rule and what was given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import ids
from workbench.errors import InvalidRequest, TooLarge
from workbench.http import kind_of

NAME_CHARACTERS = 256
LIST_ENTRIES = 200


def given(body: Mapping[str, Any], field: str, default: Any) -> Any:
    """The field's value, or ``default`` when it is missing or null."""
    value = body.get(field)
    return default if value is None else value


def name(value: Any, field: str) -> str:
    """A name of a person, department, group or model: printable, not blank, at most 256 characters."""
    if not isinstance(value, str):
        raise InvalidRequest(f"`{field}` must be a text, not {kind_of(value)}.", field=field)
    if not value or value != value.strip() or not value.isprintable() or len(value) > NAME_CHARACTERS:
        raise InvalidRequest(
            f"`{field}` must be 1 to {NAME_CHARACTERS} printable characters without blanks at its ends.", field=field
        )
    return value


def person(value: Any, field: str) -> str:
    """A person's id: a name that can stand in a path, where ``/v1/people/{user}/erase`` needs it."""
    found = name(value, field)
    # API Gateway decodes a path before it looks for the route, and cuts it at a question mark.
    if "/" in found or "?" in found:
        raise InvalidRequest(f"`{field}` must not hold `/` or `?`, which end a part of a path.", field=field)
    return found


def names(value: Any, field: str, most: int = LIST_ENTRIES) -> list[str]:
    """A list of such names, each once, in the order given."""
    return list(
        dict.fromkeys(name(entry, f"{field}[{number}]") for number, entry in enumerate(_list(value, field, most)))
    )


def part(value: Any, field: str) -> str:
    """An id part: ``[A-Za-z0-9_-]{1,64}``."""
    if not ids.is_part(value):
        raise InvalidRequest(f"`{field}` must be 1 to 64 characters of A-Z, a-z, 0-9, `_` and `-`.", field=field)
    return str(value)


def table(value: Any, field: str) -> Mapping[str, Any]:
    """A JSON object."""
    if not isinstance(value, dict):
        raise InvalidRequest(f"`{field}` must be an object, not {kind_of(value)}.", field=field)
    return value


def flag(value: Any, field: str) -> bool:
    """true or false, nothing that merely looks like it."""
    if not isinstance(value, bool):
        raise InvalidRequest(f"`{field}` must be true or false, not {kind_of(value)}.", field=field)
    return value


def text(value: Any, field: str, most_bytes: int) -> str:
    """Any text that can be written as UTF-8, up to ``most_bytes`` of it."""
    if not isinstance(value, str):
        raise InvalidRequest(f"`{field}` must be a text, not {kind_of(value)}.", field=field)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise InvalidRequest(f"`{field}` holds half a surrogate pair, which is no character.", field=field) from None
    if size > most_bytes:
        raise TooLarge(f"`{field}` is {size:,} bytes of UTF-8; at most {most_bytes:,} are kept.", field=field)
    return value


def number(value: str | None, field: str, default: int, most: int) -> int:
    """A whole number of the query from 1 to ``most``, or ``default`` when it is missing."""
    if value is None:
        return default
    found = int(value) if value.isascii() and value.isdigit() and len(value) <= len(str(most)) else 0
    if not 1 <= found <= most:
        raise InvalidRequest(f"`{field}` must be a whole number from 1 to {most:,}.", field=field)
    return found


def choice(value: Any, field: str, allowed: tuple[str, ...]) -> str:
    """One of ``allowed``."""
    if value not in allowed:
        raise InvalidRequest(f"`{field}` must be one of {', '.join(f'`{word}`' for word in allowed)}.", field=field)
    return str(value)


def _list(value: Any, field: str, most: int) -> list[Any]:
    if not isinstance(value, list):
        raise InvalidRequest(f"`{field}` must be a list, not {kind_of(value)}.", field=field)
    if len(value) > most:
        raise InvalidRequest(f"`{field}` has {len(value)} entries; at most {most} are allowed.", field=field)
    return value
