"""What is asked of the table, as data: attribute values, named conditions, and writes, alone or in a transaction.

Items are plain dicts of str, int, float, bool, bytes, list, dict and None with the keys ``PK`` and ``SK``. The
small converter below stands in for boto3's because every call needs it and boto3's gives Decimals.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.keys import Key

Item = dict[str, Any]
Strings = set[str]


# ---------------------------------------------------------------- attribute values


def marshal(value: Any) -> dict[str, Any]:
    """A plain value as a DynamoDB attribute value."""
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, int | float):
        return {"N": repr(value)}
    if isinstance(value, bytes | bytearray):
        return {"B": bytes(value)}
    if value is None:
        return {"NULL": True}
    if isinstance(value, Mapping):
        return {"M": {key: marshal(part) for key, part in value.items()}}
    if isinstance(value, list | tuple):
        return {"L": [marshal(part) for part in value]}
    if isinstance(value, set | frozenset):
        return {"SS": sorted(value)}
    raise TypeError(f"no attribute value for {type(value).__name__}")


def unmarshal(attribute: Mapping[str, Any]) -> Any:
    """The plain value of an attribute value; numbers become int where they are whole, otherwise float."""
    ((kind, value),) = attribute.items()
    if kind in ("S", "BOOL"):
        return value
    if kind == "N":
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if kind == "B":
        return bytes(value)
    if kind == "NULL":
        return None
    if kind == "M":
        return {key: unmarshal(part) for key, part in value.items()}
    if kind == "L":
        return [unmarshal(part) for part in value]
    if kind == "SS":
        return set(value)
    raise TypeError(f"no plain value for attribute type {kind}")


def marshal_item(item: Mapping[str, Any]) -> dict[str, Any]:
    return {name: marshal(value) for name, value in item.items()}


def unmarshal_item(item: Mapping[str, Any]) -> Item:
    return {name: unmarshal(value) for name, value in item.items()}


# ---------------------------------------------------------------- conditions


@dataclass(frozen=True)
class Condition:
    """A named condition: expression text with the names and values it uses."""

    text: str
    names: Mapping[str, str] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)


def all_of(*conditions: Condition) -> Condition:
    """The conditions joined by AND. Placeholders must not clash unless they mean the same."""
    names: dict[str, str] = {}
    values: dict[str, Any] = {}
    for condition in conditions:
        names.update(condition.names)
        values.update(condition.values)
    return Condition(" AND ".join(f"({condition.text})" for condition in conditions), names, values)


ABSENT = Condition("attribute_not_exists(PK)")
PRESENT = Condition("attribute_exists(PK)")
ACTIVE = Condition("#status = :active", {"#status": "status"}, {":active": "active"})


def not_leased(now: float) -> Condition:
    """Nobody holds the lease. ``leaseUntil`` is never removed; 0 means free."""
    return Condition("leaseUntil < :now", {}, {":now": now})


def same_base(version: int, fence: int) -> Condition:
    """Nothing was committed, and nobody was fenced out, since the head was read."""
    return Condition(
        "#version = :base AND fence = :fence", {"#version": "version"}, {":base": version, ":fence": fence}
    )


# ---------------------------------------------------------------- operations as data


@dataclass(frozen=True)
class Operation:
    """One write, to be sent alone or as part of a transaction."""

    kind: str
    request: Mapping[str, Any]


class Update:
    """``SET``, ``REMOVE``, ``ADD`` and ``DELETE`` clauses; names are always aliased, so no reserved word can bite.

    A path is a tuple for a nested attribute: ``Update().set(("seen", "a.txt"), {...})``.
    """

    def __init__(self) -> None:
        self._set: list[str] = []
        self._remove: list[str] = []
        self._add: list[str] = []
        self._take: list[str] = []
        self._names: dict[str, str] = {}
        self._values: dict[str, Any] = {}

    def set(self, path: str | tuple[str, ...], value: Any) -> Update:
        self._set.append(f"{self._name(path)} = {self._value(value)}")
        return self

    def set_if_absent(self, path: str | tuple[str, ...], value: Any) -> Update:
        name = self._name(path)
        self._set.append(f"{name} = if_not_exists({name}, {self._value(value)})")
        return self

    def remove(self, path: str | tuple[str, ...]) -> Update:
        self._remove.append(self._name(path))
        return self

    def add(self, name: str, amount: int | float | Strings) -> Update:
        """Add to a top-level number or set (nested ADD passes in moto and fails in AWS)."""
        self._add.append(f"{self._name(name)} {self._value(amount)}")
        return self

    def take(self, name: str, members: Strings) -> Update:
        """Take ``members`` out of a top-level set; fine when they, or the set, are not there."""
        self._take.append(f"{self._name(name)} {self._value(members)}")
        return self

    def _name(self, path: str | tuple[str, ...]) -> str:
        parts = (path,) if isinstance(path, str) else path
        aliases = []
        for part in parts:
            alias = f"#u{len(self._names)}"
            self._names[alias] = part
            aliases.append(alias)
        return ".".join(aliases)

    def _value(self, value: Any) -> str:
        alias = f":u{len(self._values)}"
        self._values[alias] = value
        return alias

    def expression(self, condition: Condition | None) -> dict[str, Any]:
        """The request's expression fields."""
        clauses = [
            f"{word} {', '.join(parts)}"
            for word, parts in (
                ("SET", self._set),
                ("REMOVE", self._remove),
                ("ADD", self._add),
                ("DELETE", self._take),
            )
            if parts
        ]
        names, values = dict(self._names), dict(self._values)
        request: dict[str, Any] = {"UpdateExpression": " ".join(clauses)}
        if condition is not None:
            names.update(condition.names)
            values.update(condition.values)
            request["ConditionExpression"] = condition.text
        request["ExpressionAttributeNames"] = names
        if values:
            request["ExpressionAttributeValues"] = marshal_item(values)
        return request


def key_attributes(key: Key) -> dict[str, Any]:
    """The key as a request carries it."""
    return {"PK": {"S": key[0]}, "SK": {"S": key[1]}}


def put(item: Mapping[str, Any], condition: Condition | None = None) -> Operation:
    return Operation("Put", {"Item": marshal_item(item), **conditional(condition)})


def update(key: Key, change: Update, condition: Condition | None = None) -> Operation:
    return Operation("Update", {"Key": key_attributes(key), **change.expression(condition)})


def delete(key: Key, condition: Condition | None = None) -> Operation:
    return Operation("Delete", {"Key": key_attributes(key), **conditional(condition)})


def check(key: Key, condition: Condition) -> Operation:
    return Operation("ConditionCheck", {"Key": key_attributes(key), **conditional(condition)})


def conditional(condition: Condition | None) -> dict[str, Any]:
    if condition is None:
        return {}
    request: dict[str, Any] = {"ConditionExpression": condition.text}
    if condition.names:
        request["ExpressionAttributeNames"] = dict(condition.names)
    if condition.values:
        request["ExpressionAttributeValues"] = marshal_item(condition.values)
    return request
