"""Each adaptation twice: moto without it shows the fault, with it the fault is gone.

A test of this file that fails in its first half says that moto has been repaired: remove the adaptation.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from types import SimpleNamespace
from typing import Any

import botocore.handlers
import botocore.session
import pytest
from botocore.awsrequest import AWSResponse
from botocore.exceptions import ClientError
from botocore.handlers import BUILTIN_HANDLERS
from moto import mock_aws
from moto.core import DEFAULT_ACCOUNT_ID
from moto.core.botocore_stubber import MockRawResponse
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import Table
from moto.s3.models import S3Backend
from moto.s3.utils import _VersionedKeyStore
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.common.retry.max_attempts_decl import MaxAttemptsDecl
from moto.stepfunctions.parser.asl.eval.callback.callback import HeartbeatEndpoint
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from local import executions, moto_adaptations, resources
from local.functions import REGION, FunctionMissing, function_arn
from local.moto_adaptations import ADAPTATIONS, MOTO_CONFIG, adapt

WAIT_SECONDS = 60
STEP_OF_BATCH = "moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_batch"
KEY = {"PK": {"S": "p"}, "SK": {"S": "s"}}


class Functions:
    """Plain callables in the place of handlers; what they raise is a function error."""

    def __init__(self) -> None:
        self.handlers: dict[str, Callable[[Any], Any]] = {}
        self.later: list[tuple[str, bytes]] = []

    def invoke(self, name: str, payload: bytes) -> tuple[bytes, bool]:
        handler = self.handlers.get(name.rpartition(":")[2])
        if handler is None:
            raise FunctionMissing(name)
        try:
            return json.dumps(handler(json.loads(payload))).encode(), False
        except Exception as error:
            return json.dumps({"errorType": type(error).__name__, "errorMessage": str(error)}).encode(), True

    def invoke_later(self, name: str, payload: bytes) -> None:
        self.later.append((name, payload))


class Tasks:
    def __init__(self) -> None:
        self.requests: list[Mapping[str, Any]] = []

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        self.requests.append(request)
        return {"tasks": [{"taskArn": "arn:aws:ecs:eu-central-1:123456789012:task/c/1"}], "failures": []}

    def stop(self, task: str, reason: str) -> dict[str, Any]:
        raise LookupError(task)

    def describe(self, tasks: Collection[str]) -> dict[str, Any]:
        return {"tasks": [], "failures": [{"arn": task, "reason": "MISSING"} for task in tasks]}


class Lab:
    """Mocked AWS with adaptations switched on around single steps."""

    def __init__(self) -> None:
        session = botocore.session.get_session()
        session.set_credentials("test", "test")

        def client(service: str) -> Any:
            return session.create_client(service, region_name=REGION)

        self.dynamodb, self.s3 = client("dynamodb"), client("s3")
        self.stepfunctions, self.lambda_, self.ecs = client("stepfunctions"), client("lambda"), client("ecs")
        self.functions, self.tasks = Functions(), Tasks()
        self._names = iter(range(1_000_000))
        # What is left out at the moment.
        self.without: Collection[str] = ()
        resources.create_bucket(self.s3, "lab-bucket", versioning=False)

    @contextmanager
    def adapted(self, *, without: Collection[str] = ()) -> Iterator[None]:
        undo = adapt(self.functions, self.tasks, without=without)
        self.without = without
        try:
            yield
        finally:
            self.without = ()
            undo()

    def name(self) -> str:
        return f"lab-{next(self._names)}"

    def table(self) -> str:
        name = self.name()
        resources.create_table(self.dynamodb, name)
        return name

    def item(self, table: str, key: Mapping[str, Any] = KEY) -> Any:
        return self.dynamodb.get_item(TableName=table, Key=key, ConsistentRead=True).get("Item")

    def machine(self, states: Mapping[str, Any], start: str) -> str:
        answer = self.stepfunctions.create_state_machine(
            name=self.name(), definition=json.dumps({"StartAt": start, "States": states}), roleArn=resources.TASK_ROLE
        )
        return str(answer["stateMachineArn"])


@pytest.fixture(scope="module")
def lab(alone: None) -> Iterator[Lab]:
    mocks = mock_aws(config=MOTO_CONFIG)
    mocks.start()
    yield Lab()
    # Whoever runs a system next would wait for them.
    assert executions.end(WAIT_SECONDS)
    mocks.stop()


@pytest.fixture
def both(lab: Lab) -> Callable[[str, Callable[[], Any]], tuple[Any, Any]]:
    """``both(adaptation, probe)`` is what ``probe`` returns without the adaptation and with it."""

    def run(adaptation: str, probe: Callable[[], Any]) -> tuple[Any, Any]:
        with lab.adapted(without=[adaptation]):
            stock = probe()
        with lab.adapted():
            return stock, probe()

    return run


Both = Callable[[str, Callable[[], Any]], tuple[Any, Any]]


def code_of(call: Callable[[], Any]) -> str | None:
    """The AWS error code that ``call`` raises, the name of another exception, or None."""
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    except Exception as error:
        return type(error).__name__
    return None


def in_threads(*works: Callable[[], Any]) -> None:
    threads = [threading.Thread(target=work) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(WAIT_SECONDS)
        assert not thread.is_alive()


def meet(lab: Lab, monkeypatch: pytest.MonkeyPatch, owner: Any, method: str) -> None:
    """Two threads that can be in ``owner.method`` at the same time leave it together.

    Without the adaptation they can, and one waits for the other however late it is; with it, one is alone there, and
    goes on after a while.
    """
    barrier = threading.Barrier(2)
    stock = getattr(owner, method)

    def met(*arguments: Any, **named: Any) -> Any:
        result = stock(*arguments, **named)
        with suppress(threading.BrokenBarrierError):
            barrier.wait(WAIT_SECONDS if lab.without else 0.5)
        return result

    monkeypatch.setattr(owner, method, met)


def test_every_adaptation_is_explained_and_tested() -> None:
    for name, function in ADAPTATIONS.items():
        assert function.__doc__ and "moto" in function.__doc__, name
        assert f"test_{name}" in globals(), name


def test_an_unknown_adaptation_cannot_be_left_out(lab: Lab) -> None:
    with pytest.raises(ValueError, match="no such adaptation"):
        adapt(lab.functions, lab.tasks, without=["nonsense"])


def test_undoing_leaves_moto_as_it_was(lab: Lab) -> None:
    before = (vars(Table)["query"], vars(StateMachine).get("start_execution"), vars(DynamoType)["__lt__"])
    with lab.adapted():
        assert vars(Table)["query"] is not before[0]
    assert (vars(Table)["query"], vars(StateMachine).get("start_execution"), vars(DynamoType)["__lt__"]) == before


# ---------------------------------------------------------------- DynamoDB


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


# ---------------------------------------------------------------- S3


def test_uploads_match_their_checksums(lab: Lab, both: Both) -> None:
    def probe() -> list[str | None]:
        def put(data: bytes, **more: str) -> str | None:
            return code_of(lambda: lab.s3.put_object(Bucket="lab-bucket", Key=lab.name(), Body=data, **more))

        right = base64.b64encode(hashlib.sha256(b"right").digest()).decode()
        md5 = base64.b64encode(hashlib.md5(b"right").digest()).decode()
        return [
            put(b"right", ChecksumSHA256=right),
            put(b"wrong", ChecksumSHA256=right),
            put(b"wrong", ContentMD5=md5),
            put(b"\xff\x00" * 1000),
        ]

    stock, cured = both("uploads_match_their_checksums", probe)
    assert stock == [None, None, None, None]
    assert cured == [None, "BadDigest", "BadDigest", None]


def test_objects_are_decided_one_at_a_time(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(lab, monkeypatch, S3Backend, "get_object")

    def probe() -> int:
        key = lab.name()
        outcomes: list[str | None] = []

        def create() -> None:
            outcomes.append(
                code_of(lambda: lab.s3.put_object(Bucket="lab-bucket", Key=key, Body=b"x", IfNoneMatch="*"))
            )

        in_threads(create, create)
        return outcomes.count(None)

    assert both("objects_are_decided_one_at_a_time", probe) == (2, 1)


def test_listings_pass_over_what_goes(lab: Lab, both: Both, monkeypatch: pytest.MonkeyPatch) -> None:
    copied = _VersionedKeyStore._self_iterable

    def probe() -> list[str | None]:
        prefix = lab.name()

        def copied_before_another_goes(self: Any) -> dict[str, Any]:
            keys = copied(self)
            dict.pop(self, f"{prefix}/goes", None)
            return keys

        def outcome(listing: Callable[..., Any]) -> str | None:
            for name in ("goes", "stays"):
                lab.s3.put_object(Bucket="lab-bucket", Key=f"{prefix}/{name}", Body=b"x")
            with monkeypatch.context() as patch:
                patch.setattr(_VersionedKeyStore, "_self_iterable", copied_before_another_goes)
                return code_of(lambda: listing(Bucket="lab-bucket", Prefix=prefix))

        return [outcome(lab.s3.list_objects_v2), outcome(lab.s3.list_object_versions)]

    assert both("listings_pass_over_what_goes", probe) == (["KeyError", "TypeError"], [None, None])


def test_tags_can_be_emptied(lab: Lab, both: Both) -> None:
    def probe() -> tuple[str | None, Any]:
        key = lab.name()
        lab.s3.put_object(Bucket="lab-bucket", Key=key, Body=b"x", Tagging="a=1")
        failed = code_of(lambda: lab.s3.put_object_tagging(Bucket="lab-bucket", Key=key, Tagging={"TagSet": []}))
        return failed, lab.s3.get_object_tagging(Bucket="lab-bucket", Key=key)["TagSet"]

    stock, cured = both("tags_can_be_emptied", probe)
    assert stock[0] == "TypeError"
    assert cured == (None, [])


# ---------------------------------------------------------------- Step Functions


def call(name: str, following: str | None = None, **payload: Any) -> dict[str, Any]:
    """A state that calls a function."""
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": function_arn(name), "Payload": payload or {"from": name}},
        "ResultPath": None,
        **({"Next": following} if following else {"End": True}),
    }


def waiting(name: str, **more: Any) -> dict[str, Any]:
    """States that give ``name`` a task token and tell ``ended`` how the task went."""
    return {
        "Wait": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "Parameters": {"FunctionName": function_arn(name), "Payload": {"token.$": "$$.Task.Token"}},
            "ResultPath": None,
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Failed"}],
            "Next": "Succeeded",
            **more,
        },
        "Succeeded": call("ended", how="succeeded"),
        "Failed": call("ended", **{"how": "failed", "error.$": "$.error.Error", "cause.$": "$.error.Cause"}),
    }


class Runs:
    """Starts executions and waits for what their functions report."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.ended: queue.Queue[Any] = queue.Queue()
        lab.functions.handlers = {"ended": lambda event: self.ended.put(event), "step": lambda event: event}

    def start(self, states: Mapping[str, Any], start: str = "Wait") -> str:
        machine = self._lab.machine(states, start)
        return str(
            self._lab.stepfunctions.start_execution(stateMachineArn=machine, name=self._lab.name())["executionArn"]
        )

    def outcome(self) -> Any:
        return self.ended.get(timeout=WAIT_SECONDS)

    def succeed(self, token: str, output: str = "{}") -> str | None:
        return code_of(lambda: self._lab.stepfunctions.send_task_success(taskToken=token, output=output))

    def fail(self, token: str) -> str | None:
        return code_of(
            lambda: self._lab.stepfunctions.send_task_failure(taskToken=token, error="Theirs", cause="their cause")
        )

    def beat(self, token: str) -> str | None:
        return code_of(lambda: self._lab.stepfunctions.send_task_heartbeat(taskToken=token))


@pytest.fixture
def runs(lab: Lab) -> Runs:
    return Runs(lab)


@pytest.fixture
def tokens(lab: Lab, runs: Runs) -> queue.Queue[str]:
    """The tokens given to the function ``take``."""
    taken: queue.Queue[str] = queue.Queue()
    lab.functions.handlers["take"] = lambda event: taken.put(event["token"])
    return taken


HasEnded = Callable[[str], bool]


@pytest.fixture
def has_ended(monkeypatch: pytest.MonkeyPatch) -> HasEnded:
    """``has_ended(arn)`` waits for the end of that execution: those of earlier tests may still be ending."""
    ended: dict[str, threading.Event] = {}
    stock = BaseExecutionWorkerCommunication.terminated

    def end_of(execution: str) -> threading.Event:
        return ended.setdefault(execution, threading.Event())

    def terminate(self: Any) -> None:
        stock(self)
        end_of(self.execution.exec_arn).set()

    monkeypatch.setattr(BaseExecutionWorkerCommunication, "terminated", terminate)
    return lambda execution: end_of(execution).wait(WAIT_SECONDS)


def test_step_clients_are_kept(lab: Lab, both: Both, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    stock_client = boto_client.boto3.client

    def make(*arguments: Any, **named: Any) -> Any:
        made.append(named["service_name"])
        return stock_client(*arguments, **named)

    monkeypatch.setattr(boto_client.boto3, "client", make)

    def probe() -> int:
        made.clear()
        runs.start({"A": call("step", "B"), "B": call("step", "C"), "C": call("ended")}, "A")
        runs.outcome()
        return len(made)

    assert both("step_clients_are_kept", probe) == (3, 1)


def test_definitions_are_parsed_once(lab: Lab, both: Both, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[ASLParser] = []
    stock_parse = ASLParser.state_machine
    monkeypatch.setattr(ASLParser, "state_machine", lambda self: parsed.append(self) or stock_parse(self))

    def probe() -> int:
        machine = lab.machine({"A": call("ended")}, "A")
        parsed.clear()
        for _time in range(3):
            lab.stepfunctions.start_execution(stateMachineArn=machine, name=lab.name())
            runs.outcome()
        return len(parsed)

    assert both("definitions_are_parsed_once", probe) == (3, 0)


def test_names_start_one_execution(lab: Lab, both: Both, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(lab, monkeypatch, StateMachine, "_handle_name_input_idempotency")

    def probe() -> int:
        # Long enough that the first still runs when the second comes, however late that is.
        machine = lab.machine({"A": {"Type": "Wait", "Seconds": WAIT_SECONDS, "End": True}}, "A")
        name = lab.name()

        def start() -> None:
            lab.stepfunctions.start_execution(stateMachineArn=machine, name=name, input="{}")

        in_threads(start, start)
        return len(lab.stepfunctions.list_executions(stateMachineArn=machine)["executions"])

    assert both("names_start_one_execution", probe) == (2, 1)


def test_task_tokens_are_found_anywhere(
    lab: Lab,
    both: Both,
    runs: Runs,
    tokens: queue.Queue[str],
    has_ended: HasEnded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def probe() -> list[str | None]:
        with monkeypatch.context() as patch:
            # An execution between "running" and the first line of its thread.
            patch.setattr(ExecutionWorker, "start", lambda self: None)
            beginning = runs.start({"A": call("step")}, "A")
        execution = runs.start(waiting("take"))
        token = tokens.get(timeout=WAIT_SECONDS)
        first = runs.succeed(token)
        lab.stepfunctions.delete_state_machine(
            stateMachineArn=beginning.replace(":execution:", ":stateMachine:").rpartition(":")[0]
        )
        if first is not None:
            runs.succeed(token)
        runs.outcome()
        assert has_ended(execution)
        return [first, runs.succeed(token), runs.fail(token), runs.beat(token), runs.succeed("nonsense")]

    stock, cured = both("task_tokens_are_found_anywhere", probe)
    assert stock[0] == "AttributeError"
    assert stock[1] == "InvalidToken"
    assert cured == [None, "TaskTimedOut", "TaskTimedOut", "TaskTimedOut", "InvalidToken"]


def test_failures_keep_their_cause(both: Both, runs: Runs, tokens: queue.Queue[str]) -> None:
    def probe() -> tuple[str, str]:
        runs.start(waiting("take"))
        runs.fail(tokens.get(timeout=WAIT_SECONDS))
        outcome = runs.outcome()
        return outcome["error"], outcome["cause"]

    assert both("failures_keep_their_cause", probe) == (("Theirs", None), ("Theirs", "their cause"))


def test_tasks_complete_once(lab: Lab, both: Both, runs: Runs) -> None:
    def probe() -> list[str | None]:
        answers: list[str | None] = []

        def finish_twice(event: Any) -> None:
            answers.append(runs.succeed(event["token"]))
            answers.append(runs.fail(event["token"]))
            answers.append(runs.beat(event["token"]))

        lab.functions.handlers["finish"] = finish_twice
        runs.start(waiting("finish"))
        answers.append(runs.outcome()["how"])
        return answers

    stock, cured = both("tasks_complete_once", probe)
    assert stock[:2] == [None, None] and stock[3] == "failed"
    assert cured == [None, "TaskTimedOut", "TaskTimedOut", "succeeded"]


def test_a_task_whose_time_is_over_cannot_be_completed(lab: Lab, runs: Runs, tokens: queue.Queue[str]) -> None:
    with lab.adapted():
        runs.start(waiting("take", TimeoutSeconds=3, HeartbeatSeconds=1))
        token = tokens.get(timeout=WAIT_SECONDS)
        assert runs.outcome()["error"] == "States.Timeout"
        assert runs.succeed(token) == "TaskTimedOut"
        assert runs.beat(token) == "TaskTimedOut"


def test_attempts_have_their_own_token(lab: Lab, both: Both, runs: Runs) -> None:
    retry = [{"ErrorEquals": ["Theirs"], "IntervalSeconds": 1, "BackoffRate": 1.0, "MaxAttempts": 1}]

    def probe() -> tuple[int, str]:
        seen: list[str] = []

        def fail_then_succeed(event: Any) -> None:
            seen.append(event["token"])
            if len(seen) == 1:
                runs.fail(event["token"])
            else:
                runs.succeed(event["token"])

        lab.functions.handlers["flaky"] = fail_then_succeed
        runs.start(waiting("flaky", Retry=retry))
        how = runs.outcome()["how"]
        return len(set(seen)), how

    stock, cured = both("attempts_have_their_own_token", probe)
    assert stock == (1, "failed")
    assert cured == (2, "succeeded")


def test_retries_wait_for_their_execution(
    lab: Lab, both: Both, runs: Runs, has_ended: HasEnded, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 600, "BackoffRate": 1.0, "MaxAttempts": 1}]
    stock_decide = MaxAttemptsDecl._eval_body
    deciding, stopped, slept = threading.Event(), threading.Event(), threading.Event()

    def fail(_event: Any) -> None:
        raise ValueError("broken")

    def decide(self: Any, env: Any) -> None:
        stock_decide(self, env)
        deciding.set()

    def sleep(_seconds: float) -> None:
        # What nothing but the time could wake.
        slept.set()
        assert stopped.wait(WAIT_SECONDS)

    monkeypatch.setattr(MaxAttemptsDecl, "_eval_body", decide)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=sleep))
    lab.functions.handlers["fail"] = fail

    def probe() -> bool:
        for event in (deciding, stopped, slept):
            event.clear()
        execution = runs.start({"Fail": {**call("fail"), "Retry": retry}}, "Fail")
        assert deciding.wait(WAIT_SECONDS)
        if lab.without:
            assert slept.wait(WAIT_SECONDS)
        lab.stepfunctions.stop_execution(executionArn=execution)
        stopped.set()
        assert has_ended(execution)
        return slept.is_set()

    assert both("retries_wait_for_their_execution", probe) == (True, False)


def test_early_callbacks_count(lab: Lab, both: Both, runs: Runs) -> None:
    def probe() -> tuple[str | None, Any]:
        beats: list[str | None] = []

        def eager(event: Any) -> None:
            beats.append(runs.beat(event["token"]))
            runs.succeed(event["token"])

        lab.functions.handlers["eager"] = eager
        # Without the adaptation nothing but the heartbeat's time ends it; with it, that must not.
        heartbeat = 1 if lab.without else WAIT_SECONDS
        runs.start(waiting("eager", TimeoutSeconds=2 * WAIT_SECONDS, HeartbeatSeconds=heartbeat))
        return beats[0] if beats else None, runs.outcome()

    def whole() -> tuple[Any, Any]:
        _beat, outcome = probe()
        return outcome["how"], outcome.get("error")

    stock, cured = both("early_callbacks_count", whole)
    assert stock == ("failed", "States.Timeout")
    assert cured == ("succeeded", None)


def test_an_early_heartbeat_is_honoured(lab: Lab, both: Both, runs: Runs, tokens: queue.Queue[str]) -> None:
    def probe() -> str | None:
        beats: queue.Queue[str | None] = queue.Queue()

        def beat(event: Any) -> None:
            beats.put(runs.beat(event["token"]))
            tokens.put(event["token"])

        lab.functions.handlers["beat"] = beat
        runs.start(waiting("beat", TimeoutSeconds=WAIT_SECONDS, HeartbeatSeconds=5))
        answer = beats.get(timeout=WAIT_SECONDS)
        runs.fail(tokens.get(timeout=WAIT_SECONDS))
        runs.outcome()
        return answer

    assert both("early_callbacks_count", probe) == ("InvalidToken", None)


def test_heartbeats_keep_a_task_alive(
    lab: Lab, runs: Runs, tokens: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moto does by itself, through the adaptations: each beat begins the waiting anew, its absence ends it."""
    waits: queue.Queue[HeartbeatEndpoint] = queue.Queue()
    stock = HeartbeatEndpoint.clear_and_wait

    def wait(self: HeartbeatEndpoint) -> bool:
        waits.put(self)
        return stock(self)

    monkeypatch.setattr(HeartbeatEndpoint, "clear_and_wait", wait)
    with lab.adapted():
        runs.start(waiting("take", TimeoutSeconds=10 * WAIT_SECONDS, HeartbeatSeconds=WAIT_SECONDS))
        token = tokens.get(timeout=WAIT_SECONDS)
        mine = waits.get(timeout=WAIT_SECONDS)
        for _beat in range(4):
            assert runs.beat(token) is None
            while waits.get(timeout=WAIT_SECONDS) is not mine:
                pass
        assert runs.succeed(token) is None
        assert runs.outcome() == {"how": "succeeded"}


# ---------------------------------------------------------------- Lambda, ECS, the network


def test_functions_run_here(lab: Lab, both: Both) -> None:
    def fail(_event: Any) -> None:
        raise ValueError("broken")

    lab.functions.handlers = {"double": lambda event: event * 2, "fail": fail}

    def probe() -> list[Any]:
        lab.functions.later.clear()

        def invoke(name: str, kind: str = "RequestResponse") -> Any:
            try:
                answer = lab.lambda_.invoke(FunctionName=name, Payload=b"21", InvocationType=kind)
            except ClientError as error:
                return error.response["Error"]["Code"]
            text = answer["Payload"].read()
            return answer["StatusCode"], answer.get("FunctionError"), json.loads(text) if text else None

        return [
            invoke("double"),
            invoke(function_arn("double")),
            invoke("fail"),
            invoke("double", "Event"),
            list(lab.functions.later),
            invoke("absent"),
        ]

    stock, cured = both("functions_run_here", probe)
    assert stock[0] == (200, None, 21)
    assert cured == [
        (200, None, 42),
        (200, None, 42),
        (200, "Unhandled", {"errorType": "ValueError", "errorMessage": "broken"}),
        (202, None, None),
        [("double", b"21")],
        "ResourceNotFoundException",
    ]


def test_tasks_run_here(lab: Lab, both: Both) -> None:
    def probe() -> tuple[str | None, int, str | None]:
        lab.tasks.requests.clear()
        failed = code_of(lambda: lab.ecs.run_task(cluster="c", taskDefinition="t", startedBy="s", clientToken="k"))
        stopped = code_of(lambda: lab.ecs.stop_task(cluster="c", task="absent"))
        return failed, len(lab.tasks.requests), stopped

    stock, cured = both("tasks_run_here", probe)
    assert stock[:2] == ("ClusterNotFoundException", 0)
    assert cured == (None, 1, "InvalidParameterException")


def test_nothing_leaves_this_machine(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """An endpoint that is no mocked service: its request would be sent; the guard refuses it before that."""

    def probe() -> tuple[str | None, int]:
        session = botocore.session.get_session()
        session.set_credentials("test", "test")
        # A name that no resolver knows, and a handler that stands where the network would be.
        client = session.create_client("dynamodb", region_name=REGION, endpoint_url="http://outside.invalid:9")
        sent: list[str] = []

        def network(request: Any, **_more: Any) -> AWSResponse:
            sent.append(request.url)
            return AWSResponse(request.url, 200, {}, MockRawResponse("{}"))

        client.meta.events.register_last("before-send", network)
        return code_of(client.list_tables), len(sent)

    handlers = [entry for entry in BUILTIN_HANDLERS if entry[1] is not moto_adaptations.refuse_outside]
    monkeypatch.setattr(botocore.handlers, "BUILTIN_HANDLERS", handlers)
    before = len(handlers)
    assert probe() == (None, 1)
    moto_adaptations.stay_on_this_machine()
    moto_adaptations.stay_on_this_machine()
    assert len(botocore.handlers.BUILTIN_HANDLERS) == before + 1
    assert probe() == ("OutsideLoopback", 0)


def test_step_functions_loads_without_ec2() -> None:
    """In a process of its own, because other tests of this one may have loaded it."""
    program = f"""
import sys
import local.system
print("moto.ec2" in sys.modules, "moto.batch" in sys.modules)
del sys.modules["{STEP_OF_BATCH}"]
import {STEP_OF_BATCH}
print("moto.ec2" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout.splitlines() == ["False False", "True"], run.stderr
