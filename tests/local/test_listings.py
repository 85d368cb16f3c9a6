"""What an admin looks at: whose conversations, whose artifacts, in which state, and how much there is of a person."""

from __future__ import annotations

from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.talk import Talk
from workbench.artifacts import listing as artifact_listing
from workbench.artifacts import store
from workbench.conversations import listing
from workbench.conversations.conversation import DELETED_STATUS
from workbench.keys import head_key
from workbench.operations import Update


def make(api: Any, owner: str, conversation: str) -> None:
    created = api("POST", "/v1/conversations", {"owner": owner, "department": "research", "id": conversation})
    assert created.status == 201, created.body


def swept(system: LocalSystem, conversation: str) -> bool:
    head = system.runtime.table.get(head_key(conversation)) or {}
    return head["status"] == DELETED_STATUS and head.get("swept") == head["deletion"]


def delete(api: Any, system: LocalSystem, conversation: str) -> None:
    assert api("DELETE", f"/v1/conversations/{conversation}").status == 202
    while not swept(system, conversation):
        system.runtime.clock.sleep(0.02)


# ---------------------------------------------------------------- conversations


def test_a_persons_conversations_are_listed_with_what_they_hold(api: Any, unique: str, system: LocalSystem) -> None:
    for name in ("a", "b", "c"):
        make(api, unique, f"{unique}-{name}")
    make(api, f"{unique}-other", f"{unique}-d")
    talk = Talk.open(api, f"{unique}-a", create=False, caller={"user": unique, "department": "research"})
    talk.put("x.txt", b"12345")
    delete(api, system, f"{unique}-b")
    listed = api("GET", f"/v1/conversations?owner={unique}").json
    assert "next" not in listed
    facts = [(one["id"], one["status"], one["workspace"]) for one in listed["conversations"]]
    assert facts == [
        (f"{unique}-a", "active", {"files": 1, "bytes": 5}),
        (f"{unique}-b", "deleted", {"files": 0, "bytes": 0}),
        (f"{unique}-c", "active", {"files": 0, "bytes": 0}),
    ]
    assert (listed["conversations"][0]["owner"], listed["conversations"][0]["department"]) == (unique, "research")
    # A deleted one whose grace is over is gone, though its items may still be there.
    system.runtime.table.update(head_key(f"{unique}-b"), Update().set("purgeAt", system.runtime.clock.now() - 1))
    table = system.runtime.table
    table.update((f"C#{unique}-b", "META"), Update().set("purgeAt", system.runtime.clock.now() - 1))
    again = api("GET", f"/v1/conversations?owner={unique}").json["conversations"]
    assert [one["id"] for one in again] == [f"{unique}-a", f"{unique}-c"]


def test_conversations_come_in_pages_however_many_turns_lie_between(
    api: Any, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "LISTED_AT_ONCE", 2)
    monkeypatch.setattr(listing, "KEYS_AT_ONCE", 2)
    monkeypatch.setattr(listing, "KEY_PAGES", 2)
    names = [f"{unique}-{number}" for number in range(5)]
    for name in names:
        make(api, unique, name)
        for _ in range(3):
            Talk.open(api, name, create=False, caller={"user": unique, "department": "research"})
    found, after, pages = [], "", 0
    while after is not None:
        answer = api("GET", f"/v1/conversations?owner={unique}&after={after}").json
        found += [one["id"] for one in answer["conversations"]]
        after, pages = answer.get("next"), pages + 1
    assert found == names and pages > 3


def test_a_person_lists_their_own_conversations_only(api: Any, unique: str) -> None:
    make(api, unique, unique)
    mine = {"X-Workbench-User": unique}
    assert [one["id"] for one in api("GET", "/v1/conversations", None, mine).json["conversations"]] == [unique]
    assert api("GET", f"/v1/conversations?owner={unique}", None, {"X-Workbench-User": "eve"}).status == 403
    for wrong in ("", "?owner=", "?owner=%20x", f"?owner={unique}&after={'x' * 401}"):
        assert api("GET", f"/v1/conversations{wrong}").status == 400


# ---------------------------------------------------------------- artifacts


def test_the_portal_sees_artifacts_in_every_state(api: Any, unique: str, system: LocalSystem) -> None:
    person = {"user": unique, "department": "research"}
    gone, talk = Talk.open(api, f"{unique}-gone", caller=person), Talk.open(api, unique, caller=person)

    def export(turn: Talk, content: str) -> str:
        return str(turn.ok("export_artifact", content=content)["structured"]["artifact"])

    deleted = export(gone, "deleted")
    api("POST", f"/v1/turns/{gone.turn}/finish", {"outcome": "completed", "text": ""})
    delete(api, system, f"{unique}-gone")
    attached = export(talk, "attached")
    api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""})
    later = talk.again(caller=person)
    unattached, expired = export(later, "unattached"), export(later, "expired")
    table, now = system.runtime.table, system.runtime.clock.now()
    table.update(store.version_key(expired, 1), Update().set("expiresAt", now - 1))

    listed = api("GET", f"/v1/artifacts?person={unique}&state=all").json["artifacts"]
    states = {one["id"]: one["state"] for one in listed}
    assert states == {deleted: "deleted", attached: "attached", unattached: "unattached", expired: "expired"}
    assert next(one for one in listed if one["id"] == deleted)["purgeAt"] is not None
    usable = api("GET", f"/v1/artifacts?person={unique}").json["artifacts"]
    assert {one["id"] for one in usable} == {attached, unattached}
    assert api("GET", f"/v1/artifacts?conversation={unique}-gone").status == 409
    as_eve = api("GET", f"/v1/artifacts?conversation={unique}-gone", None, {"X-Workbench-User": "eve"})
    assert (as_eve.status, as_eve.json) == (200, {"artifacts": []}), "as for a conversation that there never was"
    of_gone = api("GET", f"/v1/artifacts?conversation={unique}-gone&state=all").json["artifacts"]
    assert [one["id"] for one in of_gone] == [deleted]

    assert api("GET", f"/v1/artifacts/{deleted}").status == 404
    shown = api("GET", f"/v1/artifacts/{deleted}?state=all").json["artifact"]
    assert (shown["state"], shown["stored"][0]["version"], shown["stored"][0]["bytes"]) == ("deleted", 1, 7)
    assert shown["stored"][0]["deletedAt"] is not None
    kept = api("GET", f"/v1/artifacts/{attached}?state=all").json["artifact"]
    assert kept["stored"] == [{"version": 1, "bytes": 8, "deletedAt": None}]


def test_what_nobody_may_use_is_shown_to_the_portal_only(api: Any, unique: str) -> None:
    artifact = Talk.open(api, unique).ok("export_artifact", content="x")["structured"]["artifact"]
    ada = {"X-Workbench-User": "ada"}
    for path in (f"/v1/artifacts/{artifact}", f"/v1/artifacts?conversation={unique}", "/v1/artifacts?person=ada"):
        separator = "&" if "?" in path else "?"
        assert api("GET", f"{path}{separator}state=all").status == 200
        assert api("GET", f"{path}{separator}state=all", None, ada).status == 403
        assert api("GET", f"{path}{separator}state=some").status == 400
    assert api("GET", "/v1/artifacts?person=ada", None, {"X-Workbench-User": "eve"}).status == 403
    assert api("GET", "/v1/artifacts/art_missing?state=all").status == 404


def test_a_page_tells_a_person_nothing_of_what_they_may_not_read(
    api: Any, unique: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(artifact_listing, "READ_AT_ONCE", 2)
    talk = Talk.open(api, unique, caller={"user": unique, "department": "research"})
    made = sorted(talk.ok("export_artifact", content=f"{number}")["structured"]["artifact"] for number in range(7))
    route, eve = f"/v1/artifacts?conversation={unique}", {"X-Workbench-User": f"{unique}-eve"}
    assert api("GET", f"{route}&limit=1", None, eve).json == {"artifacts": []}
    shared = [made[1], made[4], made[6]]
    for artifact in shared:
        sharing = {"people": [eve["X-Workbench-User"]]}
        assert api("PUT", f"/v1/artifacts/{artifact}/sharing", sharing).status == 200
    found, after = [], ""
    while after is not None:
        answer = api("GET", f"{route}&limit=1{after and f'&after={after}'}", None, eve).json
        assert len(answer["artifacts"]) == 1 and answer.get("next") in (*shared, None)
        found += [one["id"] for one in answer["artifacts"]]
        after = answer.get("next")
    assert found == shared


@pytest.mark.parametrize("place", ["person", "conversation"])
def test_artifacts_come_in_pages(api: Any, unique: str, place: str) -> None:
    talk = Talk.open(api, unique, caller={"user": unique, "department": "research"})
    made = {talk.ok("export_artifact", content=f"{number}")["structured"]["artifact"] for number in range(5)}
    found, after, pages = [], "", 0
    while after is not None:
        more = f"&after={after}" if after else ""
        answer = api("GET", f"/v1/artifacts?{place}={unique}&limit=2{more}").json
        assert len(answer["artifacts"]) <= 2
        found += [one["id"] for one in answer["artifacts"]]
        after, pages = answer.get("next"), pages + 1
    assert sorted(found) == sorted(made) and pages == 3
    for wrong in ("limit=0", f"limit={artifact_listing.LISTED_AT_MOST + 1}", "limit=x", "after=a/b"):
        assert api("GET", f"/v1/artifacts?{place}={unique}&{wrong}").status == 400


# ---------------------------------------------------------------- people


def test_what_is_a_persons_is_counted(api: Any, unique: str) -> None:
    person = {"user": unique, "department": "research"}
    make(api, unique, unique)
    talk = Talk.open(api, unique, create=False, caller=person)
    Talk.open(api, f"{unique}-of-ada", caller=person)
    talk.ok("export_artifact", content="x")
    assert api("GET", f"/v1/people/{unique}").json == {
        "person": {
            "user": unique,
            "erasing": False,
            "counts": {"conversations": 1, "turns": 2, "artifacts": 1, "collections": 0},
        }
    }
    assert set(api("GET", f"/v1/people/{unique}-nobody").json["person"]["counts"].values()) == {0}
    assert api("GET", "/v1/people/%20").status == 400


def test_an_erasure_can_be_begun_without_waiting_for_its_end(api: Any, unique: str, system: LocalSystem) -> None:
    make(api, unique, unique)
    begun = api("POST", f"/v1/people/{unique}/erase?wait=0").json["erasure"]
    assert begun["status"] in ("running", "done")
    while api("GET", f"/v1/people/{unique}/erase").json["erasure"]["status"] != "done":
        system.runtime.clock.sleep(0.02)
    assert api("GET", f"/v1/conversations/{unique}").status == 404
    for wrong in ("-1", "x", "nan", "inf"):
        assert api("POST", f"/v1/people/{unique}/erase?wait={wrong}").status == 400
