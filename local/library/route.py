"""The sandbox's route for one job in this process: the protocol of docs/architecture.md, on loopback, for one secret.

Every message is read by the same checks as the deployed route's. What a sandbox sends is kept in a file that has no
name, and believed only where hashes prove it.
"""

from __future__ import annotations

import hmac
import json
import os
import secrets
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import Any

from local.library.snapshot import Streams
from workbench.errors import InvalidRequest
from workbench.runs import protocol
from workbench.runs.changes import Piece, Untrusted

_BODY_BYTES = 16 * 1024 * 1024
_POLL_SECONDS = 0.02

Answer = tuple[int, dict[str, Any]]


class JobRoute:
    """Hands out one job once and takes one report. ``job`` is as the protocol has it."""

    def __init__(self, job: Mapping[str, Any], streams: Streams, workspace_bytes: int) -> None:
        self.sandbox, self.secret = secrets.token_hex(8), secrets.token_urlsafe(32)
        self._session = secrets.token_urlsafe(32)
        self._job, self._streams, self._workspace_bytes = job, streams, workspace_bytes
        self._claimed = False
        self._lock = threading.Lock()
        self._parts: dict[tuple[str, int], tuple[int, int]] = {}
        self._sent = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the route
        self.report: dict[str, Any] | None = None
        # The ends of both streams as the report has them; its own check keeps fewer characters.
        self.tails = ("", "")

    @contextmanager
    def listening(self) -> Iterator[str]:
        """The route's address while it is served."""
        # Not http.server's own class, which looks the address up in the name service first.
        server = ThreadingTCPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, args=(_POLL_SECONDS,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/v1/sandbox"
        finally:
            server.shutdown()
            server.server_close()
            thread.join()

    def close(self) -> None:
        self._sent.close()

    # ------------------------------------------------------------ what was sent

    @property
    def pack_sizes(self) -> dict[int, int]:
        return {part: size for (stream, part), (_, size) in self._parts.items() if stream == "packs"}

    def changes(self, parts: int) -> bytes:
        """The changes stream. Raises Untrusted when a part is missing."""
        if any(("changes", part) not in self._parts for part in range(parts)):
            raise Untrusted("is not complete")
        return b"".join(self._read(*self._parts["changes", part]) for part in range(parts))

    def piece(self, piece: Piece) -> bytes:
        """The bytes of one piece, which :func:`workbench.runs.changes.read` has checked."""
        offset, _ = self._parts["packs", piece.part]
        return self._read(offset + piece.offset, piece.length)

    def _read(self, offset: int, size: int) -> bytes:
        return os.pread(self._sent.fileno(), size, offset)

    # ------------------------------------------------------------ the operations

    def answer(self, body: Mapping[str, Any]) -> Answer:
        """The answer to one request. Raises InvalidRequest."""
        op = protocol.choice(body, "op", ("claim", "input", "heartbeat", "output", "report"))
        if op == "claim":
            return self._claim(body)
        if not hmac.compare_digest(protocol.word(body, "session").encode(), self._session.encode()):
            return 401, {"error": "unknown session"}
        if self.report is not None and op != "report":
            return 409, {"error": "the run is over"}
        if op == "input":
            return self._input(body)
        if op == "output":
            return self._output(body)
        if op == "report":
            return self._report(body)
        return 200, {"do": "continue"}

    def _claim(self, body: Mapping[str, Any]) -> Answer:
        if not hmac.compare_digest(protocol.word(body, "secret").encode(), self.secret.encode()):
            return 401, {"error": "wrong secret"}
        with self._lock:
            if self._claimed:
                return 200, {"status": "leave"}
            self._claimed = True
        return 200, {"status": "job", "run": self.sandbox, "session": self._session, "job": dict(self._job)}

    def _input(self, body: Mapping[str, Any]) -> Answer:
        stream = protocol.choice(body, "stream", protocol.STREAMS_IN)
        parts = self._streams.plan_parts if stream == "plan" else self._streams.data_parts
        return 200, protocol.packed(self._streams.part(stream, protocol.whole(body, "part", parts - 1)))

    def _output(self, body: Mapping[str, Any]) -> Answer:
        stream = protocol.choice(body, "stream", protocol.STREAMS_OUT)
        most = protocol.pack_parts_allowed(self._workspace_bytes) if stream == "packs" else protocol.CHANGE_PARTS
        part = protocol.whole(body, "part", most - 1)
        raw, _ = protocol.unpack(body)
        with self._lock:
            # A part that is sent again takes the first one's place.
            if (stream, part) not in self._parts or self._parts[stream, part][1] != len(raw):
                self._parts[stream, part] = self._sent.seek(0, os.SEEK_END), len(raw)
            self._sent.seek(self._parts[stream, part][0])
            self._sent.write(raw)
            self._sent.flush()
        return 200, {}

    def _report(self, body: Mapping[str, Any]) -> Answer:
        checked = protocol.report(body, self._workspace_bytes)
        characters = int(self._job["limits"]["outputCharacters"])
        sent = body["report"]
        with self._lock:
            if self.report is None:
                self.tails = tuple(protocol.storable(sent.get(name, "")[-characters:]) for name in ("stdout", "stderr"))  # type: ignore[assignment]
                self.report = checked
        return 200, {}


def _handler(route: JobRoute) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_POST(self) -> None:
            try:
                status, answer = route.answer(self._body())
            except (InvalidRequest, ValueError) as fault:
                status, answer = 400, {"error": str(fault)}
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def _body(self) -> dict[str, Any]:
            length = self.headers.get("Content-Length", "")
            if not length.isdigit() or int(length) > _BODY_BYTES:
                self.close_connection = True
                raise InvalidRequest(f"A body has 0 to {_BODY_BYTES:,} bytes.")
            body = json.loads(self.rfile.read(int(length)))
            if not isinstance(body, dict):
                raise InvalidRequest("The body must be an object.")
            return body

        def log_message(self, format: str, *args: Any) -> None:
            """Nothing: a request is no event of the program that uses this library."""

    return Handler
