"""The sandbox's route as a small real HTTP server: the protocol of docs/architecture.md, with faults on request.

Holds runs in memory, checks what a route checks (secrets, hashes, parts) and rebuilds the workspace that a report
proposes, so that a test can look at files instead of messages.
"""

from __future__ import annotations

import base64
import hashlib
import json
import queue
import threading
import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

MIB = 1024 * 1024
PART_BYTES = 4 * MIB
CLAIM_HOLD_SECONDS = 2.0
LIMITS = {
    "memoryBytes": 512 * MIB,
    "diskBytes": 64 * MIB,
    "processes": 64,
    "fileBytes": 32 * MIB,
    "openFiles": 256,
    "outputBytes": 4 * MIB,
    "outputCharacters": 12_000,
    "workspaceFiles": 2_000,
    "workspaceBytes": 100 * MIB,
}

Files = Mapping[str, bytes | None]  # None: a folder
Answer = tuple[int, Any]
Fault = Callable[[dict[str, Any], int], "Answer | None"]  # body, how often this op came; None: answer as usual


@dataclass
class Run:
    """One job and all that came back for it."""

    name: str
    session: str
    job: dict[str, Any]
    streams: dict[str, list[bytes]]
    before: dict[str, bytes | None]
    beats: list[dict[str, Any]] = field(default_factory=list)
    parts: dict[tuple[str, int], bytes] = field(default_factory=dict)
    reports: list[dict[str, Any]] = field(default_factory=list)
    stop_at_beat: int | None = None
    reported: threading.Event = field(default_factory=threading.Event)
    beaten: threading.Event = field(default_factory=threading.Event)

    @property
    def report(self) -> dict[str, Any]:
        return self.reports[0]

    @property
    def changes(self) -> list[dict[str, Any]]:
        text = b"".join(self.parts["changes", part] for part in range(self.report["changeParts"]))
        return [json.loads(line) for line in text.splitlines()]

    @property
    def left_out(self) -> dict[str, str]:
        return {line["name"]: line["leftOut"] for line in self.changes if "leftOut" in line}

    @property
    def deleted(self) -> set[str]:
        return {line["path"] for line in self.changes if line.get("deleted")}

    @property
    def changed(self) -> dict[str, dict[str, Any]]:
        return {line["path"]: line for line in self.changes if "kind" in line}

    def workspace(self) -> dict[str, bytes | None]:
        """The tree after the report, every content checked; the tree before when the report proposes none."""
        if self.report["tree"] != "ok":
            return self.before
        known = {hashlib.sha256(data).hexdigest(): data for data in self.before.values() if data is not None}
        known[hashlib.sha256(b"").hexdigest()] = b""
        after = {path: data for path, data in self.before.items() if path not in self.deleted}
        for path, line in self.changed.items():
            if line["kind"] == "folder":
                after[path] = None
                continue
            pieces = [
                self.parts["packs", piece["part"]][piece["offset"] : piece["offset"] + piece["length"]]
                for piece in line["pieces"]
            ]
            data = b"".join(pieces) if pieces else known[line["sha256"]]
            assert hashlib.sha256(data).hexdigest() == line["sha256"]
            assert len(data) == line["bytes"]
            after[path] = data
        return after


def plan(
    program: str, files: Files, inputs: Files, skills: Files, modes: Mapping[str, int] | None = None
) -> dict[str, list[bytes]]:
    """The two streams for one job."""
    lines, data = [], bytearray()
    everything = [("program", "program", program.encode())]
    for root, tree in (("workspace", files), ("inputs", inputs), ("skills", skills)):
        everything += [(root, path, content) for path, content in tree.items()]  # type: ignore[misc]
    for root, path, content in sorted(everything, key=lambda entry: entry[2] is not None):
        mode = (modes or {}).get(path, 0o755 if content is None else 0o644)
        line = {"root": root, "path": path, "mode": f"{mode:04o}", "offset": len(data)}
        if content is None:
            line |= {"kind": "folder", "bytes": 0, "sha256": ""}
        else:
            line |= {"kind": "file", "bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            data += content
        lines.append(json.dumps(line).encode() + b"\n")
    return {"plan": _parts(b"".join(lines)), "data": _parts(bytes(data))}


def _parts(stream: bytes) -> list[bytes]:
    return [stream[start : start + PART_BYTES] for start in range(0, len(stream), PART_BYTES)]


class RouteServer:
    """Listens on loopback. ``fault`` may answer in place of the route, or raise ConnectionError to drop the line."""

    def __init__(self) -> None:
        self.fault: Fault | None = None
        self.calls: Counter[str] = Counter()
        self.claims: list[dict[str, Any]] = []
        self.secrets: dict[str, str] = {}
        # What each sandbox made itself, once it has exchanged the secret that it was started with.
        self.own_secrets: dict[str, str] = {}
        self._jobs: queue.Queue[Run] = queue.Queue()
        self._runs: dict[str, Run] = {}
        self._number = 0
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/v1/sandbox"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def forget_jobs(self) -> None:
        """So that a job nobody claimed does not reach the next test."""
        while not self._jobs.empty():
            self._jobs.get_nowait()

    def new_secret(self, sandbox: str) -> str:
        self.own_secrets.pop(sandbox, None)
        self.secrets[sandbox] = secret = f"canary-{sandbox}-3f9c1d"
        return secret

    def submit(
        self,
        code: str,
        language: str = "python",
        *,
        files: Files | None = None,
        inputs: Files | None = None,
        skills: Files | None = None,
        modes: Mapping[str, int] | None = None,
        seconds: float = 60,
        environment: Mapping[str, str] | None = None,
        heartbeat: float = 5,
        stop_at_beat: int | None = None,
        **limits: int,
    ) -> Run:
        """Put one job in line for the next claim."""
        streams = plan(code, files or {}, inputs or {}, skills or {}, modes)
        job = {
            "language": language,
            "timeoutSeconds": seconds,
            "environment": dict(environment or {}),
            "heartbeatSeconds": heartbeat,
            "planParts": len(streams["plan"]),
            "dataParts": len(streams["data"]),
            "limits": {**LIMITS, **limits},
        }
        with self._lock:
            self._number += 1
            name = f"run_{self._number}"
            run = Run(name, f"session-canary-{self._number}-77e0", job, streams, dict(files or {}))
            run.stop_at_beat = stop_at_beat
            self._runs[name] = run
        self._jobs.put(run)
        return run

    def answer(self, body: dict[str, Any]) -> Answer:
        op = str(body.get("op"))
        with self._lock:
            self.calls[op] += 1
            count = self.calls[op]
        if self.fault:
            answer = self.fault(body, count)
            if answer:
                return answer
        if op == "claim":
            return self._claim(body)
        run = self._runs.get(str(body.get("run")))
        if run is None or run.session != body.get("session"):
            return 401, {"error": "unknown run or session"}
        if run.reported.is_set() and op != "report":
            return 409, {"error": "the run is over"}
        return getattr(self, f"_{op}")(run, body)  # type: ignore[no-any-return]

    def _claim(self, body: dict[str, Any]) -> Answer:
        mine = self.own_secrets.get(body["sandbox"])
        if body["ownSecret"] != mine and (mine or self.secrets.get(body["sandbox"]) != body["secret"]):
            return 401, {"error": "wrong secret"}
        self.own_secrets[body["sandbox"]] = body["ownSecret"]
        self.claims.append(body)
        try:
            run = self._jobs.get(timeout=CLAIM_HOLD_SECONDS)
        except queue.Empty:
            return 200, {"status": "wait"}
        return 200, {"status": "job", "run": run.name, "session": run.session, "job": run.job}

    def _input(self, run: Run, body: dict[str, Any]) -> Answer:
        return 200, packed(run.streams[body["stream"]][body["part"]])

    def _heartbeat(self, run: Run, body: dict[str, Any]) -> Answer:
        run.beats.append({name: value for name, value in body.items() if name != "session"})
        run.beaten.set()
        stop = run.stop_at_beat is not None and len(run.beats) >= run.stop_at_beat
        return 200, {"do": "stop" if stop else "continue"}

    def _output(self, run: Run, body: dict[str, Any]) -> Answer:
        raw = zlib.decompress(base64.b64decode(body["data"]))
        if hashlib.sha256(raw).hexdigest() != body["sha256"] or not 0 < len(raw) <= PART_BYTES:
            return 400, {"error": "not what its sum says"}
        run.parts[body["stream"], body["part"]] = raw
        return 200, {}

    def _report(self, run: Run, body: dict[str, Any]) -> Answer:
        run.reports.append(body["report"])
        run.reported.set()
        return 200, {}


def packed(raw: bytes) -> dict[str, str]:
    return {"sha256": hashlib.sha256(raw).hexdigest(), "data": base64.b64encode(zlib.compress(raw, 1)).decode()}


def _handler(server: RouteServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                status, answer = server.answer(body)
            except ConnectionError:
                self.close_connection = True
                return
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def log_message(self, *_: object) -> None:
            return

    return Handler
