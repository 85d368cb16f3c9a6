"""Skills through the API: pushing a bundle, its versions, what is shown of them, and which fit a text."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import quote

import pytest

from local.system import LocalSystem
from tests.local.changed import crashing
from tests.local.talk import Talk
from tests.skill_zips import skill_md, zipped
from workbench.clients import counting
from workbench.skills import store
from workbench.skills.zipped import read_zip


def bundle(name: str, files: dict[str, Any] | None = None, **head: str) -> bytes:
    return zipped({"SKILL.md": skill_md(name, **head), **(files or {})})


def push(api: Any, name: str, files: dict[str, Any] | None = None, **head: str) -> Any:
    return api("PUT", f"/v1/skills/{quote(name, safe='')}", bundle(name, files, **head))


def pushed(api: Any, name: str, files: dict[str, Any] | None = None, **head: str) -> dict[str, Any]:
    answer = push(api, name, files, **head)
    assert answer.status == 200, answer.body
    skill: dict[str, Any] = answer.json["skill"]
    return skill


def refused(answer: Any, status: int) -> str:
    assert answer.status == status, (answer.status, answer.body)
    message: str = answer.json["error"]["message"]
    return message


# ---------------------------------------------------------------- pushing


def test_a_pushed_skill_is_shown_with_its_files(api: Any, unique: str) -> None:
    skill = pushed(api, unique, {"scripts/run.py": "print(1)\n", "a.bin": bytes(range(256))}, version="1.2.0")
    head = len(skill_md(unique, version="1.2.0"))
    assert skill == {
        "name": unique,
        "version": "1.2.0",
        "description": "Does things.",
        "files": [
            {"path": "SKILL.md", "bytes": head},
            {"path": "a.bin", "bytes": 256},
            {"path": "scripts/run.py", "bytes": 9},
        ],
        "sha256": skill["sha256"],
    }
    assert skill in api("GET", "/v1/skills?limit=1000").json["skills"]
    assert api("GET", f"/v1/skills/{unique}").json["skill"] == {**skill, "versions": ["1.2.0"]}


def test_the_content_type_makes_no_difference(api: Any, unique: str) -> None:
    for kind in ("application/zip", "application/json", "text/plain", ""):
        headers = {"content-type": kind} if kind else {}
        assert api("PUT", f"/v1/skills/{unique}", bundle(unique), headers).status == 200


def test_the_same_version_again_changes_nothing_and_another_content_is_refused(api: Any, unique: str) -> None:
    first = push(api, unique, version="1.0.0")
    again = push(api, unique, version="1.0.0")
    assert (first.json["created"], again.json["created"]) == (True, False)
    assert again.json["skill"] == first.json["skill"]
    answer = push(api, unique, {"more.md": "x"}, version="1.0.0")
    assert "1.0.0" in refused(answer, 409) and answer.json["error"]["details"]["next"] == "1.0.1"
    # The same number spelled otherwise is the same version.
    assert push(api, unique, version="v1").status == 409
    assert api("GET", f"/v1/skills/{unique}").json["skill"] == {**first.json["skill"], "versions": ["1.0.0"]}


def test_the_latest_is_the_highest_not_the_last(api: Any, unique: str) -> None:
    for version in ("1.9.0", "1.10.0", "1.10.0-beta", "1.2.0"):
        pushed(api, unique, version=version, description=f"Version {version}.")
    shown = api("GET", f"/v1/skills/{unique}").json["skill"]
    assert shown["versions"] == ["1.10.0", "1.10.0-beta", "1.9.0", "1.2.0"]
    assert (shown["version"], shown["description"]) == ("1.10.0", "Version 1.10.0.")
    assert api("GET", f"/v1/skills/{unique}?version=v1.9").json["skill"]["description"] == "Version 1.9.0."
    answer = api("GET", f"/v1/skills/{unique}?version=3")
    assert "1.10.0" in refused(answer, 404)
    listed = [skill for skill in api("GET", "/v1/skills?limit=1000").json["skills"] if skill["name"] == unique]
    assert [skill["version"] for skill in listed] == ["1.10.0"]


def test_pushes_at_once_lose_none(api: Any, unique: str) -> None:
    versions = [f"1.{number}.0" for number in range(6)]
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(lambda version: push(api, unique, version=version), versions))
    # Whoever comes off worst in every try is told to come again.
    kept = [version for version, answer in zip(versions, answers, strict=True) if answer.status == 200]
    assert {answer.status for answer in answers} <= {200, 409}
    shown = api("GET", f"/v1/skills/{unique}").json["skill"]
    assert sorted(shown["versions"]) == sorted(kept) and shown["version"] == max(kept)


@pytest.mark.parametrize("name", ["Test-Driven Development (TDD)", "docs:changelog", "表計算", "a.b+c"])
def test_names_as_collections_have_them(api: Any, unique: str, name: str) -> None:
    name = f"{name} {unique[-8:]}"
    assert pushed(api, name)["name"] == name
    assert api("GET", f"/v1/skills/{quote(name, safe='')}").json["skill"]["name"] == name


def test_a_name_is_the_routes(api: Any, unique: str) -> None:
    answer = api("PUT", f"/v1/skills/{unique}", bundle("other"))
    assert "`other`" in refused(answer, 400) and "/v1/skills/other" in answer.json["error"]["message"]
    assert "A name is" in refused(api("PUT", "/v1/skills/a%40b", bundle("other")), 400)
    assert refused(api("GET", f"/v1/skills/{unique}"), 404)


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({"../x": "y"}, "cannot be taken"),
        ({"a": "1", "A": "2"}, "same name"),
        ({"README.md": "x" * 10, "SKILL.md": "no head"}, "frontmatter"),
        ({"SKILL.md": skill_md("n", description="d" * 1_025)}, "1,025 characters"),
    ],
)
def test_a_bad_bundle_is_refused_whole(api: Any, unique: str, files: dict[str, str], said: str) -> None:
    answer = api("PUT", f"/v1/skills/{unique}", zipped({"SKILL.md": skill_md(unique), **files}))
    message = refused(answer, 400)
    assert said in message and message.endswith("Nothing was kept.")
    assert refused(api("GET", f"/v1/skills/{unique}"), 404)


def test_a_bundle_over_the_limit_is_refused_whole(api: Any, unique: str) -> None:
    answer = push(api, unique, {"large.bin": b"\0" * (5 * 1024 * 1024)})
    assert "Nothing was kept" in refused(answer, 413)
    assert answer.json["error"]["details"]["allowed"] == 5 * 1024 * 1024
    assert "POST /v1/uploads" in refused(api("PUT", f"/v1/skills/{unique}", b"x" * (4 * 1024 * 1024 + 1)), 413)
    assert refused(api("GET", f"/v1/skills/{unique}"), 404)


def test_a_bundle_through_an_upload(api: Any, unique: str, system: LocalSystem) -> None:
    made = api("POST", "/v1/uploads", {"for": "skill"}).json
    sent = api("PUT", made["url"].removeprefix(system.url), bundle(unique), made["headers"])
    assert sent.status == 200, sent.body
    answer = api("PUT", f"/v1/skills/{unique}", {"upload": made["upload"]})
    assert answer.status == 200 and answer.json["skill"]["name"] == unique, answer.body
    assert refused(api("PUT", f"/v1/skills/{unique}", {"upload": made["upload"]}), 409)


# ---------------------------------------------------------------- listing and withdrawing


def test_the_list_is_paged_by_name(api: Any, unique: str) -> None:
    names = [f"{unique}-{number}" for number in range(5)]
    for name in names:
        pushed(api, name)
    page = api("GET", f"/v1/skills?limit=2&after={unique}").json
    assert [skill["name"] for skill in page["skills"]] == names[:2] and page["next"] == names[1]
    page = api("GET", f"/v1/skills?limit=2&after={names[3]}").json
    assert page["skills"][0]["name"] == names[4]
    assert refused(api("GET", "/v1/skills?limit=0"), 400)
    # A withdrawn one in between is skipped, and the page is full all the same.
    assert api("DELETE", f"/v1/skills/{names[1]}").status == 200
    page = api("GET", f"/v1/skills?limit=2&after={unique}").json
    assert [skill["name"] for skill in page["skills"]] == [names[0], names[2]]


def test_a_withdrawn_skill_is_gone_with_its_bytes(api: Any, unique: str, system: LocalSystem) -> None:
    for version in ("1.0.0", "2.0.0"):
        pushed(api, unique, version=version)
    assert objects_of(system, unique)
    answer = api("DELETE", f"/v1/skills/{unique}")
    assert answer.json["skill"] == {"name": unique, "withdrawn": ["1.0.0", "2.0.0"]}
    assert objects_of(system, unique) == []
    assert refused(api("GET", f"/v1/skills/{unique}"), 404)
    assert refused(api("DELETE", f"/v1/skills/{unique}"), 404)
    assert unique not in json.dumps(api("GET", "/v1/skills?limit=1000").json)


def test_a_withdrawn_version_never_means_something_else(api: Any, unique: str) -> None:
    pushed(api, unique, version="1.0.0")
    assert api("DELETE", f"/v1/skills/{unique}").status == 200
    assert refused(push(api, unique, {"other.md": "x"}, version="1.0.0"), 409)
    assert pushed(api, unique, version="1.0.0")["version"] == "1.0.0"
    assert api("GET", f"/v1/skills/{unique}").json["skill"]["versions"] == ["1.0.0"]
    assert pushed(api, unique, version="1.1.0")["version"] == "1.1.0"


def test_more_versions_than_a_transaction_takes_are_withdrawn(unique: str, system: LocalSystem, api: Any) -> None:
    for number in range(105):
        store.push(system.runtime, read_zip(bundle(unique, version=f"1.{number}.0"), 10_000))
    assert len(api("DELETE", f"/v1/skills/{unique}").json["skill"]["withdrawn"]) == 105
    assert objects_of(system, unique) == []


def objects_of(system: LocalSystem, name: str) -> list[str]:
    runtime = system.runtime
    answer = runtime.clients.s3.list_objects_v2(Bucket=runtime.settings.workspace_bucket, Prefix=f"skills/{name}/")
    return [entry["Key"] for entry in answer.get("Contents", [])]


# ---------------------------------------------------------------- crashes


def test_a_push_that_crashes_leaves_the_old_or_the_new_state(api: Any, unique: str, system: LocalSystem) -> None:
    runtime = system.runtime
    pushed(api, unique, version="1.0.0")
    new = read_zip(bundle(unique, {"a.md": "x"}, version="1.1.0"), 10_000)
    for after in range(1, 10):
        with crashing(runtime.clients, after) as crash:
            store.push(runtime, new)
        shown = api("GET", f"/v1/skills/{unique}").json["skill"]
        assert shown["version"] in ("1.0.0", "1.1.0")
        assert api("GET", f"/v1/skills/{unique}?version=1.0.0").status == 200
        if not crash.happened:
            assert shown["version"] == "1.1.0"
            return
    raise AssertionError("it never ends")


def test_a_withdrawal_that_crashes_is_ended_by_the_next(api: Any, unique: str, system: LocalSystem) -> None:
    runtime = system.runtime
    for after in range(1, 10):
        name = f"{unique}-{after}"
        pushed(api, name)
        with crashing(runtime.clients, after) as crash:
            store.withdraw(runtime, name)
        again = api("DELETE", f"/v1/skills/{name}")
        assert again.status == (200 if crash.happened else 404), (after, again.body)
        assert api("GET", f"/v1/skills/{name}").status == 404 and objects_of(system, name) == []
        if not crash.happened:
            return
    raise AssertionError("it never ends")


def test_what_a_push_costs(unique: str, system: LocalSystem) -> None:
    with counting() as requests:
        store.push(system.runtime, read_zip(bundle(unique, {f"{n}.md": "x" for n in range(200)}), 100_000))
    assert requests.total == 3, requests.operations


# ---------------------------------------------------------------- matching


def test_a_text_finds_the_skills_it_is_about(api: Any, unique: str) -> None:
    words = f"zylophone{unique[-8:]}"
    pushed(api, unique, description=f"Tunes a {words} before a concert.")
    found = api("POST", "/v1/skills/match", {"text": f"Can you tune my {words}?"}).json["matches"]
    assert found[0]["name"] == unique and 0.05 < found[0]["score"] <= 1 and found[0]["mentioned"] is False
    named = api("POST", "/v1/skills/match", {"text": f"bake a cake with ${unique}, please"}).json["matches"]
    assert named[0] == {"name": unique, "score": 1.0, "mentioned": True}
    assert api("POST", "/v1/skills/match", {"text": f"${unique}s"}).json["matches"] == []


def test_a_turns_match_knows_only_its_skills_in_its_versions(api: Any, unique: str) -> None:
    one, other = f"{unique}-a", f"{unique}-b"
    word = f"quokka{unique[-8:]}"
    pushed(api, one, description=f"Feeds a {word}.", version="1.0.0")
    pushed(api, other, description=f"Feeds a {word} too.")
    talk = Talk.open(api, unique, skills=[one])
    pushed(api, one, description="Does something else.", version="2.0.0")

    def match(text: str) -> list[str]:
        body = {"text": text, "turn": talk.turn}
        return [found["name"] for found in api("POST", "/v1/skills/match", body).json["matches"]]

    assert match(f"feed the {word}") == [one]
    assert match(f"${other} ${one}") == [one]
    assert api("DELETE", f"/v1/skills/{one}").status == 200
    assert match(f"feed the {word} ${one}") == []


@pytest.mark.parametrize(
    "body", [{}, {"text": 1}, {"text": None}, {"text": "x", "turn": "nope"}, {"text": "x", "turn": 1}]
)
def test_what_cannot_be_matched(api: Any, body: dict[str, Any]) -> None:
    answer = api("POST", "/v1/skills/match", body)
    assert answer.status in (400, 404) and answer.json["error"]["message"]


def test_pushing_and_withdrawing_are_audited_without_contents(
    api: Any, unique: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    pushed(api, unique, {"secret.txt": "the-contents"}, version="1.0.0")
    push(api, unique, {"secret.txt": "the-contents"}, version="1.0.0")
    api("DELETE", f"/v1/skills/{unique}")
    events = [record for record in caplog.records if getattr(record, "facts", {}).get("skill") == unique]
    assert [record.getMessage() for record in events] == ["skill.push", "skill.withdraw"]
    assert all(record.audit for record in events) and "the-contents" not in str([vars(record) for record in events])
    assert {"version", "sha256", "bytes", "files"} <= events[0].facts.keys()
