"""One write in a workspace of 50,000 files against one of 50: the same requests, about the same time."""

from __future__ import annotations

import itertools
import json
from http.client import HTTPConnection
from typing import Any

from bench.measure import Row, in_turns
from local.system import LocalSystem
from workbench.runtime import Runtime
from workbench.workspace.store import WorkingCopy
from workbench.workspace.writing import write

RUNS = 25


def large_against_small() -> Row:
    """Both workspaces in one system; a new file's content each time."""
    with LocalSystem().start(settings={"workspace_files": 60_000}) as system:
        small, large = (_prepared(system, count) for count in (50, 50_000))
        ours, theirs = in_turns(large.write, small.write, RUNS)
    if large.requests != small.requests:
        raise AssertionError(f"{large.requests} requests at 50,000 files, {small.requests} at 50")
    return Row(ours, "the same at 50 files", theirs, "at most 1.3x, same requests", most=1.3)


class _Writer:
    """One conversation with an open turn, writing one file again and again."""

    def __init__(self, url: str, conversation: str) -> None:
        self._connection = HTTPConnection(url.removeprefix("http://"))
        self._numbers = itertools.count()
        self.requests: list[int] = []
        opened = self._send(
            f"/v1/conversations/{conversation}/turns",
            {"caller": {"user": "bench", "department": "bench"}, "tools": ["write_file"]},
        )
        self._turn, self._token = opened["turn"]["id"], opened["token"]

    def write(self) -> None:
        number = next(self._numbers)
        arguments = {"path": "folder0000/file00025.txt", "content": f"content {number}\n"}
        answer = self._send(
            f"/v1/turns/{self._turn}/tools/write_file", {"callId": f"call{number}", "arguments": arguments}
        )
        if answer["outcome"] != "ok":
            raise AssertionError(answer["error"])
        self.requests.append(answer["cost"]["requests"])

    def _send(self, path: str, body: dict[str, Any]) -> Any:
        headers = {"X-Turn-Token": getattr(self, "_token", "")}
        self._connection.request("POST", path, json.dumps(body), headers)
        return json.loads(self._connection.getresponse().read())


def _prepared(system: LocalSystem, files: int) -> _Writer:
    conversation = f"bench-{files}"
    connection = HTTPConnection(system.url.removeprefix("http://"))
    body = {"owner": "bench", "department": "bench", "id": conversation}
    connection.request("POST", "/v1/conversations", json.dumps(body))
    connection.getresponse().read()
    fill(system.runtime, conversation, files)
    return _Writer(system.url, conversation)


def fill(runtime: Runtime, conversation: str, files: int) -> None:
    """Commit ``files`` small files in one version."""

    def stage(copy: WorkingCopy) -> None:
        for number in range(files):
            copy.write(f"folder{number // 100:04d}/file{number:05d}.txt", f"file {number}\n".encode())

    write(runtime, conversation, "fill", stage)
