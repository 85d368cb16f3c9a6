"""How long things stay, played against the rules that are deployed: what is left on day 29, 30, 31, 61."""

from __future__ import annotations

import pytest

from tests.infra.lifecycle import Bucket
from tests.infra.templates import Deployment

NOON = 0.5
FILE = "artifacts/art_1/1"


@pytest.fixture
def artifacts(deployment: Deployment) -> Bucket:
    (bucket,) = [b for b in deployment.of("AWS::S3::Bucket") if "VersioningConfiguration" in b.properties]
    return Bucket(bucket.properties["LifecycleConfiguration"]["Rules"], versioned=True)


@pytest.fixture
def workspaces(deployment: Deployment) -> Bucket:
    (bucket,) = [b for b in deployment.of("AWS::S3::Bucket") if "VersioningConfiguration" not in b.properties]
    return Bucket(bucket.properties["LifecycleConfiguration"]["Rules"], versioned=False)


def test_a_file_that_no_reply_carries_expires_after_thirty_days(artifacts: Bucket) -> None:
    artifacts.put(FILE, NOON, retention="unattached")
    assert artifacts.readable(FILE, 29 + NOON)
    assert artifacts.readable(FILE, 30 + NOON)  # thirty days are over at noon; S3 acts at the next midnight
    assert not artifacts.readable(FILE, 31)
    assert artifacts.stored(FILE, 31) == 1
    assert artifacts.stored(FILE, 32) == 0
    assert artifacts.traces(33) == []


def test_an_attached_file_stays_with_its_conversation(artifacts: Bucket) -> None:
    artifacts.put(FILE, NOON, retention="unattached")
    artifacts.tag(FILE, 1, retention="kept")
    assert artifacts.readable(FILE, 31)
    assert artifacts.readable(FILE, 61)
    assert artifacts.readable(FILE, 3_650)


def test_a_file_attached_on_its_last_day_stays(artifacts: Bucket) -> None:
    artifacts.put(FILE, NOON, retention="unattached")
    artifacts.tag(FILE, 30 + NOON, retention="kept")
    assert artifacts.readable(FILE, 61)


def test_deleting_a_conversation_gives_its_files_thirty_days(artifacts: Bucket) -> None:
    artifacts.put(FILE, NOON, retention="kept")
    artifacts.delete(FILE, 100 + NOON)
    assert not artifacts.readable(FILE, 100 + NOON)
    assert artifacts.stored(FILE, 129 + NOON) == 1
    assert artifacts.stored(FILE, 130 + NOON) == 1
    assert artifacts.stored(FILE, 131) == 0
    assert artifacts.traces(132) == []


def test_restoring_on_the_last_day_brings_the_file_back_for_good(artifacts: Bucket) -> None:
    artifacts.put(FILE, NOON, retention="kept")
    artifacts.delete(FILE, 10)
    artifacts.remove_markers(FILE, 39.9)
    assert artifacts.readable(FILE, 61)
    assert artifacts.readable(FILE, 400)


def test_a_second_deletion_counts_its_grace_anew(artifacts: Bucket) -> None:
    artifacts.put(FILE, NOON, retention="kept")
    artifacts.delete(FILE, 10)
    artifacts.remove_markers(FILE, 20)
    artifacts.delete(FILE, 50)
    assert artifacts.stored(FILE, 79) == 1
    assert artifacts.stored(FILE, 81) == 0


def test_an_unattached_file_keeps_its_own_expiry_when_it_gets_no_marker(artifacts: Bucket) -> None:
    # Deletion puts markers on attached files only: behind one, this file would be gone within two days.
    artifacts.put(FILE, NOON, retention="unattached")
    assert artifacts.readable(FILE, 30)
    marked = "artifacts/art_2/1"
    artifacts.put(marked, 30, retention="unattached")
    artifacts.delete(marked, 30)
    assert artifacts.stored(marked, 32) == 0


def test_versions_of_an_artifact_do_not_expire_each_other(artifacts: Bucket) -> None:
    artifacts.put("artifacts/art_1/1", NOON, retention="kept")
    artifacts.put("artifacts/art_1/2", 1, retention="unattached")
    assert not artifacts.readable("artifacts/art_1/2", 61)
    assert artifacts.readable("artifacts/art_1/1", 61)


def test_staged_objects_leave_within_two_days_and_workspaces_never(workspaces: Bucket) -> None:
    workspaces.put("tmp/runs/c/r/plan", NOON)
    workspaces.put("tmp/uploads/c/u", NOON)
    workspaces.put("conversations/c/blobs/x", NOON)
    workspaces.put("results/c/t/call", NOON)
    assert workspaces.readable("tmp/runs/c/r/plan", 1 + NOON)
    assert workspaces.traces(2) == ["conversations/c/blobs/x", "results/c/t/call"]
    assert workspaces.traces(3_650) == ["conversations/c/blobs/x", "results/c/t/call"]
