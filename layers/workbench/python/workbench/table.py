"""The one DynamoDB table: the few operations that everything else is made of."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from botocore.exceptions import ClientError

from workbench.clients import Clients
from workbench.clock import Clock
from workbench.keys import Key
from workbench.operations import (
    Condition,
    Item,
    Operation,
    Update,
    delete,
    key_attributes,
    marshal,
    marshal_item,
    put,
    unmarshal_item,
)

BATCH_GET_KEYS = 100
CONFLICT_TRIES = 6


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
        answer = self._clients.dynamodb.get_item(TableName=self._name, Key=key_attributes(key), ConsistentRead=True)
        return unmarshal_item(answer["Item"]) if answer.get("Item") else None

    def get_many(self, keys: Sequence[Key]) -> dict[Key, Item]:
        """Those of ``keys`` that exist, in one request for up to 100."""
        found: dict[Key, Item] = {}
        for start in range(0, len(keys), BATCH_GET_KEYS):
            wanted: list[dict[str, Any]] = [key_attributes(key) for key in keys[start : start + BATCH_GET_KEYS]]
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

    def index_page(self, index: str, limit: int, after: Item | None = None) -> tuple[list[Item], Item | None]:
        """Up to ``limit`` keys of an index, whosever they are, and where the next page begins; None at the end.

        Not in any order, and as of a moment ago: for sweeps only.
        """
        request: dict[str, Any] = {"TableName": self._name, "IndexName": index, "Limit": limit}
        if after is not None:
            request["ExclusiveStartKey"] = marshal_item(after)
        answer = self._clients.dynamodb.scan(**request)
        following = answer.get("LastEvaluatedKey")
        found = [unmarshal_item(raw) for raw in answer.get("Items", [])]
        return found, unmarshal_item(following) if following else None

    def put(self, item: Mapping[str, Any], condition: Condition | None = None) -> None:
        """Write one item; raises :class:`ConditionFailed`."""
        self.transact([put(item, condition)])

    def update(self, key: Key, change: Update, condition: Condition | None = None) -> Item:
        """Change one item and return it whole as it now is; raises :class:`ConditionFailed`."""
        request: dict[str, Any] = {"TableName": self._name, "Key": key_attributes(key), "ReturnValues": "ALL_NEW"}
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
        waiting = [{"DeleteRequest": {"Key": key_attributes(key)}} for key in keys]
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
