"""Turns: opened with pinned tools and a token, finished once, traced step by step."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text

CALLER = {"user": "ada", "department": "research"}


def open_turn(api: Any, conversation: str, **body: Any) -> Any:
    return api("POST", f"/v1/conversations/{conversation}/turns", {"caller": CALLER, "tools": "all", **body})


@pytest.fixture
def conversation(api: Any, unique: str) -> str:
    assert api("POST", "/v1/conversations", {"owner": "ada", "department": "research", "id": unique}).status == 201
    return unique


def finish(talk: Talk, outcome: str = "completed", words: str = "Done.") -> Any:
    return talk.api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": outcome, "text": words})


def test_a_turn_names_its_tools_and_says_what_lasts(api: Any, conversation: str) -> None:
    opened = open_turn(api, conversation, tools=["read_file", "export_artifact@1.0.0"])
    assert opened.status == 201
    turn = opened.json["turn"]
    assert turn["id"].startswith(f"{conversation}.")
    assert turn["conversation"] == conversation
    assert turn["tools"] == [
        {"name": "read_file", "version": "1.0.0"},
        {"name": "export_artifact", "version": "1.0.0"},
    ]
    assert opened.json["token"].startswith(turn["id"] + ".")
    assert "export_artifact" in turn["instructions"]
    assert "run_code" not in turn["instructions"]


def test_names_without_version_keep_the_version_first_pinned(api: Any, conversation: str) -> None:
    def version(tools: Any) -> str:
        listed = open_turn(api, conversation, tools=tools).json["turn"]["tools"]
        return {tool["name"]: tool["version"] for tool in listed}["export_artifact"]

    assert version(["export_artifact@1.0.0"]) == "1.0.0"
    assert version(["export_artifact"]) == "1.0.0"
    assert version("all") == "1.0.0"
    assert version(["export_artifact@2.0.0"]) == "2.0.0"
    assert version(["export_artifact"]) == "1.0.0"


def test_a_new_conversation_pins_the_latest(api: Any, conversation: str) -> None:
    tools = open_turn(api, conversation, tools=["export_artifact"]).json["turn"]["tools"]
    assert tools == [{"name": "export_artifact", "version": "2.0.0"}]


def test_turns_that_pin_at_once_agree(api: Any, conversation: str) -> None:
    asked = ["export_artifact@1.0.0", "export_artifact@2.0.0"] * 4
    threads = [threading.Thread(target=open_turn, args=(api, conversation), kwargs={"tools": [one]}) for one in asked]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    pinned = {open_turn(api, conversation, tools=["export_artifact"]).json["turn"]["tools"][0]["version"] for _ in "ab"}
    assert len(pinned) == 1


@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ({"tools": ["read_fil"]}, "read_file"),
        ({"tools": ["read_file@9.9.9"]}, "read_file@1.0.0"),
        ({"tools": ["export_artifact@1.0.0", "export_artifact@2.0.0"]}, "two versions"),
        ({"tools": None}, "`tools`"),
        ({"tools": "read_file"}, "`tools`"),
        ({"tools": [7]}, "`tools`"),
        ({"tools": {"read_file": "1.0.0"}}, "`tools`"),
        ({"caller": None}, "`caller`"),
        ({"caller": {"user": "ada"}}, "`caller.department`"),
        ({"caller": {"user": "", "department": "d"}}, "`caller.user`"),
        ({"caller": {"user": "ada", "department": "d", "groups": "all"}}, "`caller.groups`"),
        ({"caller": {"user": "ada", "department": "d", "groups": [1]}}, "`caller.groups[0]`"),
        ({"model": {"name": "m", "vision": "yes"}}, "`model.vision`"),
        ({"model": "m"}, "`model`"),
        ({"knowledge": ["doc_missing"]}, "doc_missing"),
        ({"knowledge": "doc_1"}, "`knowledge`"),
        ({"skills": ["decks"]}, "decks"),
        ({"skills": [None]}, "`skills[0]`"),
        ({"parent": "nowhere"}, "`parent`"),
        ({"parent": 5}, "`parent`"),
        ({"parent": "other.turn"}, "`parent`"),
    ],
)
def test_what_cannot_be_opened_is_refused_by_name(
    api: Any, conversation: str, system: LocalSystem, wrong: dict[str, Any], named: str
) -> None:
    answer = open_turn(api, conversation, **wrong)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert named in str(answer.json["error"])
    assert system.runtime.table.query(f"C#{conversation}", "T#") == []


def test_an_unknown_conversation_opens_no_turn(api: Any) -> None:
    assert open_turn(api, "nowhere").status == 404
    assert open_turn(api, "no.where").status == 404


def test_only_the_hash_of_a_token_is_stored(api: Any, conversation: str, system: LocalSystem) -> None:
    token = open_turn(api, conversation).json["token"]
    secret = token.rpartition(".")[2]
    stored = [item for item in system.runtime.table.query(f"C#{conversation}") if secret in str(item)]
    assert stored == []


def test_a_finished_turn_answers_the_same_again_and_takes_no_new_calls(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    kept = talk.ok("calculate", expressions=["1 + 1"])
    first = finish(talk, words="Two.")
    assert first.status == 200
    assert first.json["reply"] == {"parts": [{"type": "text", "text": "Two."}]}
    again = finish(talk, "failed", "Something else.")
    assert again.json == first.json
    assert talk.send("calculate", {"expressions": ["1 + 1"]}, call=kept["callId"]).json == kept
    late = talk.send("calculate", {"expressions": ["2 + 2"]})
    assert (late.status, late.json["error"]["code"]) == (409, "conflict")


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({}, 400),
        ({"outcome": "done"}, 400),
        ({"outcome": ["completed"]}, 400),
        ({"outcome": "completed", "text": 5}, 400),
        ({"outcome": "completed", "text": "\ud800"}, 400),
        ({"outcome": "completed", "text": "x" * (256 * 1024 + 1)}, 413),
    ],
)
def test_a_wrong_finish_is_refused_and_leaves_the_turn_open(api: Any, unique: str, body: Any, status: int) -> None:
    talk = Talk.open(api, unique)
    assert api("POST", f"/v1/turns/{talk.turn}/finish", body).status == status
    talk.ok("calculate", expressions=["1"])


def test_the_longest_text_fits_the_record(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    words = "ä" * (128 * 1024)
    assert finish(talk, words=words).json["reply"]["parts"][0]["text"] == words
    assert finish(talk).json["reply"]["parts"][0]["text"] == words


@pytest.mark.parametrize("turn", ["nowhere", "no.where", "a.b.c", "%2e.%2e", "x" * 200])
@pytest.mark.parametrize(("method", "what"), [("POST", "finish"), ("GET", "trace"), ("GET", "receipt")])
def test_an_unknown_turn_is_404(api: Any, turn: str, method: str, what: str) -> None:
    body = {"outcome": "completed", "text": ""} if method == "POST" else None
    assert api(method, f"/v1/turns/{turn}/{what}", body).status == 404


def test_the_trace_has_every_call_in_order(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique, ["calculate", "list_artifacts"])
    talk.ok("calculate", expressions=["1"])
    talk.call("calculate", expression="1")
    talk.call("read_file", path="a.txt")
    talk.call("no_such_tool")
    talk.ok("list_artifacts")
    steps = api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]
    assert [(step["callId"], step["outcome"]) for step in steps] == [
        ("call1", "ok"),
        ("call2", "invalid_args"),
        ("call3", "denied"),
        ("call4", "unknown_tool"),
        ("call5", "ok"),
    ]
    assert steps[0]["tool"] == "calculate@1.0.0"
    assert steps[0]["step"] == "compute"
    assert steps[1]["code"] == "invalid_args"
    assert steps[0]["refs"][0].startswith("res_")
    assert steps == sorted(steps, key=lambda step: step["at"])


def test_many_turns_finish_at_once_without_mixing(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique, ["export_artifact"])
    talk.ok("export_artifact", content="one", name="one.txt")
    answers: list[Any] = []
    threads = [
        threading.Thread(target=lambda number=number: answers.append(finish(talk, words=f"reply {number}").json))
        for number in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({str(answer) for answer in answers}) == 1
    assert len(answers[0]["reply"]["parts"]) == 2


def test_a_delegated_turn_keeps_its_files_to_itself(api: Any, unique: str) -> None:
    parent = Talk.open(api, unique)
    child = parent.again(parent=parent.turn)
    answer = child.ok("export_artifact", content="from the child", name="child.txt")
    assert "delegated" in text(answer)
    parent.ok("export_artifact", content="from the parent", name="parent.txt")
    names = [[part["name"] for part in finish(one).json["reply"]["parts"][1:]] for one in (child, parent)]
    assert names == [["child.txt"], ["parent.txt"]]
    refused = open_turn(api, unique, parent=parent.turn)
    assert (refused.status, refused.json["error"]["code"]) == (409, "conflict")


def test_tokens_are_checked_and_disclose_nothing(api: Any, unique: str) -> None:
    talk, other = Talk.open(api, unique), Talk.open(api, f"{unique}-2")
    ref = talk.ok("calculate", expressions=["1"])["ref"]
    answers = [
        api("GET", f"/v1/results/{ref}", None, headers)
        for headers in (
            {},
            {"X-Turn-Token": ""},
            {"X-Turn-Token": talk.turn},
            {"X-Turn-Token": talk.token + "x"},
            {"X-Turn-Token": f"{talk.turn}.{other.token.rpartition('.')[2]}"},
            {"X-Turn-Token": "nowhere.t.secret"},
            {"X-Turn-Token": "\x7f"},
        )
    ]
    assert {answer.status for answer in answers} == {401}
    assert len({answer.body for answer in answers}) == 1
    foreign = api("GET", f"/v1/results/{ref}", None, {"X-Turn-Token": other.token})
    unknown = api("GET", "/v1/results/res_a.b.c", None, {"X-Turn-Token": other.token})
    assert (foreign.status, foreign.body) == (404, unknown.body)


@pytest.mark.parametrize("outcome", ["failed", "cancelled"])
def test_a_run_at_work_holds_up_a_completed_turn_and_ends_with_one_that_is_given_up(
    api: Any, unique: str, outcome: str
) -> None:
    talk = Talk.open(api, unique)
    program = "import time\nopen('workspace/a.txt', 'w').write('1')\ntime.sleep(600)"
    started = talk.send("run_code", {"code": program, "timeoutSeconds": 900}, wait=0).json
    assert started["outcome"] == "running"
    run = started["structured"]["run"]
    refused = finish(talk)
    assert (refused.status, refused.json["error"]["code"]) == (409, "conflict")
    assert refused.json["error"]["details"]["run"] == run and "retry-after" in refused.headers
    ended = finish(talk, outcome)
    assert ended.json["reply"]["parts"] == [{"type": "text", "text": "Done."}]
    assert talk.ended(run)["status"] == "failed"
    assert talk.files() == {}
    assert finish(talk).json["reply"] == ended.json["reply"]


def test_a_run_of_another_turn_holds_nothing_up(api: Any, unique: str) -> None:
    talk, other = Talk.open(api, unique), Talk.open(api, unique, create=False)
    started = other.send("run_code", {"code": "import time; time.sleep(600)", "timeoutSeconds": 900}, wait=0).json
    assert finish(talk).status == 200
    assert finish(talk, "cancelled").status == 200
    assert api("GET", f"/v1/runs/{started['structured']['run']}").json["run"]["answer"] is None
    assert finish(other, "cancelled").status == 200


@pytest.mark.parametrize("outcome", ["completed", "cancelled"])
def test_a_write_under_way_when_its_turn_is_finished_is_refused(
    api: Any, unique: str, system: LocalSystem, outcome: str
) -> None:
    talk = Talk.open(api, unique)
    talk.ok("write_file", path="a.txt", content="before\n")
    replies: list[Any] = []

    def finish_before_the_commit(_service: str, operation: str) -> None:
        if operation == "TransactWriteItems" and not replies:
            replies.append(None)
            replies[0] = finish(talk, outcome).json

    with changed.hooked(system, finish_before_the_commit):
        late = talk.send("write_file", {"path": "late.txt", "content": "too late\n"}, call="late")
    assert (late.status, late.json["error"]["code"]) == (409, "conflict")
    assert talk.files() == {"a.txt": b"before\n"}
    # The receipt that went with the reply is still the whole truth.
    assert [file["path"] for file in replies[0]["receipt"]["files"]] == ["a.txt"]
    assert talk.api("GET", f"/v1/turns/{talk.turn}/receipt").json["receipt"] == replies[0]["receipt"]
