"""The supervisor's look at its network, and what it does when somebody gave it credentials."""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from local.payload import Payload
from sandbox_container import probe, reach
from tests.sandbox.conftest import SUPERVISOR, Sandbox
from tests.sandbox.route_server import RouteServer

RUNGS = ("process",)


@pytest.fixture
def listening() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def closed() -> str:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"


def test_what_is_reached_and_what_is_not(listening: str, closed: str) -> None:
    targets = {"addresses": [listening, closed, "::1:1"], "names": ["localhost", "no-such-name.invalid"]}
    found = reach.look(targets)
    assert found[listening] == "connected"
    assert found[closed] == "ECONNREFUSED"
    assert found["::1:1"] in ("ECONNREFUSED", "EADDRNOTAVAIL", "EAFNOSUPPORT", "ENETUNREACH")
    assert (found["localhost"], found["no-such-name.invalid"]) == ("found", "not found")


def test_an_address_that_never_answers_takes_bounded_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A listener whose queue is full answers no more."""
    monkeypatch.setattr(reach, "_SECONDS", 0.3)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        address = server.getsockname()
        waiting = [socket.socket() for _ in range(8)]
        try:
            for one in waiting:
                one.setblocking(False)
                one.connect_ex(address)
            assert reach.look({"addresses": [f"127.0.0.1:{address[1]}"]}) == {f"127.0.0.1:{address[1]}": "no answer"}
        finally:
            for one in waiting:
                one.close()


def test_nothing_asked_is_nothing_looked_at() -> None:
    assert reach.look({}) == {}


def test_a_job_may_ask_for_it_and_the_program_has_no_network_all_the_same(
    sandbox: Sandbox, route: RouteServer, listening: str
) -> None:
    code = "import socket\ntry:\n    socket.socket()\nexcept OSError as error:\n    print(error.errno)"
    run = route.submit(code)
    run.job["reach"] = {"addresses": [listening], "names": []}
    assert sandbox.start().wait() == 0
    assert run.report["verified"]["reach"] == {listening: "connected"}
    assert run.report["stdout"] == "97\n"


def test_a_job_that_does_not_ask_gets_no_look(sandbox: Sandbox) -> None:
    assert "reach" not in sandbox.run("pass").report["verified"]


@pytest.mark.parametrize("name", ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_ACCESS_KEY_ID", "AWS_SESSION_TOKEN"])
def test_a_supervisor_that_was_given_credentials_takes_no_job(
    payload: Payload, route: RouteServer, tmp_path: Path, name: str
) -> None:
    environment = {
        "PATH": "/usr/bin:/bin",
        "WORKBENCH_SANDBOX": "rich",
        "WORKBENCH_SECRET": route.new_secret("rich"),
        "WORKBENCH_ROUTE": route.url,
        "WORKBENCH_ROOT": f"/run/workbench-rich-{os.getpid()}",
        "WORKBENCH_UID": str(280_000 + 2 * (os.getpid() % 10_000)),
        "WORKBENCH_INTERPRETER": str(payload.interpreter),
        "WORKBENCH_NODE": str(payload.node),
        name: "canary",
    }
    command = [str(payload.base), "-I", "-S", str(SUPERVISOR)]
    ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    Path(environment["WORKBENCH_ROOT"]).rmdir()
    assert (ran.returncode, route.calls["claim"]) == (3, 0)
    assert "credentials" in ran.stderr and name in ran.stderr
    assert "canary" not in ran.stderr


def test_the_self_report_says_that_there_are_none(sandbox: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sandbox.run("pass").report["verified"]["credentials"] == []
    # The local system of another test of this process may have left its own.
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "http://169.254.170.2/")
    assert probe.credentials() == ["AWS_CONTAINER_CREDENTIALS_FULL_URI"]
