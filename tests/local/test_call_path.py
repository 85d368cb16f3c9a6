"""The path of a tool call through HTTP: who may call, exactly once, its AWS requests, and crashes on the way."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import RemoteDisconnected
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.changed import Crashed
from tests.local.talk import Talk, text
from workbench.workspace.storage import head as heads


@pytest.fixture
def hook(system: LocalSystem) -> Iterator[Callable[[Callable[[str, str], None] | None], None]]:
    """Install a function that every AWS request passes before it is sent."""

    def install(function: Callable[[str, str], None] | None) -> None:
        system.runtime.clients.hook = function

    yield install
    system.runtime.clients.hook = None


# ---------------------------------------------------------------- cost


def test_requests_per_call_are_those_the_architecture_promises(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    lines = "".join(f"line {number}\n" for number in range(20))
    calls: list[tuple[str, dict[str, Any], int]] = [
        ("write_file", {"path": "a.txt", "content": lines}, 4),
        ("write_file", {"files": [{"path": f"b{n}", "content": f"{n}\n"} for n in range(3)]}, 6),
        ("read_file", {"path": "a.txt"}, 2),
        ("list_files", {}, 2),
        ("search_files", {"queries": ["line 7"]}, 2),
        ("edit_file", {"path": "a.txt", "edits": [{"find": "line 7\n", "replace": "seven\n"}]}, 4),
        ("edit_file", {"path": "a.txt", "edits": [{"startLine": 2, "anchor": "line 1", "content": "one"}]}, 4),
        ("delete_file", {"path": "b0"}, 3),
        ("calculate", {"expressions": ["1 + 1"]}, 2),
        ("convert_units", {"value": 1, "from": "mile", "to": "km"}, 2),
        ("current_time", {}, 2),
    ]
    for tool, arguments, most in calls:
        answer = talk.call(tool, **arguments)
        assert answer["outcome"] == "ok", answer
        assert answer["cost"]["requests"] <= most, (tool, answer["cost"])


def test_the_counted_requests_are_the_sent_ones(api: Any, unique: str, hook: Any) -> None:
    talk = Talk.open(api, unique)
    sent: list[str] = []
    hook(lambda service, operation: sent.append(operation))
    answer = talk.ok("write_file", path="a.txt", content="x\n")
    assert answer["cost"]["requests"] == len(sent)
    assert sorted(sent) == ["BatchGetItem", "PutObject", "PutObject", "TransactWriteItems"]
    sent.clear()
    assert talk.call("write_file", call=answer["callId"], path="a.txt", content="x\n") == answer
    assert sent == ["BatchGetItem"]


# ---------------------------------------------------------------- exactly once


def test_a_repeated_call_returns_the_first_answer_and_works_once(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    first = talk.call("edit_file", call="one", path="none.txt", append="x")
    assert first["error"]["code"] == "not_found"
    talk.ok("write_file", path="none.txt", content="")
    assert talk.call("edit_file", call="one", path="none.txt", append="x") == first
    again = talk.call("edit_file", call="one", path="none.txt", append="y")
    assert again["outcome"] == "invalid_args" and "new call id" in text(again)
    assert talk.bytes_of("none.txt") == b""


def test_the_same_call_as_text_and_as_object_is_the_same_call(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    first = talk.send("write_file", '{"path": "a", "content": "1"}', call="c").json
    assert talk.send("write_file", {"content": "1", "path": "a"}, call="c").json == first
    assert len(api("GET", f"/v1/conversations/{unique}/versions").json["versions"]) == 1


def test_identical_calls_at_once_do_the_work_once(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.ok("write_file", path="a.txt", content="start\n")
    ready = threading.Barrier(6)

    def send(_: int) -> Any:
        ready.wait()
        return talk.call("edit_file", call="twin", path="a.txt", append="more\n")

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(send, range(6)))
    assert all(answer == answers[0] for answer in answers)
    assert answers[0]["outcome"] == "ok"
    assert talk.bytes_of("a.txt") == b"start\nmore\n"


# ---------------------------------------------------------------- the four questions


def test_a_tool_that_was_not_offered_is_denied_and_nothing_else_is_said(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique, ["list_files"])
    denied = talk.call("write_file", path="a.txt", content="x")
    assert denied["outcome"] == "denied" and denied["error"]["code"] == "denied"
    assert "write_file" in text(denied) and "list_files" not in str(denied)
    assert denied["error"]["details"]["advice"] == "do_something_else" and "Go on with" in text(denied)
    unknown = talk.call("no_such_tool")
    assert unknown["outcome"] == "unknown_tool"
    assert talk.files() == {}
    steps = api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]
    assert [(step["outcome"], step["step"]) for step in steps] == [("denied", "write"), ("unknown_tool", "unknown")]


@pytest.mark.parametrize("token", [None, "", "x", "{turn}.wrong", "{conversation}.t_other.{secret}", "{turn}"])
def test_a_wrong_token_is_401_and_discloses_nothing(api: Any, unique: str, token: str | None) -> None:
    talk = Talk.open(api, unique)
    secret = talk.token.rpartition(".")[2]
    headers = (
        {} if token is None else {"X-Turn-Token": token.format(turn=talk.turn, conversation=unique, secret=secret)}
    )
    for path in (talk.turn, f"{unique}.t_unknown", "nobody.t_1", "no-turn-at-all"):
        if path == talk.turn and token == talk.token:
            continue
        answer = api("POST", f"/v1/turns/{path}/tools/list_files", {"callId": "c", "arguments": {}}, headers)
        assert answer.status == 401
        assert answer.json["error"]["code"] == "unauthorized"
        assert unique not in answer.json["error"]["message"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b'"text"',
        b"\xff\xfe",
        b'{"arguments": {}}',
        b'{"callId": "", "arguments": {}}',
        b'{"callId": "a b", "arguments": {}}',
        b'{"callId": 7}',
        b'{"callId": "' + b"x" * 65 + b'"}',
        b'{"callId": "c", "wait": -1}',
        b'{"callId": "c", "wait": "soon"}',
        b'{"callId": "c", "wait": NaN}',
        b'{"callId": "c", "argument": {}}',
        b"[" * 100_000,
    ],
)
def test_a_malformed_request_is_400_and_changes_nothing(api: Any, unique: str, body: bytes) -> None:
    talk = Talk.open(api, unique)
    answer = api("POST", f"/v1/turns/{talk.turn}/tools/list_files", body, {"X-Turn-Token": talk.token})
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"] == []


@pytest.mark.parametrize("arguments", ["{", "[1]", [1], 7, {"paht": "x"}, {"path": 7}, '{"path": NaN}'])
def test_bad_arguments_are_an_answer_that_names_the_rule(api: Any, unique: str, arguments: Any) -> None:
    talk = Talk.open(api, unique)
    answer = talk.send("delete_file", arguments).json
    assert (answer["outcome"], answer["error"]["code"]) == ("invalid_args", "invalid_args")
    assert answer["error"]["message"]


def test_after_finish_stored_calls_replay_and_new_ones_are_refused(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    first = talk.call("write_file", call="kept", path="a", content="1")
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": "done"}).status == 200
    assert talk.call("write_file", call="kept", path="a", content="1") == first
    answer = talk.send("list_files", {})
    assert (answer.status, answer.json["error"]["code"]) == (409, "conflict")


# ---------------------------------------------------------------- crashes


@pytest.mark.parametrize(
    ("tool", "arguments", "after"),
    [
        ("write_file", {"path": "new.txt", "content": "new\n"}, {"a.txt": b"one\ntwo\n", "new.txt": b"new\n"}),
        (
            "write_file",
            {"files": [{"path": "x/1", "content": "1"}, {"path": "x/2", "content": "2"}]},
            {"a.txt": b"one\ntwo\n", "x/1": b"1", "x/2": b"2"},
        ),
        ("edit_file", {"path": "a.txt", "edits": [{"find": "two", "replace": "2"}]}, {"a.txt": b"one\n2\n"}),
        ("edit_file", {"path": "a.txt", "append": "three\n"}, {"a.txt": b"one\ntwo\nthree\n"}),
        ("delete_file", {"path": "a.txt"}, {}),
    ],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_crash_between_any_two_requests_leaves_the_old_or_the_new_version(
    api: Any, unique: str, system: LocalSystem, hook: Any, tool: str, arguments: dict[str, Any], after: dict[str, bytes]
) -> None:
    before = {"a.txt": b"one\ntwo\n"}
    crashed_at = 0
    for number in range(1, 12):
        talk = Talk.open(api, f"{unique}-{number}")
        talk.put("a.txt", before["a.txt"])
        counted = 0

        def crash(_service: str, _operation: str, number: int = number) -> None:
            nonlocal counted
            counted += 1
            if counted >= number:
                raise Crashed

        hook(crash)
        # The function is gone without an answer, as a killed Lambda would be.
        with contextlib.suppress(RemoteDisconnected):
            assert talk.send(tool, arguments, call="crashing").json["outcome"] == "ok"
        hook(None)
        if counted < number:
            break
        crashed_at = number
        assert talk.files() in (before, after)
        # The next writer gets in, and the same call, sent again, has been done once.
        assert talk.call(tool, call="crashing", **arguments)["outcome"] == "ok"
        assert talk.files() == after
        assert talk.ok("write_file", path="next.txt", content="in")
    assert crashed_at >= 2


# ---------------------------------------------------------------- concurrency


def test_parallel_edits_of_one_file_all_survive(api: Any, unique: str) -> None:
    """Case 79: the second writer's edit is applied to the first one's result."""
    talk = Talk.open(api, unique)
    talk.put("f.txt", "".join(f"line {n}\n" for n in range(1, 201)).encode())
    numbers = [10, 40, 90, 160]

    def edit(number: int) -> Any:
        return talk.call("edit_file", path="f.txt", edits=[{"find": f"line {number}\n", "replace": f"EDIT {number}\n"}])

    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(edit, numbers))
    assert [answer["outcome"] for answer in answers] == ["ok"] * 4
    expected = "".join(f"{'EDIT' if n in numbers else 'line'} {n}\n" for n in range(1, 201)).encode()
    assert talk.bytes_of("f.txt") == expected
    versions = api("GET", f"/v1/conversations/{unique}/versions").json["versions"]
    assert [version["version"] for version in versions] == [5, 4, 3, 2, 1]


def test_many_writers_at_once_all_come_to_their_turn(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)

    def write(number: int) -> Any:
        return talk.call("write_file", path=f"{number}.txt", content=str(number))

    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(write, range(16)))
    assert [answer["outcome"] for answer in answers] == ["ok"] * 16
    assert talk.files() == {f"{number}.txt": str(number).encode() for number in range(16)}


def test_an_edit_and_a_delete_at_once_leave_one_of_their_two_orders(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.put("f.txt", b"a\nb\n")
    works = [
        lambda: talk.call("edit_file", path="f.txt", edits=[{"find": "a", "replace": "A"}]),
        lambda: talk.call("delete_file", path="f.txt"),
    ]
    with ThreadPoolExecutor(2) as pool:
        edited, deleted = [future.result() for future in [pool.submit(work) for work in works]]
    assert deleted["outcome"] == "ok"
    assert edited["outcome"] == "ok" or edited["error"]["code"] == "not_found"
    assert talk.bytes_of("f.txt") is None


def test_a_short_write_waits_for_a_lease_and_is_told_who_holds_it(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    held = heads.acquire(system.runtime, unique, "somebody", "run_code")
    refused = talk.call("write_file", call="again", path="a", content="x")
    assert refused["error"]["code"] == "workspace_busy" and refused["error"]["retryable"] is True
    assert "run_code" in text(refused) and refused["error"]["details"]["retryAfterSeconds"] > 0
    assert talk.ok("list_files")
    giving_back = threading.Timer(0.5, heads.release, (system.runtime, unique, held.fence))
    giving_back.start()
    with changed.settings(system, busy_wait_seconds=60):
        assert talk.call("write_file", call="again", path="a", content="x")["outcome"] == "ok"
    giving_back.join()
    assert talk.bytes_of("a") == b"x"


def test_who_lost_the_lease_cannot_extend_or_release_it(api: Any, unique: str, system: LocalSystem) -> None:
    Talk.open(api, unique)
    first = heads.acquire(system.runtime, unique, "one", "run_code")
    with pytest.raises(heads.WorkspaceBusy):
        heads.acquire(system.runtime, unique, "two", "run_code")
    heads.release(system.runtime, unique, first.fence)
    second = heads.acquire(system.runtime, unique, "two", "run_code")
    with pytest.raises(heads.Fenced):
        heads.extend(system.runtime, unique, first.fence)
    heads.release(system.runtime, unique, first.fence)
    assert heads.read_head(system.runtime, unique).lease == second.lease
    heads.release(system.runtime, unique, second.fence)
