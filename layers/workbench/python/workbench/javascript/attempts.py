"""What native code could do where a program is evaluated, tried: ``python3 -I -S attempts.py CHILD [LIMIT …]``.

Gives up what the child process gives up, tries everything, and prints what came of it as a JSON object: the name of an
errno or an exception, or ``ok``. For the self-check of a deployment, and for tests, which leave out limits by name.
"""

import ctypes
import errno
import importlib.util
import json
import mmap
import os
import resource
import socket
import sys
import threading
from collections.abc import Callable
from types import ModuleType
from typing import Any

_PTRACE_SEIZE = 0x4206
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> None:
    """Never returns, so that nothing is left to clean up with the descriptors that are gone."""
    path, *without = sys.argv[1:]
    child = _load(path)
    for name in without:
        child.LIMITS.pop(getattr(resource, name))
    scratch = os.memfd_create("scratch")
    child.give_up()
    found = {
        "user": os.getuid(),
        "groups": os.getgroups(),
        "open": attempt(open, "/etc/passwd"),
        "socket": attempt(socket.socket),
        "datagram": attempt(socket.socket, socket.AF_INET6, socket.SOCK_DGRAM),
        "pipe": attempt(os.pipe),
        "copy": attempt(os.dup, 1),
        "fork": attempt(_fork),
        "thread": attempt(threading.Thread(target=int).start),
        "memory": attempt(mmap.mmap, -1, 400 * 1024 * 1024),
        "write": attempt(os.write, scratch, b"x" * 9000),
        "root": attempt(os.setuid, 0) if os.getuid() else "is",
        "signal": attempt(os.kill, 1, 0) if os.getppid() != 1 else "EPERM",
        "trace": attempt(_trace, os.getppid()),
        "read": attempt(_read, os.getppid()),
        "raise": [attempt(_raise, kind) for kind in ("NOFILE", "NPROC", "AS")],
        "core": resource.getrlimit(resource.RLIMIT_CORE)[1],
        "seconds": resource.getrlimit(resource.RLIMIT_CPU)[1],
        "environment": sorted(os.environ),
        # A number that was in use and is free again must not be had either.
        "reuse": attempt(_reuse),
    }
    os.write(1, json.dumps(found).encode())
    os._exit(0)


def attempt(action: Callable[..., object], *arguments: Any) -> str:
    try:
        action(*arguments)
    except (OSError, MemoryError, RuntimeError, ValueError) as error:
        code = getattr(error, "errno", None)
        return errno.errorcode[code] if code else type(error).__name__
    return "ok"


def _load(path: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location("child", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _fork() -> None:
    if os.fork() == 0:
        os._exit(0)
    os.wait()


def _check(result: int) -> None:
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def _trace(pid: int) -> None:
    _check(_libc.ptrace(_PTRACE_SEIZE, pid, None, None))


def _read(pid: int) -> None:
    """Whoever may look gets told that nothing is at this address; others are refused before."""
    here, there = (ctypes.c_size_t * 2)(ctypes.addressof(_room), 8), (ctypes.c_size_t * 2)(0, 8)
    try:
        _check(_libc.process_vm_readv(pid, here, 1, there, 1, 0))
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise


_room = ctypes.create_string_buffer(8)


def _raise(kind: str) -> None:
    limit = getattr(resource, f"RLIMIT_{kind}")
    soft, hard = resource.getrlimit(limit)
    if hard != resource.RLIM_INFINITY:
        resource.setrlimit(limit, (soft + 1, hard + 1))


def _reuse() -> None:
    os.close(0)
    socket.socket()


if __name__ == "__main__":
    main()
