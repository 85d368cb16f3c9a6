"""An admin looks for what nothing names when they like: over the API, and in a terminal."""

from __future__ import annotations

import json
import re
import secrets
import time
from typing import Any

import pytest

from local.admin import reconciling
from local.admin.client import AdminError
from local.cli import main
from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.reconciled import DAY_SECONDS, ShiftedClock, found, stored_objects
from workbench.reconciling import stored

PERSON = {"X-Workbench-User": "ada"}


@pytest.fixture
def orphan(world: LocalSystem, clock: ShiftedClock) -> str:
    """An object that nothing names, old enough to be sure of it."""
    key = f"results/conv/t_1/{secrets.token_hex(5)}"
    world.runtime.clients.s3.put_object(Bucket=world.runtime.settings.workspace_bucket, Key=key, Body=b"left")
    clock.ahead += 2 * DAY_SECONDS
    return key


@pytest.fixture
def unrepairable(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_anything: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(stored, "_remove", fail)


def over(api: Api, body: Any) -> Any:
    """What a reconciliation came to."""
    begun = api("POST", "/v1/reconciliations", body)
    assert begun.status == 202, begun.body
    made = begun.json["reconciliation"]
    assert made.keys() == {"id", "status", "dryRun"} and made["status"] == "running"
    until = time.monotonic() + 120
    while time.monotonic() < until:
        answer = api("GET", f"/v1/reconciliations/{made['id']}")
        assert answer.status == 200, answer.body
        came = answer.json["reconciliation"]
        if came["status"] != "running":
            assert (came["id"], came["dryRun"]) == (made["id"], made["dryRun"])
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", came["startedAt"])
            return came
        time.sleep(0.02)
    raise AssertionError("the reconciliation does not end")


def test_it_looks_first_and_removes_when_told_to(world: LocalSystem, api: Api, orphan: str) -> None:
    for nothing_said in ({}, None, {"dryRun": None}, {"dryRun": True}):
        seen = over(api, nothing_said)
        assert (seen["status"], seen["dryRun"]) == ("done", True)
        assert found(seen) == {"results": 1} and found(seen, "repaired") == {"results": 0}
        assert seen["listed"] == [{"kind": "results", "what": orphan, "count": 1}]
    assert orphan in stored_objects(world)
    done = over(api, {"dryRun": False})
    assert (done["status"], done["dryRun"], found(done, "repaired")) == ("done", False, {"results": 1})
    assert orphan not in stored_objects(world)
    assert over(api, {"dryRun": True})["counts"] == {}


def test_nobody_else_may_and_nothing_wrong_begins_one(world: LocalSystem, api: Api) -> None:
    machine = world.runtime.settings.reconcile_state_machine

    def begun() -> int:
        return len(world.runtime.clients.stepfunctions.list_executions(stateMachineArn=machine)["executions"])

    before = begun()
    for body, headers, status in (
        ({"dryRun": False}, PERSON, 403),
        ({"dryRun": "no"}, {}, 400),
        ({"dryRun": 0}, {}, 400),
        ([], {}, 400),
        (b"{", {}, 400),
    ):
        assert api("POST", "/v1/reconciliations", body, headers).status == status
    assert begun() == before
    for unknown in ("rec_unknown", "%20", "a:b", "..", "x" * 65):
        assert api("GET", f"/v1/reconciliations/{unknown}").status == 404
    assert api("GET", "/v1/reconciliations/rec_unknown", None, PERSON).status == 403


# ---------------------------------------------------------------- in a terminal


def run(world: LocalSystem, *words: str) -> int:
    return int(main(["admin", "reconcile", *words, "--url", world.url]))


def test_the_command_shows_what_would_go_and_removes_it(
    world: LocalSystem, orphan: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(world, "--dry-run") == 0
    shown = capsys.readouterr().out
    assert re.search(r"^results +1$", shown, re.MULTILINE)
    assert re.search(rf"^{re.escape(orphan)} +results +1$", shown, re.MULTILINE)
    assert "Repaired" not in shown
    # Nobody can be asked here.
    assert run(world) == 1
    assert "--yes" in capsys.readouterr().err
    assert orphan in stored_objects(world)
    assert run(world, "--yes") == 0
    assert re.search(r"^results +1 +1 +0 +0$", capsys.readouterr().out, re.MULTILINE)
    assert orphan not in stored_objects(world)
    assert run(world, "--dry-run", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reconciliation"]["counts"] == {}
    assert run(world, "--dry-run") == 0
    assert "named by something" in capsys.readouterr().out


@pytest.mark.usefixtures("unrepairable")
def test_what_needs_a_person_ends_the_command_with_one(
    world: LocalSystem, orphan: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert run(world, "--yes") == 1
    said = capsys.readouterr().out
    assert re.search(r"^results +1 +0 +0 +1$", said, re.MULTILINE) and "needs a person" in said
    assert orphan in stored_objects(world)


class Told:
    """A deployment that tells of an execution late, or of one that failed."""

    def __init__(self, *statuses: str | int) -> None:
        self._statuses = iter(statuses)

    def call(self, *_request: Any, **_more: Any) -> Any:
        return {"reconciliation": {"id": "rec_1", "status": "running", "dryRun": True}}

    def get(self, _path: str) -> Any:
        status = next(self._statuses)
        if isinstance(status, int):
            raise AdminError("There is no such reconciliation.", status)
        return {"reconciliation": {"id": "rec_1", "status": status, "dryRun": True, "counts": {}, "listed": []}}


def test_an_execution_that_is_not_known_yet_is_waited_for(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reconciling, "LOOK_AGAIN_SECONDS", 0)

    def watch(*statuses: str | int) -> int:
        told: Any = Told(*statuses)
        return reconciling.reconcile(told, dry_run=True, yes=False, json=False)

    assert watch(404, "running", "done") == 0
    with pytest.raises(AdminError, match="did not come to its end"):
        watch("running", "failed")
    with pytest.raises(AdminError, match="no such"):
        watch("running", 403)
    monkeypatch.setattr(reconciling, "UNKNOWN_SECONDS", -1)
    with pytest.raises(AdminError, match="no such"):
        watch(404)
    assert "named by something" in capsys.readouterr().out
