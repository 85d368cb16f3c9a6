"""What artifacts carry besides bytes: differences between versions, their source, and results kept as files."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.talk import Talk
from workbench.artifacts import store
from workbench.ids import TurnId
from workbench.keys import turn_key
from workbench.operations import Update

EVE = {"X-Workbench-User": "eve", "X-Workbench-Department": "sales"}


def exported(talk: Talk, artifact: str | None = None, **arguments: Any) -> str:
    more = {"artifact": artifact} if artifact else {}
    return str(talk.ok("export_artifact", **arguments, **more)["structured"]["artifact"])


def diff(api: Any, artifact: str, first: Any = 1, second: Any = 2, **headers: str) -> Any:
    return api("GET", f"/v1/artifacts/{artifact}/versions/{first}/diff/{second}", None, headers)


def show(api: Any, artifact: str) -> Any:
    return api("GET", f"/v1/artifacts/{artifact}").json["artifact"]


def finish(talk: Talk, outcome: str = "completed") -> Any:
    return talk.api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": outcome, "text": ""}).json["reply"]["parts"]


# ---------------------------------------------------------------- differences


def test_versions_of_a_text_are_compared(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    artifact = exported(talk, content="one\ntwo\nthree\n", name="a.md")
    exported(talk, artifact, content="one\n2\nthree\n", name="b.md")
    answer = diff(api, artifact)
    assert answer.json == {
        "artifact": artifact,
        "from": 1,
        "to": 2,
        "diff": "--- a/b.md\n+++ b/b.md\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
    }
    assert diff(api, artifact, 2, 1).json["diff"].endswith("-2\n+two\n three\n")
    assert diff(api, artifact, 1, 1).json["diff"] == ""


@pytest.mark.parametrize(
    ("before", "after", "note"),
    [
        (b"\x00\x01", b"\x00\x02", "not text"),
        (b"text", b"\x00\x02", "not text"),
        (b"x" * 300_000, b"x" * 300_001, "longer than 262,144 bytes"),
        (b"same\n", "\ufeffsame\n".encode("utf-16-le"), "the same text in other bytes"),
    ],
    ids=["binary", "one of them", "too large", "encoding"],
)
def test_what_has_no_difference_to_show_says_why(api: Any, unique: str, before: bytes, after: bytes, note: str) -> None:
    talk = Talk.open(api, unique)
    talk.put("a.txt", before)
    talk.put("b.txt", after)
    artifact = exported(talk, path="a.txt", kind="file")
    exported(talk, artifact, path="b.txt", kind="file")
    answer = diff(api, artifact).json
    assert (answer["diff"], answer["note"]) == (None, note)


def test_a_difference_is_read_as_sharing_says(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    artifact = exported(talk, content="one")
    exported(talk, artifact, content="two")
    assert diff(api, artifact, **EVE).body == diff(api, "art_missing", **EVE).body
    assert diff(api, artifact, **EVE).status == 404
    api("PUT", f"/v1/artifacts/{artifact}/sharing", {"people": ["eve"]})
    assert diff(api, artifact, **EVE).status == 200
    for first, second in ((1, 3), (3, 1), (0, 1), ("x", 1), (1, "-1"), (1, "9" * 30)):
        assert diff(api, artifact, first, second).status == 404


# ---------------------------------------------------------------- the source


def test_a_document_is_edited_from_its_source_when_its_workspace_is_gone(
    api: Any, unique: str, system: LocalSystem
) -> None:
    talk = Talk.open(api, unique)
    talk.put("page.html", b"<h1>Old</h1>\n")
    artifact = exported(talk, path="page.html")
    source = show(api, artifact)["source"]
    assert (source["path"], source["version"], source["workspaceVersion"]) == ("page.html", 1, 1)
    finish(talk)
    assert api("DELETE", f"/v1/conversations/{unique}").status == 202
    while (restored := api("POST", f"/v1/conversations/{unique}/restore")).status == 409:
        system.runtime.clock.sleep(0.02)
    assert restored.json["workspace"] == "empty"
    later = talk.again()
    assert later.files() == {}
    kept = api("GET", source["content"]).body
    assert kept == b"<h1>Old</h1>\n"
    later.put("page.html", kept.replace(b"Old", b"New"))
    exported(later, artifact, path="page.html")
    assert "+<h1>New</h1>" in diff(api, artifact).json["diff"]
    assert show(api, artifact)["source"]["version"] == 2


def test_an_artifact_whose_latest_version_expired_is_what_is_left_of_it(
    api: Any, unique: str, system: LocalSystem
) -> None:
    talk = Talk.open(api, unique)
    artifact = exported(talk, content="# one", name="one.md")
    finish(talk)
    later = talk.again()
    exported(later, artifact, content="# two", name="two.md")
    finish(later, "failed")
    assert (show(api, artifact)["name"], show(api, artifact)["source"]["version"]) == ("two.md", 2)
    table, now = system.runtime.table, system.runtime.clock.now()
    table.update(store.version_key(artifact, 2), Update().set("expiresAt", now - 1))
    shown = show(api, artifact)
    assert [version["version"] for version in shown["versions"]] == [1]
    assert (shown["name"], shown["source"]["version"]) == ("one.md", 1)
    assert api("GET", shown["source"]["content"]).body == b"# one"


# ---------------------------------------------------------------- results kept as files


def capture(talk: Talk, ref: str, body: Any = None, token: str | None = None) -> Any:
    headers = {"X-Turn-Token": talk.token if token is None else token}
    return talk.api("POST", f"/v1/results/{ref}/capture", body, headers)


def long_result(talk: Talk) -> tuple[str, str]:
    """The ref of an output beyond the cap, and the whole of it."""
    talk.put("long.txt", b"".join(b"line %d of many\n" % number for number in range(3_000)))
    found = talk.ok("search_files", queries=["line"], context=0)
    pages, offset = [], 0
    while offset is not None:
        path = f"/v1/results/{found['ref']}?offset={offset}&limit=1000000"
        page = talk.api("GET", path, None, {"X-Turn-Token": talk.token}).json
        pages.append(page["output"])
        offset = page.get("next")
    return found["ref"], "".join(pages)


def test_a_result_becomes_a_file_that_no_reply_carries(api: Any, unique: str, system: LocalSystem) -> None:
    person = {"user": unique, "department": unique}
    talk = Talk.open(api, unique, caller=person)
    ref, output = long_result(talk)
    answer = capture(talk, ref, {"name": "found.txt"})
    assert answer.status == 201, answer.body
    made = answer.json["artifact"]
    assert (made["origin"], made["kind"], made["name"], made["mediaType"]) == (
        "tool_output",
        "text",
        "found.txt",
        "text/plain",
    )
    assert (made["owner"], made["department"], made["conversation"]) == (unique, unique, unique)
    assert made["expiresAt"] is not None
    content = api("GET", f"/v1/artifacts/{made['id']}/versions/1/content").body
    assert content == output.encode()
    bucket = system.runtime.settings.artifact_bucket
    tags = system.runtime.clients.s3.get_object_tagging(Bucket=bucket, Key=store.object_key(made["id"], 1))["TagSet"]
    assert tags == [{"Key": "retention", "Value": "unattached"}]
    assert api("GET", f"/v1/usage?department={unique}").json["usage"][0]["bytes"] == len(content)
    again = capture(talk, ref, {"name": "found.txt"})
    assert (again.status, again.json["artifact"]["id"]) == (201, made["id"])
    assert finish(talk) == [{"type": "text", "text": ""}]
    assert show(api, made["id"])["expiresAt"] is not None


def test_the_same_result_at_once_is_captured_once(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    ref = talk.ok("calculate", expressions=["1 + 1"])["ref"]
    answers: list[Any] = []
    threads = [threading.Thread(target=lambda: answers.append(capture(talk, ref))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [answer.status for answer in answers] == [201] * 4
    assert len({answer.json["artifact"]["id"] for answer in answers}) == 1
    assert answers[0].json["artifact"]["name"] == "calculate-call1.txt"
    assert len(api("GET", f"/v1/artifacts?conversation={unique}").json["artifacts"]) == 1


def test_a_capture_needs_the_token_of_an_open_turn_and_a_result_of_its_conversation(api: Any, unique: str) -> None:
    talk, other = Talk.open(api, unique), Talk.open(api, f"{unique}-other")
    ref = talk.ok("calculate", expressions=["1 + 1"])["ref"]
    assert capture(talk, ref, token="").status == 401
    assert capture(talk, ref, token=f"{talk.turn}.wrong").status == 401
    assert capture(other, ref).status == 404
    for foreign in ("res_x", f"{ref}x", ref.replace("call1", "call9")):
        assert capture(talk, foreign).status == 404
    for name in ("a/b", "..", "a\nb", "", 5, "x" * 256):
        assert capture(talk, ref, {"name": name}).status in (400, 413)
    finish(talk)
    assert capture(talk, ref).status == 409
    assert capture(talk.again(), ref).status == 201
    api("DELETE", f"/v1/conversations/{unique}")
    assert capture(talk, ref).status == 409
    assert api("GET", f"/v1/artifacts?conversation={unique}-other").json["artifacts"] == []


def test_a_capture_counts_as_a_file_of_its_turn(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    ref = talk.ok("calculate", expressions=["1 + 1"])["ref"]
    turn = TurnId.parse(talk.turn)
    assert turn is not None
    system.runtime.table.update(turn_key(turn), Update().set("exportCount", 48))
    assert capture(talk, ref).status == 413
