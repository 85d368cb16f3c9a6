"""Uploads: bytes that no request carries, sent through a signed link, checked and used once."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import threading
import zipfile
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import pytest

from local.system import LocalSystem
from tests.local.talk import Talk
from workbench import uploads
from workbench.artifacts import store
from workbench.errors import Conflict, NotFound, TooLarge
from workbench.operations import Update

MIB = 1024 * 1024
LARGE = os.urandom(MIB) * 20


def ask(api: Any, purpose: str = "file", **more: Any) -> dict[str, Any]:
    answer = api("POST", "/v1/uploads", {"for": purpose, **more})
    assert answer.status == 201, answer.body
    made: dict[str, Any] = answer.json
    return made


def send(api: Any, upload: Mapping[str, Any], data: bytes, **headers: str) -> Any:
    path = urlsplit(upload["url"]).path
    return api("PUT", path, data, {**upload["headers"], **headers})


def sent(api: Any, data: bytes, purpose: str = "file", **more: Any) -> str:
    """An upload whose bytes have arrived."""
    upload = ask(api, purpose, **more)
    assert send(api, upload, data).status == 200
    return str(upload["upload"])


def put(api: Any, conversation: str, path: str, upload: Any) -> Any:
    return api("PUT", f"/v1/conversations/{conversation}/file?path={path}", {"upload": upload})


def kept(system: LocalSystem, upload: str) -> bool:
    bucket = system.runtime.settings.workspace_bucket
    listed = system.runtime.clients.s3.list_objects_v2(Bucket=bucket, Prefix=uploads.object_key(upload))
    return bool(listed["KeyCount"])


def age(system: LocalSystem, upload: str) -> None:
    key = uploads.upload_key(upload)
    system.runtime.table.update(key, Update().set("expiresAt", system.runtime.clock.now() - 1))


# ---------------------------------------------------------------- the whole way


def test_a_large_file_goes_into_the_workspace_and_comes_back_whole(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    digest = hashlib.sha256(LARGE).hexdigest()
    upload = ask(api, bytes=len(LARGE), sha256=digest, mediaType="application/x-thing")
    assert upload["headers"] == {
        "if-none-match": "*",
        "content-length": str(len(LARGE)),
        "x-amz-checksum-sha256": base64.b64encode(hashlib.sha256(LARGE).digest()).decode(),
        "content-type": "application/x-thing",
    }
    assert send(api, upload, LARGE).status == 200
    stored = put(api, unique, "big.bin", upload["upload"])
    assert stored.status == 200, stored.body
    assert stored.json["file"] == {"path": "big.bin", "bytes": len(LARGE), "sha256": digest, "mode": "0644"}
    linked = api("GET", f"/v1/conversations/{unique}/file?path=big.bin")
    assert linked.status == 307
    assert api("GET", linked.headers["location"].removeprefix(system.url)).body == LARGE
    assert not kept(system, upload["upload"])
    artifact = talk.ok("export_artifact", path="big.bin")["structured"]["artifact"]
    answer = api("GET", f"/v1/artifacts/{artifact}/versions/1/content")
    assert answer.status == 307
    assert api("GET", answer.headers["location"].removeprefix(system.url)).body == LARGE


def test_a_large_file_that_a_run_made_is_downloaded_with_its_hash(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    program = "open('workspace/big.bin', 'wb').write(bytes(range(256)) * 4096 * 20)"
    assert talk.call("run_code", code=program)["outcome"] == "ok"
    raw = api("GET", f"/v1/conversations/{unique}/file?path=big.bin")
    assert raw.status == 307
    assert api("GET", raw.headers["location"].removeprefix(system.url)).body == bytes(range(256)) * 4096 * 20
    exported = talk.ok("export_artifact", path="big.bin")["structured"]
    shown = api("GET", f"/v1/artifacts/{exported['artifact']}").json["artifact"]["versions"][0]
    answer = api("GET", f"/v1/artifacts/{exported['artifact']}/versions/1/content")
    assert answer.status == 307
    linked = api("GET", answer.headers["location"].removeprefix(system.url))
    assert linked.body == bytes(range(256)) * 4096 * 20
    assert hashlib.sha256(linked.body).hexdigest() == shown["sha256"]
    assert linked.headers["content-type"] == "application/octet-stream"
    assert linked.headers["content-disposition"].startswith("attachment")


def test_documents_and_skills_come_through_uploads_too(api: Any, unique: str, system: LocalSystem) -> None:
    document = sent(api, b"A large document about herons.", "document")
    facts = {"collection": unique, "name": "herons.txt", "mediaType": "text/plain", "owner": unique}
    assert api("POST", "/v1/documents", {**facts, "upload": sent(api, b"x")}).status == 409
    taken = api("POST", "/v1/documents", {**facts, "upload": document})
    assert taken.status == 201, taken.body
    assert api("POST", "/v1/documents", {**facts, "upload": document}).status == 409
    bundle = io.BytesIO()
    name = f"s{unique[-8:]}"
    with zipfile.ZipFile(bundle, "w") as archive:
        archive.writestr("SKILL.md", f"---\nname: {name}\ndescription: Counts herons.\n---\nCount them.\n")
    skill = sent(api, bundle.getvalue(), "skill")
    assert api("PUT", f"/v1/skills/{name}", {"upload": document}).status == 409
    pushed = api("PUT", f"/v1/skills/{name}", {"upload": skill})
    assert pushed.status == 200, pushed.body
    assert not kept(system, document) and not kept(system, skill)


def test_the_refusal_of_a_large_body_names_the_way(api: Any, unique: str) -> None:
    Talk.open(api, unique)
    answer = api("PUT", f"/v1/conversations/{unique}/file?path=a", LARGE)
    assert answer.status == 413 and "POST /v1/uploads" in answer.json["error"]["message"]


# ---------------------------------------------------------------- the link


def test_the_link_takes_what_was_agreed_and_nothing_else(api: Any, unique: str, system: LocalSystem) -> None:
    data = b"agreed"
    exact = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest(), "mediaType": "text/csv"}
    upload = ask(api, **exact)
    assert send(api, upload, b"agreed and more", **{"content-length": "15"}).status == 403
    assert send(api, upload, b"AGREED").status == 400
    assert send(api, upload, data, **{"content-type": "text/html"}).status == 403
    assert not kept(system, upload["upload"])
    path = urlsplit(upload["url"]).path
    for method in ("GET", "DELETE", "POST"):
        assert api(method, path, None if method == "GET" else b"").status == 403
    assert api("PUT", path[:-2] + ("AA" if path[-2:] != "AA" else "BB"), data, upload["headers"]).status == 403
    assert send(api, upload, data).status == 200
    assert send(api, upload, data).status == 409
    assert api("GET", path).status == 403


def test_nothing_replaces_what_was_sent(api: Any, unique: str) -> None:
    Talk.open(api, unique)
    upload = ask(api)
    assert send(api, upload, b"first").status == 200
    assert send(api, upload, b"second").status == 409
    assert put(api, unique, "a.txt", upload["upload"]).status == 200
    assert api("GET", f"/v1/conversations/{unique}/file?path=a.txt").body == b"first"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {}),
        (400, {"for": "artifact"}),
        (400, {"for": None}),
        (400, {"for": "file", "bytes": -1}),
        (400, {"for": "file", "bytes": True}),
        (400, {"for": "file", "bytes": "5"}),
        (413, {"for": "file", "bytes": 10**12}),
        (400, {"for": "file", "sha256": "ab"}),
        (400, {"for": "file", "sha256": "g" * 64}),
        (400, {"for": "file", "sha256": 5}),
        (400, {"for": "file", "mediaType": "text"}),
        (400, {"for": "file", "mediaType": "text/plain\r\nX: y"}),
        (400, {"for": "file", "mediaType": 5}),
        (400, []),
    ],
)
def test_a_malformed_request_gets_no_link(api: Any, status: int, body: Any) -> None:
    answer = api("POST", "/v1/uploads", body)
    assert answer.status == status, answer.body


# ---------------------------------------------------------------- using it


def test_an_upload_is_used_once(api: Any, unique: str) -> None:
    Talk.open(api, unique)
    upload = sent(api, b"once")
    answers: list[Any] = []

    def use(number: int) -> None:
        answers.append((number, put(api, unique, f"{number}.txt", upload)))

    threads = [threading.Thread(target=use, args=(number,)) for number in range(5)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for _number, answer in answers) == [200, 409, 409, 409, 409]
    (winner,) = [number for number, answer in answers if answer.status == 200]
    listed = api("GET", f"/v1/conversations/{unique}/files").json["files"]
    assert [file["path"] for file in listed] == [f"{winner}.txt"]


def test_a_refused_write_leaves_the_upload_usable(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    talk.put("folder/a.txt", b"a")
    upload = sent(api, b"data")
    assert put(api, unique, "folder", upload).status == 400
    assert put(api, f"{unique}-missing", "a.txt", upload).status == 404
    assert kept(system, upload)
    assert put(api, unique, "a.txt", upload).status == 200


@pytest.mark.parametrize("upload", ["upl_missing", "../x", "", "x" * 65, "upl_\u00fc"])
def test_unknown_uploads_are_not_found(api: Any, unique: str, upload: str) -> None:
    Talk.open(api, unique)
    assert put(api, unique, "a.txt", upload).status == 404
    assert api("GET", f"/v1/conversations/{unique}/files").json["files"] == []


def test_expired_foreign_empty_and_false_uploads_are_refused(api: Any, unique: str, system: LocalSystem) -> None:
    Talk.open(api, unique)
    expired, document = sent(api, b"x"), sent(api, b"x", "document")
    age(system, expired)
    assert put(api, unique, "a.txt", expired).status == 404
    assert "document" in put(api, unique, "a.txt", document).json["error"]["message"]
    nothing = ask(api)["upload"]
    assert put(api, unique, "a.txt", nothing).status == 409
    # The store would have refused these; should it not, completion does.
    for announced in ({"bytes": 4}, {"sha256": "0" * 64}):
        upload = ask(api, **announced)
        key = uploads.object_key(upload["upload"])
        system.runtime.clients.s3.put_object(Bucket=system.runtime.settings.workspace_bucket, Key=key, Body=b"false")
        assert put(api, unique, "a.txt", upload["upload"]).status == 409
    assert api("GET", f"/v1/conversations/{unique}/files").json["files"] == []


def test_bytes_that_look_like_an_upload_can_be_stored(api: Any, unique: str) -> None:
    Talk.open(api, unique)
    path = f"/v1/conversations/{unique}/file?path=a.json"
    for data, headers in (
        (json.dumps({"upload": "upl_x"}).encode(), {"content-type": "application/octet-stream"}),
        (json.dumps({"upload": "mine"}).encode(), {"content-type": "text/plain"}),
        (json.dumps({"upload": "upl_x", "more": 1}).encode(), {"content-type": "application/json"}),
        (json.dumps({"upload": 5}).encode(), {"content-type": "application/json"}),
        (b'{"upload": ', {"content-type": "application/json"}),
    ):
        assert api("PUT", path, data, headers).status == 200
        assert api("GET", path).body == data


def test_taking_an_upload_uses_it_up(api: Any, system: LocalSystem) -> None:
    upload = sent(api, b"document", "document")
    with pytest.raises(Conflict):
        uploads.take(system.runtime, upload, "skill")
    assert uploads.take(system.runtime, upload, "document") == b"document"
    assert not kept(system, upload)
    with pytest.raises(Conflict, match="used"):
        uploads.take(system.runtime, upload, "document")
    with pytest.raises(NotFound):
        uploads.take(system.runtime, store.new_id(), "document")


def test_more_than_the_limit_is_never_read(api: Any, system: LocalSystem) -> None:
    upload = ask(api)
    allowed = system.runtime.settings.upload_bytes
    assert send(api, upload, bytes(allowed + 1)).status == 200
    with pytest.raises(TooLarge):
        uploads.take(system.runtime, upload["upload"], "file")
