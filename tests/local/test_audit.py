"""Audit events: each thing that matters is told once, with who and what, and without anything that people wrote."""

from __future__ import annotations

import io
import json
import logging
import time
import zipfile
from collections.abc import Iterator
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.talk import Talk
from workbench.logs import logger

SECRET = "what nobody may read in a log"
NAME = "a telling name.txt"
ADA = {"X-Workbench-User": "ada", "X-Workbench-Department": "research"}


class Events(logging.Handler):
    """Every audit event that was written, as ``(name, facts)``."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)

    def of(self, name: str) -> list[dict[str, Any]]:
        """The facts of the events of that name, oldest first."""
        return [vars(one)["facts"] for one in self.records if vars(one).get("audit") and one.getMessage() == name]

    def told(self) -> str:
        """All that was logged, audit or not."""
        return str([{name: value for name, value in vars(one).items() if name != "exc_info"} for one in self.records])


@pytest.fixture
def events() -> Iterator[Events]:
    heard = Events()
    logger.addHandler(heard)
    yield heard
    logger.removeHandler(heard)
    # Whatever was done: no contents, no names of files that a person or a model chose, no secrets.
    assert SECRET not in heard.told() and NAME not in heard.told()
    for one in heard.records:
        if vars(one).get("audit"):
            assert one.created > time.time() - 600
            json.dumps(vars(one)["facts"])


def export(talk: Talk) -> str:
    made = talk.ok("export_artifact", content=SECRET, name=NAME)["structured"]["artifact"]
    return str(made)


def test_what_a_turn_writes_deletes_and_exports(api: Any, unique: str, events: Events) -> None:
    talk = Talk.open(api, unique)
    talk.ok("write_file", path="a.txt", content=SECRET)
    talk.ok("delete_file", path="a.txt")
    artifact = export(talk)
    # The same again stores nothing, so nothing is told.
    export(talk)
    who = {"by": "ada", "turn": talk.turn}
    assert events.of("file.write") == [
        {**who, "callId": "call1", "path": "a.txt", "mode": "0644", "created": True, "bytes": len(SECRET)}
    ]
    assert events.of("file.delete") == [{**who, "callId": "call2", "path": "a.txt"}]
    assert events.of("artifact.export") == [
        {**who, "callId": "call3", "artifact": artifact, "version": 1, "bytes": len(SECRET)}
    ]
    api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": SECRET})
    assert events.of("turn.finish") == [{"by": "portal", "turn": talk.turn, "outcome": "completed", "files": 1}]


def test_what_a_run_changes(api: Any, unique: str, events: Events) -> None:
    talk = Talk.open(api, unique)
    talk.put("old.txt", b"x")
    program = f"import os\nopen('workspace/new.txt', 'w').write({SECRET!r})\nos.remove('workspace/old.txt')"
    talk.ok("run_code", code=program)
    (written,) = [one for one in events.of("file.write") if "turn" in one]
    assert (written["turn"], written["path"], written["created"]) == (talk.turn, "new.txt", True)
    assert [(one["turn"], one["path"]) for one in events.of("file.delete")] == [(talk.turn, "old.txt")]


def test_what_the_portal_stores_and_restores(api: Any, unique: str, events: Events) -> None:
    Talk.open(api, unique)
    api("PUT", f"/v1/conversations/{unique}/file?path=a.txt", SECRET.encode(), ADA)
    api("POST", f"/v1/conversations/{unique}/versions/0/restore")
    (written,) = events.of("file.write")
    assert written == {
        "by": "ada", "conversation": unique, "version": 1, "path": "a.txt", "mode": "0644", "bytes": len(SECRET)
    }  # fmt: skip
    assert events.of("version.restore") == [{"by": "portal", "conversation": unique, "version": 2, "restored": 0}]


def test_sharing_and_downloading(api: Any, unique: str, events: Events) -> None:
    artifact = export(Talk.open(api, unique))
    assert api("PUT", f"/v1/artifacts/{artifact}/sharing", {"people": ["eve"], "everyone": False}, ADA).status == 200
    reader = {"X-Workbench-User": "eve", "X-Workbench-Department": "sales"}
    assert api("GET", f"/v1/artifacts/{artifact}/versions/1/content", None, reader).body == SECRET.encode()
    assert api("GET", f"/v1/artifacts/{artifact}/versions/1/content").status == 200
    (shared,) = events.of("artifact.share")
    assert (shared["by"], shared["artifact"], shared["everyone"]) == ("ada", artifact, False)
    read = [(one["by"], one["artifact"], one["version"]) for one in events.of("artifact.read")]
    assert read == [("eve", artifact, 1), ("portal", artifact, 1)]
    # What was refused was not done.
    stranger = {"X-Workbench-User": "mallory", "X-Workbench-Department": "none"}
    assert api("GET", f"/v1/artifacts/{artifact}/versions/1/content", None, stranger).status == 404
    assert api("PUT", f"/v1/artifacts/{artifact}/sharing", {"everyone": True}, reader).status == 403
    assert len(events.of("artifact.read")) == 2 and len(events.of("artifact.share")) == 1


def test_a_conversation_s_life(api: Any, unique: str, events: Events) -> None:
    talk = Talk.open(api, unique)
    for _twice in range(2):
        assert api("DELETE", f"/v1/conversations/{unique}", None, ADA).status == 202
    until = time.monotonic() + 30
    while api("POST", f"/v1/conversations/{unique}/restore", None, ADA).status != 200:
        assert time.monotonic() < until
    assert api("POST", f"/v1/conversations/{unique}/restore").status == 200
    assert events.of("conversation.create") == [{"by": "portal", "conversation": unique}]
    # Once each, however often it was asked for.
    assert events.of("conversation.delete") == [{"by": "ada", "conversation": unique}]
    assert events.of("conversation.restore") == [{"by": "ada", "conversation": unique}]
    assert events.of("turn.open")[0]["turn"] == talk.turn


def test_an_erasure_names_nobody(api: Any, unique: str, events: Events) -> None:
    person = f"p-{unique}"
    talk = Talk.open(api, unique, caller={"user": person, "department": "research"})
    export(talk)
    before = len(events.records)
    headers = {"X-Workbench-User": person, "X-Workbench-Department": "research"}
    assert api("POST", f"/v1/people/{person}/erase", None, headers).json["erasure"]["status"] == "done"
    (begun,), (ended,) = events.of("person.erase"), events.of("person.erased")
    assert begun == {"by": "portal", "erasure": begun["erasure"]}
    assert (ended["by"], ended["erasure"], ended["artifacts"], ended["results"]) == ("system", begun["erasure"], 1, 1)
    events.records = events.records[before:]
    assert person not in events.told()


def test_what_others_push(api: Any, unique: str, events: Events, system: LocalSystem) -> None:
    skill, prompt = f"skill-{unique}".lower()[:60], f"prompt-{unique}"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as bundle:
        bundle.writestr("SKILL.md", f"---\nname: {skill}\ndescription: {SECRET}\nversion: 1.0.0\n---\n{SECRET}\n")
    assert api("PUT", f"/v1/skills/{skill}", packed.getvalue(), ADA).status == 200
    assert api("PUT", f"/v1/prompts/{prompt}", {"template": SECRET, "version": "1.0.0"}, ADA).status == 200
    (pushed,), (published,) = events.of("skill.push"), events.of("prompt.publish")
    assert (pushed["by"], published["by"], published["prompt"]) == ("ada", "ada", prompt)
    body = {"collection": f"col-{unique}", "name": NAME, "mediaType": "text/plain", "owner": "ada"}
    made = api("POST", "/v1/documents", {**body, "data": "V29yZHMgb2YgYSBkb2N1bWVudC4="})
    assert made.status == 201, made.body
    (uploaded,) = events.of("document.upload")
    assert (uploaded["by"], uploaded["document"]) == ("portal", made.json["document"]["id"])
    assert system.runtime.table.query(f"COL#col-{unique}")
