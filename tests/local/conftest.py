"""A client of the local system, and names of its own for each test."""

from __future__ import annotations

import http.client
import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import pytest

from local.system import LocalSystem


@pytest.fixture
def unique(request: pytest.FixtureRequest) -> str:
    """A name that no other test uses; fits as an id part."""
    stem = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:40].strip("-")
    return f"{stem}-{secrets.token_hex(4)}"


@dataclass(frozen=True)
class Answer:
    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class Api:
    """The API as a client sees it; one connection per call, so that it may be shared by threads."""

    def __init__(self, url: str) -> None:
        self._address = urlsplit(url).netloc

    def __call__(self, method: str, path: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Answer:
        """Send ``body`` (bytes as they are, anything else as JSON) and read the answer. Header names are lower case."""
        sent = dict(headers or {})
        if body is not None and not isinstance(body, bytes):
            body = json.dumps(body).encode()
            sent.setdefault("content-type", "application/json")
        connection = http.client.HTTPConnection(self._address, timeout=60)
        try:
            connection.request(method, path, body=body, headers=sent)
            response = connection.getresponse()
            received = {name.lower(): value for name, value in response.getheaders()}
            return Answer(response.status, received, response.read())
        finally:
            connection.close()


@pytest.fixture
def api(system: LocalSystem) -> Api:
    """Call the system's API: ``api("POST", "/v1/conversations", {...}).json``."""
    return Api(system.url)
