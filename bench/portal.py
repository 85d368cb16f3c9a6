"""The local system's API as the portal calls it: one conversation, one open turn, tool calls in it."""

from __future__ import annotations

import itertools
import json
from http.client import HTTPConnection
from typing import Any

CALLER = {"user": "bench", "department": "bench"}


class Portal:
    """A new conversation of this name with a turn that was offered ``tools``; no turn when there are none."""

    def __init__(self, url: str, conversation: str, tools: list[str]) -> None:
        self._connection = HTTPConnection(url.removeprefix("http://"))
        self._numbers = itertools.count()
        self._token = ""
        self._post("/v1/conversations", {"owner": "bench", "department": "bench", "id": conversation})
        if tools:
            opened = self._post(f"/v1/conversations/{conversation}/turns", {"caller": CALLER, "tools": tools})
            self._turn, self._token = opened["turn"]["id"], opened["token"]

    def call(self, tool: str, **arguments: object) -> Any:
        """The answer of one tool call; raises AssertionError when it is a refusal."""
        body = {"callId": f"call{next(self._numbers)}", "arguments": arguments}
        answer = self._post(f"/v1/turns/{self._turn}/tools/{tool}", body)
        if answer["outcome"] != "ok":
            raise AssertionError(answer["error"])
        return answer

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        self._connection.request("POST", path, json.dumps(body), {"X-Turn-Token": self._token})
        response = self._connection.getresponse()
        text = response.read()
        if response.status >= 400:
            raise AssertionError(text.decode())
        return json.loads(text)
