"""A sandbox made of its protocol alone: tests decide what it says, and when its task ends."""

from __future__ import annotations

import base64
import contextvars
import hashlib
import json
import queue
import secrets
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local.gateway import SANDBOX_PATH
from workbench.clients import Clients
from workbench.runs import workflow

PACK_BYTES = 4 * 1024 * 1024
PATIENCE_SECONDS = 60


class Task:
    """The task behind a sandbox; :meth:`end` is its death, whatever the reason."""

    def __init__(self) -> None:
        self._ended = threading.Event()
        self.code = 0

    def wait(self) -> int:
        self._ended.wait()
        return self.code

    def stop(self) -> None:
        self._ended.set()

    def end(self, code: int = 137) -> None:
        self.code = code
        self._ended.set()

    @property
    def ended(self) -> bool:
        return self._ended.wait(PATIENCE_SECONDS)


class Launcher:
    """Stands where the local system starts sandboxes. ``refuse`` makes the next start fail with those words."""

    def __init__(self) -> None:
        self._started: queue.Queue[tuple[str, str, Task]] = queue.Queue()
        self.refuse: str | None = None

    def start(self, sandbox: str, secret: str, route: str, environment: Mapping[str, str]) -> Task:
        if self.refuse is not None:
            words, self.refuse = self.refuse, None
            raise RuntimeError(words)
        task = Task()
        self._started.put((sandbox, secret, task))
        return task

    def next(self, api: Any) -> Sandbox:
        """The sandbox that was started next; waits for it."""
        return Sandbox(api, *self._started.get(timeout=PATIENCE_SECONDS))

    @property
    def idle(self) -> bool:
        return self._started.empty()

    def forget(self) -> None:
        """End whatever was started and nobody asked for."""
        self.refuse = None
        while not self._started.empty():
            self._started.get()[2].stop()


@dataclass
class Sandbox:
    """Speaks the protocol over the gateway. What it leaves is collected with :meth:`file` and sent by :meth:`leave`."""

    api: Any
    id: str
    secret: str
    task: Task
    own: str = field(default_factory=lambda: secrets.token_urlsafe(32))
    job: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    session: str = ""
    lines: list[bytes] = field(default_factory=list)
    pack: bytearray = field(default_factory=bytearray)

    def send(self, op: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        answer = self.api("POST", SANDBOX_PATH, {"op": op, **fields})
        return answer.status, answer.json

    def op(self, op: str, **fields: Any) -> tuple[int, dict[str, Any]]:
        """One operation under the session."""
        return self.send(op, run=self.run, session=self.session, **fields)

    def good(self, op: str, **fields: Any) -> dict[str, Any]:
        status, answer = self.op(op, **fields)
        assert status == 200, answer
        return answer

    def claim(self, secret: str | None = None) -> tuple[int, dict[str, Any]]:
        status, answer = self.send("claim", **self.claiming | ({"secret": secret} if secret else {}))
        if answer.get("status") == "job":
            self.job, self.run, self.session = answer["job"], answer["run"], answer["session"]
        return status, answer

    @property
    def claiming(self) -> dict[str, Any]:
        """What it claims with."""
        return {"sandbox": self.id, "secret": self.secret, "ownSecret": self.own, "verified": {"uid": 1}}

    def claimed(self) -> Sandbox:
        status, answer = self.claim()
        assert (status, answer["status"]) == (200, "job"), answer
        return self

    def inputs(self) -> dict[str, bytes]:
        """Everything the plan names, as ``root/path`` -> bytes, with every hash checked."""
        plan = b"".join(self._part("plan", part) for part in range(self.job["planParts"]))
        data = b"".join(self._part("data", part) for part in range(self.job["dataParts"]))
        found = {}
        for text in plan.splitlines():
            line = json.loads(text)
            if line["kind"] == "file":
                raw = data[line["offset"] : line["offset"] + line["bytes"]]
                assert hashlib.sha256(raw).hexdigest() == line["sha256"], line
                found[f"{line['root']}/{line['path']}"] = raw
        return found

    def _part(self, stream: str, part: int) -> bytes:
        answer = self.good("input", stream=stream, part=part)
        raw = zlib.decompress(base64.b64decode(answer["data"]))
        assert hashlib.sha256(raw).hexdigest() == answer["sha256"]
        return raw

    # ------------------------------------------------------------ what it leaves

    def file(self, path: str, data: bytes, **lies: Any) -> None:
        """A new or changed file; ``lies`` replace fields of its line."""
        pieces = []
        at = 0
        while at < len(data):
            part, offset = divmod(len(self.pack), PACK_BYTES)
            length = min(len(data) - at, PACK_BYTES - offset)
            pieces.append({"part": part, "offset": offset, "length": length})
            self.pack += data[at : at + length]
            at += length
        line: dict[str, Any] = {"path": path, "kind": "file", "mode": "0644", "bytes": len(data)}
        line |= {"sha256": hashlib.sha256(data).hexdigest(), "pieces": pieces}
        self.line(**(line | lies))

    def line(self, **fields: Any) -> None:
        self.lines.append(json.dumps(fields).encode() + b"\n")

    def leave(self) -> dict[str, int]:
        """Send packs and changes; returns how many parts each stream has."""
        packs = [bytes(self.pack[at : at + PACK_BYTES]) for at in range(0, len(self.pack), PACK_BYTES)]
        for part, raw in enumerate(packs):
            # On a busy machine a part takes long enough for the workflow to miss a sign of life.
            self.good("heartbeat", stdout="", stderr="", outputBytes=0)
            self.good("output", stream="packs", part=part, **packed(raw))
        stream = b"".join(self.lines)
        if stream:
            self.good("output", stream="changes", part=0, **packed(stream))
        return {"packParts": len(packs), "changeParts": 1 if stream else 0}

    def report(self, **changed: Any) -> tuple[int, dict[str, Any]]:
        return self.op("report", report=report(**changed))

    def finish(self, **changed: Any) -> None:
        """Send everything and report, as a good sandbox does."""
        status, answer = self.report(**(self.leave() | changed))
        assert status == 200, answer


def packed(raw: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(raw).hexdigest(), "data": base64.b64encode(zlib.compress(raw)).decode()}


def report(**changed: Any) -> dict[str, Any]:
    """A report of a program that ended well and changed nothing, but for ``changed``."""
    honest: dict[str, Any] = {
        "outcome": "finished",
        "exitCode": 0,
        "signal": None,
        "seconds": 0.1,
        "stdout": "",
        "stderr": "",
        "outputBytes": 0,
        "truncated": False,
        "spill": None,
        "tree": "ok",
        "reason": None,
        "packParts": 0,
        "changeParts": 0,
        "mounted": [],
        "verified": {},
    }
    return honest | changed


# ---------------------------------------------------------------- holding and killing steps


@contextmanager
def held(step: str) -> Iterator[Held]:
    """Hold the workflow before ``step`` until the block ends or :meth:`Held.go`."""
    original = workflow.STEPS[step]
    gate = Held(original)

    def wait(*arguments: Any) -> None:
        gate.reached.set()
        assert gate.released.wait(PATIENCE_SECONDS)
        original(*arguments)

    workflow.STEPS[step] = wait
    try:
        yield gate
    finally:
        gate.released.set()
        workflow.STEPS[step] = original


@dataclass
class Held:
    step: Callable[..., None]
    reached: threading.Event = field(default_factory=threading.Event)
    released: threading.Event = field(default_factory=threading.Event)

    def wait(self) -> None:
        assert self.reached.wait(PATIENCE_SECONDS), "the step was never reached"

    def go(self) -> None:
        self.released.set()


class Killed(BaseException):
    """The process that worked is gone."""


_left: contextvars.ContextVar[list[int] | None] = contextvars.ContextVar("requests_left", default=None)


@contextmanager
def killed_after(clients: Clients, requests: int) -> Iterator[None]:
    """Whatever runs in the block dies instead of sending its ``requests + 1``-th AWS request."""
    guard = threading.Lock()

    def hook(_service: str, _operation: str) -> None:
        left = _left.get()
        if left is None:
            return
        with guard:
            left[0] -= 1
            if left[0] < 0:
                raise Killed

    clients.hook = hook
    token = _left.set([requests])
    try:
        yield
    finally:
        _left.reset(token)
        clients.hook = None
