"""The bill is what is in the bucket: whatever was exported, attached, deleted, restored, erased, expired or crashed."""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from local.system import LocalSystem
from tests.infra.local_buckets import Days, days_of
from tests.infra.templates import Deployment
from tests.local.conftest import Api
from tests.local.reconciled import reconcile, stored_versions, wait_for_deletions
from tests.local.runs.sandbox import Killed, killed_after
from tests.local.talk import Talk
from workbench.artifacts import billing_api
from workbench.errors import WorkbenchError
from workbench.http import Request
from workbench.tools.path import call_tool

contents = st.text(alphabet="abc", min_size=1, max_size=40)


@pytest.fixture(scope="module")
def system(alone: None) -> Iterator[LocalSystem]:
    with LocalSystem().start(sandbox="off") as system:
        yield system


@dataclass
class Home:
    """A conversation and its newest turn."""

    talk: Talk
    person: str
    deleted: bool = False
    artifacts: list[str] = field(default_factory=list)


class Bills(RuleBasedStateMachine):
    """Two people in two departments; everything they export is known to the model by artifact and version."""

    system: LocalSystem
    days: Days

    def __init__(self) -> None:
        super().__init__()
        self.api = Api(self.system.url)
        name = secrets.token_hex(4)
        self.departments = {f"ada-{name}": f"research-{name}", f"bob-{name}": f"sales-{name}"}
        self.homes: list[Home] = []
        # Who pays for which bytes, by key.
        self.payers: dict[str, str] = {}

    def caller(self, person: str) -> dict[str, str]:
        return {"user": person, "department": self.departments[person]}

    def draw_home(self, data: st.DataObject, *, deleted: bool = False) -> Home | None:
        homes = [home for home in self.homes if home.deleted == deleted]
        return data.draw(st.sampled_from(homes)) if homes else None

    def open_turn(self, home: Home, person: str) -> Talk | None:
        body = {"caller": self.caller(person), "tools": "all"}
        opened = self.api("POST", f"/v1/conversations/{home.talk.conversation}/turns", body)
        if opened.status != 201:
            # Its owner was erased, and the conversation with them.
            assert opened.status == 404
            self.homes.remove(home)
            return None
        made = opened.json
        home.talk = Talk(self.api, home.talk.conversation, made["turn"]["id"], made["token"])
        home.person = person
        return home.talk

    # ------------------------------------------------------------ what people do

    @rule(data=st.data())
    def begin(self, data: st.DataObject) -> None:
        person = data.draw(st.sampled_from(sorted(self.departments)))
        made = self.api("POST", "/v1/conversations", {"owner": person, "department": self.departments[person]})
        assert made.status == 201
        talk = Talk.open(self.api, made.json["conversation"]["id"], create=False, caller=self.caller(person))
        self.homes.append(Home(talk, person))

    @precondition(lambda self: self.homes)
    @rule(data=st.data(), content=contents, again=st.booleans())
    def export(self, data: st.DataObject, content: str, again: bool) -> None:
        home = self.draw_home(data)
        if home is None or self.open_turn(home, data.draw(st.sampled_from(sorted(self.departments)))) is None:
            return
        old = data.draw(st.sampled_from(home.artifacts)) if again and home.artifacts else None
        more = {"artifact": old} if old else {}
        answer = home.talk.call("export_artifact", content=content, **more)
        if answer["outcome"] == "ok":
            made = answer["structured"]
            self.payers[f"artifacts/{made['artifact']}/{made['version']}"] = home.person
            home.artifacts.append(made["artifact"])

    @precondition(lambda self: self.homes)
    @rule(data=st.data(), content=contents, requests=st.integers(1, 4))
    def export_and_crash(self, data: st.DataObject, content: str, requests: int) -> None:
        home = self.draw_home(data)
        if home is None or self.open_turn(home, home.person) is None:
            return
        body = json.dumps({"callId": "crash", "arguments": {"content": content}}).encode()
        headers = {"x-turn-token": home.talk.token}
        with suppress(Killed, WorkbenchError), killed_after(self.system.runtime.clients, requests):
            request = Request("POST", "", "", {"turn": home.talk.turn}, {}, headers, body)
            made = call_tool(self.system.runtime, "export_artifact", request).body["structured"]
            self.payers[f"artifacts/{made['artifact']}/{made['version']}"] = home.person
            home.artifacts.append(made["artifact"])

    @precondition(lambda self: self.homes)
    @rule(data=st.data(), outcome=st.sampled_from(["completed", "failed"]))
    def finish(self, data: st.DataObject, outcome: str) -> None:
        home = self.draw_home(data)
        if home is not None:
            self.api("POST", f"/v1/turns/{home.talk.turn}/finish", {"outcome": outcome, "text": ""})

    @precondition(lambda self: self.homes)
    @rule(data=st.data())
    def delete(self, data: st.DataObject) -> None:
        home = self.draw_home(data)
        if home is None:
            return
        if self.api("DELETE", f"/v1/conversations/{home.talk.conversation}").status == 202:
            home.deleted = True
            wait_for_deletions(self.system)

    @precondition(lambda self: self.homes)
    @rule(data=st.data())
    def restore(self, data: st.DataObject) -> None:
        home = self.draw_home(data, deleted=True)
        if home is None:
            return
        before = self.days.markers()
        if self.api("POST", f"/v1/conversations/{home.talk.conversation}/restore").status == 200:
            home.deleted = False
            # S3 calls the removal of a marker what it calls that of bytes.
            for key in before - self.days.markers():
                billing_api.handler({"detail": {"object": {"key": key}, "deletion-type": "Permanently Deleted"}}, None)
        else:
            self.homes.remove(home)

    @precondition(lambda self: len(self.payers) > 2)
    @rule(data=st.data())
    def erase(self, data: st.DataObject) -> None:
        person = data.draw(st.sampled_from(sorted(self.departments)))
        before = {entry["Key"] for entry in stored_versions(self.system)}
        assert self.api("POST", f"/v1/people/{person}/erase").json["erasure"]["status"] == "done"
        # S3 tells of these as well, after the records are gone.
        for key in before - {entry["Key"] for entry in stored_versions(self.system)}:
            billing_api.handler({"detail": {"object": {"key": key}, "deletion-type": "Permanently Deleted"}}, None)

    # ------------------------------------------------------------ what time does

    @rule(days=st.sampled_from([0.4, 1.0, 6.0, 29.0, 31.0]))
    def go_on(self, days: float) -> None:
        self.days.go_on(days)

    @rule()
    def reconcile(self) -> None:
        state = reconcile(self.system)
        wait_for_deletions(self.system)
        assert not any(numbers["failed"] for numbers in state["counts"].values())

    @invariant()
    def the_bill_is_what_is_stored(self) -> None:
        stored: Counter[str] = Counter()
        for entry in stored_versions(self.system):
            if entry["Key"] in self.payers:
                stored[self.payers[entry["Key"]]] += entry["Size"]
        assert self.billed() == {person: size for person, size in stored.items() if size}

    def billed(self) -> dict[str, int]:
        rows = [
            row
            for department in self.departments.values()
            for row in self.api("GET", f"/v1/usage?department={department}").json["usage"]
        ]
        return {row["person"]: row["bytes"] for row in rows if row["bytes"]}

    def teardown(self) -> None:
        """Two days later nothing is stored that nobody pays for, what crashes left included."""
        self.days.go_on(2)
        reconcile(self.system)
        self.the_bill_is_what_is_stored()
        everything = sum(entry["Size"] for entry in stored_versions(self.system))
        assert everything == sum(self.billed().values())
        for person in self.departments:
            self.api("POST", f"/v1/people/{person}/erase")
        assert stored_versions(self.system) == []
        assert self.billed() == {}


def test_the_bill_is_what_is_in_the_bucket(system: LocalSystem, deployment: Deployment) -> None:
    # Shrinking a failure would take minutes; its steps are printed as they were.
    plan = settings(
        max_examples=6,
        stateful_step_count=16,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with days_of(system, deployment) as days:
        Bills.system, Bills.days = system, days
        run_state_machine_as_test(Bills, settings=plan)
