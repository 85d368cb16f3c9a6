"""What native code could do in the child process, had it broken out of the engine: one mutation per limit.

The same script runs with all limits, where everything must fail, and without one of them, where its fact must change.
It runs as root, which gives root up, and as an ordinary user, as in Lambda.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from local.payload import payload_environment
from workbench.javascript import child

CHILD = Path(child.__file__)
NOBODY = 65534

FACTS = """
import ctypes, errno, importlib.util, json, mmap, os, resource, socket, sys, threading, time
spec = importlib.util.spec_from_file_location("child", sys.argv[1])
child = importlib.util.module_from_spec(spec)
spec.loader.exec_module(child)
uid, *without = sys.argv[2:]
if uid != "0":
    os.setgroups([])
    os.setresgid(int(uid), int(uid), int(uid))
    os.setresuid(int(uid), int(uid), int(uid))
if "user" in without:
    child.os.geteuid = lambda: 1
for name in without:
    child.LIMITS.pop(getattr(resource, name, None), None)
read, write = os.pipe()
scratch = os.memfd_create("scratch")
libc = ctypes.CDLL(None, use_errno=True)
child.give_up()

def attempt(action):
    try:
        action()
    except (OSError, MemoryError, RuntimeError, ValueError) as error:
        return errno.errorcode[error.errno] if getattr(error, "errno", None) else type(error).__name__
    return "ok"

def fork():
    if os.fork() == 0:
        os._exit(0)
    os.wait()

def reuse():
    # A number that was in use and is free again must not be had either.
    os.close(0)
    socket.socket()

def other(pid):
    if libc.ptrace(16, pid, None, None) != 0:
        raise OSError(ctypes.get_errno(), "ptrace")

def leave(*limits):
    for limit in limits:
        resource.setrlimit(limit, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

facts = {
    "uid": os.getuid(),
    "groups": os.getgroups(),
    "open": attempt(lambda: open("/etc/passwd")),
    "socket": attempt(lambda: socket.socket()),
    "datagram": attempt(lambda: socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)),
    "pipe": attempt(os.pipe),
    "dup": attempt(lambda: os.dup(1)),
    "fork": attempt(fork),
    "thread": attempt(lambda: threading.Thread(target=print).start()),
    "memory": attempt(lambda: mmap.mmap(-1, 400 * 2**20)),
    "write": attempt(lambda: os.write(scratch, b"x" * 9000)),
    "root": attempt(lambda: os.setuid(0)) if os.getuid() else "is",
    "signal": attempt(lambda: os.kill(1, 0)),
    "trace": attempt(lambda: other(1)),
    "higher": attempt(lambda: leave(resource.RLIMIT_NOFILE, resource.RLIMIT_NPROC, resource.RLIMIT_AS)),
    "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
    "seconds": resource.getrlimit(resource.RLIMIT_CPU)[1],
    "again": attempt(reuse),
}
os.write(1, json.dumps(facts).encode())
os._exit(0)
"""
SOUND = {
    "uid": NOBODY,
    "groups": [],
    "open": "EMFILE",
    "socket": "EMFILE",
    "datagram": "EMFILE",
    "pipe": "EMFILE",
    "dup": "EINVAL",
    "fork": "EAGAIN",
    "thread": "RuntimeError",
    "memory": "ENOMEM",
    "write": "EFBIG",
    "root": "EPERM",
    "signal": "EPERM",
    "trace": "EPERM",
    "higher": "ValueError",
    "core": 0,
    "seconds": child.CPU_SECONDS,
    "again": "EMFILE",
}


def facts(uid: int, *without: str) -> dict[str, Any]:
    """As user ``uid``, with a Python that every user may start."""
    command = [payload_environment().base, "-I", "-S", "-c", FACTS, CHILD, str(uid), *without]
    ran = subprocess.run(command, env={"TZ": "UTC0"}, capture_output=True, text=True, timeout=30)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


@pytest.mark.parametrize("uid", [0, NOBODY], ids=["as root", "as in Lambda"])
def test_with_every_limit_nothing_can_be_reached(uid: int) -> None:
    assert facts(uid) == SOUND


@pytest.mark.parametrize(
    ("without", "broken"),
    [
        ("RLIMIT_NOFILE", {"open": "ok", "socket": "ok", "datagram": "ok", "pipe": "ok", "dup": "ok", "again": "ok"}),
        ("RLIMIT_NPROC", {"fork": "ok", "thread": "ok"}),
        ("RLIMIT_AS", {"memory": "ok"}),
        ("RLIMIT_FSIZE", {"write": "ok"}),
        ("RLIMIT_CORE", {"core": resource.getrlimit(resource.RLIMIT_CORE)[1]}),
        ("RLIMIT_CPU", {"seconds": resource.getrlimit(resource.RLIMIT_CPU)[1]}),
    ],
)
def test_without_a_limit_its_facts_change(without: str, broken: dict[str, Any]) -> None:
    found = facts(NOBODY, without)
    assert {name: value for name, value in found.items() if value != SOUND[name]} == broken


def test_without_another_user_root_stays_root() -> None:
    found = facts(0, "user")
    assert (found["uid"], found["signal"], found["fork"]) == (0, "ok", "ok")


READER = """
import sys
try:
    sys.stdout.write(open(f"/proc/{sys.argv[1]}/environ").read())
except PermissionError:
    sys.stdout.write("denied")
"""
HOLDER = """
import os, subprocess, sys
from workbench.javascript.function import hide_memory
if sys.argv[1] == "hidden":
    hide_memory()
reader = subprocess.run([sys.executable, "-I", "-S", "-c", os.environ["READER"], str(os.getpid())], capture_output=True)
sys.stdout.write(reader.stdout.decode())
"""
FUNCTION = """
from workbench.javascript.function import handler
print([handler({"code": code}, None)["outcome"]["text"] for code in ("6 * 7", "'again'")])
"""


def as_nobody(script: str, *arguments: str, **environment: str) -> str:
    """What a process of an ordinary user prints that starts with this script and can import the product."""
    paths = [str(CHILD.parents[2]), *(path for path in sys.path if "site-packages" in path)]
    ran = subprocess.run(
        [payload_environment().base, "-S", "-c", script, *arguments],
        env={"PYTHONPATH": ":".join(paths), "AWS_SECRET_ACCESS_KEY": "canary", **environment},
        user=NOBODY,
        group=NOBODY,
        extra_groups=[],
        capture_output=True,
        text=True,
        timeout=30,
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_the_parent_s_memory_is_closed_to_others_of_its_user() -> None:
    assert as_nobody(HOLDER, "hidden", READER=READER) == "denied"
    assert "canary" in as_nobody(HOLDER, "as it is", READER=READER)


def test_the_function_as_lambda_calls_it() -> None:
    """As an ordinary user, its memory closed; twice: with the child that was started and with the one made after."""
    assert as_nobody(FUNCTION, AWS_LAMBDA_FUNCTION_NAME="workbench-javascript") == "['42', 'again']\n"


def test_a_child_is_told_nothing_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    from workbench.javascript.evaluator import Evaluator

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "canary")
    evaluator = Evaluator()
    evaluator.prepare()
    try:
        assert evaluator._spare is not None
        assert evaluator._spare.wait_until_ready()
        there = Path(f"/proc/{evaluator._spare._process.pid}")
        assert (there / "environ").read_bytes() == b"TZ=UTC0\0"
        assert b"canary" not in (there / "cmdline").read_bytes()
        assert sorted(path.name for path in (there / "fd").iterdir()) == ["0", "1", "2"]
        assert (there / "cwd").readlink() == Path("/")
    finally:
        evaluator.close()
