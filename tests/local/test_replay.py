"""``POST /v1/replay``: the turn's own records say which calls succeeded, in every message shape."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.local.talk import Talk

LONG = "".join(f"row {number}\n" for number in range(300))


def openai(tool: str, call: str, arguments: Any) -> dict[str, Any]:
    function = {"name": tool, "arguments": json.dumps(arguments)}
    return {"role": "assistant", "tool_calls": [{"id": call, "type": "function", "function": function}]}


def anthropic(tool: str, call: str, arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"type": "tool_use", "id": call, "name": tool, "input": arguments}]}


def bedrock(tool: str, call: str, arguments: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": [{"toolUse": {"toolUseId": call, "name": tool, "input": arguments}}]}


def replayed(talk: Talk, messages: list[Any]) -> list[Any]:
    answer = talk.api("POST", "/v1/replay", {"turn": talk.turn, "messages": messages})
    assert answer.status == 200, answer.body
    made: list[Any] = answer.json["messages"]
    return made


@pytest.mark.parametrize("shape", [openai, anthropic, bedrock])
def test_what_was_written_is_cut_and_what_was_refused_is_whole(api: Any, unique: str, shape: Any) -> None:
    talk = Talk.open(api, unique)
    write = {"path": "a.txt", "content": LONG}
    edit = {"path": "a.txt", "edits": [{"find": "row 7\n", "replace": LONG}]}
    refused = {"path": "a.txt", "edits": [{"find": "no such row", "replace": LONG}]}
    export = {"name": "a.md", "content": LONG}
    assert talk.call("write_file", call="toolu_1", **write)["outcome"] == "ok"
    assert talk.call("edit_file", call="toolu_2", **edit)["outcome"] == "ok"
    assert talk.call("edit_file", call="toolu_3", **refused)["outcome"] == "error"
    assert talk.call("export_artifact", call="toolu_4", **export)["outcome"] == "ok"
    messages = [
        shape("write_file", "toolu_1", write),
        shape("edit_file", "toolu_2", edit),
        shape("edit_file", "toolu_3", refused),
        shape("export_artifact", "toolu_4", export),
        shape("write_file", "toolu_5", write),
    ]
    after = replayed(talk, messages)
    assert [message == before for message, before in zip(after, messages, strict=True)] == [0, 0, 1, 0, 1]
    assert "row 20" in str(after[0]) and "row 200" not in str(after[0])
    assert replayed(talk, after) == after


def test_a_call_that_waits_for_approval_keeps_its_arguments(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    arguments = {"path": ".env", "content": LONG}
    assert talk.call("write_file", call="c", **arguments)["outcome"] == "approval_required"
    messages = [anthropic("write_file", "c", arguments)]
    assert replayed(talk, messages) == messages


def test_calls_of_earlier_turns_are_told_by_their_results(api: Any, unique: str) -> None:
    first = Talk.open(api, unique)
    first.ok("write_file", path="a.txt", content=LONG)
    call = anthropic("write_file", "call1", {"path": "a.txt", "content": LONG})
    result: dict[str, Any] = {"type": "tool_result", "tool_use_id": "call1", "content": "Created"}
    done = {"role": "user", "content": [result]}
    failed = {"role": "user", "content": [{**result, "is_error": True}]}
    second = first.again()
    assert replayed(second, [call, done])[0] != call
    assert replayed(second, [call, failed]) == [call, failed]
    assert replayed(second, [call]) == [call]


def test_an_id_that_comes_again_is_told_apart_by_its_arguments(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.call("write_file", call="call1", path="a.txt", content=LONG)
    earlier = anthropic("write_file", "call1", {"path": "b.txt", "content": LONG})
    failed = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call1", "is_error": True}]}
    now = anthropic("write_file", "call1", {"path": "a.txt", "content": LONG})
    after = replayed(talk, [earlier, failed, now])
    assert after[:2] == [earlier, failed] and after[2] != now
    other = anthropic("export_artifact", "call1", {"name": "b.txt", "content": LONG})
    assert replayed(talk, [other]) == [other]


def test_the_files_of_a_reply_become_lines(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    exported = talk.ok("export_artifact", name="plan.md", content="# Plan\n")["structured"]
    finish = {"outcome": "completed", "text": "Here."}
    reply = api("POST", f"/v1/turns/{talk.turn}/finish", finish).json["reply"]
    (message,) = replayed(talk.again(), [{"role": "assistant", "content": reply["parts"]}])
    line = f"[file plan.md: artifact {exported['artifact']}, version 1, 7 bytes]"
    assert message["content"] == [{"type": "text", "text": "Here."}, {"type": "text", "text": line}]


def test_replaying_costs_one_request(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    messages = [openai("write_file", f"c{number}", {"path": "a", "content": LONG}) for number in range(50)]
    answer = api("POST", "/v1/replay", {"turn": talk.turn, "messages": messages})
    assert (answer.status, answer.headers["x-workbench-requests"]) == (200, "1")


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"turn": "{turn}"}, 400, "invalid_request"),
        ({"turn": "{turn}", "messages": {}}, 400, "invalid_request"),
        ({"turn": "{turn}", "messages": ["text"]}, 400, "invalid_request"),
        ({"turn": 7, "messages": []}, 400, "invalid_request"),
        ({"messages": []}, 400, "invalid_request"),
        ({"turn": "nobody.t_1", "messages": []}, 404, "not_found"),
        ({"turn": "no turn", "messages": []}, 404, "not_found"),
        (b'{"messages": ' + b"[" * 900 + b"]" * 900 + b"}", 400, "invalid_request"),
    ],
)
def test_what_is_no_replay_is_refused(api: Any, unique: str, body: Any, status: int, code: str) -> None:
    talk = Talk.open(api, unique)
    if isinstance(body, dict) and body.get("turn") == "{turn}":
        body = {**body, "turn": talk.turn}
    answer = api("POST", "/v1/replay", body)
    assert (answer.status, answer.json["error"]["code"]) == (status, code)


def test_a_deleted_conversation_replays_nothing(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    assert api("DELETE", f"/v1/conversations/{unique}").status == 202
    assert api("POST", "/v1/replay", {"turn": talk.turn, "messages": []}).status == 409
