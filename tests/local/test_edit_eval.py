"""The edit evaluation measures what it says: scripted slips through the real tools, and real endpoints' shapes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from functools import cache
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import botocore.session
import pytest
from botocore.config import Config
from botocore.stub import ANY, Stubber

from bench.edit_eval import judging
from bench.edit_eval.models import BedrockModel, Call, Conversation, EndpointFailed, OpenAIModel
from bench.edit_eval.scripted import SCRIPTED, Scripted
from bench.edit_eval.tasks import REPLACE, TASKS, WHITESPACE, Task
from bench.edit_eval.trials import Trial, judged, record, run, summary
from local.system import LocalSystem

MODELS = {model.name: model for model in SCRIPTED}
BY_NAME = {task.name: task for task in TASKS}
# What nobody can tell from a call: there the tool refuses and says where to look.
UNSAVABLE = {
    "stale number, no anchor": judging.FURTHER_OFF,
    "empty find": judging.EMPTY_FIND,
    "no call": judging.NO_CALL,
}


def indented(task: Task) -> bool:
    return task.new != task.new.lstrip()


def test_the_sets_are_what_they_are_measured_as() -> None:
    assert [sum(task.kind == kind for task in TASKS) for kind in (REPLACE, WHITESPACE)] == [10, 4]
    for kind in (REPLACE, WHITESPACE):
        assert any(task.kind == kind and b"\r\n" in task.before for task in TASKS)
    for task in TASKS:
        assert task.before != task.after and task.before.count(b"\n") == task.after.count(b"\n")
        assert (task.old.split() == task.new.split()) is (task.kind == WHITESPACE), task.name


@pytest.fixture(scope="module")
def measured(system: LocalSystem) -> Callable[[str], list[Trial]]:
    """The trials of a scripted model, made once: two tries, because some scripts slip in two ways."""
    return cache(lambda name: run(system.url, MODELS[name], tries=2))


@pytest.mark.parametrize("name", list(MODELS))
def test_no_known_slip_leaves_a_file_wrong(measured: Callable[[str], list[Trial]], name: str) -> None:
    trials = measured(name)
    assert len(trials) == 28
    assert [trial for trial in trials if trial.wrong] == []
    for trial in trials:
        # Right, or untouched and told why.
        assert trial.success or all(outcome != "ok" for outcome in trial.outcomes)
        assert trial.success is (trial.failure is None)
    if name in UNSAVABLE:
        assert {trial.failure for trial in trials} == {UNSAVABLE[name]}


def test_the_rules_save_the_slips_that_can_be_told(measured: Callable[[str], list[Trial]]) -> None:
    def saved(name: str) -> dict[str, bool]:
        return {trial.task: trial.saved for trial in measured(name) if trial.attempt == 0}

    assert saved("lost indentation") == {task.name: task.kind == REPLACE and indented(task) for task in TASKS}
    # Of two equal lines an anchor cannot tell which is meant.
    unsure = {"the second of two equal lines"}
    assert saved("stale number") == {task.name: task.name not in unsure for task in TASKS}
    assert {name for name, was in saved("off by one").items() if not was} <= unsure
    # A neighbour that is retyped as it stands does no harm; one retyped otherwise is not taken for it.
    assert saved("retyped neighbour")["one level deeper"] and not saved("retyped neighbour")["nested return"]


def test_without_the_rules_the_same_calls_would_spoil_files(measured: Callable[[str], list[Trial]]) -> None:
    names = ("flawless", "lost indentation", "off by one", "stale number", "retyped neighbour")
    figures = {name: summary(measured(name))[REPLACE] for name in names}
    assert figures["flawless"]["blindlyWrong"] == 0 and figures["flawless"]["successes"] == 20
    assert all(figures[name]["blindlyWrong"] >= 12 for name in names if name != "flawless")
    assert all(one["wrong"] == 0 for one in figures.values())


# ---------------------------------------------------------------- judging


def call(task: Task, **edit: Any) -> Call:
    return Call("edit_file", {"path": task.path, "edits": [edit]})


NESTED = BY_NAME["nested return"]


@pytest.mark.parametrize(
    ("calls", "failure"),
    [
        ([], "no_call"),
        ([Call("read_file", {"path": "x"})], "other_call"),
        ([Call("edit_file", "{not json")], "other_call"),
        ([Call("edit_file", {"path": NESTED.path, "append": "x"})], "other_call"),
        ([call(NESTED, startLine=9, content="        return 11")], "other"),
        ([call(NESTED, startLine=9, content="return 10")], "lost_indentation"),
        ([call(NESTED, startLine=10, content="        return 10")], "off_by_one"),
        ([call(NESTED, startLine=8, content="return 10")], "off_by_one"),
        ([call(NESTED, startLine=2, content="        return 10")], "further_off"),
        ([call(NESTED, startLine="nine", content="        return 10")], "line_as_text"),
        ([call(NESTED, find="", replace="return 10")], "empty_find"),
        ([call(NESTED, startLine=9, content="        return 10\n")], "other"),
        ([call(NESTED, startLine=9, content="        return 10\n\n    def perimeter(self):")], "retyped_neighbour"),
        ([call(NESTED, startLine=9, content="x")] * 2, "several_calls"),
        ([Call("edit_file", json.dumps({"edits": json.dumps({"startLine": 8, "content": "x"})}))], "off_by_one"),
    ],
)
def test_failures_are_classed(calls: list[Call], failure: str) -> None:
    trial = judged(NESTED, NESTED, 0, calls, [], b"something else")
    assert (trial.failure, trial.success, trial.wrong) == (failure, False, True)
    assert failure in judging.CLASSES


def test_a_trial_that_changed_nothing_is_a_failure_but_not_wrong() -> None:
    trial = judged(NESTED, NESTED, 0, [], [], NESTED.before)
    assert (trial.success, trial.wrong, trial.blindly_wrong) == (False, False, False)


def test_measurements_keep_the_kinds_apart_and_add_up(tmp_path: Path) -> None:
    def trial(kind: Any, success: bool, failure: str | None, **more: Any) -> Trial:
        facts = {"slips": [], "outcomes": ["ok"], "saved": False, "wrong": False, "blindly_wrong": False, **more}
        return Trial(task="t", kind=kind, attempt=0, success=success, failure=failure, **facts)

    trials = [
        trial(REPLACE, True, None, saved=True),
        trial(REPLACE, False, "off_by_one", wrong=True),
        trial(REPLACE, False, "off_by_one"),
        trial(WHITESPACE, False, "no_call"),
    ]
    path = tmp_path / "deep" / "measurements.json"
    record(path, "one", trials)
    record(path, "two", trials[:1])
    first, second = json.loads(path.read_text())["runs"]
    assert (first["model"], second["model"]) == ("one", "two") and len(first["trials"]) == 4
    expected = {"trials": 3, "successes": 1, "saved": 1, "wrong": 1, "blindlyWrong": 0, "failures": {"off_by_one": 2}}
    assert first["kinds"][REPLACE] == expected
    assert first["kinds"][WHITESPACE]["failures"] == {"no_call": 1}
    assert list(second["kinds"]) == [REPLACE]


# ---------------------------------------------------------------- real endpoints


class Endpoint(HTTPServer):
    """A chat completions endpoint that makes the right edit; ``asked`` is what it was sent."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.asked: list[tuple[str, str | None, dict[str, Any]]] = []
        self.answer: Any = None


class _Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        self.server.asked.append((self.path, self.headers["authorization"], body))
        data = json.dumps(self.server.answer).encode()
        self.send_response(200)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *arguments: Any) -> None:
        """Nothing on stderr."""


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def completion(*arguments: Any) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "edit_file", "arguments": json.dumps(one)}}
        for n, one in enumerate(arguments)
    ]
    return {"choices": [{"message": {"role": "assistant", "content": None, "tool_calls": calls or None}}]}


RIGHT = {"path": NESTED.path, "edits": [{"startLine": 9, "anchor": NESTED.old, "content": "return 10"}]}


def test_an_openai_compatible_endpoint_is_asked_in_its_own_shape(system: LocalSystem, endpoint: Endpoint) -> None:
    endpoint.answer = completion(RIGHT)
    model = OpenAIModel(f"http://127.0.0.1:{endpoint.server_port}/v1/", "small", "secret", 0.2)
    (trial,) = run(system.url, model, [NESTED], tries=1)
    assert (trial.success, trial.saved, trial.slips) == (True, True, ["lost_indentation"])
    path, authorization, body = endpoint.asked[0]
    assert (path, authorization) == ("/v1/chat/completions", "Bearer secret")
    assert (body["model"], body["temperature"]) == ("small", 0.2)
    assert [tool["function"]["name"] for tool in body["tools"]] == ["read_file", "edit_file"]
    assert [message["role"] for message in body["messages"]] == ["system", "user", "assistant", "tool"]
    assert "9\t        return 1" in body["messages"][3]["content"]
    assert body["messages"][2]["tool_calls"][0]["id"] == body["messages"][3]["tool_call_id"]


@pytest.mark.parametrize("arguments", [(), (RIGHT, RIGHT)])
def test_a_model_that_only_talks_or_calls_twice_is_counted(
    system: LocalSystem, endpoint: Endpoint, arguments: tuple[Any, ...]
) -> None:
    endpoint.answer = completion(*arguments)
    (trial,) = run(system.url, OpenAIModel(f"http://127.0.0.1:{endpoint.server_port}", "m"), [NESTED], tries=1)
    assert len(trial.outcomes) == len(arguments) and not trial.wrong
    assert trial.failure == (None if arguments else "no_call")
    assert endpoint.asked[0][1] is None


@pytest.mark.parametrize("answer", [{}, [], {"choices": []}, {"choices": [{"message": "text"}]}, "no"])
def test_an_endpoint_that_does_not_answer_says_nothing_about_the_model(endpoint: Endpoint, answer: Any) -> None:
    endpoint.answer = answer
    conversation = Conversation(NESTED, 0, "", "", {}, "", {"openai": [], "bedrock": []})
    with pytest.raises(EndpointFailed):
        OpenAIModel(f"http://127.0.0.1:{endpoint.server_port}", "m").calls(conversation)
    endpoint.server_close()
    with pytest.raises(EndpointFailed):
        OpenAIModel("http://127.0.0.1:1", "m").calls(conversation)


def test_bedrock_is_asked_in_its_own_shape(system: LocalSystem) -> None:
    session = botocore.session.get_session()
    session.set_credentials("key", "secret")
    # Requests are checked against the service's model: tools, messages and results must be what Converse takes.
    client = session.create_client(
        "bedrock-runtime", region_name="eu-central-1", config=Config(parameter_validation=True)
    )
    use = {"toolUseId": "t", "name": "edit_file", "input": RIGHT}
    answer = {
        "output": {"message": {"role": "assistant", "content": [{"text": "Done."}, {"toolUse": use}]}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
    sent = dict.fromkeys(("modelId", "system", "messages", "inferenceConfig", "toolConfig"), ANY)
    with Stubber(client) as stubber:
        stubber.add_response("converse", answer, sent)
        (trial,) = run(system.url, BedrockModel(client, "amazon.nova-lite-v1:0"), [NESTED], tries=1)
        assert trial.success and trial.outcomes == ["ok"]
        stubber.add_client_error("converse", "ThrottlingException")
        with pytest.raises(EndpointFailed):
            run(system.url, BedrockModel(client, "amazon.nova-lite-v1:0"), [NESTED], tries=1)


def test_a_script_gets_the_conversation_that_a_model_would(system: LocalSystem) -> None:
    seen: list[Conversation] = []

    class Listener:
        name = "listener"

        def calls(self, conversation: Conversation) -> list[Call]:
            seen.append(conversation)
            return []

    crlf = BY_NAME["a setting in a CRLF file"]
    run(system.url, Listener(), [crlf], tries=1)
    assert crlf.ask in seen[0].wish and crlf.path in seen[0].wish
    assert "3\ttimeout = 30\n" in seen[0].read_result and "\r" not in seen[0].read_result
    assert isinstance(MODELS["flawless"], Scripted)
