"""Three ways to start the supervisor, one way to judge a run.

``process``: the supervisor as a process, as Fargate runs it: no namespace between the program and the machine, so that
nothing but the supervisor's own guards holds. ``local``: through :mod:`local.launcher`, as the local system runs it.
``bundle``: in an OCI container with Fargate's constraints.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local import launcher
from local.payload import Payload, payload_environment
from sandbox_container import reap
from tests.sandbox.bundle import Container, write_bundle
from tests.sandbox.route_server import RouteServer, Run

SUPERVISOR = Path(__file__).resolve().parents[2] / "sandbox_container"
SHARED_FOLDERS = ("/tmp", "/dev/shm", "/var/tmp")
ALL_RUNGS = ("process", "local", "bundle")
# Starting, probing, claiming, reading back and reporting, on a busy machine.
GRACE_SECONDS = 60.0
WAIT_SECONDS = 120.0
# A disk of its own for the working directory, as the task definition gives it; everything else is the machine's.
ON_A_MEMORY_DISK = 'mount -t tmpfs -o size=160m,nr_inodes=30000,mode=755 sandbox "$WORKBENCH_ROOT" && exec "$0" "$@"'

DENIED = {"EPERM", "EACCES", "ENOENT", "ENOSYS", "ESRCH", "EROFS"}

Start = Callable[[str, str, str], "Started"]


def owner(path: Path) -> int | None:
    """The uid that a file belongs to; None when it went away."""
    try:
        return path.lstat().st_uid
    except FileNotFoundError:
        return None


class Started:
    """A supervisor that runs. ``uid`` is the sandbox's, where this test alone uses it."""

    def __init__(self, process: Any, uid: int | None) -> None:
        self.process, self.uid = process, uid

    def wait(self) -> int:
        """Its exit status; a supervisor that does not end fails the test instead of holding it up."""
        ended: queue.Queue[int] = queue.Queue()
        threading.Thread(target=lambda: ended.put(self.process.wait()), daemon=True).start()
        try:
            return ended.get(timeout=WAIT_SECONDS)
        except queue.Empty:
            self.process.kill() if isinstance(self.process, subprocess.Popen) else self.process.stop()
            raise AssertionError(f"the supervisor did not end within {WAIT_SECONDS} s") from None


class Sandbox:
    """Runs one program after another, each in a supervisor of its own, and judges what every run must keep."""

    def __init__(self, route: RouteServer, start: Start) -> None:
        self.route, self._start = route, start
        self._number = 0

    def start(self) -> Started:
        self._number += 1
        name = f"sbx{self._number}-{os.getpid()}"
        return self._start(name, self.route.new_secret(name), self.route.url)

    def run(self, code: str, language: str = "python", **job: Any) -> Run:
        """One run to its end: one report, in bounded time, and nothing left behind but the report."""
        started = self.start()
        run = self.route.submit(code, language, **job)
        began = time.monotonic()
        status = started.wait()
        assert status == 0, f"the supervisor ended with {status}"
        assert time.monotonic() - began < run.job["timeoutSeconds"] + GRACE_SECONDS
        assert len(run.reports) == 1
        self.judge(run, started)
        return run

    def judge(self, run: Run, started: Started) -> None:
        everything = json.dumps([run.reports, run.beats]).encode() + b"".join(run.parts.values())
        for secret in (run.session, *self.route.secrets.values(), *self.route.own_secrets.values()):
            assert secret.encode() not in everything
        if started.uid is not None:
            alive = [process.pid for process in reap.processes() if started.uid in process.uids]
            assert alive == []
            assert [
                path for folder in SHARED_FOLDERS for path in Path(folder).iterdir() if owner(path) == started.uid
            ] == []

    def results(self, code: str, **job: Any) -> dict[str, Any]:
        """The JSON object that a program printed; it must have come to its end."""
        run = self.run(PRELUDE + code, **job)
        assert run.report["outcome"] == "finished", run.report
        assert run.report["exitCode"] == 0, run.report["stderr"]
        return dict(json.loads(run.report["stdout"]))


# For programs that try what must fail: each attempt gives the name of the errno, or "ok".
PRELUDE = """
import ctypes, errno, json, os, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def name(number):
    return errno.errorcode.get(number, str(number))
def call(number, *arguments):
    ctypes.set_errno(0)
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return name(ctypes.get_errno()) if libc.syscall(ctypes.c_long(number), *plain) < 0 else "ok"
def attempt(action, *arguments, **named):
    try:
        action(*arguments, **named)
    except OSError as error:
        return name(error.errno)
    return "ok"
"""


@pytest.fixture(scope="session")
def payload() -> Payload:
    return payload_environment()


@pytest.fixture(scope="session")
def route() -> Iterator[RouteServer]:
    server = RouteServer()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def without_faults(route: RouteServer) -> Iterator[None]:
    route.calls.clear()
    yield
    route.fault = None
    route.forget_jobs()


def as_process(payload: Payload, root: Path) -> Start:
    """The supervisor itself, with a uid that no other test process uses."""
    uid = 260_000 + 2 * (os.getpid() % 10_000)

    def start(sandbox: str, secret: str, route: str) -> Started:
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "WORKBENCH_SANDBOX": sandbox,
            "WORKBENCH_SECRET": secret,
            "WORKBENCH_ROUTE": route,
            "WORKBENCH_ROOT": str(root),
            "WORKBENCH_UID": str(uid),
            "WORKBENCH_INTERPRETER": str(payload.interpreter),
            "WORKBENCH_NODE": str(payload.node),
        }
        command = [str(payload.base), "-I", "-S", str(SUPERVISOR)]
        process = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", ON_A_MEMORY_DISK, *command], env=environment
        )
        return Started(process, uid)

    return start


def in_bundle(payload: Payload) -> Start:
    uid = 230_000 + 2 * (os.getpid() % 10_000)

    def start(sandbox: str, secret: str, route: str) -> Started:
        folder = Path(tempfile.mkdtemp(prefix="workbench-bundle-"))
        environment = {
            "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
            "WORKBENCH_SANDBOX": sandbox,
            "WORKBENCH_SECRET": secret,
            "WORKBENCH_ROUTE": route,
            "WORKBENCH_UID": str(uid),
            "WORKBENCH_INTERPRETER": str(payload.interpreter),
            "WORKBENCH_NODE": str(payload.node),
        }
        write_bundle(folder, payload, SUPERVISOR, environment)
        return Started(Container(folder, sandbox), uid)

    return start


def as_local(sandbox: str, secret: str, route: str) -> Started:
    return Started(launcher.start_sandbox(sandbox, secret, route), None)


@pytest.fixture(scope="session")
def root_folder() -> Iterator[Path]:
    # Not below pytest's own folder, which no other user may enter.
    folder = Path(f"/run/workbench-test-{os.getpid()}")
    folder.mkdir()
    yield folder
    folder.rmdir()


@pytest.fixture(scope="session")
def process_sandbox(route: RouteServer, payload: Payload, root_folder: Path) -> Sandbox:
    return Sandbox(route, as_process(payload, root_folder))


@pytest.fixture(scope="session")
def local_sandbox(route: RouteServer, payload: Payload) -> Sandbox:
    return Sandbox(route, as_local)


@pytest.fixture(scope="session")
def bundle_sandbox(route: RouteServer, payload: Payload) -> Sandbox:
    return Sandbox(route, in_bundle(payload))


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Every test runs on every rung, unless its module says which are enough for what it tests."""
    if "sandbox" in metafunc.fixturenames:
        metafunc.parametrize("sandbox", getattr(metafunc.module, "RUNGS", ALL_RUNGS), indirect=True)


@pytest.fixture
def sandbox(request: pytest.FixtureRequest) -> Sandbox:
    found: Sandbox = request.getfixturevalue(f"{request.param}_sandbox")
    return found
