"""Erasing a person: everything that is theirs goes for good, what belongs to others stays, nothing slips past."""

from __future__ import annotations

import json
import threading
import time
from typing import Any

import pytest

from local.functions import REGION
from local.system import LocalSystem
from tests.local.changed import crashing
from tests.local.talk import Talk
from workbench.clients import Clients
from workbench.clock import ManualClock
from workbench.conversations import deletion, erasure, lifecycle
from workbench.runtime import Runtime

STEPS = ("fence", "stop_runs", "remove_workspace", "remove_records", "retire_artifacts")


class World:
    """A person with a conversation of their own, who also took turns in somebody else's."""

    def __init__(self, api: Any, name: str) -> None:
        self.api, self.user, self.other = api, f"{name}-ada", f"{name}-bob"
        ada, bob = ({"user": user, "department": "research"} for user in (self.user, self.other))
        for conversation, owner in ((f"{name}-own", self.user), (f"{name}-foreign", self.other)):
            body = {"owner": owner, "department": "research", "id": conversation}
            assert api("POST", "/v1/conversations", body).status == 201
        self.own = Talk.open(api, f"{name}-own", create=False, caller=ada)
        self.guest = self.own.again(caller=bob)
        self.visit = Talk.open(api, f"{name}-foreign", create=False, caller=ada)
        self.host = self.visit.again(caller=bob)
        self.own.put("secret.txt", b"of ada")
        self.host.put("host.txt", b"of bob")
        self.theirs = [talk.ok("export_artifact", content="x")["structured"]["artifact"] for talk in self.affected]
        self.results = [talk.ok("calculate", expressions=["1"])["ref"] for talk in self.affected]
        # The guest's own artifact lives elsewhere; only its second version was made in the person's conversation.
        self.elsewhere = self.host.ok("export_artifact", content="of bob, at home")["structured"]["artifact"]
        self.guest.ok("export_artifact", content="of ada, told to bob", artifact=self.elsewhere, name=f"{self.user}.md")
        self.kept = self.host.ok("export_artifact", content="bob's")["structured"]["artifact"]
        self.kept_result = self.host.ok("calculate", expressions=["1"])["ref"]
        for talk in (self.visit, self.host):
            assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200

    @property
    def affected(self) -> list[Talk]:
        """The turns of which nothing may stay: all of the person's conversation, and the person's own elsewhere."""
        return [self.own, self.guest, self.visit]

    def assert_erased(self, system: LocalSystem) -> None:
        runtime = system.runtime
        assert self.api("GET", f"/v1/conversations/{self.own.conversation}").status == 404
        assert runtime.table.query(f"C#{self.own.conversation}") == []
        assert runtime.table.query(f"P#{self.user}", index="gsi1") == []
        for artifact in self.theirs:
            assert self.api("GET", f"/v1/artifacts/{artifact}").status == 404
            assert runtime.table.query(f"A#{artifact}") == []
            answer = runtime.clients.s3.list_object_versions(
                Bucket=runtime.settings.artifact_bucket, Prefix=f"artifacts/{artifact}/"
            )
            assert "Versions" not in answer and "DeleteMarkers" not in answer
        left = runtime.clients.s3.list_objects_v2(Bucket=runtime.settings.workspace_bucket).get("Contents", [])
        assert [entry["Key"] for entry in left if self.own.conversation in entry["Key"]] == []
        foreign = runtime.table.query(f"C#{self.visit.conversation}")
        assert [item for item in foreign if self.user in str(item)] == []
        visit = self.visit.turn.partition(".")[2]
        assert [item["SK"] for item in foreign if f"#{visit}#" in item["SK"]] == []

    def assert_others_untouched(self, system: LocalSystem) -> None:
        assert self.host.files() == {"host.txt": b"of bob"}
        assert self.api("GET", f"/v1/artifacts/{self.kept}/versions/1/content").body == b"bob's"
        shown = self.api("GET", f"/v1/artifacts/{self.elsewhere}").json["artifact"]
        assert [version["version"] for version in shown["versions"]] == [1]
        assert self.api("GET", f"/v1/artifacts/{self.elsewhere}/versions/1/content").body == b"of bob, at home"
        # Nor is it called what the version that went had called it.
        assert self.user not in str(system.runtime.table.query(f"A#{self.elsewhere}"))
        token = {"X-Turn-Token": self.host.token}
        assert self.api("GET", f"/v1/results/{self.kept_result}", None, token).status == 200
        assert self.api("GET", f"/v1/turns/{self.host.turn}/trace").json["steps"] != []


def erase(api: Any, user: str) -> Any:
    return api("POST", f"/v1/people/{user}/erase")


def test_everything_of_a_person_is_erased_and_counted(api: Any, unique: str, system: LocalSystem) -> None:
    world = World(api, unique)
    answer = erase(api, world.user)
    assert answer.status == 202
    erased = answer.json["erasure"]
    assert (erased["user"], erased["status"]) == (world.user, "done")
    # Two calls in each of three turns, and one that added a version to an artifact of another conversation.
    assert erased["counts"] == {"artifacts": 4, "documents": 0, "workspaces": 1, "results": 7}
    assert "35 days" in erased["remains"]
    world.assert_erased(system)
    world.assert_others_untouched(system)
    assert api("GET", f"/v1/people/{world.user}/erase").json == answer.json
    assert world.visit.send("calculate", {"expressions": ["1"]}, call="late").status == 409
    # The person may come back, and another erasure has nothing left to do.
    again = Talk.open(api, f"{unique}-foreign", create=False, caller={"user": world.user, "department": "research"})
    again.ok("calculate", expressions=["1"])


def test_a_deleted_conversation_goes_without_its_grace(api: Any, unique: str, system: LocalSystem) -> None:
    world = World(api, unique)
    assert api("DELETE", f"/v1/conversations/{world.own.conversation}").status == 202
    assert erase(api, world.user).json["erasure"]["status"] == "done"
    assert api("POST", f"/v1/conversations/{world.own.conversation}/restore").status == 404
    world.assert_erased(system)


def test_somebody_of_whom_nothing_is_known_is_erased_too(api: Any, unique: str) -> None:
    assert api("GET", f"/v1/people/{unique}/erase").status == 404
    erased = erase(api, unique).json["erasure"]
    assert set(erased["counts"].values()) == {0}
    assert erase(api, "%20").status == 400


@pytest.fixture
def driven(system: LocalSystem) -> Runtime:
    """A runtime whose deletions no state machine carries out: the test does, step by step."""
    runtime = system.runtime
    made = runtime.clients.stepfunctions.create_state_machine(
        name=f"idle-{time.monotonic_ns()}",
        definition=json.dumps({"StartAt": "Nothing", "States": {"Nothing": {"Type": "Succeed"}}}),
        roleArn="arn:aws:iam::123456789012:role/idle",
    )
    settings = runtime.settings.model_copy(update={"delete_state_machine": made["stateMachineArn"]})
    return Runtime(settings, Clients(REGION), ManualClock(time.time()))


def step(runtime: Runtime, user: str, name: str, *, waited: bool = False) -> None:
    event = {"step": name, "conversation": "", "person": user, "deletion": begun(runtime, user), "waited": waited}
    while lifecycle.do_step(runtime, event)["next"] == "again":
        pass


def begun(runtime: Runtime, user: str) -> str:
    return str(erasure.read(runtime, user).get("erasing"))


def run(runtime: Runtime, user: str) -> None:
    for waited in (False, True):
        for name in STEPS:
            step(runtime, user, name, waited=waited)
    step(runtime, user, "settle", waited=True)


def test_nothing_new_is_made_for_a_person_who_is_being_erased(
    api: Any, unique: str, system: LocalSystem, driven: Runtime
) -> None:
    world = World(api, unique)
    late = world.own.again(caller={"user": world.user, "department": "research"})
    erasure.begin(driven, world.user)
    refused = [
        api("POST", "/v1/conversations", {"owner": world.user, "department": "d"}),
        api(
            "POST",
            f"/v1/conversations/{world.visit.conversation}/turns",
            {"caller": {"user": world.user, "department": "d"}, "tools": "all"},
        ),
    ]
    assert [(answer.status, answer.json["error"]["code"]) for answer in refused] == [(409, "conflict")] * 2
    exported: list[Any] = []
    worker = threading.Thread(
        target=lambda: exported.append(late.send("export_artifact", {"content": "late"}, call="late"))
    )
    worker.start()
    run(driven, world.user)
    worker.join()
    assert exported[0].status == 409 or exported[0].json["error"] is not None
    assert system.runtime.table.query(f"P#{world.user}", index="gsi1") == []
    world.assert_erased(system)


def test_an_erasure_that_takes_many_slices_counts_everything_once(
    api: Any, unique: str, system: LocalSystem, driven: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(api, unique)
    erasure.begin(driven, world.user)
    # Each slice ends with the first batch of every kind.
    slice_seconds, asked = 5.0, 0

    def pass_time(_service: str, operation: str) -> None:
        nonlocal asked
        asked += operation in ("DeleteObjects", "BatchWriteItem")
        driven.clock.sleep(slice_seconds * (operation in ("DeleteObjects", "BatchWriteItem")))

    monkeypatch.setattr(deletion, "SLICE_SECONDS", slice_seconds)
    monkeypatch.setattr(deletion, "QUERY_ITEMS", 2)
    driven.clients.hook = pass_time
    run(driven, world.user)
    assert asked > 20
    record = erasure.read(driven, world.user)
    assert {name: record[name] for name in erasure.COUNTED} == {
        "artifacts": 4, "documents": 0, "workspaces": 1, "results": 7,
    }  # fmt: skip
    world.assert_erased(system)
    world.assert_others_untouched(system)


def test_a_crash_anywhere_in_an_erasure_is_harmless(
    api: Any, unique: str, system: LocalSystem, driven: Runtime
) -> None:
    requests = 0
    while True:
        world = World(api, f"{unique}-{requests}")
        erasure.begin(driven, world.user)
        with crashing(driven.clients, requests) as crash:
            run(driven, world.user)
        driven.clock.sleep(driven.settings.lease_seconds + 2 * driven.settings.skew_seconds)
        if crash.happened:
            run(driven, world.user)
        world.assert_erased(system)
        world.assert_others_untouched(system)
        if not crash.happened:
            break
        # An odd stride, so that reads, removals and notes are all hit.
        requests += 11
    assert requests > 100
