"""Approvals through HTTP: calls that wait for a person, what each decision lets through, and what it never does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import botocore.session
import pytest
from botocore.stub import Stubber

from local.system import LocalSystem
from tests.local.talk import Talk, text
from workbench.clock import SystemClock
from workbench.keys import conversation_key

SECRET = {"path": ".env", "content": "KEY=1\n"}


class Ahead(SystemClock):
    """The system's clock, some seconds ahead."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds

    def now(self) -> float:
        return super().now() + self._seconds


@pytest.fixture
def thresholds(system: LocalSystem, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Change the deployment's thresholds for this test."""

    def change(**values: str) -> None:
        monkeypatch.setattr(system.runtime, "settings", system.runtime.settings.model_copy(update=values))

    return change


def parked(talk: Talk, tool: str = "write_file", call: str = "c", **arguments: Any) -> str:
    """The approval id of a call that must be parked."""
    answer = talk.call(tool, call=call, **(arguments or SECRET))
    assert answer["outcome"] == "approval_required", answer
    assert answer["error"]["code"] == "approval_required"
    approval: str = answer["structured"]["approval"]
    assert approval in text(answer)
    return approval


def decide(talk: Talk, approval: str, decision: str = "allow", scope: str = "once", by: str = "grace") -> Any:
    return talk.api("POST", f"/v1/approvals/{approval}", {"decision": decision, "scope": scope, "by": by})


def listed(talk: Talk) -> list[dict[str, Any]]:
    answer = talk.api("GET", f"/v1/approvals?conversation={talk.conversation}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.json["approvals"]
    return found


def receipt(talk: Talk) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = talk.api("GET", f"/v1/turns/{talk.turn}/receipt").json["receipt"]["approvals"]
    return found


# ---------------------------------------------------------------- parking


def test_a_credential_path_is_parked_and_changes_nothing(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    assert talk.files() == {}
    (item,) = listed(talk)
    assert item["id"] == approval and item["status"] == "pending"
    assert {name: item[name] for name in ("turn", "callId", "tool", "pattern", "rating")} == {
        "turn": talk.turn,
        "callId": "c",
        "tool": "write_file",
        "pattern": "write_file write .env",
        "rating": "dangerous",
    }
    assert ".env" in item["reason"] and "KEY=1" not in str(item)
    steps = api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]
    assert [(step["outcome"], step["code"]) for step in steps] == [("approval_required", "approval_required")]
    assert parked(talk) == approval and len(listed(talk)) == 1


def test_ordinary_work_is_never_interrupted(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.ok("write_file", path="notes/.env.example", content="KEY=\n")
    talk.ok("edit_file", path="notes/.env.example", append="MORE=\n")
    talk.ok("delete_file", path="notes", recursive=True)
    talk.ok("export_artifact", name="a.md", content="# A\n")
    assert listed(talk) == []


@pytest.mark.parametrize(
    ("tool", "arguments", "pattern"),
    [
        ("write_file", {"path": "a/../deploy/id_rsa", "content": "x"}, "write_file write deploy/id_rsa"),
        ("edit_file", {"path": "server.pem", "append": "x"}, "edit_file append server.pem"),
        ("edit_file", {"path": "x/.ENV", "edits": [{"find": "a", "replace": "b"}]}, "edit_file replace x/.ENV"),
        ("delete_file", {"path": ".ssh", "recursive": True}, "delete_file delete .ssh"),
        ("export_artifact", {"path": ".aws/credentials"}, "export_artifact export .aws/credentials"),
    ],
)
def test_every_way_to_touch_a_credential_is_parked(
    api: Any, unique: str, tool: str, arguments: dict[str, Any], pattern: str
) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk, tool, **arguments)
    assert [(item["id"], item["pattern"]) for item in listed(talk)] == [(approval, pattern)]


def test_a_batch_with_one_credential_path_is_parked_whole(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    files = [{"path": "readme.md", "content": "r"}, {"path": "conf/.env.local", "content": "K=1"}]
    approval = parked(talk, files=files)
    assert talk.files() == {}
    (item,) = listed(talk)
    assert item["pattern"] == "write_file write conf/.env.local"
    assert decide(talk, approval).status == 200
    assert talk.call("write_file", call="c", files=files)["outcome"] == "ok"
    assert talk.files() == {"readme.md": b"r", "conf/.env.local": b"K=1"}


def test_deleting_a_folder_that_holds_a_credential_is_parked(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.put("app/main.py", b"x")
    talk.ok("delete_file", path="app", recursive=True)
    talk.put("app/main.py", b"x")
    talk.put("app/deep/down/.env", b"K=1")
    approval = parked(talk, "delete_file", path="app", recursive=True)
    assert len(talk.files()) == 2
    decide(talk, approval)
    assert talk.call("delete_file", call="c", path="app", recursive=True)["outcome"] == "ok"
    assert talk.files() == {}


# ---------------------------------------------------------------- allowing


def test_allowing_once_lets_the_same_call_through_and_no_other(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    decided = decide(talk, approval)
    assert decided.status == 200
    assert decided.json["approval"] | {"at": ""} == {**listed(talk)[0], "at": ""}
    assert (decided.json["approval"]["status"], decided.json["approval"]["by"]) == ("allowed", "grace")
    done = talk.call("write_file", call="c", **SECRET)
    assert done["outcome"] == "ok" and talk.bytes_of(".env") == b"KEY=1\n"
    assert talk.call("write_file", call="c", **SECRET) == done
    parked(talk, call="d")
    assert receipt(talk) == [
        {"id": approval, "pattern": "write_file write .env", "decision": "allow", "by": "grace"},
    ]
    steps = api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]
    assert [(step["callId"], step["outcome"]) for step in steps] == [("c", "ok"), ("d", "approval_required")]


@pytest.mark.parametrize(
    ("scope", "same_turn", "other_turn", "other_conversation", "other_person"),
    [
        ("once", False, False, False, False),
        ("turn", True, False, False, False),
        ("conversation", True, True, False, True),
        ("person", True, True, True, False),
    ],
)
def test_a_decision_reaches_as_far_as_its_scope(
    api: Any, unique: str, scope: str, same_turn: bool, other_turn: bool, other_conversation: bool, other_person: bool
) -> None:
    mine = {"caller": {"user": f"u-{unique}", "department": "d"}}
    talk = Talk.open(api, unique, **mine)
    decide(talk, parked(talk), scope=scope)
    others = [
        (talk, same_turn),
        (talk.again(**mine), other_turn),
        (Talk.open(api, f"{unique}-2", **mine), other_conversation),
        (talk.again(caller={"user": f"v-{unique}", "department": "d"}), other_person),
    ]
    for other, reached in others:
        answer = other.call("write_file", call="other", **SECRET)
        assert (answer["outcome"] == "ok") is reached, answer
        assert [line["by"] for line in receipt(other)] == (["grace"] if reached else [])


def test_a_grant_covers_its_very_path_only(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    decide(talk, parked(talk, path="keys/a.pem", content="a"), scope="conversation")
    assert talk.call("write_file", path="keys/a.pem", content="a")["outcome"] == "ok"
    for arguments in ({"path": "keys/b.pem", "content": "b"}, {"path": "keys/*.pem", "content": "b"}):
        assert talk.call("write_file", **arguments)["outcome"] == "approval_required"
    files = [{"path": "keys/a.pem", "content": "a"}, {"path": "keys/b.pem", "content": "b"}]
    assert talk.call("write_file", files=files)["outcome"] == "approval_required"
    assert talk.call("edit_file", path="keys/a.pem", append="x")["outcome"] == "approval_required"


def test_the_receipt_names_the_grants_that_were_needed(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    for name in ("a.pem", "b.pem"):
        decide(talk, parked(talk, call=name[0], path=name, content="x"), scope="turn")
    talk.ok("write_file", path="b.pem", content="x")
    assert [line["pattern"] for line in receipt(talk)] == ["write_file write b.pem"]


def test_a_pattern_of_a_folder_covers_its_files(api: Any, unique: str, thresholds: Any) -> None:
    thresholds(ask_from="moderate")
    talk = Talk.open(api, unique)
    approval = parked(talk, path="notes/a.md", content="a")
    assert listed(talk)[0]["pattern"] == "write_file write notes/*"
    decide(talk, approval, scope="turn")
    assert talk.call("write_file", path="notes/b.md", content="b")["outcome"] == "ok"
    for path in ("other/a.md", "notes/deep/a.md", "notes/.env"):
        assert talk.call("write_file", path=path, content="b")["outcome"] == "approval_required"


# ---------------------------------------------------------------- denying


def test_a_denial_is_final_and_on_the_receipt(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    assert decide(talk, approval, "deny").json["approval"]["status"] == "denied"
    answer = talk.call("write_file", call="c", **SECRET)
    assert (answer["outcome"], answer["error"]["code"]) == ("denied", "not_allowed")
    assert "grace" in text(answer) and talk.files() == {}
    assert talk.call("write_file", call="c", **SECRET) == answer
    assert receipt(talk) == [
        {"id": approval, "pattern": "write_file write .env", "decision": "deny", "by": "grace"},
    ]
    parked(talk, call="d")


def test_a_denial_lasts_as_far_as_its_scope_until_a_later_decision(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    first, second = parked(talk, call="a"), parked(talk, call="b")
    decide(talk, first, "deny", "conversation")
    assert talk.again().call("write_file", **SECRET)["outcome"] == "denied"
    decide(talk, second, "allow", "conversation")
    assert talk.again().call("write_file", **SECRET)["outcome"] == "ok"


# ---------------------------------------------------------------- what must not work


def test_a_second_decision_that_says_otherwise_is_a_conflict(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    first = decide(talk, approval, scope="turn")
    assert first.status == 200
    assert decide(talk, approval, scope="turn", by="somebody").json["approval"]["by"] == "grace"
    for decision, scope in (("deny", "turn"), ("allow", "person"), ("allow", "once")):
        again = decide(talk, approval, decision, scope)
        assert (again.status, again.json["error"]["code"]) == (409, "conflict")
        assert "grace" in again.json["error"]["message"]


def test_of_two_decisions_at_once_one_counts(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    ready = threading.Barrier(4)

    def send(number: int) -> int:
        ready.wait()
        status: int = decide(
            talk, approval, "allow" if number % 2 else "deny", "conversation", f"by{number % 2}"
        ).status
        return status

    with ThreadPoolExecutor(4) as pool:
        assert sorted(pool.map(send, range(4))) == [200, 200, 409, 409]
    decided = listed(talk)[0]
    assert decided["by"] == ("by1" if decided["status"] == "allowed" else "by0")
    outcome = talk.call("write_file", **SECRET)["outcome"]
    assert outcome == ("ok" if decided["status"] == "allowed" else "denied")


@pytest.mark.parametrize(
    "approval",
    [
        "apr_{conversation}.{part}.other",
        "apr_{conversation}.t_other.c",
        "apr_other.t_1.c",
        "run_{conversation}.{part}.c",
        "apr_",
        "c",
        "apr_{conversation}.{part}.c.d",
        "apr_{conversation}..c",
        "apr_%2e%2e.t_1.c",
    ],
)
def test_an_approval_that_is_not_there_is_404(api: Any, unique: str, approval: str) -> None:
    talk = Talk.open(api, unique)
    parked(talk)
    name = approval.format(conversation=unique, part=talk.turn.partition(".")[2])
    answer = decide(talk, name)
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")
    assert listed(talk)[0]["status"] == "pending"


@pytest.mark.parametrize(
    "change",
    [
        {"decision": "maybe"},
        {"decision": None},
        {"decision": ["allow"]},
        {"scope": "forever"},
        {"scope": ["once"]},
        {"by": ""},
        {"by": 7},
        {"by": "a\nb"},
        {"by": "x" * 129},
        {"by": None},
    ],
)
def test_a_decision_that_makes_no_sense_is_400(api: Any, unique: str, change: dict[str, Any]) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    body = {"decision": "allow", "scope": "once", "by": "grace", **change}
    answer = api("POST", f"/v1/approvals/{approval}", body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert listed(talk)[0]["status"] == "pending"


def test_approvals_of_a_conversation_that_is_not_there_are_404(api: Any, unique: str) -> None:
    assert api("GET", f"/v1/approvals?conversation={unique}").status == 404
    assert api("GET", "/v1/approvals").status == 400


def test_the_arguments_of_a_parked_call_cannot_be_exchanged(api: Any, unique: str) -> None:
    """A person decides on what was shown, so nothing else may pass under the same id."""
    talk = Talk.open(api, unique)
    approval = parked(talk)
    decide(talk, approval)
    other = talk.call("write_file", call="c", path=".env", content="KEY=stolen")
    assert other["outcome"] == "invalid_args" and "new call id" in text(other)
    assert talk.call("delete_file", call="c", path=".env")["outcome"] == "invalid_args"
    assert talk.call("write_file", call="c", **SECRET)["outcome"] == "ok"
    assert talk.bytes_of(".env") == b"KEY=1\n"


def test_nor_when_the_first_call_crashed_before_it_was_recorded(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    system.runtime.table.delete(conversation_key(unique, f"T#{talk.turn.partition('.')[2]}#CALL#c"))
    other = talk.call("write_file", call="c", path=".env", content="KEY=stolen")
    assert other["outcome"] == "invalid_args"
    decide(talk, approval)
    assert talk.call("write_file", call="c", path=".env", content="KEY=stolen")["outcome"] == "invalid_args"
    assert talk.call("write_file", call="c", **SECRET)["outcome"] == "ok"


def test_a_call_that_became_riskier_since_is_asked_about_again(api: Any, unique: str, thresholds: Any) -> None:
    thresholds(ask_from="moderate")
    talk = Talk.open(api, unique)
    talk.put("build/a.o", b"x")
    approval = parked(talk, "delete_file", path="build", recursive=True)
    decide(talk, approval)
    talk.put("build/.env", b"K=1")
    answer = talk.call("delete_file", call="c", path="build", recursive=True)
    assert answer["outcome"] == "denied" and "new call id" in text(answer)
    assert len(talk.files()) == 2
    parked(talk, "delete_file", call="d", path="build", recursive=True)


def test_approvals_end_with_their_turn(api: Any, unique: str, system: LocalSystem, monkeypatch: Any) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    with monkeypatch.context() as later:
        later.setattr(system.runtime, "clock", Ahead(system.runtime.settings.turn_seconds + 1))
        assert decide(talk, approval).status == 409
        assert listed(talk)[0]["status"] == "expired"
        assert talk.send("write_file", SECRET, call="c").status == 401
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200
    assert decide(talk, approval).status == 409
    assert talk.send("write_file", SECRET, call="c").status == 409


def test_a_deleted_conversation_decides_nothing(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    api("DELETE", f"/v1/conversations/{unique}")
    assert decide(talk, approval, scope="person").status == 409
    assert api("GET", f"/v1/approvals?conversation={unique}").status == 409
    other = Talk.open(api, f"{unique}-2")
    assert other.call("write_file", **SECRET)["outcome"] == "approval_required"


# ---------------------------------------------------------------- thresholds, and failing closed


def test_what_a_deployment_forbids_is_denied_without_asking(api: Any, unique: str, thresholds: Any) -> None:
    thresholds(ask_from="high", deny_from="dangerous")
    talk = Talk.open(api, unique)
    answer = talk.call("write_file", **SECRET)
    assert (answer["outcome"], answer["error"]["code"]) == ("denied", "not_allowed")
    assert answer["error"]["details"]["rating"] == "dangerous"
    assert talk.call("run_code", code="1")["outcome"] == "approval_required"
    assert [item["pattern"] for item in listed(talk)] == ["run_code python"]
    talk.ok("write_file", path="a.txt", content="a")


def test_a_grant_does_not_outlive_a_stricter_deployment(api: Any, unique: str, thresholds: Any) -> None:
    talk = Talk.open(api, unique)
    approval = parked(talk)
    decide(talk, approval, scope="conversation")
    thresholds(deny_from="dangerous")
    assert talk.call("write_file", call="c", **SECRET)["outcome"] == "denied"
    assert talk.call("write_file", call="d", **SECRET)["outcome"] == "denied"


def test_nothing_goes_on_when_approvals_cannot_be_read(
    api: Any, unique: str, system: LocalSystem, monkeypatch: Any
) -> None:
    talk = Talk.open(api, unique)

    def refuse(_service: str, operation: str) -> None:
        if operation in ("GetItem", "Query"):
            raise OSError("the table cannot be reached")

    with monkeypatch.context() as broken:
        broken.setattr(system.runtime.clients, "hook", refuse)
        answer = talk.send("write_file", SECRET, call="c")
    assert (answer.status, answer.json["error"]["code"]) == (500, "internal")
    assert talk.files() == {} and listed(talk) == []
    parked(talk)


def test_a_decision_is_whole_or_not_at_all(api: Any, unique: str, system: LocalSystem, monkeypatch: Any) -> None:
    """The grant and the decision stand together: a crash leaves neither."""
    talk = Talk.open(api, unique)
    approval = parked(talk)

    def crash(_service: str, operation: str) -> None:
        if operation == "TransactWriteItems":
            raise OSError("gone")

    with monkeypatch.context() as broken:
        broken.setattr(system.runtime.clients, "hook", crash)
        assert decide(talk, approval, scope="person").status == 500
    assert listed(talk)[0]["status"] == "pending"
    assert talk.call("write_file", call="d", **SECRET)["outcome"] == "approval_required"


def test_identical_calls_that_are_denied_at_once_get_one_answer(api: Any, unique: str, thresholds: Any) -> None:
    thresholds(deny_from="dangerous")
    talk = Talk.open(api, unique)
    ready = threading.Barrier(6)

    def send(_: int) -> Any:
        ready.wait()
        return talk.call("write_file", call="twin", **SECRET)

    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(send, range(6)))
    assert answers == [answers[0]] * 6 and answers[0]["outcome"] == "denied"


def test_a_call_that_is_sent_again_while_it_is_decided_runs_once(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    talk.put(".env", b"A=1\n")
    arguments = {"path": ".env", "append": "B=2\n"}
    approval = parked(talk, "edit_file", call="c", **arguments)
    ready = threading.Barrier(5)

    def send(number: int) -> Any:
        ready.wait()
        return (
            decide(talk, approval).status if number == 0 else talk.call("edit_file", call="c", **arguments)["outcome"]
        )

    with ThreadPoolExecutor(5) as pool:
        first, *outcomes = pool.map(send, range(5))
    assert first == 200 and set(outcomes) <= {"ok", "approval_required"}
    assert talk.call("edit_file", call="c", **arguments)["outcome"] == "ok"
    assert talk.bytes_of(".env") == b"A=1\nB=2\n"


def test_a_classifier_may_park_a_call_that_the_rules_let_through(
    api: Any, unique: str, system: LocalSystem, thresholds: Any, monkeypatch: Any
) -> None:
    client = botocore.session.get_session().create_client("bedrock-runtime", region_name="eu-central-1")
    monkeypatch.setitem(system.runtime.clients.__dict__, "bedrock", client)
    thresholds(classifier_model="amazon.nova-lite-v1:0")
    talk = Talk.open(api, unique)
    arguments = {"path": "notes.md", "content": "my password is swordfish"}
    judged = {"toolUse": {"toolUseId": "t", "name": "rate", "input": {"rating": "dangerous", "reason": "a password"}}}
    answer = {
        "output": {"message": {"role": "assistant", "content": [judged]}},
        "stopReason": "tool_use",
        "usage": {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2},
        "metrics": {"latencyMs": 1},
    }
    with Stubber(client) as stubber:
        talk.ok("list_files")
        stubber.add_response("converse", answer)
        approval = parked(talk, **arguments)
        assert listed(talk)[0]["reason"] == "A model judged: a password."
        decide(talk, approval)
        stubber.add_response("converse", answer)
        assert talk.call("write_file", call="c", **arguments)["outcome"] == "ok"
        stubber.add_client_error("converse", "ThrottlingException")
        talk.ok("write_file", **arguments)
        stubber.assert_no_pending_responses()


def test_requests_of_an_ordinary_call_do_not_pay_for_approvals(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    decide(talk, parked(talk), scope="conversation")
    assert talk.ok("write_file", path="a.txt", content="x")["cost"]["requests"] == 4
    # One look for the call's own approval and one for each scope.
    assert talk.ok("write_file", **SECRET)["cost"]["requests"] <= 8
