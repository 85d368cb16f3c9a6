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
from workbench.javascript import attempts, child

CHILD, ATTEMPTS = Path(child.__file__), Path(attempts.__file__)
NOBODY = 65534

SOUND = {
    "user": NOBODY,
    "groups": [],
    "open": "EMFILE",
    "socket": "EMFILE",
    "datagram": "EMFILE",
    "pipe": "EMFILE",
    "copy": "EINVAL",
    "fork": "EAGAIN",
    "thread": "RuntimeError",
    "memory": "ENOMEM",
    "write": "EFBIG",
    "root": "EPERM",
    "signal": "EPERM",
    "trace": "EPERM",
    "read": "EPERM",
    "raise": ["ValueError"] * 3,
    "core": 0,
    "seconds": child.CPU_SECONDS,
    "reuse": "EMFILE",
    "environment": ["LC_CTYPE", "TZ"],
}


def facts(uid: int, *without: str) -> dict[str, Any]:
    """As user ``uid``, with a Python that every user may start."""
    command = [payload_environment().base, "-I", "-S", ATTEMPTS, CHILD, *without]
    as_user = {"user": uid, "group": uid, "extra_groups": []} if uid else {}
    ran = subprocess.run(command, env={"TZ": "UTC0"}, capture_output=True, text=True, timeout=30, **as_user)
    assert ran.returncode == 0, ran.stderr
    return dict(json.loads(ran.stdout))


@pytest.mark.parametrize("uid", [0, NOBODY], ids=["as root", "as in Lambda"])
def test_with_every_limit_nothing_can_be_reached(uid: int) -> None:
    assert facts(uid) == SOUND


@pytest.mark.parametrize(
    ("without", "broken"),
    [
        ("RLIMIT_NOFILE", {"open": "ok", "socket": "ok", "datagram": "ok", "pipe": "ok", "copy": "ok", "reuse": "ok"}),
        ("RLIMIT_NPROC", {"fork": "ok", "thread": "ok"}),
        ("RLIMIT_AS", {"memory": "ok", "raise": ["ValueError", "ValueError", "ok"]}),
        ("RLIMIT_FSIZE", {"write": "ok"}),
        ("RLIMIT_CORE", {"core": resource.getrlimit(resource.RLIMIT_CORE)[1]}),
        ("RLIMIT_CPU", {"seconds": resource.getrlimit(resource.RLIMIT_CPU)[1]}),
    ],
)
def test_without_a_limit_its_facts_change(without: str, broken: dict[str, Any]) -> None:
    found = facts(NOBODY, without)
    assert {name: value for name, value in found.items() if value != SOUND[name]} == broken


def test_root_keeps_nothing_of_root_but_what_it_gives_up() -> None:
    """The facts that would be otherwise were the user not changed: a child of root could do all of this."""
    script = ATTEMPTS.read_text().replace("child.give_up()\n", "pass\n")
    command = [payload_environment().base, "-I", "-S", "-c", script, CHILD]
    ran = subprocess.run(command, env={"TZ": "UTC0"}, capture_output=True, text=True, timeout=30)
    found = json.loads(ran.stdout)
    assert (found["user"], found["signal"], found["fork"], found["read"], found["open"]) == (0, "ok", "ok", "ok", "ok")


READER = """
import sys
try:
    sys.stdout.write(open(f"/proc/{sys.argv[1]}/environ").read())
except PermissionError:
    sys.stdout.write("denied")
"""
HOLDER = """
import os, subprocess, sys
from workbench.closed_memory import hide_memory
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
    # In Lambda, Python itself does not start without it.
    monkeypatch.setenv("LD_LIBRARY_PATH", "/var/lang/lib")
    evaluator = Evaluator()
    evaluator.prepare()
    try:
        assert evaluator._spare is not None
        assert evaluator._spare.wait_until_ready()
        there = Path(f"/proc/{evaluator._spare._process.pid}")
        assert (there / "environ").read_bytes() == b"TZ=UTC0\0LD_LIBRARY_PATH=/var/lang/lib\0"
        assert b"canary" not in (there / "cmdline").read_bytes()
        assert sorted(path.name for path in (there / "fd").iterdir()) == ["0", "1", "2"]
        assert (there / "cwd").readlink() == Path("/")
    finally:
        evaluator.close()
