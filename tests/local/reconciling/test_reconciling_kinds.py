"""Each kind of thing that nothing names: found when it is old enough, and removed without what somebody names."""

from __future__ import annotations

import json
import logging
import secrets
import time
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from local.functions import Context
from local.system import LocalSystem
from tests.local import changed
from tests.local.conftest import Api
from tests.local.reconciled import (
    DAY_SECONDS,
    ShiftedClock,
    assert_exact,
    everything,
    found,
    reconcile,
    stored_objects,
    stored_versions,
    wait_for_deletions,
)
from tests.local.talk import Talk
from workbench.clients import counting
from workbench.errors import Conflict
from workbench.keys import artifact_key, head_key, meta_key
from workbench.operations import Update
from workbench.reconciling import artifacts, engine, stored
from workbench.reconciling.findings import Finding, Step
from workbench.runs.items import admission_key, at_work_key
from workbench.workspace.storage import head as heads

READS = {"GetItem", "BatchGetItem", "Query", "Scan", "ListObjectsV2", "ListObjectVersions", "GetObject", "HeadObject"}


@pytest.fixture
def talk(world: LocalSystem, api: Api) -> Talk:
    made = Talk.open(api, f"c-{secrets.token_hex(5)}")
    made.put("a.txt", b"kept")
    return made


def put(world: LocalSystem, key: str, data: bytes = b"x") -> None:
    settings = world.runtime.settings
    versioned = key.startswith(("artifacts/", "documents/"))
    bucket = settings.artifact_bucket if versioned else settings.workspace_bucket
    world.runtime.clients.s3.put_object(Bucket=bucket, Key=key, Body=data)


def keys(world: LocalSystem) -> set[str]:
    return {*stored_objects(world), *(entry["Key"] for entry in stored_versions(world))}


def remove_for_good(world: LocalSystem, key: str) -> None:
    for entry in stored_versions(world):
        if entry["Key"] == key:
            world.runtime.clients.s3.delete_object(
                Bucket=world.runtime.settings.artifact_bucket, Key=key, VersionId=entry["VersionId"]
            )


def usage(api: Api, department: str) -> dict[str, int]:
    rows = api("GET", f"/v1/usage?department={department}").json["usage"]
    return {row["person"]: row["bytes"] for row in rows if row["bytes"]}


# ---------------------------------------------------------------- objects and the items that name them

R = "Abcdefgh-jklm_op"
NAMED: Mapping[str, tuple[str, dict[str, Any]]] = {
    "results": (
        "results/conv/t_1/call",
        {"PK": "C#conv", "SK": "T#t_1#CALL#call", "answerKey": "results/conv/t_1/call"},
    ),
    "indexes": (f"indexes/col/0000000001-{R}.sqlite", {"PK": "COL#col", "SK": "META", "generation": f"0000000001-{R}"}),
    "skills": (
        f"skills/web/1.0.0-rc.1-{R}",
        {"PK": "SKILL#web", "SK": "V#1.0.0-rc.1", "key": f"skills/web/1.0.0-rc.1-{R}"},
    ),
    "artifacts": ("artifacts/art_n/1", {"PK": "A#art_n", "SK": "V#0000000001", "version": 1, "bytes": 1}),
    "documents": ("documents/col/part/passages", {"PK": "COL#col", "SK": "DOC#part"}),
}
# The same owner, or none; and a key that is none of the kind, which is nobody's to remove.
ORPHANS: Mapping[str, tuple[str, ...]] = {
    "results": ("results/conv/t_1/other", "results/gone/t_1/call"),
    "indexes": (f"indexes/col/0000000002-{R}.sqlite", f"indexes/gone/0000000001-{R}.sqlite"),
    "skills": (f"skills/web/1.0.0-rc.1-{R[::-1]}", f"skills/web/2.0.0-{R}"),
    "artifacts": ("artifacts/art_n/2", "artifacts/art_gone/1"),
    "documents": ("documents/col/other/passages", "documents/gone/part/original"),
}
FOREIGN = ("results/readme", "indexes/notes.txt", "skills/index", "artifacts/art_n/latest", "documents/col")


@pytest.mark.parametrize("kind", [kind.name for kind in stored.KINDS])
def test_an_object_that_no_item_names_goes_when_it_is_a_day_old(
    world: LocalSystem, clock: ShiftedClock, kind: str
) -> None:
    named, item = NAMED[kind]
    foreign = [key for key in FOREIGN if key.startswith(f"{kind}/")]
    world.runtime.table.put(item)
    for key in (named, *ORPHANS[kind], *foreign):
        put(world, key)
    before = keys(world)
    ahead = clock.ahead
    try:
        # Their age is told by S3's clock, which runs with the machine's.
        clock.ahead = DAY_SECONDS - 1800
        assert kind not in reconcile(world)["counts"]
        assert keys(world) == before
        clock.ahead = DAY_SECONDS + 1800
        assert found(reconcile(world), "repaired")[kind] == 2
        assert keys(world) == before - set(ORPHANS[kind])
        assert kind not in reconcile(world)["counts"]
    finally:
        clock.ahead = max(ahead, clock.ahead)
        world.runtime.table.delete((item["PK"], item["SK"]))
        for key in foreign:
            world.runtime.clients.s3.delete_object(Bucket=world.runtime.settings.workspace_bucket, Key=key)
            remove_for_good(world, key)
    # Now that its item is gone, so does the last one.
    assert found(reconcile(world), "repaired")[kind] == 1
    assert not keys(world) & {named, *ORPHANS[kind]}


def test_what_is_stored_under_an_orphans_key_after_the_look_stays(world: LocalSystem, clock: ShiftedClock) -> None:
    # S3 may remove the orphan at that moment, and an export take the same number.
    key, ahead = "artifacts/art_late/1", clock.ahead
    put(world, key)
    (kind,) = [kind for kind in stored.KINDS if kind.name == "artifacts"]
    try:
        clock.ahead = DAY_SECONDS + 1800
        steps = list(stored.sweep_of(kind)(world.runtime, "artifacts/art_late/"))
        (finding,) = [finding for step in steps for finding in step.findings if finding.what == key]
        clock.ahead = 0  # What lies there now is young.
        finding.repair()
        assert key in keys(world)
        clock.ahead = DAY_SECONDS + 1800
        finding.repair()
        assert key not in keys(world)
    finally:
        clock.ahead = max(ahead, clock.ahead)


def test_what_a_withdrawn_skill_left_goes_although_its_record_tells_of_it(
    world: LocalSystem, clock: ShiftedClock
) -> None:
    key, item = NAMED["skills"]
    world.runtime.table.put({**item, "withdrawn": world.runtime.clock.now()})
    put(world, key)
    ahead = clock.ahead
    try:
        clock.ahead = DAY_SECONDS + 1800
        assert found(reconcile(world), "repaired")["skills"] == 1
        assert key not in keys(world)
    finally:
        clock.ahead = max(ahead, clock.ahead)
        world.runtime.table.delete((item["PK"], item["SK"]))


def test_every_kind_has_its_examples() -> None:
    kinds = {kind.name for kind in stored.KINDS}
    assert kinds == set(NAMED) == set(ORPHANS) == {key.split("/")[0] for key in FOREIGN}


# ---------------------------------------------------------------- workspaces


def test_a_folder_of_nobodys_is_removed_and_its_id_is_free_afterwards(
    world: LocalSystem, api: Api, clock: ShiftedClock
) -> None:
    name = f"unknown-{secrets.token_hex(4)}"
    for key in (f"conversations/{name}/blobs/x", f"conversations/{name}/pages/y", f"results/{name}/t/c"):
        put(world, key)
    world.runtime.table.put({"PK": f"C#{name}", "SK": "T#old#CALL#c", "state": "done"})
    clock.ahead += 2 * DAY_SECONDS
    made = {"owner": "eve", "department": "d", "id": name}
    refused: list[int] = []

    def take_the_id(_service: str, operation: str) -> None:
        # Between the tombstone and the deletion it starts.
        if operation == "StartExecution" and not refused:
            refused.append(0)
            refused[0] = api("POST", "/v1/conversations", made).status

    with changed.hooked(world, take_the_id):
        counts = found(reconcile(world), "repaired")
    wait_for_deletions(world)
    assert counts["remains_of_unknown"] == 2
    assert refused == [409]
    assert not [key for key in keys(world) if name in key]
    assert [item["SK"] for item in world.runtime.table.query(f"C#{name}")] == ["HEAD"]
    assert api("GET", f"/v1/conversations/{name}").status == 404
    assert api("POST", "/v1/conversations", made).status == 201
    assert reconcile(world)["counts"] == {}


def test_what_came_after_a_deletion_had_ended_goes_the_next_day(
    world: LocalSystem, api: Api, clock: ShiftedClock, talk: Talk
) -> None:
    assert api("DELETE", f"/v1/conversations/{talk.conversation}").status == 202
    wait_for_deletions(world)
    put(world, f"conversations/{talk.conversation}/blobs/late")
    clock.ahead += 2 * DAY_SECONDS
    assert found(reconcile(world))["remains_of_deleted"] == 1
    wait_for_deletions(world)
    assert not [key for key in keys(world) if talk.conversation in key]
    assert api("POST", f"/v1/conversations/{talk.conversation}/restore").status == 200


def test_the_history_of_turns_that_nobody_finishes_is_kept_within_its_limits(
    world: LocalSystem, clock: ShiftedClock, talk: Talk
) -> None:
    for number in range(6):
        talk.put("a.txt", b"%d" % number)
    with changed.settings(world, history_versions=3):
        counts = found(reconcile(world), "repaired")
        assert counts["histories"] == 4
        assert "histories" not in reconcile(world)["counts"]
    versions = talk.api("GET", f"/v1/conversations/{talk.conversation}/versions").json["versions"]
    assert [one["version"] for one in versions] == [7, 6, 5]
    changed.cold(world)
    assert talk.bytes_of("a.txt") == b"5"


def test_a_workspace_that_was_found_clean_costs_nothing_until_somebody_writes_again(
    world: LocalSystem, clock: ShiftedClock, talk: Talk
) -> None:
    clock.ahead += 2 * DAY_SECONDS
    reconcile(world)
    changed.cold(world)
    with counting() as requests:
        reconcile(world)
    assert not {"s3:GetObject", "dynamodb:UpdateItem"} & set(requests.operations)
    # What is written now is as old as the machine's clock says.
    talk.again().put("b.txt", b"new")
    put(world, f"conversations/{talk.conversation}/blobs/crashed")
    world.runtime.table.update(head_key(talk.conversation), _tidied_at(time.time() - 60))
    clock.ahead += 2 * DAY_SECONDS
    assert found(reconcile(world), "repaired")["workspace_objects"] == 1
    changed.cold(world)
    assert talk.files() == {"a.txt": b"kept", "b.txt": b"new"}


def _tidied_at(moment: float) -> Update:
    """The system's clock runs ahead of that of its S3: what was noted ahead is put back to the same day."""
    return Update().set("tidiedAt", moment)


def test_a_busy_workspace_is_left_for_the_next_day(world: LocalSystem, clock: ShiftedClock, talk: Talk) -> None:
    put(world, f"conversations/{talk.conversation}/blobs/crashed")
    clock.ahead += 2 * DAY_SECONDS
    held = heads.acquire(world.runtime, talk.conversation, "somebody", "run_code")
    assert found(reconcile(world), "left")["workspace_objects"] == 1
    heads.release(world.runtime, talk.conversation, held.fence)
    assert found(reconcile(world), "repaired")["workspace_objects"] == 1


def test_a_workspace_that_cannot_be_read_keeps_nobody_else_from_being_looked_at(
    world: LocalSystem, api: Api, clock: ShiftedClock, talk: Talk
) -> None:
    other = Talk.open(api, f"zz-{secrets.token_hex(5)}")
    other.put("a.txt", b"kept")
    for one in (talk, other):
        put(world, f"conversations/{one.conversation}/blobs/crashed")
    (page,) = [key for key in keys(world) if key.startswith(f"conversations/{talk.conversation}/pages/")]
    whole = world.runtime.clients.s3.get_object(Bucket=world.runtime.settings.workspace_bucket, Key=page)["Body"].read()
    put(world, page, b"not what was stored")
    changed.cold(world)
    clock.ahead += 2 * DAY_SECONDS
    counts = reconcile(world)["counts"]
    assert counts["unreadable_workspaces"]["failed"] == 1
    assert counts["workspace_objects"]["repaired"] == 1
    put(world, page, whole)
    assert found(reconcile(world), "repaired") == {"workspace_objects": 1}
    assert_exact(world)


# ---------------------------------------------------------------- artifacts


def test_news_that_was_lost_is_made_up_for(world: LocalSystem, api: Api, clock: ShiftedClock) -> None:
    """The bytes have expired and nobody heard of it; the bill ends all the same."""
    department, who = f"d-{secrets.token_hex(3)}", {"user": "ada", "department": ""}
    who["department"] = department
    talk = Talk.open(api, f"c-{secrets.token_hex(5)}", caller=who)
    gone = talk.ok("export_artifact", content="x" * 100)["structured"]["artifact"]
    leaked = talk.ok("export_artifact", content="y" * 10)["structured"]["artifact"]
    # A crash between the tag and the commit: the bytes say that they are attached, the records know better.
    world.runtime.clients.s3.put_object_tagging(
        Bucket=world.runtime.settings.artifact_bucket,
        Key=f"artifacts/{leaked}/1",
        Tagging={"TagSet": [{"Key": "retention", "Value": "kept"}]},
    )
    kept = talk.again(caller=who)
    attached = kept.ok("export_artifact", content="z")["structured"]["artifact"]
    assert api("POST", f"/v1/turns/{kept.turn}/finish", {"outcome": "completed", "text": ""}).status == 200
    clock.ahead += 30 * DAY_SECONDS + artifacts.OVERDUE_SECONDS - 600
    assert "overdue_artifacts" not in reconcile(world)["counts"]
    assert usage(api, department) == {"ada": 111}
    # Only now: on the day of its turn in the round, the look before would have missed these bytes.
    remove_for_good(world, f"artifacts/{gone}/1")
    clock.ahead += 1200
    assert found(reconcile(world), "repaired")["overdue_artifacts"] == 2
    assert usage(api, department) == {"ada": 1}
    for name in (gone, leaked):
        assert world.runtime.table.query(f"A#{name}") == []
        assert api("GET", f"/v1/artifacts/{name}").status == 404
    assert api("GET", f"/v1/artifacts/{attached}/versions/1/content").body == b"z"
    assert_exact(world)


def test_a_file_whose_bytes_are_gone_is_found_within_a_round(world: LocalSystem, api: Api, clock: ShiftedClock) -> None:
    department = f"d-{secrets.token_hex(3)}"
    who = {"user": "ada", "department": department}
    talk = Talk.open(api, f"c-{secrets.token_hex(5)}", caller=who)
    whole = talk.ok("export_artifact", content="one")["structured"]["artifact"]
    part = talk.ok("export_artifact", content="first")["structured"]["artifact"]
    talk.ok("export_artifact", content="second", artifact=part)
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200
    for key in (f"artifacts/{whole}/1", f"artifacts/{part}/1"):
        remove_for_good(world, key)
    # From noon on, so that every look falls on a day of its own however long it takes.
    clock.ahead += DAY_SECONDS * 1.5 - clock.now() % DAY_SECONDS
    listings = 0

    def hook(_service: str, operation: str) -> None:
        nonlocal listings
        listings += operation == "ListObjectVersions"

    seen = 0
    with changed.hooked(world, hook):
        for _day in range(artifacts.DAYS_OF_A_ROUND):
            seen += found(reconcile(world), "repaired").get("artifacts_without_bytes", 0)
            clock.ahead += DAY_SECONDS
    assert seen == 2
    # Each was looked at once, and listed once more when something was to be removed.
    records = sum(item["SK"] == "META" and item["PK"].startswith("A#") for item in everything(world))
    assert listings <= records + 2 * seen + 2
    assert world.runtime.table.query(f"A#{whole}") == []
    assert usage(api, department) == {"ada": 6}
    assert [one["version"] for one in api("GET", f"/v1/artifacts/{part}").json["artifact"]["versions"]] == [2]


# ---------------------------------------------------------------- runs and records


def test_places_of_runs_that_are_over_are_free_again(world: LocalSystem, api: Api, talk: Talk) -> None:
    table, run = world.runtime.table, f"run_{talk.turn}.gone"
    pk, sk = at_work_key(talk.conversation)
    table.put({"PK": pk, "SK": sk, "run": run, "turn": talk.turn, "since": 0})
    pool_pk, pool_sk = admission_key()
    table.put({"PK": pool_pk, "SK": pool_sk, "runs": {run, "run_no.such.run"}})
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 409
    assert found(reconcile(world), "repaired") == {"places_of_runs": 3}
    assert table.get(at_work_key(talk.conversation)) is None
    assert not (table.get(admission_key()) or {}).get("runs")
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200


def test_what_only_a_person_can_judge_is_told_and_left(
    world: LocalSystem, clock: ShiftedClock, talk: Talk, caplog: pytest.LogCaptureFixture
) -> None:
    head = world.runtime.table.get(head_key(talk.conversation))
    assert head is not None
    world.runtime.table.delete(head_key(talk.conversation))
    clock.ahead += DAY_SECONDS
    with caplog.at_level(logging.INFO, logger="workbench"):
        state = engine.handler({}, Context("workbench-reconciler", time.monotonic() + 60))
    world.runtime.table.put(head)
    assert state["counts"]["damaged_conversations"] == {"found": 1, "repaired": 0, "left": 0, "failed": 1}
    (line,) = [record for record in caplog.records if record.message == "reconciled"]
    facts = vars(line)
    assert (facts["FunctionName"], facts["ReconcilerFailed"], facts["dryRun"]) == ("workbench-reconciler", 1, False)
    (directive,) = facts["_aws"]["CloudWatchMetrics"]
    assert {metric["Name"] for metric in directive["Metrics"]} == set(engine.METRICS)
    assert world.runtime.table.get(meta_key(talk.conversation)) is not None
    assert talk.again().bytes_of("a.txt") == b"kept"


def test_a_record_that_makes_no_sense_keeps_no_other_from_being_judged(
    world: LocalSystem, clock: ShiftedClock, talk: Talk
) -> None:
    pk, sk = artifact_key("art_odd")
    odd = {"PK": pk, "SK": sk, "highest": 1, "gsi1pk": "P#odd", "gsi1sk": pk}
    world.runtime.table.put(odd)
    world.runtime.table.put({"PK": pk, "SK": "V#0000000001", "version": 1})
    place_pk, place_sk = at_work_key(talk.conversation)
    world.runtime.table.put({"PK": place_pk, "SK": place_sk, "run": f"run_{talk.turn}.gone"})
    counts = reconcile(world)["counts"]
    world.runtime.table.delete_many([(pk, sk), (pk, "V#0000000001")])
    assert counts["unreadable_records"]["failed"] == 1
    assert counts["places_of_runs"]["repaired"] == 1


# ---------------------------------------------------------------- the function


def _one_of_everything(world: LocalSystem, talk: Talk) -> None:
    name = secrets.token_hex(4)
    for key in (f"conversations/{talk.conversation}/blobs/{name}", f"conversations/none-{name}/blobs/x"):
        put(world, key)
    for keys_of_kind in ORPHANS.values():
        put(world, keys_of_kind[1])
    pool_pk, pool_sk = admission_key()
    world.runtime.table.put({"PK": pool_pk, "SK": pool_sk, "runs": {f"run_no.such.{name}"}})


def test_a_dry_run_finds_the_same_and_changes_nothing(world: LocalSystem, clock: ShiftedClock, talk: Talk) -> None:
    _one_of_everything(world, talk)
    clock.ahead += 2 * DAY_SECONDS
    before = keys(world), sorted(map(repr, everything(world)))
    with counting() as requests:
        dry = reconcile(world, dry=True)
    assert {operation.split(":")[1] for operation in requests.operations} <= READS
    assert (keys(world), sorted(map(repr, everything(world)))) == before
    wet = reconcile(world)
    assert found(dry) == found(wet) == found(wet, "repaired")
    assert found(dry, "repaired", "left", "failed") == dict.fromkeys(dry["counts"], 0)
    assert dry["listed"] == wet["listed"]
    assert {"kind": "results", "what": ORPHANS["results"][1], "count": 1} in dry["listed"]


def test_slices_however_short_come_to_the_same_end(world: LocalSystem, clock: ShiftedClock, talk: Talk) -> None:
    _one_of_everything(world, talk)
    clock.ahead += 2 * DAY_SECONDS
    whole = reconcile(world, dry=True)
    assert reconcile(world, dry=True, slices=0)["counts"] == whole["counts"]
    assert found(reconcile(world, slices=0), "repaired") == found(whole)
    wait_for_deletions(world)
    assert reconcile(world)["counts"] == {}


def test_a_slice_ends_in_the_midst_of_what_a_look_found_and_the_next_one_deals_with_the_rest(
    world: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    there, tried = {"a", "busy", "stays", "b"}, []

    def repair(what: str) -> None:
        tried.append(what)
        if what == "busy":
            raise Conflict("Somebody is at work on it.")
        if what != "stays":
            there.remove(what)

    def look(_runtime: Any, after: str) -> Iterator[Step]:
        if not after:
            yield Step("all", [Finding("things", what, partial(repair, what)) for what in sorted(there)])

    monkeypatch.setattr(engine, "SWEEPS", {"first": look})
    state = engine.reconcile(world.runtime, {}, 0)
    assert tried == ["a"] and not state["done"], "a second one might outlast the function"
    assert reconcile(world, slices=0)["counts"]["things"] == {"found": 3, "repaired": 2, "left": 1, "failed": 0}
    assert tried == ["a", "b", "busy", "stays"]


def test_the_state_machine_goes_on_until_everything_was_looked_at(
    world: LocalSystem, clock: ShiftedClock, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    _one_of_everything(world, talk)
    clock.ahead += 2 * DAY_SECONDS
    monkeypatch.setattr(engine, "SLICE_SECONDS", 0.0)
    steps = world.runtime.clients.stepfunctions
    (machine,) = [
        one["stateMachineArn"]
        for one in steps.list_state_machines()["stateMachines"]
        if one["name"] == "workbench-reconcile"
    ]
    execution = steps.start_execution(stateMachineArn=machine, input=json.dumps({"dryRun": False}))["executionArn"]
    until = time.monotonic() + 240
    while (ended := steps.describe_execution(executionArn=execution))["status"] == "RUNNING":
        assert time.monotonic() < until
        time.sleep(0.05)
    assert ended["status"] == "SUCCEEDED"
    output = json.loads(ended["output"])
    assert output["done"] and output["counts"]["results"]["repaired"] == 1
    wait_for_deletions(world)
    assert reconcile(world)["counts"] == {}
