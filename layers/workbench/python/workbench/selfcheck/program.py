"""Runs inside a sandbox and tries what no program may do; prints what came of it as JSON. Judged elsewhere.

Standard library only, for Linux on x86_64 and aarch64. Nothing here does harm where a guard is missing: every attempt
is the smallest of its kind and is undone. Each gives the name of an errno, or ``ok``.
"""

import ctypes
import errno
import json
import os
import platform
import resource
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

ARM = platform.machine() == "aarch64"
ADDRESSES = (("169.254.170.2", 80), ("169.254.169.254", 80), ("1.1.1.1", 443), ("127.0.0.1", 80))
NAMES = ("example.com", "sts.amazonaws.com", "s3.amazonaws.com", "metadata.google.internal")
# The program starts in the folder that holds workspace, inputs and skills.
OUTSIDE = ("/", "/usr", "/usr/local/bin", "/etc", "/opt", "/var", ".", "inputs", "skills", "/proc/sys/kernel")
INSIDE = ("workspace", "/tmp", "/dev/shm", "~")  # noqa: S108 - the sandbox's own
SUSPICIOUS = ("AWS_", "ECS_", "WORKBENCH_", "LAMBDA_")
LIBRARIES = (
    "numpy",
    "pandas",
    "matplotlib",
    "openpyxl",
    "docx",
    "pptx",
    "PIL",
    "pypdf",
    "reportlab",
    "lxml",
    "bs4",
    "yaml",
)
_NEW_USER_NAMESPACE = 0x10000000
_PTRACE_SEIZE = 0x4206

_libc = ctypes.CDLL(None, use_errno=True)


def name(code: int | None) -> str:
    return errno.errorcode.get(code or 0, str(code))


def attempt(action: Callable[..., object], *arguments: Any) -> str:
    try:
        action(*arguments)
    except OSError as error:
        # The resolver has numbers of its own.
        return "no answer" if isinstance(error, socket.gaierror) else name(error.errno)
    return "ok"


def call(x86: int | None, arm: int | None, *arguments: Any) -> str:
    """One raw system call; ``absent`` where this architecture has none of that name."""
    number = arm if ARM else x86
    if number is None:
        return "absent"
    plain = [ctypes.c_long(given) if isinstance(given, int) else given for given in arguments]
    ctypes.set_errno(0)
    if _libc.syscall(ctypes.c_long(number), *plain) >= 0:
        return "ok"
    return name(ctypes.get_errno())


def identity() -> dict[str, Any]:
    with open("/proc/self/status") as file:  # noqa: PTH123
        status = dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)
    return {
        "users": sorted({int(number) for number in status["Uid"].split()}),
        "groups": sorted({int(number) for number in (status["Gid"] + " " + status["Groups"]).split()}),
        "capabilities": {kind: int(status[kind], 16) for kind in ("CapInh", "CapPrm", "CapEff", "CapAmb")},
        "noNewPrivileges": status["NoNewPrivs"],
        "seccomp": status["Seccomp"],
        "becomeRoot": [attempt(os.setuid, 0), attempt(os.setgid, 0), attempt(os.setgroups, [0])],
    }


def network() -> dict[str, Any]:
    families = {}
    for family in range(64):
        for kind in (1, 2, 3, 5):
            families[f"{family}/{kind}"] = call(41, 198, family, kind, 0)
    pair = (ctypes.c_int * 2)()
    return {
        "families": sorted(set(families.values())),
        "opened": sorted(which for which, came in families.items() if came == "ok"),
        "addresses": {f"{host}:{port}": attempt(_connect, host, port) for host, port in ADDRESSES},
        "names": {host: attempt(socket.getaddrinfo, host, 443) for host in NAMES},
        "pairs": [call(53, 199, 1, 2, 0, pair), call(53, 199, 2, 1, 0, pair)],
        # The one kind that programs need, between their own processes.
        "ownPair": attempt(socket.socketpair),
        "connect": call(42, 203, 0, pair, 8),
        "ring": call(425, 425, 8, ctypes.create_string_buffer(256)),
    }


def _connect(host: str, port: int) -> None:
    with socket.socket() as tried:
        tried.settimeout(2)
        tried.connect((host, port))


def environment() -> dict[str, Any]:
    return {
        "suspicious": sorted(variable for variable in os.environ if variable.startswith(SUSPICIOUS)),
        "names": sorted(os.environ),
    }


def files() -> dict[str, Any]:
    library = str(Path(os.__file__).parent)
    interpreter = str(Path(sys.executable).resolve().parent)
    return {
        "outside": [place for place in (*OUTSIDE, library, interpreter) if _writable(place)],
        "inside": [place for place in INSIDE if _writable(place)],
        "readOnlyRoot": bool(os.statvfs("/").f_flag & os.ST_RDONLY),
        "mounts": {place: _mount(place) for place in (str(Path.cwd()), "/tmp")},  # noqa: S108
        "device": attempt(os.mknod, "workspace/.workbench-device", 0o020600, 0x0103),
        "descriptors": [number for number in range(3, 1024) if attempt(os.fstat, number) == "ok"],
    }


def _writable(place: str) -> bool:
    probe = Path(place).expanduser() / ".workbench-check"
    if attempt(probe.write_bytes, b"") != "ok":
        return False
    probe.unlink()
    return True


def _mount(place: str) -> list[str]:
    """The file system's kind and its options; empty where ``place`` is no mount of its own."""
    with open("/proc/self/mounts") as file:  # noqa: PTH123
        fields = [line.split() for line in file]
    found = [(kind, options) for _, where, kind, options, *_ in fields if where == place]
    kind, options = found[-1] if found else ("", "")
    return [kind, *(option for option in options.split(",") if option in ("nosuid", "nodev"))] if kind else []


def others() -> dict[str, Any]:
    """The processes of other users, the supervisor among them where it can be seen."""
    read, signalled, traced = [], [], []
    foreign = [int(folder.name) for folder in Path("/proc").glob("[0-9]*") if not _mine(folder)]
    for pid in {*foreign, os.getppid()} - {0, os.getpid()}:
        looks: list[Callable[[], object]] = [partial(os.listdir, f"/proc/{pid}/fd")]
        looks += [partial(_bytes, f"/proc/{pid}/{part}") for part in ("environ", "maps", "auxv")]
        looks += [partial(os.readlink, f"/proc/{pid}/cwd")]
        if any(attempt(look) == "ok" for look in looks):
            read.append(pid)
        if attempt(os.kill, pid, 0) == "ok":
            signalled.append(pid)
        if call(101, 117, _PTRACE_SEIZE, pid, 0, 0) == "ok":
            traced.append(pid)
    return {"read": read, "signalled": signalled, "traced": traced}


def _bytes(path: str) -> None:
    if not Path(path).read_bytes():
        # A thread of the kernel, which has no memory to look into.
        raise ProcessLookupError(errno.ESRCH, path)


def _mine(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except OSError:
        return True


def kernel() -> dict[str, str]:
    here = os.getpid()
    return {
        "unshare": call(272, 97, 0),
        "clone into a namespace": _clone(),
        "setns": call(308, 268, -1, 0),
        "mount": call(165, 40, 0, 0, 0, 0, 0),
        "chroot": call(161, 51, 0),
        "ptrace": call(101, 117, _PTRACE_SEIZE, -1, 0, 0),
        "process_vm_readv": call(310, 270, here, 0, 0, 0, 0, 0),
        "process_vm_writev": call(311, 271, here, 0, 0, 0, 0, 0),
        "pidfd_getfd": call(438, 438, -1, 0, 0),
        "keyctl": call(250, 219, 0, -3, 0),
        "bpf": call(321, 280, 99, 0, 0),
        "userfaultfd": call(323, 282, 1),
        "perf_event_open": call(298, 241, 0, 0, -1, -1, 0),
        "open_by_handle_at": call(304, 265, -1, 0, 0),
        "shmget": call(29, 194, 0, 4096, 0o1600),
        "seccomp": call(317, 277, 99, 0, 0),
        "personality": call(135, 92, 0x0400000),
    }


def _clone() -> str:
    ctypes.set_errno(0)
    child = _libc.syscall(
        ctypes.c_long(220 if ARM else 56), ctypes.c_long(_NEW_USER_NAMESPACE | 17), *[ctypes.c_long(0)] * 4
    )
    if child == 0:
        os._exit(0)
    if child < 0:
        return name(ctypes.get_errno())
    os.waitpid(child, 0)
    return "ok"


def limits() -> dict[str, int]:
    kinds = {"core": resource.RLIMIT_CORE, "processes": resource.RLIMIT_NPROC, "files": resource.RLIMIT_NOFILE}
    kinds |= {"memory": resource.RLIMIT_AS, "fileBytes": resource.RLIMIT_FSIZE, "seconds": resource.RLIMIT_CPU}
    return {kind: resource.getrlimit(number)[1] for kind, number in kinds.items()}


def working() -> dict[str, Any]:
    """What honest programs rely on."""
    missing = []
    for library in LIBRARIES:
        try:
            __import__(library)
        except ImportError:
            missing.append(library)
    return {
        "missing": missing,
        "node": _said("node", "-e", "console.log(6 * 7)"),
        "shell": _said("sh", "-c", "printf '6 7' | awk '{ print $1 * $2 }'"),
        "python": ".".join(map(str, sys.version_info[:2])),
        "machine": platform.machine(),
    }


def _said(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=20).stdout.strip()
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__


def main() -> None:
    parts = (identity, network, environment, files, others, kernel, limits, working)
    found = {part.__name__: part() for part in parts}
    with suppress(BrokenPipeError):
        sys.stdout.write(json.dumps(found))


if __name__ == "__main__":
    main()
