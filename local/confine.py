# Paths of a root that is not ours yet, and pathlib would add to the time to start:
# ruff: noqa: PTH100, PTH103, PTH110, PTH112, PTH114, PTH115, PTH120, PTH123, PTH211
"""What a container gives the supervisor in AWS, this gives it on one machine: namespaces and a file system of its own.

A program of its own, run by :mod:`local.launcher` as ``python3 -I -S confine.py``. It makes a root of read-only
pieces of this machine and sized memory disks (so neither the project nor anybody's home exists in there), then becomes
the init of a new PID namespace that runs the supervisor. An additional layer: the supervisor knows nothing of it.
"""

import ctypes
import os
import signal
import struct
import sys
from typing import NoReturn

# -I keeps our folder off the path; the package goes last, so that no neighbour shadows the library.
sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from sandbox_container import kernel, supervisor

# Covered only in our own mount namespace, until it is no part of the new root any more.
_SCAFFOLD = "/mnt"
_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32")
_SETTINGS = (
    "/etc/alternatives",
    "/etc/fonts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/ssl/certs",
)
_DEVICES = ("null", "zero", "full", "random", "urandom")
_MIB = 1024 * 1024
# What is written there lives in memory; the supervisor's own limits are lower.
_DISKS = {"/sandbox": (1024, 200_000), "/tmp": (512, 50_000), "/dev/shm": (256, 10_000)}  # MiB, inodes

_MOUNT_SETATTR, _PIVOT_ROOT = 442, 41 if kernel.ARM else 155
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV = 1, 2, 4
_MNT_DETACH = 2
_QUIET = kernel.MS_NOSUID | kernel.MS_NODEV


def main() -> int:
    """Exit status of the supervisor; 70 when this machine does not allow the namespaces, with the reason on stderr."""
    visible = [path for path in os.environ.pop("WORKBENCH_VISIBLE", "").split(":") if path]
    uid, gid, inner = os.getuid(), os.getgid(), int(os.environ.get("WORKBENCH_UID", os.getuid()))
    try:
        _enter_namespaces(uid, gid)
        child = os.fork()
        if child == 0:
            _as_init(visible, inner, private=uid == 0)
    except OSError as error:
        print(error, file=sys.stderr)
        return 70
    kernel.erase_environment(b"WORKBENCH_SECRET")
    # The init ends everything in its namespace with it, so waiting for it is waiting for all of them.
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) if os.WIFEXITED(status) else 128 + os.WTERMSIG(status)


def _enter_namespaces(uid: int, gid: int) -> None:
    flags = kernel.CLONE_NEWNS | kernel.CLONE_NEWIPC | kernel.CLONE_NEWPID | kernel.CLONE_NEWUTS
    if uid != 0:
        kernel.unshare(flags | kernel.CLONE_NEWUSER)
        for name, text in (("setgroups", "deny"), ("uid_map", f"{uid} {uid} 1"), ("gid_map", f"{gid} {gid} 1")):
            with open(f"/proc/self/{name}", "w") as file:
                file.write(text)
    else:
        kernel.unshare(flags)
    kernel.mount("none", "/", "", kernel.MS_REC | kernel.MS_PRIVATE)


def _build_root(visible: list[str], uid: int, private: bool) -> None:
    kernel.mount("root", _SCAFFOLD, "tmpfs", _QUIET, "mode=755,size=1m")
    for path in (*_SYSTEM, *_SETTINGS, *visible):
        _show(path)
    for folder in ("/proc", "/dev", "/var"):
        os.makedirs(_SCAFFOLD + folder, exist_ok=True)
    # While the machine's own /proc is still in sight, which the kernel asks for when there is no root. Without root
    # the payload gets a /proc of its own, so that what it must not see needs no hiding in this one.
    kernel.mount("proc", f"{_SCAFFOLD}/proc", "proc", _QUIET | kernel.MS_NOEXEC, "hidepid=2" if private else "")
    for path, (size, inodes) in _DISKS.items():
        os.makedirs(_SCAFFOLD + path)
        mode = "755" if path == "/sandbox" else "1777"
        kernel.mount(path, _SCAFFOLD + path, "tmpfs", _QUIET, f"mode={mode},size={size * _MIB},nr_inodes={inodes}")
    for name in _DEVICES:
        _bind(f"/dev/{name}", f"{_SCAFFOLD}/dev/{name}")
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        os.symlink(f"/proc/self/fd/{number}", f"{_SCAFFOLD}/dev/{name}")
    os.symlink("/proc/self/fd", f"{_SCAFFOLD}/dev/fd")
    with open(f"{_SCAFFOLD}/etc/passwd", "w") as file:
        file.write(f"root:x:0:0::/:/bin/sh\nsandbox:x:{uid}:{uid}::/tmp:/bin/sh\n")
    with open(f"{_SCAFFOLD}/etc/group", "w") as file:
        file.write(f"root:x:0:\nsandbox:x:{uid}:\n")
    os.chdir(_SCAFFOLD)
    kernel.syscall("pivot_root", _PIVOT_ROOT, b".", b".")
    kernel.umount(".", _MNT_DETACH)
    os.chdir("/")
    _set_attributes("/", _ATTR_RDONLY, deep=False)


def _show(path: str) -> None:
    """Make ``path`` appear in the new root as it is here, read-only. What does not exist here does not there."""
    target = _SCAFFOLD + path
    if os.path.islink(path) and path in _SYSTEM:
        os.symlink(os.readlink(path), target)
    elif os.path.exists(path):
        _bind(os.path.realpath(path), target)
        _set_attributes(target, _ATTR_RDONLY | _ATTR_NOSUID | _ATTR_NODEV)


def _bind(source: str, target: str) -> None:
    if os.path.isdir(source):
        os.makedirs(target, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        with open(target, "x"):
            pass
    kernel.mount(source, target, "", kernel.MS_BIND | kernel.MS_REC)


def _set_attributes(path: str, attributes: int, *, deep: bool = True) -> None:
    wanted = struct.pack("=QQQQ", attributes, 0, 0, 0)
    buffer = ctypes.create_string_buffer(wanted, len(wanted))
    flags = _AT_RECURSIVE if deep else 0
    kernel.syscall("mount_setattr", _MOUNT_SETATTR, _AT_FDCWD, path.encode(), flags, buffer, len(wanted))


def _as_init(visible: list[str], uid: int, *, private: bool) -> NoReturn:
    """The first process of the PID namespace: it sees only its own, and ends when its parent ends."""
    status = 1
    try:
        kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        _build_root(visible, uid, private)
        status = supervisor.main()
    except OSError as error:
        print(error, file=sys.stderr)
        status = 70
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


if __name__ == "__main__":
    sys.exit(main())
