"""What is left on which day, seen through the API: the deployed rules act on the local system's buckets."""

from __future__ import annotations

import base64
import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from local.system import LocalSystem
from tests.infra.local_buckets import Days, days_of
from tests.infra.templates import Deployment
from tests.local.conftest import Api
from tests.local.reconciled import wait_for_deletions
from tests.local.runs.sandbox import Killed, killed_after
from tests.local.talk import Talk
from workbench.conversations import finishing
from workbench.ids import TurnId

MINUTE = 1 / 1440


@pytest.fixture(scope="module")
def system(alone: None) -> Iterator[LocalSystem]:
    with LocalSystem().start(sandbox="off") as system:
        yield system


@pytest.fixture(scope="module")
def clocked(system: LocalSystem, deployment: Deployment) -> Iterator[Days]:
    with days_of(system, deployment) as days:
        yield days


@pytest.fixture
def days(clocked: Days) -> Days:
    clocked.until_noon()
    return clocked


@pytest.fixture
def api(system: LocalSystem) -> Api:
    return Api(system.url)


@pytest.fixture
def department() -> str:
    return f"d-{secrets.token_hex(4)}"


@pytest.fixture
def talk(api: Api, days: Days, department: str) -> Talk:
    return Talk.open(api, f"c-{secrets.token_hex(5)}", caller={"user": "ada", "department": department})


def export(talk: Talk, content: str = "x", **more: Any) -> str:
    return str(talk.ok("export_artifact", content=content, **more)["structured"]["artifact"])


def finish(talk: Talk, outcome: str = "completed") -> Any:
    answer = talk.api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": outcome, "text": ""})
    assert answer.status == 200, answer.body
    return answer.json


def content(api: Api, artifact: str, version: int = 1) -> bytes | int:
    """The bytes as a person gets them, or the status."""
    answer = api("GET", f"/v1/artifacts/{artifact}/versions/{version}/content")
    return answer.body if answer.status == 200 else answer.status


def usage(api: Api, department: str) -> int:
    return sum(row["bytes"] for row in api("GET", f"/v1/usage?department={department}").json["usage"])


def delete(api: Api, system: LocalSystem, talk: Talk) -> None:
    assert api("DELETE", f"/v1/conversations/{talk.conversation}").status == 202
    wait_for_deletions(system)


def restore(api: Api, talk: Talk) -> int:
    return int(api("POST", f"/v1/conversations/{talk.conversation}/restore").status)


@pytest.mark.parametrize("outcome", ["failed", "cancelled", None])
def test_what_no_reply_carries_goes_after_thirty_days(
    api: Api, days: Days, talk: Talk, department: str, outcome: str | None
) -> None:
    artifact = export(talk, "y" * 50)
    if outcome:
        finish(talk, outcome)
    days.go_on(29)
    assert content(api, artifact) == b"y" * 50
    days.go_on(1 - MINUTE)
    assert content(api, artifact) == b"y" * 50
    # Thirty days are over: nobody gets it any more, and at the next midnight S3 begins to remove it.
    days.go_on(2 * MINUTE)
    assert content(api, artifact) == 404
    assert (days.stored(f"artifacts/{artifact}/1"), usage(api, department)) == (1, 50)
    days.go_on(1)
    assert (days.stored(f"artifacts/{artifact}/1"), usage(api, department)) == (1, 50)
    days.go_on(1)
    assert (days.stored(f"artifacts/{artifact}/1"), usage(api, department)) == (0, 0)
    days.go_on(1)
    assert days.traces(f"artifacts/{artifact}/") == []


def test_an_attached_file_stays_as_long_as_its_conversation(
    api: Api, days: Days, talk: Talk, system: LocalSystem, department: str
) -> None:
    artifact = export(talk, "kept")
    finish(talk)
    for later in (29, 1, 1, 30, 400):
        days.go_on(later)
        assert content(api, artifact) == b"kept"
    assert api("GET", f"/v1/artifacts/{artifact}").json["artifact"]["expiresAt"] is None
    # More than a year old, and deleted today: it gets all of its grace.
    delete(api, system, talk)
    assert content(api, artifact) == 404
    days.go_on(30 - MINUTE)
    assert (days.stored(f"artifacts/{artifact}/1"), usage(api, department)) == (1, 4)
    assert restore(api, talk) == 200
    assert content(api, artifact) == b"kept"
    days.go_on(100)
    assert content(api, artifact) == b"kept"


def test_a_file_attached_on_its_last_day_stays(api: Api, days: Days, talk: Talk) -> None:
    first = export(talk, "one")
    days.go_on(30 - 0.2)
    late = talk.again()
    # The same file, exported by another turn, is another artifact; a version of the first one attaches it.
    late.ok("export_artifact", content="two", artifact=first)
    finish(late)
    days.go_on(40)
    assert [content(api, first, number) for number in (1, 2)] == [b"one", b"two"]


def test_an_artifact_that_lived_on_by_new_versions_is_still_its_conversations(
    api: Api, days: Days, talk: Talk, system: LocalSystem, department: str
) -> None:
    artifact = export(talk, "first")
    # Each version lives for thirty days, because no reply carries it; the records of the first are long gone then.
    for number in (2, 3):
        days.go_on(29)
        later = talk.again(caller={"user": "ada", "department": department})
        later.ok("export_artifact", content=f"version {number}", artifact=artifact)
        finish(later, "completed" if number == 3 else "failed")
    days.go_on(60)
    assert [content(api, artifact, number) for number in (1, 2, 3)] == [404, b"version 2", b"version 3"]
    listed = api("GET", f"/v1/artifacts?conversation={talk.conversation}").json["artifacts"]
    assert [one["id"] for one in listed] == [artifact]
    delete(api, system, talk)
    assert restore(api, talk) == 200
    assert content(api, artifact, 3) == b"version 3"
    delete(api, system, talk)
    days.go_on(32)
    assert (days.traces(f"artifacts/{artifact}/"), usage(api, department)) == ([], 0)


def test_an_id_that_is_free_again_shows_nothing_of_the_conversation_that_had_it(
    api: Api, days: Days, talk: Talk, system: LocalSystem
) -> None:
    artifact = export(talk, "of the first")
    finish(talk)
    days.go_on(0.3)
    delete(api, system, talk)
    # The grace is over, and S3 removes the bytes at the next midnight.
    days.go_on(30 + MINUTE)
    new = Talk.open(api, talk.conversation, caller={"user": "ada", "department": "sales"})
    assert (content(api, artifact), days.stored(f"artifacts/{artifact}/1")) == (404, 1)
    assert new.ok("list_artifacts")["structured"] == {"artifacts": [], "more": False}
    for who in ({}, {"X-Workbench-User": "ada"}):
        assert api("GET", f"/v1/artifacts?conversation={talk.conversation}", None, who).json == {"artifacts": []}
    (former,) = api("GET", f"/v1/artifacts?conversation={talk.conversation}&state=all").json["artifacts"]
    assert former["state"] == "expired"
    # Nor does the new one bring it back, or keep it.
    delete(api, system, new)
    assert restore(api, new) == 200
    assert content(api, artifact) == 404
    days.go_on(2)
    assert days.traces(f"artifacts/{artifact}/") == []


def test_a_deleted_conversation_goes_with_its_files_when_the_grace_is_over(
    api: Api, days: Days, talk: Talk, system: LocalSystem, department: str
) -> None:
    attached = export(talk, "attached")
    finish(talk)
    unattached = export(talk.again(caller={"user": "ada", "department": department}), "nobody's")
    days.go_on(5)
    delete(api, system, talk)
    days.go_on(25)
    # What no reply carries keeps the days it had.
    days.go_on(2 + MINUTE)
    assert (days.stored(f"artifacts/{unattached}/1"), days.stored(f"artifacts/{attached}/1")) == (0, 1)
    days.go_on(3 - 2 * MINUTE)
    assert days.stored(f"artifacts/{attached}/1") == 1
    days.go_on(2 * MINUTE)
    assert restore(api, talk) == 404
    days.go_on(1)
    assert (days.stored(f"artifacts/{attached}/1"), usage(api, department)) == (0, 0)
    days.go_on(1)
    assert days.traces(f"artifacts/{attached}/") == []


def test_a_second_deletion_counts_its_grace_anew(api: Api, days: Days, talk: Talk, system: LocalSystem) -> None:
    artifact = export(talk, "kept")
    finish(talk)
    delete(api, system, talk)
    days.go_on(29)
    assert restore(api, talk) == 200
    days.go_on(10)
    delete(api, system, talk)
    days.go_on(29)
    assert restore(api, talk) == 200
    assert content(api, artifact) == b"kept"
    delete(api, system, talk)
    days.go_on(32)
    assert (restore(api, talk), days.traces(f"artifacts/{artifact}/")) == (404, [])


def test_an_old_version_that_is_attached_outlives_a_newer_one_that_is_not(
    api: Api, days: Days, talk: Talk, department: str
) -> None:
    artifact = export(talk, "first")
    finish(talk)
    days.go_on(3)
    later = talk.again(caller={"user": "ada", "department": department})
    later.ok("export_artifact", content="second!", artifact=artifact)
    finish(later, "failed")
    assert [content(api, artifact, number) for number in (1, 2)] == [b"first", b"second!"]
    days.go_on(33)
    assert [content(api, artifact, number) for number in (1, 2)] == [b"first", 404]
    assert [one["version"] for one in api("GET", f"/v1/artifacts/{artifact}").json["artifact"]["versions"]] == [1]
    assert usage(api, department) == 5
    assert days.traces(f"artifacts/{artifact}/") == [f"artifacts/{artifact}/1"]


def test_what_was_uploaded_never_expires(api: Api, days: Days, department: str) -> None:
    body = {
        "collection": f"col-{secrets.token_hex(4)}",
        "name": "notes.txt",
        "mediaType": "text/plain",
        "data": base64.b64encode(b"words of a document").decode(),
        "owner": "ada",
        "department": department,
    }
    made = api("POST", "/v1/documents", body)
    assert made.status == 201, made.body
    document = made.json["document"]
    before = days.traces("documents/"), days.traces("indexes/"), usage(api, department)
    days.go_on(200)
    assert content(api, document["artifact"]) == b"words of a document"
    assert (days.traces("documents/"), days.traces("indexes/"), usage(api, department)) == before


def test_leftovers_go_by_themselves(api: Api, days: Days, talk: Talk, system: LocalSystem) -> None:
    """What a crash, a run or an unfinished upload leaves: no reconciler is needed for these."""
    s3, settings = system.runtime.clients.s3, system.runtime.settings
    s3.put_object(
        Bucket=settings.artifact_bucket, Key="artifacts/art_lost/1", Body=b"x", Tagging="retention=unattached"
    )
    for folder in (f"tmp/runs/{talk.conversation}/run/plan", "tmp/uploads/upl_x"):
        s3.put_object(Bucket=settings.workspace_bucket, Key=folder, Body=b"x")
    for bucket in (settings.artifact_bucket, settings.workspace_bucket):
        s3.create_multipart_upload(Bucket=bucket, Key="half/sent")
    talk.put("stays.txt", b"stays")
    days.go_on(1 + MINUTE)
    assert len(days.traces("tmp/")) == 2
    days.go_on(1)
    assert days.traces("tmp/") == []
    assert not days.unfinished(settings.artifact_bucket) | days.unfinished(settings.workspace_bucket)
    days.go_on(32)
    assert days.traces("artifacts/art_lost/") == []
    assert talk.bytes_of("stays.txt") == b"stays"


def test_a_tag_rewritten_by_a_finish_that_crashed_leaks_and_never_loses(
    api: Api, days: Days, talk: Talk, system: LocalSystem
) -> None:
    artifacts = []
    for requests in range(30):
        turn = talk.again()
        artifacts.append(export(turn, f"number {requests}"))
        try:
            with killed_after(system.runtime.clients, requests):
                finishing.finish(system.runtime, TurnId.parse(turn.turn), "completed", "")
            break
        except Killed:
            pass
        if requests % 2:
            # The portal tries again, later.
            days.go_on(0.2)
            finish(turn)
    assert len(artifacts) > 4
    finished = [index for index in range(len(artifacts)) if index % 2 or index == len(artifacts) - 1]
    days.go_on(60)
    for index in finished:
        assert content(api, artifacts[index]) == f"number {index}".encode()
    for index in set(range(len(artifacts))) - set(finished):
        assert content(api, artifacts[index]) == 404
