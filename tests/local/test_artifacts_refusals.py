"""What may not be used is refused alike by every way to an artifact, tells nothing and changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text
from workbench.artifacts import store
from workbench.operations import Update

Way = Callable[["World", str], tuple[str, str]]


@dataclass
class World:
    """Eve, with a turn of her own, and an artifact in the state that the test is about."""

    api: Any
    eve: Talk
    name: str

    @property
    def headers(self) -> dict[str, str]:
        return {"X-Workbench-User": self.name, "X-Workbench-Department": "sales"}

    def route(self, method: str, path: str, body: Any = None) -> tuple[str, str]:
        answer = self.api(method, path, body, self.headers)
        return (answer.json["error"]["code"], answer.json["error"]["message"]) if answer.status >= 400 else ("ok", "")

    def tool(self, name: str, **arguments: Any) -> tuple[str, str]:
        answer = self.eve.call(name, **arguments)
        return (answer["error"]["code"], text(answer)) if answer["error"] else ("ok", "")


WAYS: dict[str, Way] = {
    "show": lambda world, id: world.route("GET", f"/v1/artifacts/{id}"),
    "content": lambda world, id: world.route("GET", f"/v1/artifacts/{id}/versions/1/content"),
    "diff": lambda world, id: world.route("GET", f"/v1/artifacts/{id}/versions/1/diff/1"),
    "share": lambda world, id: world.route("PUT", f"/v1/artifacts/{id}/sharing", {"everyone": True}),
    "read_artifact": lambda world, id: world.tool("read_artifact", id=id),
    "add a version": lambda world, id: world.tool("export_artifact", content="mine", artifact=id),
    "input of a run": lambda world, id: world.tool("run_code", code="pass", artifacts=[{"id": id}]),
}


@pytest.fixture
def world(api: Any, unique: str) -> World:
    conversation = f"{unique}-eve"
    eve = Talk.open(api, conversation, caller={"user": unique, "department": "sales"})
    return World(api, eve, unique)


def expire(system: LocalSystem, artifact: str) -> None:
    now = system.runtime.clock.now()
    system.runtime.table.update(store.version_key(artifact, 1), Update().set("expiresAt", now - 1))


def made(world: World, system: LocalSystem, state: str) -> str:
    """An artifact that Eve may not use, for the reason that ``state`` gives."""
    if state == "unknown":
        return store.new_id()
    if state == "malformed":
        return "a..b"
    mine = state in ("expired", "deleted")
    caller = {"user": world.name if mine else "ada", "department": "sales" if mine else "research"}
    talk = Talk.open(world.api, f"{world.name}-{state}", caller=caller)
    artifact = str(talk.ok("export_artifact", content="theirs")["structured"]["artifact"])
    if state == "expired":
        expire(system, artifact)
    if state == "deleted":
        world.api("DELETE", f"/v1/conversations/{talk.conversation}")
    if state == "shared":
        sharing = {"people": ["bob"], "departments": ["legal"]}
        assert world.api("PUT", f"/v1/artifacts/{artifact}/sharing", sharing).status == 200
    return artifact


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("state", ["unknown", "malformed", "foreign", "shared", "expired", "deleted"])
def test_every_way_refuses_alike(world: World, system: LocalSystem, state: str, way: str) -> None:
    artifact = made(world, system, state)
    missing = store.new_id()
    code, said = WAYS[way](world, artifact)
    assert code == "not_found", said
    if state != "malformed":
        # Word for word what is said of an id that nothing has: nobody learns that there is something.
        assert said.replace(artifact, "ID") == WAYS[way](world, missing)[1].replace(missing, "ID")
    assert world.api("GET", f"/v1/artifacts?conversation={world.eve.conversation}").json == {"artifacts": []}
    shown = world.api("GET", f"/v1/artifacts/{artifact}?state=all")
    if shown.status == 200:
        found = shown.json["artifact"]
        assert len(found["stored"]) == 1 and not found["sharing"]["everyone"]


@pytest.mark.parametrize("way", sorted(WAYS.keys() - {"share", "add a version", "input of a run"}))
def test_every_way_lets_in_whom_sharing_names(world: World, system: LocalSystem, way: str) -> None:
    talk = Talk.open(world.api, f"{world.name}-ada")
    artifact = str(talk.ok("export_artifact", content="shared")["structured"]["artifact"])
    for sharing in ({"people": [world.name]}, {"departments": ["sales"]}, {"everyone": True}):
        assert world.api("PUT", f"/v1/artifacts/{artifact}/sharing", sharing).status == 200
        assert WAYS[way](world, artifact)[0] == "ok"
        assert WAYS["share"](world, artifact)[0] == "forbidden"
        assert WAYS["add a version"](world, artifact)[0] == "not_allowed"
    assert world.api("PUT", f"/v1/artifacts/{artifact}/sharing", {}).status == 200
    assert WAYS[way](world, artifact)[0] == "not_found"


# ---------------------------------------------------------------- what cannot be a file


@pytest.mark.parametrize(
    ("code", "arguments"),
    [
        ("invalid_args", {"path": "bad.md", "kind": "document"}),
        ("invalid_args", {"path": "bad.md", "kind": "text"}),
        ("invalid_args", {"path": "bad.md", "kind": "web"}),
        ("invalid_args", {"path": "nul.txt", "kind": "text"}),
        ("invalid_args", {"path": "nul.txt", "name": "a\x00b"}),
        ("invalid_args", {"path": "nul.txt", "name": "a\tb"}),
        ("invalid_args", {"path": "nul.txt", "name": "a\u2028b"}),
        ("invalid_args", {"path": "nul.txt", "name": "C:\\temp\\a"}),
        ("invalid_args", {"path": "nul.txt", "name": "/etc/passwd"}),
        ("invalid_args", {"path": "nul.txt", "name": " a.txt"}),
        ("invalid_args", {"path": "nul.txt", "name": "\u00fc" * 128}),
        ("invalid_args", {"path": "nul.txt", "mediaType": "text/"}),
        ("invalid_args", {"path": "nul.txt", "mediaType": "*/*"}),
        ("unsupported_type", {"content": "x", "mediaType": "application/pdf"}),
        ("unsupported_type", {"content": "x", "mediaType": "application/xhtml+xml"}),
        ("unsupported_type", {"content": "x", "mediaType": "image/svg+xml"}),
        ("unsupported_type", {"content": "x", "name": "a.svg"}),
        ("invalid_args", {"content": "x", "mediaType": "text/plain; charset=utf-8"}),
        ("invalid_args", {"content": "not json", "kind": "chart", "mediaType": "application/json"}),
        ("invalid_args", {"content": 5}),
        ("invalid_args", {"content": ["x"]}),
        ("too_large", {"content": "\u00fc" * (512 * 1024 + 1)}),
    ],
)
def test_what_cannot_be_a_file_stores_nothing(
    api: Any, unique: str, system: LocalSystem, code: str, arguments: dict[str, Any]
) -> None:
    talk = Talk.open(api, unique)
    talk.put("bad.md", b"\xff\xfe\xfa no text in any encoding \xc3")
    talk.put("nul.txt", b"a\0b")
    sent: list[str] = []
    with changed.hooked(system, lambda _service, operation: sent.append(operation)):
        refusal = talk.refused(code, "export_artifact", **arguments)
    assert len(refusal) > 20
    assert "PutObject" not in sent and sent
    assert api("GET", f"/v1/artifacts?conversation={unique}").json == {"artifacts": []}


def test_bodies_that_are_no_utf_8_are_refused(api: Any, unique: str) -> None:
    artifact = Talk.open(api, unique).ok("export_artifact", content="x")["structured"]["artifact"]
    for body in (b'{"people": ["\xff"]}', b"\xff\xfe", b"[" * 300, b'{"people": NaN}'):
        answer = api("PUT", f"/v1/artifacts/{artifact}/sharing", body)
        assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert api("GET", f"/v1/artifacts/{artifact}").json["artifact"]["sharing"]["people"] == []
