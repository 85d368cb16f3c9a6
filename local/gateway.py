"""The HTTP front of one machine: API Gateway's part, on loopback only.

Reads a request off the wire, refuses what is malformed or too large in the contract's words, makes the event that
API Gateway would make, calls the function in the request's thread and sends its answer back. Knows no routes of its
own but the sandbox's: the others come from the tables that CDK reads too. A function at work is never cut off, where
API Gateway would give up after 30 seconds.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
import socket
import threading
import time
import urllib.parse
import uuid
from collections.abc import Callable, Iterable, Mapping
from http.client import HTTPMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from local import events
from local.events import BadAnswer, BadTarget, HttpAnswer, HttpRequest, Router
from local.functions import PAYLOAD_BYTES, FunctionFailed, FunctionMissing, marshal
from local.work import Closed, Work
from workbench.errors import Forbidden, Internal, InvalidRequest, RequestError, TooLarge
from workbench.http import failure
from workbench.routes import SANDBOX_ROUTE

HOST = "127.0.0.1"
SANDBOX_PATH = SANDBOX_ROUTE.partition(" ")[2]
SANDBOX_FUNCTION = "sandbox_route"

# The limits of API Gateway's HTTP APIs.
BODY_BYTES = 10 * 1024 * 1024
HEAD_BYTES = 10_240
LINE_BYTES = 65_536
METHODS = frozenset({"DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"})

# A client that sends more than it may still gets to read why, as long as it stops within these.
DRAIN_BYTES = 64 * 1024 * 1024
DRAIN_SECONDS = 30.0
IDLE_SECONDS = 65.0

_LENGTH = re.compile(r"\d{1,15}\Z")
_CHUNK_SIZE = re.compile(rb"[0-9A-Fa-f]{1,8}\Z")
_LOOPBACK = re.compile(r"(127\.0\.0\.1|localhost|\[::1\])(:\d{1,5})?\Z", re.IGNORECASE)
# Answers that carry no body, and no length either.
_BODILESS = frozenset({204, 304})

log = logging.getLogger("workbench.local")

Call = Callable[[str, dict[str, Any]], Any]
Special = Callable[[HttpRequest], HttpAnswer | None]


class Gateway:
    """Serves ``routes`` (``(key, function)`` pairs) by calling ``call(function, event)``.

    ``special`` sees every request first and may answer it: what API Gateway has no part in (signed links, the console).
    ``body_bytes`` says by path prefix where bodies may be larger than API Gateway's.
    """

    def __init__(
        self,
        call: Call,
        routes: Iterable[tuple[str, str]],
        fallback: str,
        special: Special | None = None,
        body_bytes: Mapping[str, int] | None = None,
    ) -> None:
        self._call = call
        self._routes = list(routes)
        self._router = Router(self._routes, fallback)
        self._special = special
        self._body_bytes = dict(body_bytes or {})
        self._work = Work()
        self._server: _Server | None = None
        self._thread: threading.Thread | None = None

    def start(self, port: int = 0) -> None:
        """Listen on ``port`` (0: any free one). Raises OSError when it is taken."""
        self._server = _Server((HOST, port), _Connection, self)
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="gateway", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Refuse every further request."""
        self._work.close()

    def stop(self, seconds: float = 0) -> None:
        """Stop listening, wait for the requests at work, at most ``seconds``, and end every open connection."""
        self._work.close()
        if self._server is None or self._thread is None:
            return
        self._server.shutdown()
        self._work.wait(seconds)
        self._server.server_close()
        self._thread.join()
        self._server = None

    @property
    def port(self) -> int:
        if self._server is None:
            raise RuntimeError("the gateway is not running")
        return int(self._server.server_address[1])

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.port}"

    def body_limit(self, path: bytes) -> int:
        """How many bytes a request for ``path`` may carry."""
        text = path.decode("latin-1")
        return next((most for prefix, most in self._body_bytes.items() if text.startswith(prefix)), BODY_BYTES)

    def answer(self, request: HttpRequest) -> HttpAnswer:
        """What the API answers to one well-formed request; never raises."""
        request_id = str(uuid.uuid4())
        try:
            with self._work.piece():
                return self._special_answer(request) or self._function_answer(request, request_id)
        except Closed:
            return refusal(Internal("The local system is stopping; start it and try again."))
        except RequestError as error:
            return refusal(error)
        except (FunctionFailed, FunctionMissing, BadAnswer) as error:
            # The function has logged its own failure; these are ours.
            log.log(self._failure_level(), "%s %s: %s", request.method, request.path.decode("latin-1"), error)
        except Exception:
            log.log(self._failure_level(), "the gateway failed", exc_info=True)
        return refusal(Internal("Something failed on our side. Nothing is known to be lost; try again."))

    def _failure_level(self) -> int:
        # What stopping cuts off has not failed.
        return logging.DEBUG if self._work.closed else logging.ERROR

    def _special_answer(self, request: HttpRequest) -> HttpAnswer | None:
        return self._special(request) if self._special else None

    def _function_answer(self, request: HttpRequest, request_id: str) -> HttpAnswer:
        try:
            path = events.decoded_path(request.path)
            if path == SANDBOX_PATH and request.method == "POST":
                function = SANDBOX_FUNCTION
                event = events.rest_api_event(request, path, request_id, time.time())
            else:
                match = self._router.match(request.method, path)
                function = match.function
                event = events.http_api_event(request, match, path, request_id, time.time())
        except BadTarget as error:
            raise InvalidRequest(str(error)) from error
        # A byte of text becomes six where JSON has to escape it; smaller bodies need no second look.
        size = len(request.body)
        if size > PAYLOAD_BYTES // 6 and len(json.dumps(event, ensure_ascii=False).encode()) > PAYLOAD_BYTES:
            raise self.too_large(size)
        result = self._call(function, event)
        marshal(result)
        answer = events.answer_of(result)
        return HttpAnswer(answer.status, (*answer.headers, ("apigw-requestid", request_id)), answer.body)

    def too_large(self, size: int | None) -> TooLarge:
        """The refusal of a body that Lambda or API Gateway does not carry, naming what does."""
        said = f"The body has {size:,} bytes" if size is not None else "The body is too large"
        # Four bytes of base64 carry three, and the event around the body takes some.
        carried = PAYLOAD_BYTES * 3 // 4 - 16_384
        text = f"{said}; a request carries about {carried:,} bytes, of plain text somewhat more."
        if any(key == "POST /v1/uploads" for key, _function in self._routes):
            text += " Ask for a signed upload with POST /v1/uploads and name it in the route you meant to call."
        return TooLarge(text, maximumBytes=PAYLOAD_BYTES)


def refusal(error: RequestError) -> HttpAnswer:
    """A failure in the contract's shape."""
    return events.answer_of(failure(error).as_event())


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # The default of 5 drops connection attempts of a burst, which then come back a second later.
    request_queue_size = 128

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler], gateway: Gateway) -> None:
        self.gateway = gateway
        self._open: set[socket.socket] = set()
        self._guard = threading.Lock()
        super().__init__(address, handler)

    def server_bind(self) -> None:
        # HTTPServer's own asks the resolver for the host's name, which can take seconds.
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = HOST, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._guard:
            self._open.discard(request)
        super().shutdown_request(request)

    def server_close(self) -> None:
        super().server_close()
        with self._guard:
            for connection in self._open:
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002 - the base class's signature
        log.debug("connection from %s ended", client_address, exc_info=True)


class _Broken(Exception):
    """The connection cannot go on after the answer that ``error`` becomes."""

    def __init__(self, error: RequestError) -> None:
        super().__init__(error.message)
        self.error = error


class _Headers(HTTPMessage):
    """Headers alone: the parser must not look for the parts of a body that they announce as multipart or a message."""

    def get_content_type(self) -> str:
        return "text/plain"


class _Connection(BaseHTTPRequestHandler):
    """One keep-alive connection. Parsing is the base class's; framing, limits and answers are ours."""

    server: _Server
    MessageClass = _Headers
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = IDLE_SECONDS
    rbufsize = 64 * 1024

    def handle_one_request(self) -> None:
        """Read one request and answer it; whatever is malformed is answered too, and ends the connection."""
        self.close_connection = True
        self.command = ""
        self._drain = False
        self._continue = False
        try:
            self.raw_requestline = self.rfile.readline(LINE_BYTES + 1)
            if not self.raw_requestline:
                return
            try:
                self._serve()
            except _Broken as broken:
                self.close_connection = True
                self._send(refusal(broken.error))
                self._discard()
        except (TimeoutError, ConnectionError):
            self.close_connection = True

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """How the base class reports a request line or header it cannot read."""
        text = f"The request cannot be read: {message or explain or 'malformed HTTP'}."
        raise _Broken(TooLarge(text) if code in (413, 414, 431) else InvalidRequest(text))

    def handle_expect_100(self) -> bool:
        """``100 Continue`` is sent when the body is read, not before its length was judged."""
        self._continue = True
        return True

    def log_message(self, format: str, *arguments: Any) -> None:
        """The base class would write to stderr; functions log for themselves."""

    def _serve(self) -> None:
        if len(self.raw_requestline) > LINE_BYTES:
            self._drain = True
            raise _Broken(TooLarge(f"The request line has more than {LINE_BYTES} bytes."))
        if not self.parse_request():
            return
        request = self._request()
        answer = self.server.gateway.answer(request)
        self._send(answer)

    def _request(self) -> HttpRequest:
        if self.request_version == "HTTP/0.9":
            raise _Broken(InvalidRequest("HTTP/0.9 is not spoken here; send an HTTP/1.1 request."))
        if self.headers.defects or self.headers.get_payload():
            raise _Broken(InvalidRequest("The headers are malformed: a line is not `Name: value`."))
        headers = tuple(self.headers.items())
        if len(self.raw_requestline) + sum(len(name) + len(value) + 4 for name, value in headers) > HEAD_BYTES:
            self._drain = True
            raise _Broken(TooLarge(f"The request line and headers together may have {HEAD_BYTES} bytes."))
        if self.command not in METHODS:
            raise _Broken(InvalidRequest(f"The method {self.command!r} is not one of {', '.join(sorted(METHODS))}."))
        self._check_origin()
        path, query = self._target()
        return HttpRequest(
            method=self.command,
            path=path,
            query=query,
            headers=headers,
            body=self._body(self.server.gateway.body_limit(path)),
            source_ip=str(self.client_address[0]),
            protocol=self.request_version,
            port=self.server.server_port,
        )

    def _check_origin(self) -> None:
        """Pages of other sites must not reach an API that asks for no credentials: not by name, not by script."""
        hosts = self.headers.get_all("host") or []
        if len(hosts) != 1:
            raise _Broken(InvalidRequest("Send exactly one Host header."))
        if not _LOOPBACK.match(hosts[0].strip()):
            raise _Broken(Forbidden(f"This server answers to {HOST} and localhost only, not to {hosts[0]!r}."))
        origin = self.headers.get("origin")
        if origin is not None and not _LOOPBACK.match(origin.partition("://")[2]):
            raise _Broken(Forbidden(f"Requests made by pages of {origin!r} are refused."))

    def _target(self) -> tuple[bytes, bytes]:
        target = self.path
        if target.lower().startswith(("http://", "https://")):
            # The absolute form, which proxies use.
            split = urllib.parse.urlsplit(target)
            target = (split.path or "/") + ("?" + split.query if split.query else "")
        if not target.startswith("/"):
            raise _Broken(InvalidRequest("The request target must be a path that starts with '/'."))
        path, _mark, query = target.partition("#")[0].partition("?")
        return path.encode("latin-1"), query.encode("latin-1")

    def _body(self, limit: int) -> bytes:
        codings = self.headers.get_all("transfer-encoding") or []
        lengths = self.headers.get_all("content-length") or []
        if codings and lengths:
            raise _Broken(InvalidRequest("Send Content-Length or Transfer-Encoding, not both."))
        if codings:
            if [coding.strip().lower() for coding in codings] != ["chunked"]:
                raise _Broken(InvalidRequest("The only Transfer-Encoding understood is `chunked`."))
            self._send_continue()
            return self._chunked_body(limit)
        if not lengths:
            return b""
        if len(lengths) > 1 or not _LENGTH.match(lengths[0].strip()):
            raise _Broken(InvalidRequest("Content-Length must be one whole number."))
        size = int(lengths[0])
        if size > limit:
            # A client that asked for permission has sent nothing yet; any other is sending already.
            self._drain = not self._continue
            raise _Broken(self.server.gateway.too_large(size))
        self._send_continue()
        body = self.rfile.read(size)
        if len(body) < size:
            raise _Broken(InvalidRequest(f"The body ended after {len(body)} of {size} bytes."))
        return body

    def _chunked_body(self, limit: int) -> bytes:
        parts: list[bytes] = []
        total = 0
        while True:
            text = self._short_line().partition(b";")[0].strip()
            if not _CHUNK_SIZE.match(text):
                raise _Broken(InvalidRequest("A chunk of the body has no valid size."))
            size = int(text, 16)
            if size == 0:
                break
            total += size
            if total > limit:
                self._drain = True
                raise _Broken(self.server.gateway.too_large(None))
            part = self.rfile.read(size)
            if len(part) < size or self._short_line() != b"\r\n":
                raise _Broken(InvalidRequest("A chunk of the body is not as long as it says."))
            parts.append(part)
        # Trailers may follow; nothing here uses them.
        for _line in range(100):
            if self._short_line() in (b"\r\n", b"\n"):
                return b"".join(parts)
        raise _Broken(InvalidRequest("The body has too many trailers."))

    def _short_line(self) -> bytes:
        line = self.rfile.readline(1024)
        if not line.endswith(b"\n"):
            raise _Broken(InvalidRequest("The chunked body ended early or has an overlong line."))
        return line

    def _send_continue(self) -> None:
        if self._continue:
            self.wfile.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def _send(self, answer: HttpAnswer) -> None:
        """Send status, headers and body in one write, so that no packet waits for another's acknowledgement."""
        reason = self.responses.get(answer.status, ("", ""))[0]
        lines = [f"HTTP/1.1 {answer.status} {reason}", f"date: {self.date_time_string()}"]
        lines += [
            f"{name}: {value}"
            for name, value in answer.headers
            if name.lower() not in ("content-length", "connection", "date", "transfer-encoding")
        ]
        if answer.status not in _BODILESS:
            lines.append(f"content-length: {len(answer.body)}")
        lines.append("connection: close" if self.close_connection else "connection: keep-alive")
        head = "\r\n".join(lines).encode("latin-1", "replace") + b"\r\n\r\n"
        bodiless = self.command == "HEAD" or answer.status in _BODILESS
        self.wfile.write(head if bodiless else head + answer.body)

    def _discard(self) -> None:
        """Read on for a while after a refusal: closing at once could reset the connection before it was read."""
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_WR)
            limit = DRAIN_BYTES if self._drain else LINE_BYTES
            deadline = time.monotonic() + (DRAIN_SECONDS if self._drain else 0.2)
            while limit > 0 and (left := deadline - time.monotonic()) > 0:
                self.connection.settimeout(left)
                received = self.connection.recv(LINE_BYTES)
                if not received:
                    return
                limit -= len(received)
