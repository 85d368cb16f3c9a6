"""Who may use which document: every wrong way is tried at every door, and all of them look like nothing is there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.talk import Talk
from tests.local.uploaded import person, send, upload
from workbench.knowledge import erasing, uploading

CONTENT = b"The password of the vault is opensesame."


def open_turn(api: Any, conversation: str, user: str, **more: Any) -> Talk:
    return Talk.open(api, conversation, caller={"user": user, "department": "research"}, **more)


def doors(talk: Talk, document: str) -> dict[str, bool]:
    """Whether each tool that reads documents lets the turn use this one."""

    def run(argument: str) -> bool:
        answer = talk.send("run_code", {"code": "pass", argument: [document]}).json
        if answer["outcome"] != "ok":
            error = answer["error"]
            assert error["code"] == "not_allowed" and document in error["message"], error
            assert "opensesame" not in str(answer) and "vault" not in str(answer)
        return bool(answer["outcome"] == "ok")

    searched = talk.ok("search_docs", query="password vault")["structured"]["passages"]
    found = [passage for passage in searched if passage["document"] == document]
    assert found or "opensesame" not in str(searched)
    return {"search": bool(found), "files": run("files"), "passages": run("passages")}


OPEN = {"search": True, "files": True, "passages": True}
SHUT = {"search": False, "files": False, "passages": False}


def test_the_right_ways(api: Any, unique: str) -> None:
    """Own documents without a binding; others' by the document or by the whole collection."""
    own = upload(api, CONTENT, owner=unique)["id"]
    others = upload(api, CONTENT, owner=f"{unique}-x", collection=f"x-{unique}")["id"]
    departments = upload(api, CONTENT, department="research", collection=f"d-{unique}")["id"]
    assert doors(open_turn(api, f"{unique}-1", unique), own) == OPEN
    assert doors(open_turn(api, f"{unique}-2", unique, knowledge=[others]), others) == OPEN
    assert doors(open_turn(api, f"{unique}-3", unique, knowledge=[f"x-{unique}"]), others) == OPEN
    assert doors(open_turn(api, f"{unique}-4", unique, knowledge=[f"d-{unique}"]), departments) == OPEN
    later = upload(api, CONTENT, owner=f"{unique}-x", collection=f"x-{unique}")["id"]
    bound = Talk.open(api, f"{unique}-3", create=False, knowledge=[f"x-{unique}"])
    assert doors(bound, later) == OPEN, "what is added to a bound collection later"


WrongWay = Callable[[Any, str], tuple[Talk, str]]


def another_persons(api: Any, unique: str) -> tuple[Talk, str]:
    return open_turn(api, unique, unique), upload(api, CONTENT, owner=f"{unique}-x")["id"]


def another_persons_of_the_same_department(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=f"{unique}-x", department="research")["id"]
    return open_turn(api, unique, unique), document


def a_neighbour_of_a_bound_document(api: Any, unique: str) -> tuple[Talk, str]:
    bound = upload(api, owner=f"{unique}-x", collection=unique)["id"]
    neighbour = upload(api, CONTENT, owner=f"{unique}-x", collection=unique)["id"]
    return open_turn(api, unique, unique, knowledge=[bound]), neighbour


def a_departments_without_a_binding(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, department="research", collection=unique)["id"]
    return open_turn(api, unique, unique), document


def a_department_named_like_the_person(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, department=unique, collection=unique)["id"]
    return open_turn(api, unique, unique), document


def one_that_was_removed(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=unique, collection=unique)["id"]
    talk = open_turn(api, unique, unique, knowledge=[document, unique])
    assert doors(talk, document) == OPEN
    assert api("DELETE", f"/v1/documents/{document}").status == 200
    return talk, document


def one_whose_collection_was_removed(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=f"{unique}-x", collection=unique)["id"]
    talk = open_turn(api, unique, unique, knowledge=[document, unique])
    assert api("DELETE", f"/v1/collections/{unique}").status == 200
    return talk, document


def a_bound_collection_that_somebody_made_anew(api: Any, unique: str) -> tuple[Talk, str]:
    upload(api, owner=f"{unique}-x", collection=unique)
    talk = open_turn(api, unique, unique, knowledge=[unique])
    assert api("DELETE", f"/v1/collections/{unique}").status == 200
    return talk, upload(api, CONTENT, owner=f"{unique}-y", collection=unique)["id"]


def an_own_collection_that_somebody_made_anew(api: Any, unique: str) -> tuple[Talk, str]:
    upload(api, owner=unique, collection=unique)
    assert api("DELETE", f"/v1/collections/{unique}").status == 200
    return open_turn(api, unique, unique), upload(api, CONTENT, owner=f"{unique}-y", collection=unique)["id"]


def one_of_a_person_who_was_erased(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=f"{unique}-x", collection=unique)["id"]
    talk = open_turn(api, unique, unique, knowledge=[document])
    erased = api("POST", f"/v1/people/{unique}-x/erase").json["erasure"]
    assert erased["status"] == "done" and erased["counts"]["documents"] == 1, erased
    return talk, document


def one_bound_to_the_turn_that_delegated(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=f"{unique}-x")["id"]
    parent = open_turn(api, unique, unique, knowledge=[document])
    caller = {"user": f"{unique}-agent", "department": "research"}
    return parent.again(caller=caller, parent=parent.turn), document


def one_of_the_caller_of_the_turn_that_delegated(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=unique)["id"]
    parent = open_turn(api, unique, unique)
    caller = {"user": f"{unique}-agent", "department": "research"}
    return parent.again(caller=caller, parent=parent.turn), document


def one_bound_to_another_turn(api: Any, unique: str) -> tuple[Talk, str]:
    document = upload(api, CONTENT, owner=f"{unique}-x")["id"]
    first = open_turn(api, unique, unique, knowledge=[document])
    return first.again(caller={"user": unique, "department": "research"}), document


def a_guess(api: Any, unique: str) -> tuple[Talk, str]:
    upload(api, owner=unique, collection=unique)
    return open_turn(api, unique, unique), f"doc_{unique}.{'0' * 23}"


@pytest.mark.parametrize(
    "way",
    [
        another_persons,
        another_persons_of_the_same_department,
        a_neighbour_of_a_bound_document,
        a_departments_without_a_binding,
        a_department_named_like_the_person,
        one_that_was_removed,
        one_whose_collection_was_removed,
        a_bound_collection_that_somebody_made_anew,
        an_own_collection_that_somebody_made_anew,
        one_of_a_person_who_was_erased,
        one_bound_to_the_turn_that_delegated,
        one_of_the_caller_of_the_turn_that_delegated,
        one_bound_to_another_turn,
        a_guess,
    ],
)
def test_the_wrong_ways(api: Any, unique: str, way: WrongWay) -> None:
    talk, document = way(api, unique)
    assert doors(talk, document) == SHUT


@pytest.mark.parametrize(
    "malformed",
    ["doc_", "doc_a", "doc_a.", "doc_.b", "doc_a.b.c", "doc_a/../b.c", "a.b", "DOC_a.b", "doc_a.b ", "🎉", "doc_a.\nb"],
)
def test_malformed_ids_are_refused_like_unknown_ones(api: Any, unique: str, malformed: str) -> None:
    talk = open_turn(api, unique, unique)
    unknown = talk.send("run_code", {"code": "pass", "files": ["doc_a.b"]}).json["error"]["message"]
    for argument in ("files", "passages"):
        error = talk.send("run_code", {"code": "pass", argument: [malformed]}).json["error"]
        assert error["code"] == "not_allowed", error
        assert error["message"].isprintable()
    shown = malformed.replace("\n", "\\n")
    message = talk.send("run_code", {"code": "pass", "files": [malformed]}).json["error"]["message"]
    assert message == unknown.replace("doc_a.b", shown)


def test_a_collections_id_is_no_documents(api: Any, unique: str) -> None:
    upload(api, CONTENT, owner=unique, collection=unique)
    error = open_turn(api, unique, unique).send("run_code", {"code": "pass", "files": [unique]}).json["error"]
    assert error["code"] == "not_allowed"


def test_one_bad_id_refuses_all_before_a_byte_is_read(api: Any, unique: str, system: LocalSystem) -> None:
    good = upload(api, CONTENT, owner=unique)["id"]
    talk = open_turn(api, unique, unique)
    sent: list[str] = []
    system.runtime.clients.hook = lambda service, operation: sent.append(operation)
    try:
        error = talk.send("run_code", {"code": "pass", "files": [good], "passages": [good, "doc_x.y"]}).json["error"]
    finally:
        system.runtime.clients.hook = None
    assert error["details"]["ids"] == ["doc_x.y"] and good not in error["message"]
    assert "GetObject" not in sent and "PutObject" not in sent


# ---------------------------------------------------------------- the routes, for persons


def test_a_person_sees_nothing_of_others(api: Any, unique: str) -> None:
    document = upload(api, CONTENT, owner=unique, collection=unique)
    path = f"/v1/documents/{document['id']}"
    eve = person(f"{unique}-eve", f"dept-{unique}")
    for method, route in (
        ("GET", path),
        ("GET", f"{path}/passages"),
        ("DELETE", path),
        ("GET", f"/v1/documents?collection={unique}"),
        ("GET", f"/v1/collections/{unique}"),
        ("DELETE", f"/v1/collections/{unique}"),
        ("GET", f"/v1/artifacts/{document['artifact']}"),
    ):
        answer = api(method, route, None, eve)
        assert answer.status == 404 and "opensesame" not in str(answer.body), (method, route)
        unknown = route.replace(document["id"], f"doc_{unique}.{'0' * 23}").replace(unique, "unknown")
        assert api(method, unknown, None, eve).json == answer.json, "what is not theirs looks like nothing"
    assert api("GET", "/v1/collections", None, eve).json == {"collections": []}
    assert api("GET", f"/v1/collections?owner={unique}", None, eve).json == {"collections": []}
    owner = person(unique)
    assert api("GET", path, None, owner).status == 200
    assert api("GET", f"{path}/passages", None, owner).json["passages"][0]["text"] == CONTENT.decode()
    assert api("DELETE", path, None, owner).status == 200


def test_nobody_uploads_for_others_or_to_what_is_not_theirs(api: Any, unique: str) -> None:
    mine = upload(api, owner=unique, collection=unique)
    eve = person(f"{unique}-eve", "sales")
    for body in ({"collection": unique}, {"collection": mine["collection"], "owner": f"{unique}-eve"}):
        refused = send(api, headers=eve, **body)
        assert refused.status == 403 and unique in refused.json["error"]["message"]
    assert send(api, headers=eve, owner=unique).status == 403
    assert send(api, headers=eve, department="research").status == 403
    assert send(api, owner=f"{unique}-eve", collection=unique).status == 403, "the portal names owners, too"
    assert send(api, department="research", collection=unique).status == 403
    own = upload(api, owner=f"{unique}-bob")["collection"]
    assert send(api, headers=eve, collection=own).status == 403
    assert len(api("GET", f"/v1/documents?collection={unique}").json["documents"]) == 1


def test_nobody_takes_the_id_that_is_anothers_own(api: Any, unique: str) -> None:
    own = upload(api, owner=unique)["collection"]
    assert api("DELETE", f"/v1/collections/{own}").status == 200
    assert send(api, owner=f"{unique}-eve", collection=own).status == 403
    assert upload(api, owner=unique, collection=own)["collection"] == own


def test_headers_without_a_person_or_blank_ones_open_nothing(api: Any, unique: str) -> None:
    document = upload(api, owner=unique)["id"]
    assert api("GET", f"/v1/documents/{document}", None, {"X-Workbench-User": " "}).status == 400
    assert api("GET", f"/v1/documents/{document}", None, {"X-Workbench-Department": "research"}).status == 404
    assert api("GET", f"/v1/documents/{document}", None, {"X-Workbench-Groups": "all"}).status == 404
    assert send(api, headers={"X-Workbench-Groups": "all"}).status == 400


@pytest.mark.parametrize("malformed", ["doc_a", "x", "doc_a.b.c", "doc_%2e%2e.b", "doc_a.b%0a", "%F0%9F%8E%89"])
def test_malformed_ids_in_routes_are_not_found(api: Any, malformed: str) -> None:
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/passages")):
        assert api(method, f"/v1/documents/{malformed}{path}").status == 404


# ---------------------------------------------------------------- erasure


def test_an_erased_person_leaves_no_document(api: Any, unique: str, system: LocalSystem) -> None:
    runtime, settings = system.runtime, system.runtime.settings
    documents = [upload(api, CONTENT, owner=unique, collection=name) for name in (None, unique, unique)]
    handbook = upload(api, department="research", collection=f"d-{unique}", headers=None)
    erased = api("POST", f"/v1/people/{unique}/erase").json["erasure"]
    assert erased["status"] == "done"
    assert (erased["counts"]["documents"], erased["counts"]["artifacts"]) == (3, 3)
    for document in documents:
        collection, artifact = document["collection"], document["artifact"]
        assert api("GET", f"/v1/documents/{document['id']}").status == 404
        assert api("GET", f"/v1/artifacts/{artifact}").status == 404
        assert runtime.table.query(f"COL#{collection}") == [] == runtime.table.query(f"A#{artifact}")
        for bucket, prefix in (
            (settings.artifact_bucket, f"documents/{collection}/"),
            (settings.artifact_bucket, f"artifacts/{artifact}/"),
            (settings.workspace_bucket, f"indexes/{collection}/"),
        ):
            answer = runtime.clients.s3.list_object_versions(Bucket=bucket, Prefix=prefix)
            assert not answer.get("Versions") and not answer.get("DeleteMarkers"), prefix
    assert runtime.table.query(f"P#{unique}", "COL#") == []
    assert api("GET", f"/v1/documents/{handbook['id']}").status == 200, "a department's stay"
    assert upload(api, owner=unique)["passages"] == 1, "afterwards the person may begin anew"


def test_nothing_is_uploaded_for_a_person_who_is_being_erased(api: Any, unique: str, system: LocalSystem) -> None:
    table, key = system.runtime.table, (f"P#{unique}", "PERSON")
    table.put({"PK": key[0], "SK": key[1], "erasing": "era_x", "status": "running"})
    refused = send(api, owner=unique, collection=unique)
    assert refused.status == 409 and "erased" in refused.json["error"]["message"]
    assert table.query(f"COL#{unique}") == [] and table.query(f"P#{unique}", "COL#") == []
    table.delete(key)


def test_an_upload_that_an_erasure_overtakes_leaves_nothing(
    api: Any, unique: str, system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first pass runs between the announcement and the storing; what comes late is found by the last."""
    runtime, key = system.runtime, (f"P#{unique}", "PERSON")
    begun: list[Any] = []
    plain = uploading._publish

    def erase_first(runtime: Any, wish: Any, announced: Any, read: Any) -> Any:
        begun.append(announced)
        runtime.table.put({"PK": key[0], "SK": key[1], "erasing": "era_x", "status": "running"})
        erasing.erase(runtime, unique, [], lambda *_counts: None, lambda: False, last=False)
        return plain(runtime, wish, announced, read)

    monkeypatch.setattr(uploading, "_publish", erase_first)
    # Not even the cleaning up of the upload itself may be needed.
    monkeypatch.setattr(uploading.removing, "clear_away", lambda *_arguments: False)
    assert send(api, CONTENT, owner=unique, collection=unique).status == 409
    erasing.erase(runtime, unique, [unique], lambda *_counts: None, lambda: False, last=True)
    runtime.table.delete(key)
    assert runtime.table.query(f"COL#{unique}") == [] == runtime.table.query(f"A#{begun[0].artifact}")
    for prefix in (f"documents/{unique}/", f"artifacts/{begun[0].artifact}/"):
        answer = runtime.clients.s3.list_object_versions(Bucket=runtime.settings.artifact_bucket, Prefix=prefix)
        assert not answer.get("Versions"), prefix
