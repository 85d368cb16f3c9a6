"""Each adaptation twice: moto without it shows the fault, with it the fault is gone.

A test that fails in its first half says that moto has been repaired: remove the adaptation.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import Any

import botocore.session
import pytest
from botocore.exceptions import ClientError

from local import resources
from local.functions import REGION, FunctionMissing
from local.moto_adaptations import adapt

WAIT_SECONDS = 60
KEY = {"PK": {"S": "p"}, "SK": {"S": "s"}}

Both = Callable[[str, Callable[[], Any]], tuple[Any, Any]]


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
