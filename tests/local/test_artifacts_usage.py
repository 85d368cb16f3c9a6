"""What a department pays for: bytes from the export on, until S3 says that they are gone, each counted once."""

from __future__ import annotations

from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.reconciled import wait_for_deletions
from tests.local.talk import Talk
from workbench.artifacts import billing_api


def usage(api: Any, department: str, month: str = "", **headers: str) -> Any:
    return api("GET", f"/v1/usage?department={department}{month and '&month=' + month}", None, headers)


def stored(api: Any, department: str) -> dict[str, int]:
    return {row["person"]: row["bytes"] for row in usage(api, department).json["usage"]}


def caller(user: str, department: str) -> dict[str, str]:
    return {"user": user, "department": department}


def gone(system: LocalSystem, artifact: str, number: int = 1, kind: str = "Permanently Deleted") -> None:
    """S3's event, as EventBridge hands it on."""
    detail = {
        "object": {"key": f"artifacts/{artifact}/{number}"},
        "deletion-type": kind,
        "reason": "Lifecycle Expiration",
    }
    billing_api.removed(system.runtime, detail)


def remove(system: LocalSystem, artifact: str, number: int = 1) -> None:
    """What S3's rules do in the end."""
    s3, bucket = system.runtime.clients.s3, system.runtime.settings.artifact_bucket
    for entry in s3.list_object_versions(Bucket=bucket, Prefix=f"artifacts/{artifact}/{number}")["Versions"]:
        if entry["Key"] == f"artifacts/{artifact}/{number}":
            s3.delete_object(Bucket=bucket, Key=entry["Key"], VersionId=entry["VersionId"])


def test_stored_bytes_are_billed_to_the_callers_department(api: Any, unique: str, system: LocalSystem) -> None:
    department = f"dept-{unique}"
    ada = Talk.open(api, unique, caller=caller("ada", department))
    eve = ada.again(caller=caller("eve", department))
    bob = ada.again(caller=caller("bob", f"{department}-2"))
    artifact = ada.ok("export_artifact", content="x" * 100)["structured"]["artifact"]
    ada.ok("export_artifact", content="x" * 100)
    ada.ok("export_artifact", content="y" * 10, artifact=artifact)
    eve.ok("export_artifact", content="z")
    bob.ok("export_artifact", content="zz")
    ada.call("export_artifact", content="")
    assert stored(api, department) == {"ada": 110, "eve": 1}
    assert stored(api, f"{department}-2") == {"bob": 2}
    mine = usage(api, department, **{"X-Workbench-User": "eve"}).json["usage"]
    assert [row["person"] for row in mine] == ["eve"]
    assert usage(api, department, "2020-01").json == {"usage": []}
    # A marker begins the grace, in which bytes are still stored.
    gone(system, artifact, kind="Delete Marker Created")
    assert stored(api, department)["ada"] == 110
    # Nor do they go when a marker does, which S3 tells in the same words.
    gone(system, artifact)
    assert stored(api, department)["ada"] == 110
    remove(system, artifact)
    for _ in range(3):
        gone(system, artifact)
    assert stored(api, department)["ada"] == 10
    gone(system, "art_never_committed")
    gone(system, "../x")
    assert stored(api, department) == {"ada": 10, "eve": 1}


def test_news_of_another_objects_end_under_the_same_key_takes_nothing_off(
    api: Any, unique: str, system: LocalSystem
) -> None:
    """A restore removes markers; a number that a crashed export had is given again. The bytes stay, and so does the
    bill."""
    department = f"dept-{unique}"
    talk = Talk.open(api, unique, caller=caller("ada", department))
    artifact = talk.ok("export_artifact", content="x" * 7)["structured"]["artifact"]
    # Versions 10 to 19 begin with the key of version 1.
    system.runtime.clients.s3.put_object(
        Bucket=system.runtime.settings.artifact_bucket, Key=f"artifacts/{artifact}/10", Body=b"a crash left it"
    )
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""}).status == 200
    assert api("DELETE", f"/v1/conversations/{unique}").status == 202
    wait_for_deletions(system)
    assert api("POST", f"/v1/conversations/{unique}/restore").status == 200
    gone(system, artifact)
    assert stored(api, department) == {"ada": 7}
    remove(system, artifact)
    gone(system, artifact)
    assert stored(api, department) == {}


def test_what_is_erased_is_paid_for_no_longer(api: Any, unique: str, system: LocalSystem) -> None:
    department, user = f"dept-{unique}", f"ada-{unique}"
    talk = Talk.open(api, unique, caller=caller(user, department))
    artifact = talk.ok("export_artifact", content="x" * 100)["structured"]["artifact"]
    assert stored(api, department) == {user: 100}
    assert api("POST", f"/v1/people/{user}/erase").json["erasure"]["status"] == "done"
    gone(system, artifact)
    assert stored(api, department).get(user, 0) == 0


@pytest.mark.parametrize("query", ["", "?month=2026-09", "?department=d&month=soon", "?department=d&month=9999-01"])
def test_a_wrong_question_is_refused(api: Any, query: str) -> None:
    answer = api("GET", f"/v1/usage{query}")
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
