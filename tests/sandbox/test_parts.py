"""The supervisor's parts by themselves: the filter as a program, the connection, tails, packs and removing trees."""

from __future__ import annotations

import datetime
import errno
import ipaddress
import os
import socket
import ssl
import struct
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from hypothesis import given, settings
from hypothesis import strategies as st

from local.payload import Payload
from sandbox_container import kernel, packs, seccomp, tree
from sandbox_container.output import Output
from sandbox_container.route import Route, RouteLost, RouteRefused, pack_part, unpack_part
from tests.sandbox.conftest import SUPERVISOR

# The machine may be busy; how long an example takes is no property.
unhurried = settings(deadline=None)

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
X86, ARM = 0xC000003E, 0xC00000B7
ARCHITECTURES = pytest.mark.parametrize(("arm", "architecture"), [(False, X86), (True, ARM)], ids=["x86_64", "aarch64"])


def judge(program: bytes, number: int, arguments: tuple[int, ...] = (), architecture: int = X86) -> int:
    """What a filter says to a call: the classic BPF machine, as far as filters use it."""
    data = struct.pack("=IIQ6Q", number, architecture, 0, *(*arguments, *[0] * (6 - len(arguments))))
    instructions = list(struct.iter_unpack("=HBBI", program))
    accumulator = position = 0
    while True:
        operation, if_true, if_false, constant = instructions[position]
        position += 1
        if operation == 0x06:
            return constant
        if operation == 0x20:
            (accumulator,) = struct.unpack_from("=I", data, constant)
        elif operation == 0x54:
            accumulator &= constant
        else:
            holds = {
                0x15: accumulator == constant,
                0x25: accumulator > constant,
                0x45: bool(accumulator & constant),
            }[operation]
            position += if_true if holds else if_false


@ARCHITECTURES
def test_every_call_is_allowed_forbidden_or_unknown_as_listed(
    monkeypatch: pytest.MonkeyPatch, arm: bool, architecture: int
) -> None:
    monkeypatch.setattr(kernel, "ARM", arm)
    monkeypatch.setattr(seccomp, "_AUDIT_ARCH", architecture)
    program = seccomp.program()
    forbidden = {numbers[arm] for numbers in seccomp.FORBIDDEN.values()}
    by_argument = {numbers[arm] for numbers in seccomp.ARGUMENTS.values()}
    for number in range(600):
        answer = judge(program, number, architecture=architecture)
        if number in forbidden:
            assert answer == ERRNO | errno.EPERM
        elif number > seccomp.HIGHEST_KNOWN:
            assert answer == ERRNO | errno.ENOSYS
        elif number not in by_argument:
            assert answer == ALLOW
    other = X86 if arm else ARM
    assert {judge(program, number, architecture=other) for number in range(600)} == {KILL}


@ARCHITECTURES
@pytest.mark.parametrize(
    ("call", "arguments", "answer"),
    [
        ("socket", (1, 1, 0), ERRNO | errno.EAFNOSUPPORT),
        ("socketpair", (1, 1, 0), ALLOW),
        ("socketpair", (1, 0o2000000 | 5, 0), ALLOW),
        ("socketpair", (1, 2, 0), ERRNO | errno.EAFNOSUPPORT),
        ("socketpair", (16, 3, 0), ERRNO | errno.EAFNOSUPPORT),
        ("clone", (0x01200011,), ALLOW),
        ("clone", (0x3D0F00,), ALLOW),
        ("clone", (0x10000011,), ERRNO | errno.EPERM),
        ("clone", (0x40000011,), ERRNO | errno.EPERM),
        ("clone3", (), ERRNO | errno.ENOSYS),
        ("ioctl", (0, 0x5401), ALLOW),
        ("ioctl", (0, 0x5412), ERRNO | errno.EPERM),
        ("ioctl", (0, 0x5412 | 7 << 32), ERRNO | errno.EPERM),
        ("prlimit64", (0, 7), ALLOW),
        ("prlimit64", (5, 7), ERRNO | errno.EPERM),
        ("setpriority", (0, 0, 5), ALLOW),
        ("setpriority", (1, 0, 5), ERRNO | errno.EPERM),
        ("setpriority", (0, 9, 5), ERRNO | errno.EPERM),
        ("personality", (0xFFFFFFFF,), ALLOW),
        ("personality", (0x0400000,), ERRNO | errno.EPERM),
    ],
)
def test_arguments_decide(
    monkeypatch: pytest.MonkeyPatch, arm: bool, architecture: int, call: str, arguments: tuple[int, ...], answer: int
) -> None:
    monkeypatch.setattr(kernel, "ARM", arm)
    monkeypatch.setattr(seccomp, "_AUDIT_ARCH", architecture)
    number = seccomp.ARGUMENTS[call][arm]
    assert judge(seccomp.program(), number, arguments, architecture) == answer


def test_calls_through_the_x32_table_do_not_exist() -> None:
    assert {judge(seccomp.program(), 0x40000000 + number) for number in range(600)} == {ERRNO | errno.ENOSYS}


# ---------------------------------------------------------------- the connection


class Answerer:
    """Answers each connection with the next of ``answers`` for every request on it."""

    def __init__(self, answers: list[bytes], context: ssl.SSLContext | None = None) -> None:
        self._answers, self._context = answers, context
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.requests: list[bytes] = []
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        for answer in self._answers:
            try:
                connection, _ = self._listener.accept()
                with self._context.wrap_socket(connection, server_side=True) if self._context else connection as line:
                    self.requests.append(line.recv(65536))
                    line.sendall(answer)
            except OSError:
                continue

    def close(self) -> None:
        self._listener.close()


OK = b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a": 1}'


@pytest.mark.parametrize(
    "answer",
    [
        OK,
        b'HTTP/1.1 200 OK\r\ncontent-length:8\r\nConnection: close\r\n\r\n{"a": 1}',
        b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\n{"a\r\n5;x=y\r\n": 1}\r\n0\r\n\r\n',
        b"HTTP/1.1 100 Continue\r\n\r\n" + OK,
    ],
    ids=["length", "close", "chunks", "continue"],
)
def test_answers_in_every_form(answer: bytes) -> None:
    server = Answerer([answer])
    assert Route(f"http://127.0.0.1:{server.port}/x?y=1").call({"op": "claim"}) == {"a": 1}
    assert server.requests[0].startswith(b"POST /x?y=1 HTTP/1.1\r\nHost: 127.0.0.1:")
    server.close()


@pytest.mark.parametrize(
    "broken",
    [
        b"",
        b"garbage\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\n{}",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b'HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\n{"a"',
        b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n",
        b"X" * 100_000,
    ],
)
def test_a_broken_answer_is_asked_for_again(broken: bytes) -> None:
    server = Answerer([broken, OK])
    assert Route(f"http://127.0.0.1:{server.port}/").call({}) == {"a": 1}
    server.close()


def test_a_refusal_is_final_and_a_lost_route_is_given_up() -> None:
    server = Answerer([b"HTTP/1.1 409 Conflict\r\nContent-Length: 4\r\n\r\nover"])
    with pytest.raises(RouteRefused, match="over") as refused:
        Route(f"http://127.0.0.1:{server.port}/").call({})
    assert refused.value.status == 409
    server.close()
    with pytest.raises(RouteLost):
        Route(f"http://127.0.0.1:{server.port}/").call({}, give_up_seconds=0.2)


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    plain = serialization.NoEncryption()
    encoding = serialization.Encoding.PEM
    path.write_bytes(
        made.public_bytes(encoding) + key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, plain)
    )
    return path


@pytest.mark.parametrize("trusted", [True, False], ids=["trusted", "unknown issuer"])
def test_tls_is_verified(certificate: Path, monkeypatch: pytest.MonkeyPatch, trusted: bool) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server = Answerer([OK] * 8, context)
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    route = Route(f"https://127.0.0.1:{server.port}/")
    if trusted:
        assert route.call({}) == {"a": 1}
    else:
        with pytest.raises(RouteLost, match="certificate"):
            route.call({}, give_up_seconds=0.2)
    server.close()


@unhurried
@given(st.binary(max_size=5000))
def test_a_part_comes_back_as_it_was(raw: bytes) -> None:
    assert unpack_part(pack_part(raw)) == raw


def test_what_does_not_shrink_is_not_squeezed() -> None:
    raw = os.urandom(1 << 20)
    assert unpack_part(pack_part(raw)) == raw
    assert unpack_part(pack_part(b"a" * (1 << 20))) == b"a" * (1 << 20)
    assert len(pack_part(b"a" * (1 << 20))["data"]) < 10_000


# ---------------------------------------------------------------- output, packs, trees


@unhurried
@given(st.binary(max_size=400), st.binary(max_size=400), st.integers(2, 120))
def test_tails_are_ends_and_share_the_room(out: bytes, err: bytes, most: int) -> None:
    output = Output(10_000)
    output.add(output.stdout, out)
    output.add(output.stderr, err)
    stdout, stderr = output.tails(most)
    whole_out, whole_err = out.decode(errors="replace"), err.decode(errors="replace")
    assert len(stdout) + len(stderr) <= most
    if out.isascii() and err.isascii():
        assert len(stdout) + len(stderr) == min(most, len(out) + len(err))
        assert whole_out.endswith(stdout)
        assert whole_err.endswith(stderr)


@unhurried
@given(st.lists(st.integers(0, 350), max_size=12))
def test_packs_give_every_content_back(sizes: list[int]) -> None:
    most = 100
    sent: dict[int, bytes] = {}
    with mock.patch.object(packs, "PACK_BYTES", most):
        writer = packs.Packs(sent.__setitem__)
        where = []
        for number, size in enumerate(sizes):
            data = bytes([number]) * size
            where.append((data, writer.add(f"sum {number}", size, [data[:70], data[70:]])))
        writer.flush()
    assert sorted(sent) == list(range(writer.parts))
    assert all(0 < len(pack) <= most for pack in sent.values())
    for data, pieces in where:
        assert b"".join(sent[p.part][p.offset : p.offset + p.length] for p in pieces) == data
        assert len(pieces) <= 1 or len(data) > most


@pytest.fixture
def stubborn(tmp_path: Path) -> Iterator[Path]:
    """Deep, closed, linked out and oddly named."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "precious").write_text("stays")
    top = tmp_path / "top"
    top.mkdir()
    here = os.open(top, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("d", dir_fd=here)
        inner = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = inner
    os.close(here)
    (top / "remove-1").mkdir()
    (top / "link").symlink_to(outside)
    (top / "d" / "link").symlink_to("/")
    (top / "closed").mkdir(mode=0)
    (top / os.fsdecode(b"\xff")).mkdir()
    yield top
    assert (outside / "precious").read_text() == "stays"


def test_any_tree_can_be_removed(stubborn: Path) -> None:
    with tree.folder(str(stubborn)) as top:
        tree.empty(top)
    assert list(stubborn.iterdir()) == []


@pytest.mark.parametrize(
    ("changed", "complaint"),
    [
        ({"WORKBENCH_UID": "0"}, "a user of its own"),
        ({"WORKBENCH_UID": "many"}, "no number"),
        ({"WORKBENCH_BOUNDARY": "paper"}, "one of user, namespace, none"),
        ({"WORKBENCH_ROUTE": ""}, "WORKBENCH_ROUTE is not set"),
        ({"WORKBENCH_ROOT": "/usr"}, "is not empty"),
        ({"WORKBENCH_INTERPRETER": "/nowhere/python"}, "execute /nowhere/python"),
    ],
)
def test_wrong_settings_are_named_and_no_job_is_taken(
    payload: Payload, tmp_path: Path, changed: dict[str, str], complaint: str
) -> None:
    environment = {
        "WORKBENCH_SANDBOX": "s",
        "WORKBENCH_SECRET": "secret",
        "WORKBENCH_ROUTE": "http://127.0.0.1:1/",
        "WORKBENCH_ROOT": str(tmp_path / "sandbox"),
        "WORKBENCH_HOME": str(tmp_path / "home"),
        "WORKBENCH_UID": str(250_000 + 2 * (os.getpid() % 4000)),
        "WORKBENCH_INTERPRETER": str(payload.interpreter),
        **changed,
    }
    command = [str(payload.base), "-I", "-S", str(SUPERVISOR)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 3
    assert complaint in ran.stderr
    assert "secret" not in ran.stderr
