"""Uploading documents as a portal does."""

from __future__ import annotations

import base64
from typing import Any

from tests.local.talk import Api


def send(api: Api, content: bytes = b"alpha beta gamma", /, headers: Any = None, **body: Any) -> Any:
    """The raw answer of ``POST /v1/documents``, of ``a.txt`` unless named. A field that is ``...`` is left out."""
    sent = {"name": "a.txt", "data": base64.b64encode(content).decode(), **body}
    return api("POST", "/v1/documents", {name: value for name, value in sent.items() if value is not ...}, headers)


def upload(api: Api, content: bytes = b"alpha beta gamma", /, headers: Any = None, **body: Any) -> dict[str, Any]:
    """The document of an upload that must succeed."""
    answer = send(api, content, headers, **body)
    assert answer.status == 201, answer.body
    document: dict[str, Any] = answer.json["document"]
    return document


def person(user: str, department: str = "research") -> dict[str, str]:
    """The headers that speak for a person."""
    return {"X-Workbench-User": user, "X-Workbench-Department": department}
