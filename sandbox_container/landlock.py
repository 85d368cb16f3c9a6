"""Landlock, where the kernel has it: a second lock on writing, TCP and signals. Never relied on."""

import ctypes
import os
import struct
from collections.abc import Iterable

from sandbox_container import kernel

_CREATE_RULESET, _ADD_RULE, _RESTRICT_SELF = 444, 445, 446
_VERSION, _PATH_BENEATH = 1, 1
_WRITE_FILE, _REFER, _TRUNCATE = 1 << 1, 1 << 13, 1 << 14  # ABI 1, 2, 3
_CHANGE_TREE = sum(1 << bit for bit in range(4, 13))  # REMOVE_DIR … MAKE_SYM (ABI 1)
_TCP = 0b11  # bind, connect (ABI 4)
_SCOPES = 0b11  # abstract sockets, signals (ABI 6)
# Before ABI 2 a rule set forbids every rename between two folders, which programs need.
OLDEST_USED = 2


def level() -> int:
    """The kernel's Landlock ABI, or 0."""
    try:
        return kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, None, 0, _VERSION)
    except OSError:
        return 0


def restrict(abi: int, writable: Iterable[str], devices: Iterable[str]) -> None:
    """From now on this process may change files only beneath ``writable`` and write to ``devices``. Raises OSError."""
    trees = _WRITE_FILE | _CHANGE_TREE | _REFER | (_TRUNCATE if abi >= 3 else 0)
    devices_mask = _WRITE_FILE | (_TRUNCATE if abi >= 3 else 0)
    attributes = struct.pack("=QQQ", trees, _TCP if abi >= 4 else 0, _SCOPES if abi >= 6 else 0)
    size = 24 if abi >= 6 else 16 if abi >= 4 else 8
    rules = kernel.syscall("landlock_create_ruleset", _CREATE_RULESET, _buffer(attributes[:size]), size, 0)
    try:
        for paths, allowed in ((writable, trees), (devices, devices_mask)):
            for path in paths:
                _allow(rules, path, allowed)
        kernel.syscall("landlock_restrict_self", _RESTRICT_SELF, rules, 0)
    finally:
        os.close(rules)


def _allow(rules: int, path: str, rights: int) -> None:
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        beneath = _buffer(struct.pack("=Qi", rights, descriptor))
        kernel.syscall("landlock_add_rule", _ADD_RULE, rules, _PATH_BENEATH, beneath, 0)
    finally:
        os.close(descriptor)


def _buffer(data: bytes) -> ctypes.Array[ctypes.c_char]:
    return ctypes.create_string_buffer(data, len(data))
