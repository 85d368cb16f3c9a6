"""DynamoDB: what a transaction, an update and a query may do, one request at a time."""

from __future__ import annotations

from typing import Any

import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table

from local.functions import REGION
from tests.local.moto_adaptations.lab import KEY, Both, Lab, code_of, in_threads, meet


def test_transactions_touch_only_their_items(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    copies: list[Item] = []
    stock_copy = Item.__deepcopy__
    monkeypatch.setattr(Item, "__deepcopy__", lambda self, memo: copies.append(self) or stock_copy(self, memo))

    def probe() -> tuple[int, bool]:
        table = lab.table()
        for number in range(30):
            lab.dynamodb.put_item(TableName=table, Item={"PK": {"S": "other"}, "SK": {"S": str(number)}})
        held = dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables[table]
        copies.clear()
        failed = code_of(
            lambda: lab.dynamodb.transact_write_items(
                TransactItems=[
                    {"Put": {"TableName": table, "Item": KEY}},
                    {
                        "ConditionCheck": {
                            "TableName": table,
                            "Key": {**KEY, "SK": {"S": "absent"}},
                            "ConditionExpression": "attribute_exists(PK)",
                        }
                    },
                ]
            )
        )
        assert failed == "TransactionCanceledException"
        assert lab.item(table) is None
        return len(copies), held is dynamodb_backends[DEFAULT_ACCOUNT_ID][REGION].tables[table]

    stock, cured = both("transactions_touch_only_their_items", probe)
    assert stock[0] >= 30 and stock[1] is False
    assert cured == (0, True)


def test_a_failed_transaction_puts_back_what_it_had_changed(lab: Lab) -> None:
    with lab.adapted():
        table = lab.table()
        lab.dynamodb.put_item(TableName=table, Item={**KEY, "n": {"N": "1"}})
        lab.dynamodb.put_item(TableName=table, Item={**KEY, "SK": {"S": "gone"}})
        before = lab.item(table), lab.item(table, {**KEY, "SK": {"S": "gone"}})
        add = {"UpdateExpression": "ADD n :one", "ExpressionAttributeValues": {":one": {"N": "1"}}}
        failed = code_of(
            lambda: lab.dynamodb.transact_write_items(
                TransactItems=[
                    {"Update": {"TableName": table, "Key": KEY, **add}},
                    {"Update": {"TableName": table, "Key": {**KEY, "SK": {"S": "new"}}, **add}},
                    {"Delete": {"TableName": table, "Key": {**KEY, "SK": {"S": "gone"}}}},
                    {
                        "Put": {
                            "TableName": table,
                            "Item": {**KEY, "SK": {"S": "put"}},
                            "ConditionExpression": "attribute_exists(PK)",
                        }
                    },
                ]
            )
        )
        assert failed == "TransactionCanceledException"
        assert (lab.item(table), lab.item(table, {**KEY, "SK": {"S": "gone"}})) == before
        assert lab.item(table, {**KEY, "SK": {"S": "new"}}) is None
        assert lab.item(table, {**KEY, "SK": {"S": "put"}}) is None


def test_items_hold_400_kilobytes(lab: Lab, both: Both) -> None:
    def probe() -> list[str | None]:
        table = lab.table()
        return [
            code_of(lambda: lab.dynamodb.put_item(TableName=table, Item={**KEY, "x": {"S": "x" * 409_000}})),
            code_of(lambda: lab.dynamodb.put_item(TableName=table, Item={**KEY, "x": {"S": "x" * 409_600}})),
            code_of(lambda: lab.dynamodb.put_item(TableName=table, Item={**KEY, "m": {"M": {}}})),
            code_of(
                lambda: lab.dynamodb.update_item(
                    TableName=table,
                    Key=KEY,
                    UpdateExpression="SET m.x = :x",
                    ExpressionAttributeValues={":x": {"S": "x" * 410_000}},
                )
            ),
        ]

    stock, cured = both("items_hold_400_kilobytes", probe)
    assert stock == ["ValidationException", "ValidationException", None, None]
    assert cured == [None, "ValidationException", None, "ValidationException"]


def test_failed_updates_change_nothing(lab: Lab, both: Both) -> None:
    def probe() -> tuple[Any, Any]:
        table = lab.table()
        lab.dynamodb.put_item(TableName=table, Item={**KEY, "a": {"S": "old"}})
        for key in (KEY, {**KEY, "SK": {"S": "new"}}):
            failed = code_of(
                lambda key=key: lab.dynamodb.update_item(
                    TableName=table,
                    Key=key,
                    UpdateExpression="SET a = :a, b = :b",
                    ExpressionAttributeValues={":a": {"S": "new"}, ":b": {"S": "x" * 410_000}},
                )
            )
            assert failed == "ValidationException"
        return lab.item(table)["a"]["S"], lab.item(table, {**KEY, "SK": {"S": "new"}}) is None

    stock, cured = both("failed_updates_change_nothing", probe)
    assert stock == ("new", False)
    assert cured == ("old", True)


def test_transactions_hold_4_megabytes(lab: Lab, both: Both) -> None:
    def probe() -> str | None:
        table = lab.table()
        puts = [
            {"Put": {"TableName": table, "Item": {**KEY, "SK": {"S": str(number)}, "x": {"S": "x" * 390_000}}}}
            for number in range(11)
        ]
        return code_of(lambda: lab.dynamodb.transact_write_items(TransactItems=puts))

    assert both("transactions_hold_4_megabytes", probe) == (None, "ValidationException")


def test_repeated_transactions_run_once(lab: Lab, both: Both) -> None:
    def probe() -> list[str | None]:
        table = lab.table()

        def send(sort: str) -> str | None:
            put = {
                "TableName": table,
                "Item": {**KEY, "SK": {"S": sort}},
                "ConditionExpression": "attribute_not_exists(PK)",
            }
            return code_of(
                lambda: lab.dynamodb.transact_write_items(TransactItems=[{"Put": put}], ClientRequestToken=table)
            )

        return [send("a"), send("a"), send("b")]

    stock, cured = both("repeated_transactions_run_once", probe)
    assert stock == [None, "TransactionCanceledException", None]
    assert cured == [None, None, "IdempotentParameterMismatchException"]


def test_nested_add_is_refused(lab: Lab, both: Both) -> None:
    def probe() -> list[str | None]:
        table = lab.table()
        lab.dynamodb.put_item(TableName=table, Item={**KEY, "m": {"M": {"n": {"N": "1"}}}})
        return [
            code_of(
                lambda expression=expression: lab.dynamodb.update_item(
                    TableName=table,
                    Key=KEY,
                    UpdateExpression=expression,
                    ExpressionAttributeNames={"#n": "n"},
                    ExpressionAttributeValues={":one": {"N": "1"}},
                )
            )
            for expression in ("ADD m.#n :one", "ADD #n :one")
        ]

    assert both("nested_add_is_refused", probe) == ([None, None], ["ValidationException", None])


def test_placeholders_are_defined_and_used(lab: Lab, both: Both) -> None:
    def probe() -> list[str | None]:
        table = lab.table()

        def put(**more: Any) -> str | None:
            return code_of(lambda: lab.dynamodb.put_item(TableName=table, Item=KEY, **more))

        idle = {":idle": {"S": "x"}}
        return [
            put(ConditionExpression="attribute_not_exists(PK)", ExpressionAttributeValues=idle),
            put(ConditionExpression="attribute_not_exists(x) OR x = :undefined"),
            put(ConditionExpression="attribute_exists(#pk)", ExpressionAttributeNames={"#pk": "PK"}),
            code_of(
                lambda: lab.dynamodb.transact_write_items(
                    TransactItems=[
                        {
                            "Delete": {
                                "TableName": table,
                                "Key": KEY,
                                "ConditionExpression": "attribute_exists(PK)",
                                "ExpressionAttributeValues": idle,
                            }
                        }
                    ]
                )
            ),
        ]

    stock, cured = both("placeholders_are_defined_and_used", probe)
    assert stock == [None, "KeyError", None, None]
    # The first put was refused, so that the third one's condition is false.
    assert cured == [
        "ValidationException",
        "ValidationException",
        "ConditionalCheckFailedException",
        "ValidationException",
    ]


def test_query_reads_one_partition(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[DynamoType] = []
    stock_less = DynamoType.__lt__
    monkeypatch.setattr(DynamoType, "__lt__", lambda self, other: compared.append(self) or stock_less(self, other))

    def probe() -> tuple[int, list[str], list[str], list[str]]:
        table = lab.table()
        for number in range(40):
            item = {"PK": {"S": f"p{number:02}"}, "SK": {"S": "s"}}
            if number % 2:
                item |= {"gsi1pk": {"S": "owner"}, "gsi1sk": {"S": f"{99 - number}"}}
            lab.dynamodb.put_item(TableName=table, Item=item)
        lab.dynamodb.put_item(TableName=table, Item={"PK": {"S": "p07"}, "SK": {"S": "r"}})

        def query(**more: Any) -> Any:
            return lab.dynamodb.query(TableName=table, **more)

        compared.clear()
        rows = query(KeyConditionExpression="PK = :p", ExpressionAttributeValues={":p": {"S": "p07"}})["Items"]
        count = len(compared)
        none = query(KeyConditionExpression="PK = :p", ExpressionAttributeValues={":p": {"S": "absent"}})["Items"]
        indexed = query(
            IndexName="gsi1", KeyConditionExpression="gsi1pk = :p", ExpressionAttributeValues={":p": {"S": "owner"}}
        )["Items"]
        scanned = lab.dynamodb.scan(TableName=table)["Items"]
        assert len(scanned) == 41
        return (
            count,
            [row["SK"]["S"] for row in rows],
            [row["SK"]["S"] for row in none],
            [row["PK"]["S"] for row in indexed],
        )

    stock, cured = both("query_reads_one_partition", probe)
    assert stock[1:] == cured[1:] == (["r", "s"], [], [f"p{number:02}" for number in range(39, 0, -2)])
    assert stock[0] >= 40
    assert cured[0] <= 2


def test_requests_are_decided_one_at_a_time(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(lab, monkeypatch, Table, "get_item")

    def probe() -> int:
        table = lab.table()
        outcomes: list[str | None] = []

        def claim() -> None:
            condition = {"ConditionExpression": "attribute_not_exists(PK)"}
            outcomes.append(code_of(lambda: lab.dynamodb.put_item(TableName=table, Item=KEY, **condition)))

        in_threads(claim, claim)
        return outcomes.count(None)

    assert both("requests_are_decided_one_at_a_time", probe) == (2, 1)


def test_sixteen_threads_lose_nothing(lab: Lab) -> None:
    """Transactions and updates on one item, with failing transactions in between."""
    with lab.adapted():
        table = lab.table()
        lab.dynamodb.put_item(TableName=table, Item={**KEY, "n": {"N": "0"}, "m": {"N": "0"}})

        def add(name: str) -> dict[str, Any]:
            return {
                "TableName": table,
                "Key": KEY,
                "UpdateExpression": "ADD #c :one",
                "ExpressionAttributeNames": {"#c": name},
                "ExpressionAttributeValues": {":one": {"N": "1"}},
            }

        impossible = {"TableName": table, "Key": KEY, "ConditionExpression": "attribute_not_exists(PK)"}

        def work() -> None:
            for _round in range(10):
                lab.dynamodb.update_item(**add("n"))
                lab.dynamodb.transact_write_items(TransactItems=[{"Update": add("m")}])
                code_of(
                    lambda: lab.dynamodb.transact_write_items(
                        TransactItems=[
                            {"Put": {"TableName": table, "Item": {**KEY, "SK": {"S": "never"}}}},
                            {"ConditionCheck": impossible},
                        ]
                    )
                )

        in_threads(*[work] * 16)
        assert (lab.item(table)["n"], lab.item(table)["m"]) == ({"N": "160"}, {"N": "160"})


def test_what_moto_refuses_by_itself(lab: Lab) -> None:
    """Limits that need no adaptation, held here because code stands on them."""
    with lab.adapted():
        table = lab.table()
        puts = [{"Put": {"TableName": table, "Item": {**KEY, "SK": {"S": str(n)}}}} for n in range(101)]
        assert code_of(lambda: lab.dynamodb.transact_write_items(TransactItems=puts)) == "ValidationException"
        assert code_of(lambda: lab.dynamodb.transact_write_items(TransactItems=puts[:100])) is None
        keys = [{**KEY, "SK": {"S": str(n)}} for n in range(101)]
        batch = {table: {"Keys": keys, "ConsistentRead": True}}
        assert code_of(lambda: lab.dynamodb.batch_get_item(RequestItems=batch)) == "ValidationException"
        reserved = {"UpdateExpression": "SET owner = :o", "ExpressionAttributeValues": {":o": {"S": "x"}}}
        assert code_of(lambda: lab.dynamodb.update_item(TableName=table, Key=KEY, **reserved)) == "ValidationException"
        twice = [{"Put": {"TableName": table, "Item": KEY}}, {"Delete": {"TableName": table, "Key": KEY}}]
        assert code_of(lambda: lab.dynamodb.transact_write_items(TransactItems=twice)) == "ValidationException"
