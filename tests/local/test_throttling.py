"""AWS asks for fewer requests: a tool answers `throttled`, other routes 429; nothing is changed and nothing is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from local.system import LocalSystem
from tests.local.talk import Talk
from workbench.errors import THROTTLING_CODES, is_throttling

Slow = Callable[..., list[str]]


@pytest.fixture
def slow(system: LocalSystem) -> Iterator[Slow]:
    """``slow("TransactWriteItems")``: AWS refuses these operations from now on; ``slow()`` ends that."""

    def install(*operations: str, code: str = "ThrottlingException") -> list[str]:
        met: list[str] = []

        def hook(_service: str, operation: str) -> None:
            if operation in operations:
                met.append(operation)
                raise ClientError({"Error": {"Code": code, "Message": "slow down"}}, operation)

        system.runtime.clients.hook = hook if operations else None
        return met

    yield install
    system.runtime.clients.hook = None


def retry_after(answer: Any) -> int:
    return int(answer.headers["retry-after"])


@pytest.mark.parametrize("operation", ["PutObject", "TransactWriteItems"])
def test_a_throttled_write_changes_nothing_and_may_be_sent_again(
    api: Any, unique: str, slow: Slow, operation: str
) -> None:
    talk = Talk.open(api, unique)
    file = {"files": [{"path": "a.txt", "content": "kept\n"}]}
    met = slow(operation, code="SlowDown" if operation == "PutObject" else "ProvisionedThroughputExceededException")
    answer = talk.send("write_file", file, call="w")
    assert met and answer.status == 200
    error = answer.json["error"]
    assert (answer.json["outcome"], error["code"], error["retryable"]) == ("error", "throttled", True)
    assert error["details"]["retryAfterSeconds"] == retry_after(answer) > 0
    assert error["details"]["advice"] == "retry_later"
    slow()
    assert talk.files() == {}
    assert talk.call("write_file", call="w", **file)["outcome"] == "ok"
    assert talk.files() == {"a.txt": b"kept\n"}
    assert talk.call("write_file", call="w", **file)["structured"]["version"] == 1


def test_a_throttled_read_is_recorded_and_makes_way(api: Any, unique: str, system: LocalSystem, slow: Slow) -> None:
    talk = Talk.open(api, unique)
    artifact = talk.ok("export_artifact", content="text")["structured"]["artifact"]
    slow("GetObject", code="SlowDown")
    answer = talk.call("read_artifact", call="r", id=artifact)
    assert answer["error"]["code"] == "throttled"
    assert answer["cost"]["attempts"] == 2
    slow()
    steps = {step["callId"]: step for step in api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]}
    assert steps["r"]["code"] == "throttled"
    assert talk.call("read_artifact", call="r", id=artifact)["outcome"] == "ok"


def test_throttling_opens_no_breaker(api: Any, unique: str, slow: Slow) -> None:
    talk = Talk.open(api, unique)
    slow("PutObject", code="SlowDown")
    for number in range(6):
        answer = talk.call("write_file", call=f"w{number}", files=[{"path": "a.txt", "content": "x"}])
        assert answer["error"]["code"] == "throttled"


def test_a_call_whose_turn_cannot_be_read_is_429(api: Any, unique: str, slow: Slow) -> None:
    talk = Talk.open(api, unique)
    slow("BatchGetItem")
    answer = talk.send("list_files", {})
    assert (answer.status, answer.json["error"]["code"]) == (429, "throttled") and retry_after(answer) > 0


@pytest.mark.parametrize(
    ("operation", "method", "path"),
    [
        ("GetItem", "GET", "/v1/conversations/{}/files"),
        ("TransactWriteItems", "PUT", "/v1/conversations/{}/file?path=a.txt"),
        ("PutObject", "PUT", "/v1/conversations/{}/file?path=a.txt"),
        ("BatchGetItem", "GET", "/v1/conversations/{}"),
        ("Query", "GET", "/v1/conversations/{}/versions"),
    ],
)
def test_other_routes_answer_429(api: Any, unique: str, slow: Slow, operation: str, method: str, path: str) -> None:
    Talk.open(api, unique)
    met = slow(operation)
    answer = api(method, path.format(unique), b"data" if method == "PUT" else None)
    assert met
    assert (answer.status, answer.json["error"]["code"]) == (429, "throttled")
    assert answer.json["error"]["details"]["retryAfterSeconds"] == retry_after(answer) > 0
    slow()
    assert api("GET", f"/v1/conversations/{unique}/files").json["files"] == []


def test_what_fails_for_other_reasons_is_internal(api: Any, unique: str, slow: Slow) -> None:
    talk = Talk.open(api, unique)
    slow("PutObject", "TransactWriteItems", code="AccessDenied")
    assert talk.send("write_file", {"files": [{"path": "a.txt", "content": "x"}]}).status == 500


@pytest.mark.parametrize("code", sorted(THROTTLING_CODES))
def test_every_way_of_saying_it_is_known(code: str) -> None:
    assert is_throttling(ClientError({"Error": {"Code": code}}, "GetItem"))
    reasons = [{"Code": "None"}, {"Code": code}]
    cancelled: Any = {"Error": {"Code": "TransactionCanceledException"}, "CancellationReasons": reasons}
    assert is_throttling(ClientError(cancelled, "TransactWriteItems"))


def test_other_failures_are_no_throttling() -> None:
    for error in (ValueError("Throttling"), ClientError({"Error": {"Code": "AccessDenied"}}, "GetItem")):
        assert not is_throttling(error)
