"""DynamoDB: what a transaction, an update and a query may do, one request at a time."""

from __future__ import annotations

import base64
import copy
import hashlib
import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import moto.dynamodb.models as dynamodb_models
from moto.core.exceptions import ServiceException
from moto.core.responses import ActionResult
from moto.dynamodb.exceptions import ItemSizeTooLarge, ItemSizeToUpdateTooLarge, MockValidationException
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item, LimitedSizeDict
from moto.dynamodb.models.table import Table
from moto.dynamodb.parsing import ast_nodes, expressions
from moto.dynamodb.responses import DynamoHandler

from local.moto_adaptations.registry import Patches, adaptation
from local.moto_adaptations.remembering import remember_in

ITEM_BYTES = 400 * 1024
TRANSACTION_BYTES = 4 * 1024 * 1024

_PLACEHOLDER = re.compile(r"[:#][A-Za-z0-9_]+")
_EXPRESSIONS = (
    "ConditionExpression",
    "UpdateExpression",
    "KeyConditionExpression",
    "FilterExpression",
    "ProjectionExpression",
)


@adaptation
def transactions_touch_only_their_items(patches: Patches) -> None:
    """moto deep-copies the whole table for each transaction (seconds at 20,000 items) and, when one fails, puts the
    copy back: commits that other threads made meanwhile are gone. AWS isolates transactions by item. Here the items
    of the transaction are remembered and put back, nothing else is copied.
    """

    def deepcopy(value: Any, memo: Any = None) -> Any:
        return value if isinstance(value, Table) else copy.deepcopy(value, memo)

    patches.replace(dynamodb_models, "copy", SimpleNamespace(deepcopy=deepcopy))

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
            before = [_remember(self, kind, operation) for entry in transact_items for kind, operation in entry.items()]
            try:
                stock(self, transact_items)
            except Exception:
                for put_back in before:
                    put_back()
                raise

        return transact_write_items

    patches.wrap(DynamoDBBackend, "transact_write_items", wrapper)


@adaptation
def items_hold_400_kilobytes(patches: Patches) -> None:
    """moto refuses items above 405,000 bytes when a top-level attribute is set, and checks nothing when a nested one
    is. AWS refuses above 409,600 bytes, however the item grew. SEEN maps grow by nested updates.
    """
    patches.replace(LimitedSizeDict, "__setitem__", dict.__setitem__)

    def wrap_put(stock: Callable[..., Any]) -> Callable[..., Any]:
        def put_item(self: Table, item_attrs: dict[str, Any], *rest: Any, **more: Any) -> Any:
            if _attributes_size(item_attrs) > ITEM_BYTES:
                raise ItemSizeTooLarge
            return stock(self, item_attrs, *rest, **more)

        return put_item

    def wrap_update(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_item(self: DynamoDBBackend, table_name: str, key: dict[str, Any], *rest: Any, **more: Any) -> Any:
            item = stock(self, table_name, key, *rest, **more)
            if _attributes_size(item.attrs) > ITEM_BYTES:
                raise ItemSizeToUpdateTooLarge
            return item

        return update_item

    patches.wrap(Table, "put_item", wrap_put)
    patches.wrap(DynamoDBBackend, "update_item", wrap_update)


@adaptation
def failed_updates_change_nothing(patches: Patches) -> None:
    """moto applies an update clause by clause to the live item: when a later one is refused (an item grown too large)
    the earlier ones stay. In AWS a refused UpdateItem changes nothing.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_item(self: DynamoDBBackend, table_name: str, key: dict[str, Any], *rest: Any, **more: Any) -> Any:
            put_back = _remember(self, "Update", {"TableName": table_name, "Key": key})
            try:
                return stock(self, table_name, key, *rest, **more)
            except Exception:
                put_back()
                raise

        return update_item

    patches.wrap(DynamoDBBackend, "update_item", wrapper)


@adaptation
def transactions_hold_4_megabytes(patches: Patches) -> None:
    """moto accepts transactions of any size. AWS refuses those whose items add up to more than 4 MB."""

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
            total = sum(
                _attributes_size(operation.get(part) or {})
                for entry in transact_items
                for operation in entry.values()
                for part in ("Item", "Key", "ExpressionAttributeValues")
            )
            if total > TRANSACTION_BYTES:
                raise MockValidationException("Transaction request size exceeds the maximum of 4 MB")
            stock(self, transact_items)

        return transact_write_items

    patches.wrap(DynamoDBBackend, "transact_write_items", wrapper)


@adaptation
def repeated_transactions_run_once(patches: Patches) -> None:
    """moto ignores ClientRequestToken, which the SDK sends with every transaction. AWS answers a repeated token with
    the first success, and refuses it with other contents. A retry after a lost answer must not fail its own condition.
    """
    done: OrderedDict[str, str] = OrderedDict()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def transact_write_items(self: DynamoHandler) -> Any:
            token = self.body.get("ClientRequestToken")
            contents = hashlib.sha256(repr(self.body["TransactItems"]).encode()).hexdigest()
            if token and token in done:
                if done[token] != contents:
                    raise IdempotentParameterMismatch
                return ActionResult({})
            answer = stock(self)
            if token:
                remember_in(done, token, contents)
            return answer

        return transact_write_items

    patches.wrap(DynamoHandler, "transact_write_items", wrapper)


class IdempotentParameterMismatch(ServiceException):
    code = "IdempotentParameterMismatchException"
    message = "The request token was used before, with other contents."


@adaptation
def nested_add_is_refused(patches: Patches) -> None:
    """moto lets ADD and DELETE address a nested attribute; DynamoDB documents both for top-level attributes only."""
    nodes: Any = ast_nodes
    parser: Any = vars(expressions)["UpdateExpressionParser"]
    top_level_only = [nodes.UpdateExpressionAddAction, nodes.UpdateExpressionDeleteAction]
    descender = nodes.ExpressionPathDescender

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def update_item(
            self: DynamoDBBackend, table_name: str, key: dict[str, Any], update_expression: str, *rest: Any, **more: Any
        ) -> Any:
            if update_expression:
                for action in parser.make(update_expression).find_clauses(top_level_only):
                    if any(isinstance(node, descender) for node in action.children[0].children):
                        raise MockValidationException(
                            "Invalid UpdateExpression: ADD and DELETE take top-level attributes only"
                        )
            return stock(self, table_name, key, update_expression, *rest, **more)

        return update_item

    patches.wrap(DynamoDBBackend, "update_item", wrapper)


@adaptation
def placeholders_are_defined_and_used(patches: Patches) -> None:
    """moto accepts values that no expression uses and raises a bare KeyError for one that is not defined. AWS refuses
    both with a ValidationException, which conditions joined from fragments run into easily.
    """

    def check(part: Mapping[str, Any]) -> None:
        text = " ".join(part.get(name) or "" for name in _EXPRESSIONS)
        used = set(_PLACEHOLDER.findall(text))
        given = {*(part.get("ExpressionAttributeValues") or {}), *(part.get("ExpressionAttributeNames") or {})}
        if used - given:
            missing = sorted(used - given)
            raise MockValidationException(f"An expression uses placeholders that are not defined: {missing}")
        if given - used:
            idle = sorted(given - used)
            raise MockValidationException(f"Placeholders are unused in expressions: {idle}")

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def action(self: DynamoHandler) -> Any:
            for entry in self.body.get("TransactItems") or []:
                for operation in entry.values():
                    check(operation)
            check(self.body)
            return stock(self)

        return action

    for name in ("put_item", "update_item", "delete_item", "query", "scan", "transact_write_items"):
        patches.wrap(DynamoHandler, name, wrapper)


@adaptation
def query_reads_one_partition(patches: Patches) -> None:
    """moto sorts the whole table for every Query (148 ms at 20,000 items). AWS reads one partition. The items of a
    table query are those of its partition; an index query needs no order here, because moto sorts its matches later.
    """
    asked = threading.local()

    def wrap_query(stock: Callable[..., Any]) -> Callable[..., Any]:
        def query(self: Table, hash_key: DynamoType | None, *rest: Any, **more: Any) -> Any:
            index_name = more.get("index_name", rest[6] if len(rest) > 6 else None)
            asked.partition = None if index_name else hash_key
            asked.unsorted = True
            try:
                return stock(self, hash_key, *rest, **more)
            finally:
                asked.unsorted = False

        return query

    def wrap_all_items(stock: Callable[..., Any]) -> Callable[..., Any]:
        def all_items(self: Table) -> list[Item]:
            if not getattr(asked, "unsorted", False) or not self.range_key_attr:
                found: list[Item] = stock(self)
                return found
            if asked.partition is not None:
                return list(self.items[asked.partition].values()) if asked.partition in self.items else []
            return [item for items in self.items.values() for item in items.values()]

        return all_items

    patches.wrap(Table, "query", wrap_query)
    patches.wrap(Table, "all_items", wrap_all_items)


@adaptation
def requests_are_decided_one_at_a_time(patches: Patches) -> None:
    """moto checks a condition and writes in two steps without a lock, so that two threads can both pass the check.
    In AWS each request on an item is atomic, which is what the fence, the lease and exactly-once calls stand on.
    """
    lock = threading.RLock()

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def call_action(self: DynamoHandler) -> Any:
            with lock:
                return stock(self)

        return call_action

    patches.wrap(DynamoHandler, "call_action", wrapper)


def _remember(backend: DynamoDBBackend, kind: str, operation: Mapping[str, Any]) -> Callable[[], None]:
    """What puts the operation's item back as it is now. Only an update changes an item in place."""
    table: Table | None = backend.tables.get(operation.get("TableName", ""))
    key: Mapping[str, Any] = operation.get("Item" if kind == "Put" else "Key") or {}
    if table is None or kind == "ConditionCheck" or not all(name in key for name in table.table_key_attrs):
        return lambda: None
    partition = DynamoType(key[table.hash_key_attr])
    if table.range_key_attr is None:
        rows: dict[Any, Any] = table.items
        place = partition
    else:
        rows, place = table.items[partition], DynamoType(key[table.range_key_attr])
    item = rows.get(place)
    if kind == "Update":
        item = copy.deepcopy(item)

    def put_back() -> None:
        if item is None:
            rows.pop(place, None)
        else:
            rows[place] = item

    return put_back


def _attributes_size(attributes: Mapping[str, Any]) -> int:
    """Bytes of names and values as DynamoDB counts them ("Item sizes and formats" in its developer guide)."""
    return sum(len(name.encode()) + _size(value) for name, value in attributes.items())


def _size(value: Any) -> int:
    kind, held = (value.type, value.value) if isinstance(value, DynamoType) else next(iter(value.items()))
    if kind == "S":
        return len(held.encode())
    if kind == "B":
        return len(held if isinstance(held, bytes) else base64.b64decode(held))
    if kind == "N":
        return (len(str(held).strip("-0.")) + 1) // 2 + 1
    if kind in ("BOOL", "NULL"):
        return 1
    if kind == "M":
        return 3 + sum(len(name.encode()) + _size(part) + 1 for name, part in held.items())
    if kind == "L":
        return 3 + sum(_size(part) + 1 for part in held)
    return sum(_size({kind[0]: part}) for part in held)
