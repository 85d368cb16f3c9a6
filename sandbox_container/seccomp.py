"""The system call filter: one BPF program, assembled here and loaded by the launcher.

Calls are allowed unless named; everything that reaches outside the process (sockets, namespaces, mounts, other
processes' memory, kernel keys, devices) is named, and a number newer than this list does not exist. Filters are
per architecture: a call made through another one kills the process.
"""

import ctypes
import errno
import struct
from collections.abc import Iterable
from typing import Final

from sandbox_container import kernel

# Name: (x86_64, aarch64); None where that architecture has no such call.
FORBIDDEN: Final[dict[str, tuple[int | None, int | None]]] = {
    # mounts, roots and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "move_mount": (429, 429),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "unshare": (272, 97),
    "setns": (308, 268),
    # other processes
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "pidfd_getfd": (438, 438),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "ioprio_set": (251, 30),
    # large or seldom used parts of the kernel
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "userfaultfd": (323, 282),
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "seccomp": (317, 277),
    "fanotify_init": (300, 262),
    "fanotify_mark": (301, 263),
    "lookup_dcookie": (212, 18),
    "nfsservctl": (180, 42),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    # files by handle, devices, memory that no limit counts
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    # System V and POSIX objects that outlive a process
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmdt": (67, 197),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "mq_timedsend": (242, 182),
    "mq_timedreceive": (243, 183),
    "mq_notify": (244, 184),
    "mq_getsetattr": (245, 185),
    # sockets: only a connected pair inside the sandbox may exist (see _SOCKETPAIR)
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "accept": (43, 202),
    "accept4": (288, 242),
    # the machine itself
    "acct": (163, 89),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "reboot": (169, 142),
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "iopl": (172, None),
    "ioperm": (173, None),
    "modify_ldt": (154, None),
    "uselib": (134, None),
    "ustat": (136, None),
    "sysfs": (139, None),
    "syslog": (103, 116),
    "vhangup": (153, 58),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
}
# Calls whose arguments decide.
ARGUMENTS: Final[dict[str, tuple[int, int]]] = {
    "socket": (41, 198),
    "socketpair": (53, 199),
    "clone": (56, 220),
    "clone3": (435, 435),
    "ioctl": (16, 29),
    "prlimit64": (302, 261),
    "setpriority": (141, 140),
    "sched_setaffinity": (203, 122),
    "sched_setscheduler": (144, 119),
    "sched_setparam": (142, 118),
    "sched_setattr": (314, 274),
    "personality": (135, 92),
}
# Newest call of either list above is older than this one (futex_requeue, Linux 6.7).
HIGHEST_KNOWN: Final = 456

_AUDIT_ARCH: Final = 0xC00000B7 if kernel.ARM else 0xC000003E
_X32_BIT: Final = 0x40000000
_NAMESPACES: Final = 0x7E020000  # CLONE_NEW{NS,CGROUP,UTS,IPC,USER,PID,NET}; NEWTIME is no flag of clone
_AF_UNIX, _SOCK_STREAM, _SOCK_SEQPACKET, _SOCK_TYPES = 1, 1, 5, 0xF
_TIOCSTI, _TIOCLINUX, _TIOCSETD = 0x5412, 0x541C, 0x5423
_PERSONALITY_QUERY: Final = 0xFFFFFFFF

_LOAD, _JUMP_EQUAL, _JUMP_GREATER, _JUMP_SET, _AND, _RETURN = 0x20, 0x15, 0x25, 0x45, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_RESULTS: Final = {
    "allow": _ALLOW,
    "kill": _KILL_PROCESS,
    "forbidden": _ERRNO | errno.EPERM,
    "unknown": _ERRNO | errno.ENOSYS,
    "no family": _ERRNO | errno.EAFNOSUPPORT,
}
_MODE_FILTER: Final = 2

Instruction = tuple[int, str | None, str | None, int]  # operation, label if true, label if false, constant
Program = list[Instruction | str]  # a string is a label


def _number(numbers: tuple[int | None, int | None]) -> int | None:
    return numbers[1] if kernel.ARM else numbers[0]


def _argument(index: int) -> Instruction:
    """Load the low half of an argument: both architectures are little-endian."""
    return (_LOAD, None, None, _FIRST_ARGUMENT + 8 * index)


def _only_own_process(index: int) -> Program:
    """The call may name only the caller (0) in this argument."""
    return [_argument(index), (_JUMP_EQUAL, "allow", "forbidden", 0)]


def _argument_rules() -> dict[str, Program]:
    ioctls: Program = [_argument(1)]
    ioctls += [(_JUMP_EQUAL, "forbidden", None, request) for request in (_TIOCSTI, _TIOCLINUX, _TIOCSETD)]
    return {
        "socket": [(_RETURN, None, None, _RESULTS["no family"])],
        "socketpair": [
            _argument(0),
            (_JUMP_EQUAL, None, "no family", _AF_UNIX),
            # A datagram socket of a pair could still be sent or connected to a named one.
            _argument(1),
            (_AND, None, None, _SOCK_TYPES),
            (_JUMP_EQUAL, "allow", None, _SOCK_STREAM),
            (_JUMP_EQUAL, "allow", "no family", _SOCK_SEQPACKET),
        ],
        "clone": [_argument(0), (_JUMP_SET, "forbidden", "allow", _NAMESPACES)],
        # Its flags stand behind a pointer; C libraries fall back to clone when it does not exist.
        "clone3": [(_RETURN, None, None, _RESULTS["unknown"])],
        "ioctl": [*ioctls, (_RETURN, None, None, _ALLOW)],
        "prlimit64": _only_own_process(0),
        "setpriority": [_argument(0), (_JUMP_EQUAL, None, "forbidden", 0), *_only_own_process(1)],
        "sched_setaffinity": _only_own_process(0),
        "sched_setscheduler": _only_own_process(0),
        "sched_setparam": _only_own_process(0),
        "sched_setattr": _only_own_process(0),
        "personality": [_argument(0), (_JUMP_EQUAL, "allow", "forbidden", _PERSONALITY_QUERY)],
    }


def program(*, without: Iterable[str] = ()) -> bytes:
    """The filter as an array of ``struct sock_filter``; ``without`` names calls to leave open (for tests of tests)."""
    left_open = frozenset(without)
    code: Program = [
        (_LOAD, None, None, _ARCHITECTURE),
        (_JUMP_EQUAL, None, "kill", _AUDIT_ARCH),
        (_LOAD, None, None, _NUMBER),
    ]
    if not kernel.ARM:
        code.append((_JUMP_GREATER, "unknown", None, _X32_BIT - 1))
    code.append((_JUMP_GREATER, "unknown", None, HIGHEST_KNOWN))
    rules = {name: rule for name, rule in _argument_rules().items() if name not in left_open}
    for name in rules:
        code.append((_JUMP_EQUAL, name, None, _number(ARGUMENTS[name]) or 0))
    numbers = {_number(numbers) for name, numbers in FORBIDDEN.items() if name not in left_open}
    code += [(_JUMP_EQUAL, "forbidden", None, number) for number in sorted(n for n in numbers if n is not None)]
    code.append((_RETURN, None, None, _ALLOW))
    for name, rule in rules.items():
        code += [name, *rule]
    for label, result in _RESULTS.items():
        code += [label, (_RETURN, None, None, result)]
    return _assemble(code)


def _assemble(code: Program) -> bytes:
    labels: dict[str, int] = {}
    instructions: list[Instruction] = []
    for item in code:
        if isinstance(item, str):
            labels[item] = len(instructions)
        else:
            instructions.append(item)
    assembled = bytearray()
    for position, (operation, if_true, if_false, constant) in enumerate(instructions):
        jumps = [labels[label] - position - 1 if label else 0 for label in (if_true, if_false)]
        assembled += struct.pack("=HBBI", operation, *jumps, constant)  # struct.error past 255: the list is too long
    return bytes(assembled)


def load(assembled: bytes) -> None:
    """Put the filter in force for this thread and everything it starts; needs no_new_privs. Raises OSError."""
    buffer = ctypes.create_string_buffer(assembled, len(assembled))
    header = struct.pack("@HP", len(assembled) // 8, ctypes.addressof(buffer))
    kernel.prctl(kernel.PR_SET_SECCOMP, _MODE_FILTER, ctypes.create_string_buffer(header, len(header)))
