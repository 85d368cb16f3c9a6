"""Deleting and restoring: refused at once, removed in steps that survive any crash, back without the workspace."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from local.functions import REGION
from local.system import LocalSystem
from tests.local.changed import crashing
from tests.local.reconciled import wait_for_deletions
from tests.local.talk import Talk
from workbench.artifacts import retention
from workbench.clients import Clients, counting
from workbench.clock import ManualClock
from workbench.conversations import api as conversation_api
from workbench.conversations import deletion, lifecycle, restoring
from workbench.conversations.conversation import DAY_SECONDS
from workbench.errors import Conflict, NotFound, RequestError
from workbench.http import Request, Response
from workbench.runtime import Runtime

CONVERSATION = "/v1/conversations/{}"
STEPS = ("fence", "stop_runs", "remove_workspace", "remove_records", "retire_artifacts", "settle")
STAYING = {"META", "HEAD", "PINS"}
# Trying every request would take minutes; an odd stride meets reads, removals and notes alike.
CRASH_STRIDE = 3


@dataclasses.dataclass
class Machine:
    """The deletion driven by hand: the same steps, with a clock of its own, crashes, and no state machine behind it."""

    runtime: Runtime
    clock: ManualClock

    def request(self, target: Callable[[Runtime, Request], Response], conversation: str) -> dict[str, Any]:
        parameters = {"conversation": conversation}
        body: dict[str, Any] = target(self.runtime, Request("", "", "", parameters, {}, {}, b"")).body
        return body

    def step(self, conversation: str, step: str) -> str:
        """One step until it has no more to do, as the state machine calls it."""
        head = self.runtime.table.get((f"C#{conversation}", "HEAD"))
        assert head is not None
        event = {"step": step, "conversation": conversation, "person": "", "deletion": head.get("deletion", "none")}
        while (answer := lifecycle.do_step(self.runtime, event)["next"]) == "again":
            pass
        return str(answer)

    def run(self, conversation: str) -> None:
        for step in STEPS:
            self.step(conversation, step)

    def after_a_crash(self) -> None:
        """The lease that the dead process held has run out."""
        self.clock.advance(self.runtime.settings.lease_seconds + 2 * self.runtime.settings.skew_seconds)


@pytest.fixture
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A restore waits for the step that is at work, also on a machine that stands still for a while."""
    monkeypatch.setattr(restoring, "WAIT_SECONDS", 60.0)


@pytest.fixture
def machine(system: LocalSystem) -> Iterator[Machine]:
    runtime = system.runtime
    idle = json.dumps({"StartAt": "Nothing", "States": {"Nothing": {"Type": "Succeed"}}})
    made = runtime.clients.stepfunctions.create_state_machine(
        name=f"idle-{time.monotonic_ns()}", definition=idle, roleArn="arn:aws:iam::123456789012:role/idle"
    )
    settings = runtime.settings.model_copy(update={"delete_state_machine": made["stateMachineArn"]})
    clock = ManualClock(time.time())
    yield Machine(Runtime(settings, Clients(REGION), clock), clock)


def objects(system: LocalSystem, conversation: str) -> list[str]:
    answer = system.runtime.clients.s3.list_objects_v2(Bucket=system.runtime.settings.workspace_bucket)
    return [entry["Key"] for entry in answer.get("Contents", []) if f"/{conversation}/" in entry["Key"]]


def markers(system: LocalSystem, artifact: str) -> int:
    answer = system.runtime.clients.s3.list_object_versions(
        Bucket=system.runtime.settings.artifact_bucket, Prefix=f"artifacts/{artifact}/"
    )
    return len(answer.get("DeleteMarkers", []))


def swept(system: LocalSystem, conversation: str) -> None:
    """Wait for the state machine to end."""
    until = time.monotonic() + 90
    while time.monotonic() < until:
        head = system.runtime.table.get((f"C#{conversation}", "HEAD"))
        if head is None or head["status"] == "active" or head.get("swept") == head["deletion"]:
            return
        time.sleep(0.02)
    raise AssertionError("the deletion did not end")


@dataclasses.dataclass(frozen=True)
class Lived:
    """A conversation with files, results, one attached and one unattached artifact."""

    talk: Talk
    attached: str
    unattached: str


def lived(api: Any, conversation: str) -> Lived:
    talk = Talk.open(api, conversation)
    talk.put("a.txt", b"kept nowhere")
    talk.put("folder/b.txt", b"nor this")
    attached = talk.ok("export_artifact", path="a.txt")["structured"]["artifact"]
    talk.ok("export_artifact", content="second", artifact=attached, name="a.txt")
    assert talk.api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200
    talk = talk.again()
    unattached = talk.ok("export_artifact", content="nobody's")["structured"]["artifact"]
    talk.ok("export_artifact", content="third, never attached", artifact=attached, name="a.txt")
    return Lived(talk, attached, unattached)


def bytes_of(api: Any, artifact: str, version: int = 1) -> Any:
    answer = api("GET", f"/v1/artifacts/{artifact}/versions/{version}/content")
    return answer.body if answer.status == 200 else answer.status


def assert_gone(api: Any, system: LocalSystem, before: Lived) -> None:
    conversation = before.talk.conversation
    assert objects(system, conversation) == []
    left = {item["SK"] for item in system.runtime.table.query(f"C#{conversation}")}
    pointers = {f"ART#{before.attached}", f"ART#{before.unattached}"}
    turns = {sort for sort in left if sort.startswith("T#")}
    assert left == STAYING | pointers | turns
    for sort in turns:
        stub = system.runtime.table.get((f"C#{conversation}", sort))
        assert stub is not None and "caller" not in stub and "ttl" in stub
    # The two attached versions are marked once; what no reply carries keeps the expiry it has.
    assert (markers(system, before.attached), markers(system, before.unattached)) == (2, 0)
    assert {bytes_of(api, before.attached), bytes_of(api, before.unattached)} == {404}
    for artifact in (before.attached, before.unattached):
        for item in system.runtime.table.query(f"A#{artifact}"):
            assert "ttl" in item


def assert_back(api: Any, system: LocalSystem, before: Lived) -> None:
    conversation = before.talk.conversation
    assert (markers(system, before.attached), markers(system, before.unattached)) == (0, 0)
    assert [bytes_of(api, before.attached, version) for version in (1, 2)] == [b"kept nowhere", b"second"]
    assert bytes_of(api, before.unattached) == b"nobody's"
    assert api("GET", f"/v1/conversations/{conversation}/files").json["files"] == []
    assert api("GET", f"/v1/conversations/{conversation}/versions").json["versions"] == []
    listed = api("GET", f"/v1/artifacts?conversation={conversation}").json["artifacts"]
    assert {artifact["id"] for artifact in listed} == {before.attached, before.unattached}
    meta = system.runtime.table.get((f"A#{before.attached}", "META"))
    assert meta is not None and "ttl" not in meta and "retired" not in meta
    talk = before.talk.again()
    talk.put("new.txt", b"a new life")
    assert talk.files() == {"new.txt": b"a new life"}


# ---------------------------------------------------------------- at the API


def test_a_deleted_conversation_is_refused_everywhere_at_once(api: Any, unique: str) -> None:
    before = lived(api, unique)
    ref = before.talk.ok("calculate", expressions=["1"])["ref"]
    deleted = api("DELETE", CONVERSATION.format(unique))
    assert deleted.status == 202
    shown = api("GET", CONVERSATION.format(unique))
    assert (shown.status, shown.json) == (200, deleted.json)
    assert shown.json["conversation"]["status"] == "deleted"
    assert shown.json["conversation"]["purgeAt"] > shown.json["conversation"]["createdAt"]
    turn = before.talk.turn
    token = {"X-Turn-Token": before.talk.token}
    opening = {"caller": {"user": "ada", "department": "research"}, "tools": "all"}
    for method, path, body, headers in [
        ("POST", f"/v1/conversations/{unique}/turns", opening, {}),
        ("GET", f"/v1/conversations/{unique}/files", None, {}),
        ("GET", f"/v1/conversations/{unique}/file?path=a.txt", None, {}),
        ("PUT", f"/v1/conversations/{unique}/file?path=a.txt", b"x", {}),
        ("GET", f"/v1/conversations/{unique}/versions", None, {}),
        ("GET", f"/v1/conversations/{unique}/versions/0/diff/1", None, {}),
        ("POST", f"/v1/conversations/{unique}/versions/1/restore", None, {}),
        ("POST", f"/v1/turns/{turn}/finish", {"outcome": "completed", "text": ""}, {}),
        ("GET", f"/v1/turns/{turn}/trace", None, {}),
        ("GET", f"/v1/turns/{turn}/receipt", None, {}),
        ("GET", f"/v1/artifacts?conversation={unique}", None, {}),
        ("GET", f"/v1/results/{ref}", None, token),
        ("POST", f"/v1/turns/{turn}/tools/calculate", {"callId": "n", "arguments": {"expressions": ["1"]}}, token),
    ]:
        answer = api(method, path, body, headers)
        assert (answer.status, answer.json["error"]["code"]) == (409, "conflict"), path
    assert {bytes_of(api, before.attached), bytes_of(api, before.unattached)} == {404}
    again = api("DELETE", CONVERSATION.format(unique))
    assert (again.status, again.json) == (202, deleted.json)


def test_the_state_machine_removes_everything_and_a_restore_brings_the_artifacts_back(
    api: Any, unique: str, system: LocalSystem, patient: None
) -> None:
    before = lived(api, unique)
    for _round in range(2):
        assert api("DELETE", CONVERSATION.format(unique)).status == 202
        swept(system, unique)
        assert_gone(api, system, before)
        # The holder of a token is told what happened, not that it is wrong.
        assert before.talk.send("calculate", {"expressions": ["1"]}).status == 409
        restored = api("POST", CONVERSATION.format(unique) + "/restore")
        assert restored.status == 200
        assert restored.json["conversation"]["status"] == "active"
        assert "purgeAt" not in restored.json["conversation"]
        assert "workspace" in restored.json["message"]
        assert_back(api, system, before)
        # A turn of the time before stays over.
        assert before.talk.send("calculate", {"expressions": ["1"]}, call="late").status == 409
        assert api("POST", f"/v1/turns/{before.talk.turn}/finish", {"outcome": "completed"}).status == 200


def test_a_restore_right_behind_the_deletion_wins_or_waits(
    api: Any, unique: str, system: LocalSystem, patient: None
) -> None:
    before = lived(api, unique)
    api("DELETE", CONVERSATION.format(unique))
    restored = api("POST", CONVERSATION.format(unique) + "/restore")
    assert restored.status == 200, restored.body
    talk = before.talk.again()
    talk.put("a.txt", b"kept nowhere")
    wait_for_deletions(system)
    # The same bytes as before the deletion lie under the same key: no late step may have taken them.
    assert talk.files() == {"a.txt": b"kept nowhere"}
    assert bytes_of(api, before.attached) == b"kept nowhere"


def test_a_write_in_flight_cannot_commit(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    deleted: list[int] = []

    def delete_before_the_commit(_service: str, operation: str) -> None:
        if operation == "TransactWriteItems" and not deleted:
            deleted.append(0)
            deleted[0] = api("DELETE", CONVERSATION.format(unique)).status

    system.runtime.clients.hook = delete_before_the_commit
    try:
        answer = api("PUT", f"/v1/conversations/{unique}/file?path=a.txt", b"late")
    finally:
        system.runtime.clients.hook = None
    assert deleted == [202]
    assert (answer.status, answer.json["error"]["code"]) == (409, "conflict")
    swept(system, unique)
    assert objects(system, unique) == []
    assert talk.send("calculate", {"expressions": ["1"]}).status == 409


def test_a_run_at_work_ends_with_its_conversation(api: Any, unique: str, system: LocalSystem, patient: None) -> None:
    talk = Talk.open(api, unique)
    program = "import time\nopen('workspace/a.txt', 'w').write('1')\ntime.sleep(600)"
    started = talk.send("run_code", {"code": program, "timeoutSeconds": 900}, wait=0).json
    assert started["outcome"] == "running"
    api("DELETE", CONVERSATION.format(unique))
    swept(system, unique)
    assert system.runtime.table.query(f"R#{started['structured']['run']}") == []
    assert api("POST", CONVERSATION.format(unique) + "/restore").status == 200
    # The place of the run is free again.
    assert talk.again().ok("run_code", code="print(6 * 7)")["structured"]["exitCode"] == 0


# ---------------------------------------------------------------- step by step


def test_what_a_late_writer_left_is_found_by_the_second_pass(
    api: Any, unique: str, system: LocalSystem, machine: Machine
) -> None:
    before = lived(api, unique)
    machine.request(conversation_api.delete, unique)
    machine.run(unique)
    bucket = system.runtime.settings.workspace_bucket
    for key in (f"conversations/{unique}/blobs/late", f"results/{unique}/t/c", f"tmp/runs/{unique}/run/x"):
        system.runtime.clients.s3.put_object(Bucket=bucket, Key=key, Body=b"late")
    system.runtime.table.put({"PK": f"C#{unique}", "SK": "T#t#CALL#late", "state": "done"})
    machine.run(unique)
    assert_gone(api, system, before)


def test_another_conversation_of_a_similar_name_is_left_alone(
    api: Any, unique: str, system: LocalSystem, machine: Machine
) -> None:
    neighbour = lived(api, f"{unique}-2")
    lived(api, unique)
    machine.request(conversation_api.delete, unique)
    machine.run(unique)
    assert neighbour.talk.files() == {"a.txt": b"kept nowhere", "folder/b.txt": b"nor this"}
    assert bytes_of(api, neighbour.attached) == b"kept nowhere"


def test_a_step_that_comes_after_the_restore_removes_nothing(
    api: Any, unique: str, system: LocalSystem, machine: Machine
) -> None:
    before = lived(api, unique)
    machine.request(conversation_api.delete, unique)
    head = system.runtime.table.get((f"C#{unique}", "HEAD"))
    assert head is not None
    machine.step(unique, "fence")
    machine.request(conversation_api.restore, unique)
    assert_back(api, system, before)
    for step in STEPS:
        event = {"step": step, "conversation": unique, "person": "", "deletion": head["deletion"]}
        assert lifecycle.do_step(machine.runtime, event) == {"next": "gone"}
    assert before.talk.again().files() == {"new.txt": b"a new life"}


def test_a_step_and_a_restore_never_work_at_the_same_time(api: Any, unique: str, machine: Machine) -> None:
    lived(api, unique)
    machine.request(conversation_api.delete, unique)
    with deletion.holding(machine.runtime, unique, "test"):
        with pytest.raises(deletion.ConversationBusy):
            machine.step(unique, "remove_workspace")
        with pytest.raises(Conflict) as refused:
            machine.request(conversation_api.restore, unique)
    assert refused.value.details["retryAfterSeconds"] > 0
    machine.request(conversation_api.restore, unique)


def test_a_crash_between_any_two_requests_of_a_deletion_is_harmless(
    api: Any, unique: str, system: LocalSystem, machine: Machine
) -> None:
    requests = 0
    while True:
        before = lived(api, f"{unique}-{requests}")
        conversation = before.talk.conversation
        with crashing(machine.runtime.clients, requests) as crash:
            machine.request(conversation_api.delete, conversation)
            machine.run(conversation)
        machine.after_a_crash()
        if api("GET", CONVERSATION.format(conversation)).json["conversation"]["status"] == "active":
            # Before the tombstone nothing has happened at all.
            assert before.talk.files() == {"a.txt": b"kept nowhere", "folder/b.txt": b"nor this"}
        else:
            assert before.talk.send("calculate", {"expressions": ["1"]}).status == 409
        machine.request(conversation_api.delete, conversation)
        machine.run(conversation)
        assert_gone(api, system, before)
        machine.request(conversation_api.restore, conversation)
        assert_back(api, system, before)
        if not crash.happened:
            break
        requests += CRASH_STRIDE
    assert requests > 30


def test_a_crash_between_any_two_requests_of_a_restore_is_harmless(
    api: Any, unique: str, system: LocalSystem, machine: Machine
) -> None:
    for steps in ((), STEPS[:-1], STEPS):
        requests = 0
        while True:
            before = lived(api, f"{unique}-{len(steps)}-{requests}")
            conversation = before.talk.conversation
            machine.request(conversation_api.delete, conversation)
            for step in steps:
                machine.step(conversation, step)
            with crashing(machine.runtime.clients, requests) as crash:
                machine.request(conversation_api.restore, conversation)
            machine.after_a_crash()
            machine.request(conversation_api.restore, conversation)
            assert_back(api, system, before)
            if not crash.happened:
                break
            requests += 2 * CRASH_STRIDE + 1
        assert requests > 12


def test_many_artifacts_go_and_come_back_a_slice_at_a_time(
    api: Any, unique: str, system: LocalSystem, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention, "TOGETHER", 2)
    talk = Talk.open(api, unique)
    names = [talk.ok("export_artifact", content=str(number))["structured"]["artifact"] for number in range(5)]
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200
    # One whose records have expired, while its pointer has not.
    system.runtime.table.put({"PK": f"C#{unique}", "SK": "ART#art_gone", "turn": None, "at": 0})
    machine.request(conversation_api.delete, unique)
    head = system.runtime.table.get((f"C#{unique}", "HEAD"))
    assert head is not None

    def slices(work: Callable[[Callable[[], bool]], bool]) -> tuple[list[int], list[str]]:
        """How many are hidden after each slice, which has the time for one batch; and what the last one asked."""
        hidden = []
        while True:
            answers = iter((False, True, True))
            with counting() as asked:
                more = work(lambda answers=answers: next(answers))  # type: ignore[misc]
            hidden.append(sum(markers(system, name) for name in names))
            if not more:
                return hidden, asked.operations

    retire = partial(retention.retire_all, machine.runtime, unique, head["deletion"], head["purgeAt"])
    hidden, _last = slices(retire)
    # The pointer to nothing shares one of the batches.
    assert (hidden[-1], len(hidden), sorted(hidden)) == (5, 3, hidden)
    # What is done is not looked at again.
    assert slices(retire) == ([5], ["dynamodb:Query"])
    assert system.runtime.table.get((f"C#{unique}", "ART#art_gone")) is None
    revive = partial(retention.revive_all, machine.runtime, unique, head["deletion"], noted=True)
    hidden, _last = slices(lambda over: revive(over=over))
    assert (hidden[-1], len(hidden), sorted(hidden, reverse=True)) == (0, 3, hidden)


def test_a_restore_that_has_no_time_left_says_so_and_goes_on_next_time(
    api: Any, unique: str, system: LocalSystem, machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = lived(api, unique)
    machine.request(conversation_api.delete, unique)
    machine.run(unique)
    with monkeypatch.context() as patch:
        patch.setattr(deletion, "SLICE_SECONDS", 0)
        with pytest.raises(Conflict, match="artifacts") as refused:
            machine.request(conversation_api.restore, unique)
    assert refused.value.details["retryAfterSeconds"] > 0
    assert machine.request(conversation_api.show, unique)["conversation"]["status"] == "deleted"
    machine.request(conversation_api.restore, unique)
    assert_back(api, system, before)


# ---------------------------------------------------------------- the end of the grace


def test_after_the_grace_there_is_nothing_to_restore_and_the_id_is_free(
    api: Any, unique: str, machine: Machine
) -> None:
    lived(api, unique)
    machine.request(conversation_api.delete, unique)
    machine.run(unique)
    machine.clock.advance(machine.runtime.settings.grace_days * DAY_SECONDS - 60)
    assert machine.request(conversation_api.show, unique)["conversation"]["status"] == "deleted"
    machine.clock.advance(120)
    for target in (conversation_api.show, conversation_api.delete, conversation_api.restore):
        with pytest.raises(NotFound):
            machine.request(target, unique)
    body = json.dumps({"owner": "eve", "department": "sales", "id": unique}).encode()
    made = conversation_api.create(machine.runtime, Request("", "", "", {}, {}, {}, body))
    assert made.status == 201
    with pytest.raises(RequestError):
        conversation_api.create(machine.runtime, Request("", "", "", {}, {}, {}, body))
