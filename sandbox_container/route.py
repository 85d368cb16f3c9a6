"""Talks to the one route: JSON over HTTP/1.1 on a kept-open socket, sent again with backoff on faults.

A raw socket, because ``http.client`` alone costs more to import than everything here together.
"""

import base64
import hashlib
import json
import random
import socket
import time
import zlib
from typing import Any

PART_BYTES = 4 * 1024 * 1024
_RAW_CAP = 2 * PART_BYTES  # of one decompressed part; the route sends at most PART_BYTES
_ANSWER_CAP = 16 * 1024 * 1024
_HEADER_CAP = 64 * 1024
_SAMPLE_BYTES, _WORTH_IT = 32 * 1024, 0.95
_CONNECT_SECONDS = 10.0
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 5.0


class RouteRefused(Exception):
    """The route said no (4xx): nothing changes by asking again."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(f"the route answered {status}: {text[:200]}")
        self.status = status


class RouteLost(Exception):
    """The route could not be reached, or failed, for as long as we were to try."""


class _Fault(Exception):
    """This attempt failed; another may not."""


class Route:
    """One connection to ``url`` (``http://…`` or ``https://…``). Not shared between threads."""

    def __init__(self, url: str) -> None:
        scheme, separator, rest = url.partition("://")
        authority, slash, path = rest.partition("/")
        if scheme not in ("http", "https") or not separator or not authority:
            raise ValueError(f"no address of a route: {url!r}")
        host, colon, port = authority.rpartition(":")
        self._host = host if colon else authority
        self._port = int(port) if colon else (443 if scheme == "https" else 80)
        self._secure = scheme == "https"
        self._head = f"POST {slash + path or '/'} HTTP/1.1\r\nHost: {authority}\r\n".encode("ascii")
        self._socket: socket.socket | None = None
        self._unread = b""

    def call(self, body: dict[str, Any], *, answer_seconds: float = 30.0, give_up_seconds: float = 60.0) -> Any:
        """The decoded answer. Raises :class:`RouteRefused` on 4xx, :class:`RouteLost` after ``give_up_seconds``."""
        payload = json.dumps(body, separators=(",", ":")).encode()
        request = self._head + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(payload) + payload
        deadline = time.monotonic() + give_up_seconds
        pause = _FIRST_PAUSE_SECONDS
        while True:
            try:
                status, text = self._exchange(request, answer_seconds)
                if status == 200:
                    return json.loads(text)
                if 400 <= status < 500 and status not in (408, 429):
                    raise RouteRefused(status, text.decode(errors="replace"))
                fault = f"status {status}"
            except (OSError, _Fault, ValueError) as error:
                self.close()
                fault = str(error)
            if time.monotonic() + pause > deadline:
                raise RouteLost(f"no answer from the route: {fault}")
            time.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - spreads load, no secret
            pause = min(pause * 2, _LONGEST_PAUSE_SECONDS)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
        self._socket, self._unread = None, b""

    def _connect(self) -> socket.socket:
        plain = socket.create_connection((self._host, self._port), timeout=_CONNECT_SECONDS)
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self._secure:
            return plain
        import ssl  # slow to import, and the local route is plain HTTP on loopback

        return ssl.create_default_context().wrap_socket(plain, server_hostname=self._host)

    def _exchange(self, request: bytes, seconds: float) -> tuple[int, bytes]:
        if self._socket is None:
            self._socket, self._unread = self._connect(), b""
        self._socket.settimeout(seconds)
        self._socket.sendall(request)
        status = 100
        while 100 <= status < 200:
            status, headers = self._head_of_answer()
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = self._chunks()
        else:
            length = headers.get("content-length", "")
            if not length.isdigit() or int(length) > _ANSWER_CAP:
                raise _Fault(f"an answer of unknown or excessive length {length!r}")
            body = self._take(int(length))
        if headers.get("connection", "").lower() == "close":
            self.close()
        return status, body

    def _head_of_answer(self) -> tuple[int, dict[str, str]]:
        first, *lines = self._until(b"\r\n\r\n").decode("latin-1").split("\r\n")
        version, _, rest = first.partition(" ")
        if not version.startswith("HTTP/1.") or not rest[:3].isdigit():
            raise _Fault(f"no HTTP answer: {first[:80]!r}")
        pairs = (line.partition(":") for line in lines)
        return int(rest[:3]), {name.strip().lower(): value.strip() for name, _, value in pairs}

    def _chunks(self) -> bytes:
        body = bytearray()
        while True:
            size = int(self._until(b"\r\n").split(b";")[0], 16)
            if size < 0 or len(body) + size > _ANSWER_CAP:
                raise _Fault("an answer of excessive length")
            if size == 0:
                while self._until(b"\r\n"):
                    continue
                return bytes(body)
            body += self._take(size)
            self._until(b"\r\n")

    def _receive(self) -> bytes:
        assert self._socket is not None
        data = self._socket.recv(256 * 1024)
        if not data:
            raise _Fault("the connection was closed")
        return data

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._unread:
            if len(self._unread) > _HEADER_CAP:
                raise _Fault("an answer's head is too long")
            self._unread += self._receive()
        found, _, self._unread = self._unread.partition(mark)
        return found

    def _take(self, length: int) -> bytes:
        pieces, have = [self._unread], len(self._unread)
        while have < length:
            data = self._receive()
            pieces.append(data)
            have += len(data)
        everything = b"".join(pieces)
        self._unread = everything[length:]
        return everything[:length]


def pack_part(raw: bytes) -> dict[str, str]:
    """``{"sha256", "data"}`` as the protocol carries bytes."""
    data = base64.b64encode(zlib.compress(raw, _level(raw))).decode("ascii")
    return {"sha256": hashlib.sha256(raw).hexdigest(), "data": data}


def _level(raw: bytes) -> int:
    """1, or 0 for what is compressed already (pictures, archives): trying costs more than all the rest of sending."""
    middle = len(raw) // 2
    sample = raw[middle : middle + _SAMPLE_BYTES]
    return 0 if len(zlib.compress(sample, 1)) > _WORTH_IT * len(sample) else 1


def unpack_part(answer: dict[str, Any]) -> bytes:
    """The bytes of a part. ValueError when they are not what their sum says, or too many."""
    stream = zlib.decompressobj()
    try:
        raw = stream.decompress(base64.b64decode(answer["data"], validate=True), _RAW_CAP)
    except zlib.error as error:
        raise ValueError(f"a part does not decompress: {error}") from error
    if not stream.eof:
        raise ValueError("a part is cut short or too large")
    if hashlib.sha256(raw).hexdigest() != answer["sha256"]:
        raise ValueError("a part is not what its sum says")
    return raw


class Session:
    """The calls of one run: every request carries its run and its secret."""

    def __init__(self, route: Route, run: str, session: str) -> None:
        self._route = route
        self._who = {"run": run, "session": session}

    def call(self, op: str, fields: dict[str, Any], *, give_up_seconds: float = 60.0) -> Any:
        return self._route.call({"op": op, **self._who, **fields}, give_up_seconds=give_up_seconds)

    def input(self, stream: str, part: int) -> bytes:
        """One part of the plan or the data, verified; fetched once more when it arrived damaged."""
        wanted = {"stream": stream, "part": part}
        try:
            return unpack_part(self.call("input", wanted))
        except ValueError:
            return unpack_part(self.call("input", wanted))

    def output(self, stream: str, part: int, raw: bytes) -> None:
        self.call("output", {"stream": stream, "part": part, **pack_part(raw)})
