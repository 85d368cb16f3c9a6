"""A conversation's own routes: made once, shown, refused in words when the request is wrong."""

from __future__ import annotations

from typing import Any

import pytest


def create(api: Any, conversation: str, **more: Any) -> Any:
    return api("POST", "/v1/conversations", {"owner": "ada", "department": "research", "id": conversation, **more})


def test_a_conversation_is_made_and_shown(api: Any, unique: str) -> None:
    made = create(api, unique)
    assert made.status == 201
    conversation = made.json["conversation"]
    assert {"id": unique, "owner": "ada", "department": "research", "status": "active"}.items() <= conversation.items()
    assert conversation["createdAt"].endswith("Z")
    shown = api("GET", f"/v1/conversations/{unique}")
    assert (shown.status, shown.json) == (200, made.json)
    files = api("GET", f"/v1/conversations/{unique}/files").json
    assert (files["version"], files["files"]) == (0, [])


def test_an_id_is_made_when_none_is_given(api: Any) -> None:
    body = {"owner": "ada", "department": "research"}
    one, two = (api("POST", "/v1/conversations", body).json["conversation"]["id"] for _ in range(2))
    assert one != two


def test_an_id_can_be_taken_once(api: Any, unique: str) -> None:
    create(api, unique)
    again = create(api, unique, owner="eve")
    assert (again.status, again.json["error"]["code"]) == (409, "conflict")
    assert api("GET", f"/v1/conversations/{unique}").json["conversation"]["owner"] == "ada"


@pytest.mark.parametrize(
    "wrong",
    [
        {"owner": ""},
        {"owner": 7},
        {"owner": None},
        {"owner": " ada"},
        {"owner": "a\nb"},
        {"owner": "\ud800"},
        {"owner": "x" * 257},
        {"owner": "ada/lovelace"},  # nobody could erase them: the person stands in a path
        {"owner": "ada?"},
        {"department": ["research"]},
        {"department": "\u2028"},
        {"id": ""},
        {"id": "a/b"},
        {"id": "a.b"},
        {"id": "x" * 65},
        {"id": 5},
        {"id": "a\n"},
        {"id": "é"},
    ],
)
def test_a_wrong_field_is_named_and_nothing_is_made(api: Any, unique: str, wrong: dict[str, Any]) -> None:
    answer = create(api, unique, **wrong)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")
    assert f"`{next(iter(wrong))}`" in answer.json["error"]["message"]
    assert api("GET", f"/v1/conversations/{unique}").status == 404


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"text"', b'{"owner": NaN}', b"\xff\xfe", b"[" * 100_000])
def test_a_malformed_body_is_refused(api: Any, body: bytes) -> None:
    answer = api("POST", "/v1/conversations", body)
    assert (answer.status, answer.json["error"]["code"]) == (400, "invalid_request")


@pytest.mark.parametrize("conversation", ["nowhere", "a.b", "%2e%2e", "x" * 65, "%00", "%F0%9F%A6%8A"])
@pytest.mark.parametrize(("method", "rest"), [("GET", ""), ("DELETE", ""), ("POST", "/restore")])
def test_what_is_not_there_is_404(api: Any, conversation: str, method: str, rest: str) -> None:
    answer = api(method, f"/v1/conversations/{conversation}{rest}")
    assert (answer.status, answer.json["error"]["code"]) == (404, "not_found")


def test_restoring_an_active_conversation_changes_nothing(api: Any, unique: str) -> None:
    made = create(api, unique).json["conversation"]
    restored = api("POST", f"/v1/conversations/{unique}/restore")
    assert (restored.status, restored.json["conversation"]) == (200, made)
