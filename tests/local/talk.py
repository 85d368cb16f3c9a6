"""A turn as a model's client uses it: tool calls with fresh ids, files put and read back."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import quote

# How often a run is waited for: a request waits for one for 20 seconds and more.
REQUESTS = 4


class Api(Protocol):
    def __call__(self, method: str, path: str, body: Any = None, headers: Any = None) -> Any: ...


@dataclass
class Talk:
    """One open turn of one conversation."""

    api: Api
    conversation: str
    turn: str
    token: str
    instructions: str = ""
    _calls: Any = field(default_factory=lambda: itertools.count(1))

    @classmethod
    def open(cls, api: Api, conversation: str, tools: Any = "all", *, create: bool = True, **more: Any) -> Talk:
        """Create the conversation (unless told otherwise) and open a turn."""
        if create:
            created = api("POST", "/v1/conversations", {"owner": "ada", "department": "research", "id": conversation})
            assert created.status == 201, created.body
        body = {"caller": {"user": "ada", "department": "research"}, "tools": tools, **more}
        opened = api("POST", f"/v1/conversations/{conversation}/turns", body)
        assert opened.status == 201, opened.body
        made = opened.json
        return cls(api, conversation, made["turn"]["id"], made["token"], made["turn"]["instructions"])

    def again(self, tools: Any = "all", **more: Any) -> Talk:
        """Another turn of the same conversation."""
        return Talk.open(self.api, self.conversation, tools, create=False, **more)

    def send(self, tool: str, arguments: Any, *, call: str | None = None, wait: float = 60) -> Any:
        """The raw HTTP answer of one tool call."""
        body = {"callId": call or f"call{next(self._calls)}", "arguments": arguments, "wait": wait}
        return self.api("POST", f"/v1/turns/{self.turn}/tools/{tool}", body, {"X-Turn-Token": self.token})

    def call(self, tool: str, *, call: str | None = None, **arguments: Any) -> dict[str, Any]:
        """The tool answer of one call, whatever its outcome; a run is waited for longer than one request may wait."""
        call = call or f"call{next(self._calls)}"
        for _request in range(REQUESTS):
            answer = self.send(tool, arguments, call=call)
            assert answer.status == 200, answer.body
            made: dict[str, Any] = answer.json
            if made["outcome"] != "running":
                break
        return made

    def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        """The tool answer of a call that must succeed."""
        answer = self.call(tool, **arguments)
        assert answer["outcome"] == "ok", answer["error"]
        return answer

    def refused(self, code: str, tool: str, **arguments: Any) -> str:
        """The words of a call that must be refused with ``code``."""
        answer = self.call(tool, **arguments)
        assert answer["error"] is not None, answer["content"]
        assert answer["error"]["code"] == code, answer["error"]
        message: str = answer["error"]["message"]
        return message

    def ended(self, run: str) -> dict[str, Any]:
        """The run as the API shows it once it is over."""
        for _request in range(REQUESTS):
            shown: dict[str, Any] = self.api("GET", f"/v1/runs/{run}?wait=20").json["run"]
            if shown["answer"] is not None:
                return shown
        raise AssertionError(f"the run does not end: {shown}")

    def put(self, path: str, data: bytes) -> None:
        """Store raw bytes as a file, past the tools."""
        answer = self.api("PUT", f"/v1/conversations/{self.conversation}/file?path={quote(path)}", data)
        assert answer.status == 200, answer.body

    def bytes_of(self, path: str) -> bytes | None:
        """The file's raw bytes, or None when there is none."""
        answer = self.api("GET", f"/v1/conversations/{self.conversation}/file?path={quote(path)}")
        assert answer.status in (200, 404), answer.body
        data: bytes | None = answer.body if answer.status == 200 else None
        return data

    def files(self) -> dict[str, bytes]:
        """Every file of the workspace with its bytes."""
        listed = self.api("GET", f"/v1/conversations/{self.conversation}/files?limit=5000").json["files"]
        return {file["path"]: self.bytes_of(file["path"]) or b"" for file in listed}


def text(answer: dict[str, Any]) -> str:
    """What the model reads of a tool answer."""
    return "\n".join(part["text"] for part in answer["content"] if part["type"] == "text")
