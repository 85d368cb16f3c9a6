"""What any program may rely on in every answer: JSON that every parser takes, headers, and states that agree."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.local.conftest import Answer, Api
from tests.local.talk import Talk

KEYS = {
    "callId",
    "tool",
    "outcome",
    "content",
    "line",
    "structured",
    "error",
    "conversions",
    "ref",
    "truncated",
    "cost",
}


def strict(answer: Answer) -> Any:
    """The answer's JSON, read as strictly as parsers of other languages read it."""

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    return json.loads(answer.body.decode("utf-8"), parse_constant=refuse)


def raw_call(talk: Talk, tool: str, body: str) -> Answer:
    path = f"/v1/turns/{talk.turn}/tools/{tool}"
    answer: Answer = talk.api("POST", path, body.encode(), {"X-Turn-Token": talk.token})
    return answer


# ---------------------------------------------------------------- JSON that every parser takes


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("calculate", '{"expressions": [1e999]}'),
        ("calculate", '{"expressions": -1e999}'),
        ("calculate", '"{\\"expressions\\": [1e999]}"'),
        ("convert_units", '{"value": 1e999, "from": "km", "to": "m"}'),
        ("read_file", '{"path": "a", "startLine": 1e999}'),
    ],
)
def test_a_number_too_large_for_a_float_is_refused_in_valid_json(api: Api, unique: str, tool: str, arguments: str):
    talk = Talk.open(api, unique)
    body = f'{{"callId": "c1", "arguments": {arguments}}}'
    first = raw_call(talk, tool, body)
    assert strict(first)["outcome"] == "invalid_args"
    assert raw_call(talk, tool, body).body == first.body
    strict(api("GET", f"/v1/turns/{talk.turn}/trace"))


def test_messages_with_a_number_too_large_for_a_float_come_back_as_valid_json(api: Api, unique: str):
    talk = Talk.open(api, unique)
    answer = api("POST", "/v1/replay", f'{{"turn": "{talk.turn}", "messages": [{{"x": [1e999, 1.5]}}]}}'.encode())
    assert strict(answer) == {"messages": [{"x": ["inf", 1.5]}]}


def test_half_of_a_surrogate_pair_in_an_expression_is_refused_in_words(api: Api, unique: str):
    talk = Talk.open(api, unique)
    answer = raw_call(talk, "calculate", '{"callId": "c1", "arguments": {"expressions": ["1+\\ud800", "1+1"]}}')
    assert answer.status == 200, answer.body
    bad, good = strict(answer)["structured"]["entries"]
    assert bad["value"] is None and bad["error"]
    assert good == {"expression": "1+1", "value": "2", "rounded": False, "error": None}


# ---------------------------------------------------------------- the envelope, whatever the outcome


def test_every_outcome_has_every_key_and_one_line(api: Api, unique: str):
    talk = Talk.open(api, unique, ["read_file", "calculate", "write_file", "run_code"])
    said = {
        "ok": talk.call("calculate", expressions=["1+1"]),
        "error": talk.call("read_file", path="q" * 200 + "/" + "z" * 200),
        "unknown_tool": talk.call("no_such_tool"),
        "denied": talk.call("delete_file", path="a"),
        "invalid_args": talk.call("calculate"),
        "approval_required": talk.call("write_file", path=".env", content="K=1"),
        "running": talk.send("run_code", {"code": "print(1)"}, wait=0).json,
    }
    for outcome, answer in said.items():
        assert answer["outcome"] == outcome
        assert answer.keys() >= KEYS, outcome
        assert (answer["error"] is None) == (outcome in ("ok", "running")), outcome
        assert "\n" not in answer["line"] and answer["content"][0]["text"], outcome
        assert answer["cost"].keys() >= {"milliseconds", "attempts", "bytes"}, outcome
    assert len(said["error"]["line"]) == 300 + len(" ... [clipped]")
    assert said["error"]["line"].endswith(" ... [clipped]")


def test_optional_fields_may_be_null(api: Api, unique: str):
    talk = Talk.open(api, unique, model=None, knowledge=None, skills=None, parent=None)
    answer = raw_call(talk, "list_files", '{"callId": "c1", "arguments": null, "wait": null}')
    assert strict(answer)["outcome"] == "ok"


def test_run_code_has_all_its_fields_however_the_run_ends(api: Api, unique: str):
    talk = Talk.open(api, unique)
    fields = {"run", "exitCode", "seconds", "created", "modified", "deleted", "leftOut", "version"}
    code = "open('workspace/a{0}.txt', 'w').write('a'); print('said', flush=True); {1}"
    for number, (end, limits, outcome, error) in enumerate(
        [
            ("pass", (30,), "ok", None),
            ("raise SystemExit(3)", (30,), "error", "SANDBOX_ERROR"),
            ("raise ValueError('boom')", (30,), "error", "SANDBOX_ERROR"),
            # On a machine that stands still for a while a program may not have begun when its second is over.
            ("import time; time.sleep(600)", (1, 5, 15), "timeout", "SANDBOX_TIMEOUT"),
        ],
        start=1,
    ):
        for limit in limits:
            answer = talk.call("run_code", code=code.format(number, end), timeoutSeconds=limit)
            facts = answer["structured"]
            if facts["created"]:
                break
        assert (answer["outcome"], (answer["error"] or {}).get("code")) == (outcome, error)
        assert facts.keys() >= fields
        assert (facts["created"], facts["version"]) == ([f"a{number}.txt"], number)
        run = api("GET", f"/v1/runs/{facts['run']}").json["run"]
        assert run["answer"] == answer and run["output"]["stdout"] == "said\n"
        assert run["status"] == ("succeeded" if outcome == "ok" else "failed")

    program = {"code": "import time; time.sleep(600)", "timeoutSeconds": 900}
    stopped = talk.send("run_code", program, wait=0).json["structured"]["run"]
    api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "cancelled", "text": ""})
    run = talk.ended(stopped)
    assert run["status"] == "failed" and run["answer"]["structured"].keys() >= fields


# ---------------------------------------------------------------- a deleted conversation


def test_runs_and_the_catalogue_of_a_deleted_conversation_are_409_like_everything_else_on_it(api: Api, unique: str):
    talk = Talk.open(api, unique)
    run = talk.ok("run_code", code="print(1)")["structured"]["run"]
    paths = (f"/v1/runs/{run}", f"/v1/catalogue?turn={talk.turn}", f"/v1/turns/{talk.turn}/trace")
    assert [api("GET", path).status for path in paths] == [200, 200, 200]
    assert api("DELETE", f"/v1/conversations/{unique}").status == 202
    for path in paths:
        answer = api("GET", path)
        assert (answer.status, answer.json["error"]["code"]) == (409, "conflict"), path
    assert api("GET", f"/v1/conversations/{unique}").json["conversation"]["status"] == "deleted"


# ---------------------------------------------------------------- when to come back


def test_a_busy_workspace_and_an_open_breaker_say_in_a_header_when_to_try_again(api: Api, unique: str):
    talk = Talk.open(api, unique)
    program = {"code": "import time; time.sleep(600)", "timeoutSeconds": 900}
    run = talk.send("run_code", program, wait=0).json["structured"]["run"]
    until = time.monotonic() + 90
    while api("GET", f"/v1/runs/{run}?wait=1").json["run"]["status"] != "running":
        assert time.monotonic() < until
    for code, answer in {
        "workspace_busy": talk.send("write_file", {"path": "a", "content": "x"}),
        "circuit_open": [talk.send("calculate", {"expressions": ["1+"]}) for _ in range(4)][-1],
    }.items():
        error = answer.json["error"]
        assert (answer.status, error["code"]) == (200, code)
        assert 1 <= int(answer.headers["retry-after"]) <= error["details"]["retryAfterSeconds"] + 1
    put = api("PUT", f"/v1/conversations/{unique}/file?path=a", b"x")
    assert (put.status, put.json["error"]["code"]) == (429, "throttled")
    assert 1 <= int(put.headers["retry-after"]) <= put.json["error"]["details"]["retryAfterSeconds"] + 1
    assert talk.ok("convert_units", value=1, to="m", **{"from": "km"})["outcome"] == "ok"
    api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "cancelled", "text": ""})
