"""The one DynamoDB table: its keys, its named conditions and the few operations everything else is made of.

Items are plain dicts of str, int, float, bool, bytes, list, dict and None with the keys ``PK`` and ``SK``. The
small converter below stands in for boto3's because every call needs it and boto3's gives Decimals.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from workbench.clients import Clients
from workbench.clock import Clock
from workbench.ids import TurnId

Item = dict[str, Any]
Key = tuple[str, str]
Strings = set[str]

BATCH_GET_KEYS = 100
CONFLICT_TRIES = 6


# ---------------------------------------------------------------- keys


def conversation_key(conversation: str, sort: str) -> Key:
    """An item of a conversation: META, HEAD, V#…, T#…, BRK, PINS, APPR#…, ART#…, RUN#…."""
    return f"C#{conversation}", sort


def meta_key(conversation: str) -> Key:
    return conversation_key(conversation, "META")


def head_key(conversation: str) -> Key:
    return conversation_key(conversation, "HEAD")


def version_key(conversation: str, version: int) -> Key:
    return conversation_key(conversation, f"V#{version:010d}")


def turn_key(turn: TurnId) -> Key:
    return conversation_key(turn.conversation, f"T#{turn.part}")


def call_key(turn: TurnId, call: str) -> Key:
    return conversation_key(turn.conversation, f"T#{turn.part}#CALL#{call}")


def seen_key(turn: TurnId) -> Key:
    return conversation_key(turn.conversation, f"T#{turn.part}#SEEN")


def breaker_key(conversation: str) -> Key:
    return conversation_key(conversation, "BRK")


def run_key(run: str) -> Key:
    return f"R#{run}", "RUN"


def run_output_key(run: str) -> Key:
    return f"R#{run}", "OUT"


def sandbox_key(sandbox: str) -> Key:
    return f"SBX#{sandbox}", "SBX"


def artifact_key(artifact: str) -> Key:
    return f"A#{artifact}", "META"


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


# ---------------------------------------------------------------- operations


class ConditionFailed(Exception):
    """A condition was false. ``reasons`` has one code per operation of the transaction (``None`` = fine)."""

    def __init__(self, reasons: Sequence[str | None]) -> None:
        super().__init__(f"condition failed: {list(reasons)}")
        self.reasons = list(reasons)

    def failed(self, position: int) -> bool:
        """True when the operation at ``position`` had a false condition."""
        return position < len(self.reasons) and self.reasons[position] == "ConditionalCheckFailed"


class Contended(Exception):
    """Other transactions kept touching the same items until the tries ran out. Nothing was written."""


class Table:
    """The table, in the few operations that the domain uses. All reads are strongly consistent."""

    def __init__(self, clients: Clients, name: str, clock: Clock) -> None:
        self._clients = clients
        self._name = name
        self._clock = clock

    def get(self, key: Key) -> Item | None:
        """One item, or None."""
        answer = self._clients.dynamodb.get_item(TableName=self._name, Key=_key(key), ConsistentRead=True)
        return unmarshal_item(answer["Item"]) if answer.get("Item") else None

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Those of ``keys`` that exist, in one request for up to 100."""
        found: dict[Key, Item] = {}
        for start in range(0, len(keys), BATCH_GET_KEYS):
            wanted: list[dict[str, Any]] = [_key(key) for key in keys[start : start + BATCH_GET_KEYS]]
            attempt = 0
            while wanted:
                answer = self._clients.dynamodb.batch_get_item(
                    RequestItems={self._name: {"Keys": wanted, "ConsistentRead": True}}
                )
                for raw in answer.get("Responses", {}).get(self._name, []):
                    item = unmarshal_item(raw)
                    found[item["PK"], item["SK"]] = item
                wanted = answer.get("UnprocessedKeys", {}).get(self._name, {}).get("Keys", [])
                if wanted:
                    attempt += 1
                    self._pause(attempt)
        return found

    def query(
        self,
        partition: str,
        prefix: str = "",
        *,
        index: str | None = None,
        newest_first: bool = False,
        limit: int | None = None,
        after: str | None = None,
    ) -> list[Item]:
        """Items of a partition whose sort key starts with ``prefix``, in sort-key order; every page is fetched.

        ``after`` skips sort keys up to and including it. With ``index="gsi1"`` only keys come back.
        """
        names = ("gsi1pk", "gsi1sk") if index else ("PK", "SK")
        text, values = f"{names[0]} = :pk", {":pk": marshal(partition)}
        if after is not None:
            text += f" AND {names[1]} BETWEEN :after AND :end"
            values |= {":after": marshal(after + "\0"), ":end": marshal(prefix + "\U0010ffff")}
        elif prefix:
            text += f" AND begins_with({names[1]}, :prefix)"
            values[":prefix"] = marshal(prefix)
        request: dict[str, Any] = {
            "TableName": self._name,
            "KeyConditionExpression": text,
            "ExpressionAttributeValues": values,
            "ScanIndexForward": not newest_first,
        }
        request |= {"IndexName": index} if index else {"ConsistentRead": True}
        items: list[Item] = []
        while True:
            if limit is not None:
                request["Limit"] = limit - len(items)
            answer = self._clients.dynamodb.query(**request)
            items += [unmarshal_item(raw) for raw in answer.get("Items", [])]
            following = answer.get("LastEvaluatedKey")
            if not following or (limit is not None and len(items) >= limit):
                return items
            request["ExclusiveStartKey"] = following

    def put(self, item: Mapping[str, Any], condition: Condition | None = None) -> None:
        """Write one item; raises :class:`ConditionFailed`."""
        self.transact([put(item, condition)])

    def update(self, key: Key, change: Update, condition: Condition | None = None) -> Item:
        """Change one item and return it whole as it now is; raises :class:`ConditionFailed`."""
        request: dict[str, Any] = {"TableName": self._name, "Key": _key(key), "ReturnValues": "ALL_NEW"}
        request |= change.expression(condition)
        answer = self._retrying(self._clients.dynamodb.update_item, request)
        return unmarshal_item(answer["Attributes"])

    def delete(self, key: Key, condition: Condition | None = None) -> None:
        """Remove one item; no error when it is not there."""
        self.transact([delete(key, condition)])

    def transact(self, operations: Sequence[Operation]) -> None:
        """All operations or none. One operation goes as a plain request (half the cost of a transaction).

        Raises :class:`ConditionFailed` with a reason per operation, :class:`Contended` when conflicts persist.
        """
        if len(operations) == 1:
            self._single(operations[0])
            return
        request = {
            "TransactItems": [
                {operation.kind: {"TableName": self._name, **operation.request}} for operation in operations
            ]
        }
        self._retrying(self._clients.dynamodb.transact_write_items, request)

    def delete_many(self, keys: Iterable[Key]) -> None:
        """Remove items without conditions, 25 a request."""
        waiting = [{"DeleteRequest": {"Key": _key(key)}} for key in keys]
        attempt = 0
        while waiting:
            batch, waiting = waiting[:25], waiting[25:]
            answer = self._clients.dynamodb.batch_write_item(RequestItems={self._name: batch})
            unprocessed = answer.get("UnprocessedItems", {}).get(self._name, [])
            if unprocessed:
                attempt += 1
                self._pause(attempt)
            waiting = unprocessed + waiting

    def _single(self, operation: Operation) -> None:
        request = {"TableName": self._name, **operation.request}
        client = self._clients.dynamodb
        if operation.kind == "ConditionCheck":
            raise ValueError("a condition check needs a transaction")
        call = {"Put": client.put_item, "Update": client.update_item, "Delete": client.delete_item}
        self._retrying(call[operation.kind], request)

    def _retrying(self, call: Any, request: Mapping[str, Any]) -> Any:
        for attempt in range(1, CONFLICT_TRIES + 1):
            try:
                return call(**request)
            except ClientError as error:
                reasons = _reasons(error)
                if reasons is None:
                    raise
                if "ConditionalCheckFailed" in reasons:
                    raise ConditionFailed(reasons) from error
                # Another transaction touches an item of ours right now: no condition is known to be false.
                self._pause(attempt)
        raise Contended

    def _pause(self, attempt: int) -> None:
        self._clock.sleep(random.uniform(0.5, 1.0) * min(0.8, 0.025 * 2**attempt))  # noqa: S311


def _reasons(error: ClientError) -> list[str | None] | None:
    code = error.response.get("Error", {}).get("Code")
    if code == "ConditionalCheckFailedException":
        return ["ConditionalCheckFailed"]
    if code in ("TransactionConflictException", "TransactionInProgressException"):
        return ["TransactionConflict"]
    if code != "TransactionCanceledException":
        return None
    reasons = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
    known = {"None", None, "ConditionalCheckFailed", "TransactionConflict", "ThrottlingError"}
    if not set(reasons) <= known:
        return None
    return [None if reason == "None" else reason for reason in reasons]


def _key(key: Key) -> dict[str, Any]:
    return {"PK": {"S": key[0]}, "SK": {"S": key[1]}}


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


def put(item: Mapping[str, Any], condition: Condition | None = None) -> Operation:
    return Operation("Put", {"Item": marshal_item(item), **_conditional(condition)})


def update(key: Key, change: Update, condition: Condition | None = None) -> Operation:
    return Operation("Update", {"Key": _key(key), **change.expression(condition)})


def delete(key: Key, condition: Condition | None = None) -> Operation:
    return Operation("Delete", {"Key": _key(key), **_conditional(condition)})


def check(key: Key, condition: Condition) -> Operation:
    return Operation("ConditionCheck", {"Key": _key(key), **_conditional(condition)})


def _conditional(condition: Condition | None) -> dict[str, Any]:
    if condition is None:
        return {}
    request: dict[str, Any] = {"ConditionExpression": condition.text}
    if condition.names:
        request["ExpressionAttributeNames"] = dict(condition.names)
    if condition.values:
        request["ExpressionAttributeValues"] = marshal_item(condition.values)
    return request
