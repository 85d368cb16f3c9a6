"""Before any job: start a program of our own exactly as a payload would start, and believe only what it finds.

What was found goes into the claim and the report. One guard missing, and no job is taken.
"""

import errno
import json
import os
import select
import signal
import time
from typing import Any

from sandbox_container import landlock
from sandbox_container.launcher import Launch, Order
from sandbox_container.settings import Settings

_SECONDS = 15.0
_MIB = 1024 * 1024
# What a role gives a task's containers, in any of AWS's ways.
_CREDENTIALS = (
    "AWS_CONTAINER_CREDENTIALS",
    "AWS_CONTAINER_AUTHORIZATION",
    "AWS_ACCESS_KEY",
    "AWS_SECRET",
    "AWS_SESSION",
)

# Runs as the sandbox. Each attempt gives the errno it met, 0 for success.
_PROGRAM = """
import json, os, sys
def attempt(action):
    try:
        action()
    except OSError as error:
        return error.errno
    return 0
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
def descriptors():
    found = []
    for number in range(3, 1024):
        try:
            os.fstat(number)
        except OSError:
            continue
        found.append(number)
    return found
import _socket
print(json.dumps({
    "version": sys.version.split()[0],
    "uids": status["Uid"].split(), "gids": status["Gid"].split(), "groups": status["Groups"].split(),
    "capabilities": [status[name] for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")],
    "noNewPrivs": status["NoNewPrivs"], "seccomp": status["Seccomp"],
    "descriptors": descriptors(),
    "socket": attempt(lambda: _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)),
    "chroot": attempt(lambda: os.chroot("/")),
    "environ": attempt(lambda: open("/proc/%s/environ" % sys.argv[1], "rb").read()),
    "root": attempt(lambda: open("probe", "x")),
    "session": os.getsid(0) == os.getpid(),
}))
"""


class ProbeFailed(Exception):
    """A guard is not in force; the message names it."""


def order(settings: Settings) -> Order:
    """How the probe is started: like a Python program, with limits of its own."""
    return Order(
        argv=[settings.interpreter, "-I", "-S", "-c", _PROGRAM, str(os.getpid())],
        environment={"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"},
        directory=settings.root,
        writable=[],
        memory_bytes=1024 * _MIB,
        processes=64,
        file_bytes=_MIB,
        open_files=256,
        cpu_seconds=int(_SECONDS),
    )


def probe(settings: Settings, launch: Launch) -> dict[str, Any]:
    """What the sandbox is, verified. Raises :class:`ProbeFailed` or the launcher's StartFailed."""
    launch.start(order(settings))
    text = _read(launch)
    os.waitpid(launch.pid, 0)
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ProbeFailed(f"the probe said nothing usable: {text[:500]!r}") from error
    check(settings, found)
    return {
        "uid": settings.uid,
        "boundary": settings.boundary,
        "capabilities": found["capabilities"][2],
        "noNewPrivs": int(found["noNewPrivs"]),
        "seccomp": int(found["seccomp"]),
        "landlock": landlock.level(),
        "descriptors": len(found["descriptors"]),
        "credentials": credentials(),
        "kernel": os.uname().release,
        "python": found["version"],
    }


def credentials() -> list[str]:
    """The names in this process' environment that lead to credentials: a task has none, and gives none away."""
    return sorted(name for name in os.environ if name.startswith(_CREDENTIALS))


def check(settings: Settings, found: dict[str, Any]) -> None:
    """Compare with what must be; raises :class:`ProbeFailed` naming every guard that is missing."""
    uid, gid = str(settings.uid), str(settings.gid)
    denied = (errno.EACCES, errno.EPERM, errno.ENOENT)
    expected = {
        "uids": set(found["uids"]) == {uid},
        "gids": set(found["gids"]) == {gid},
        "groups": settings.boundary != "user" or not set(found["groups"]) - {gid},
        "capabilities": not any(int(value, 16) for value in found["capabilities"]),
        "noNewPrivs": found["noNewPrivs"] == "1",
        "seccomp": found["seccomp"] == "2",
        "descriptors": found["descriptors"] == [],
        "socket": found["socket"] == errno.EAFNOSUPPORT,
        "chroot": found["chroot"] == errno.EPERM,
        "environ": settings.boundary == "none" or found["environ"] in denied,
        "root": settings.boundary == "none" or found["root"] in (*denied, errno.EROFS),
        "session": found["session"] is True,
        # On a developer's machine they are the developer's, who asked for no boundary.
        "credentials": settings.boundary == "none" or not credentials(),
    }
    found = {**found, "credentials": credentials()}
    missing = [name for name, holds in expected.items() if not holds]
    if missing:
        raise ProbeFailed("not in force: " + ", ".join(f"{name} ({found[name]!r})" for name in missing))


def _read(launch: Launch) -> bytes:
    """What the probe printed; its end is the end of its output. Errors come along when there is nothing else."""
    deadline = time.monotonic() + _SECONDS
    texts = {launch.stdout: b"", launch.stderr: b""}
    waiting = set(texts)
    while waiting:
        ready, _, _ = select.select(list(waiting), [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            os.kill(launch.pid, signal.SIGKILL)
            raise ProbeFailed("the probe took too long")
        for stream in ready:
            data = os.read(stream, 65536)
            texts[stream] += data
            if not data:
                waiting.remove(stream)
                os.close(stream)
    return texts[launch.stdout] or texts[launch.stderr]
