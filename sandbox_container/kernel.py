"""The few system calls that Python does not wrap: prctl, capabilities, namespaces, close_range, seccomp, Landlock.

Every call raises OSError naming itself, so that a step of the launcher that fails can say which one it was.
"""

import ctypes
import os
import platform

ARM = platform.machine() == "aarch64"

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_SECCOMP = 22
PR_CAPBSET_DROP = 24
PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_CAP_AMBIENT = 47
PR_CAP_AMBIENT_CLEAR_ALL = 4

CLONE_NEWNS = 0x00020000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_BIND, MS_REC, MS_PRIVATE = 4096, 16384, 1 << 18

_CLOSE_RANGE = 436
_CAPSET = 91 if ARM else 126
_CAPABILITY_VERSION_3 = 0x20080522

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _check(result: int, name: str) -> int:
    if result < 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{name}: {os.strerror(error)}")
    return result


def syscall(name: str, number: int, *arguments: object) -> int:
    """One raw system call; integers are passed as C longs, buffers and structures by address."""
    plain = [ctypes.c_long(a) if isinstance(a, int) else a for a in arguments]
    return _check(_libc.syscall(ctypes.c_long(number), *plain), name)


def prctl(option: int, *arguments: object) -> int:
    plain = [ctypes.c_ulong(a) if isinstance(a, int) else a for a in arguments]
    padding = [ctypes.c_ulong(0)] * (4 - len(plain))
    return _check(_libc.prctl(ctypes.c_int(option), *plain, *padding), f"prctl({option})")


def unshare(flags: int) -> None:
    _check(_libc.unshare(ctypes.c_int(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """mount(2); an empty ``kind`` or ``options`` is NULL."""
    _check(
        _libc.mount(
            source.encode(), target.encode(), kind.encode() or None, ctypes.c_ulong(flags), options.encode() or None
        ),
        f"mount {target}",
    )


def umount(target: str, flags: int) -> None:
    _check(_libc.umount2(target.encode(), ctypes.c_int(flags)), f"umount {target}")


def close_from(first: int) -> None:
    """Close every descriptor from ``first`` on (close_range where the kernel has it)."""
    try:
        syscall("close_range", _CLOSE_RANGE, first, 0xFFFFFFFF, 0)
    except OSError:
        for name in os.listdir("/proc/self/fd"):
            if int(name) >= first:
                try:
                    os.close(int(name))
                except OSError:
                    continue


def drop_bounding_set() -> None:
    """No capability may ever be gained again; needs CAP_SETPCAP, otherwise OSError."""
    with open("/proc/sys/kernel/cap_last_cap") as file:
        last = int(file.read())
    for capability in range(last + 1):
        prctl(PR_CAPBSET_DROP, capability)


def clear_capabilities() -> None:
    """Empty the effective, permitted, inheritable and ambient sets of this thread."""
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    data = (ctypes.c_uint32 * 6)()
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL)
    syscall("capset", _CAPSET, header, data)


def erase_environment(prefix: bytes) -> None:
    """Overwrite the values of the variables that start with ``prefix`` in the block that /proc/self/environ shows."""
    block = ctypes.POINTER(ctypes.c_void_p).in_dll(_libc, "environ")
    index = 0
    while block and block[index]:
        address = block[index] or 0
        text = ctypes.string_at(address)
        if text.startswith(prefix):
            name, _, value = text.partition(b"=")
            ctypes.memset(address + len(name) + 1, 0, len(value))
        index += 1
