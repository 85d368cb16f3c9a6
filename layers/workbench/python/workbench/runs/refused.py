"""What the sandbox refused a program that then failed: memory, room, the network, a package, processes, open files.

A process at its limit is not ended but refused, so that the supervisor sees an ordinary failure: what happened stands
only in what the program printed. A program that says so falsely gets other advice, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_WINDOW_CHARACTERS = 4_000


@dataclass(frozen=True, slots=True)
class Refused:
    """``fact`` completes "The program …"; ``advice`` says what to do about it."""

    kind: str
    code: str
    fact: str
    advice: str


_MEMORY = Refused(
    "memory",
    "SANDBOX_MEMORY",
    "asked for more memory than it may use, was refused it, and failed.",
    "Work on the data in chunks, or in smaller types.",
)
_DISK = Refused(
    "disk",
    "SANDBOX_DISK",
    "found no room for what it wrote, or wrote a file larger than a workspace may hold, and failed.",
    "Write less, or remove what is no longer needed.",
)
_NETWORK = Refused(
    "network",
    "SANDBOX_ERROR",
    "wanted the network or a socket, and there is neither here.",
    "Work on the files that are here; processes of one program may talk through pipes, a Pool or a Queue.",
)
_PROCESSES = Refused(
    "processes",
    "SANDBOX_ERROR",
    "started more processes and threads than it may have at once.",
    "Start fewer at a time.",
)
_OPEN_FILES = Refused(
    "openFiles",
    "SANDBOX_ERROR",
    "held more files open than it may.",
    "Close each one when it is done with.",
)
_PACKAGE_ADVICE = (
    "Use one that is, or write what you need of it yourself. A module of your own is found by its path: "
    "sys.path.insert(0, its folder) in Python, a path that begins with ./ in JavaScript."
)

# As the programs say it. Python's own errors count only as the last line, since others may follow from them or be
# caught; C programs tell an errno behind their name; Node.js and C++ say it before a stack or before they abort.
_SAID = (
    (
        _MEMORY,
        r"^(?:[\w.]*MemoryError(?::.*)?|OSError: \[Errno 12\].*|.*(?:Cannot allocate memory|memory exhausted))\s*\Z"
        r"|^RangeError: Array buffer allocation failed$"
        r"|^FATAL ERROR: .*JavaScript heap out of memory$"
        r"|^  what\(\):  std::bad_alloc$",
    ),
    (
        _DISK,
        r"^[\w./-]+: .*(?:No space left on device|File too large|Disk quota exceeded)(?:: .*)?$"
        r"|^Error: (?:ENOSPC|EFBIG|EDQUOT): .*$"
        r"|^File size limit exceeded",
    ),
    (
        _NETWORK,
        r"^[\w.]*(?:gaierror|URLError|OSError): .*(?:name resolution|not known|Address family not supported)"
        r"|\b(?:EAI_AGAIN|EAFNOSUPPORT|ENOTFOUND)\b"
        r"|(?:Could not|unable to) resolve host",
    ),
    (
        _PROCESSES,
        r"^(?:RuntimeError: can't start new thread|BlockingIOError: \[Errno 11\].*)\s*\Z|\bCannot fork$"
        r"|\bfork: .*Resource temporarily unavailable$|^Error: spawn \S+ EAGAIN$",
    ),
    (_OPEN_FILES, r"^OSError: \[Errno 24\].*\s*\Z|: Too many open files$|^Error: EMFILE: "),
)
_PATTERNS = tuple((refused, re.compile(pattern, re.MULTILINE)) for refused, pattern in _SAID)
# A name that is more than a name would speak in our words.
_NO_PACKAGE = re.compile(
    r"^ModuleNotFoundError: No module named '([\w.]{1,80})'\s*\Z"
    r"|^Error(?: \[\w+\])?: Cannot find (?:module|package) '([\w@][\w@/.-]{0,79})'",
    re.MULTILINE,
)
_FILE_SIZE_SIGNAL = 25


def refused(report: Mapping[str, Any]) -> Refused | None:
    """What a program that ended itself with a failure was refused, as the end of its stderr says; None for all else."""
    if report["outcome"] != "finished" or (report["exitCode"] == 0 and not report["signal"]):
        return None
    if report["signal"] == _FILE_SIZE_SIGNAL:
        return _DISK
    told = report["stderr"][-_WINDOW_CHARACTERS:]
    for kind, pattern in _PATTERNS:
        if pattern.search(told):
            return kind
    missing = _NO_PACKAGE.search(told)
    if missing is None:
        return None
    fact = f"imports `{missing[1] or missing[2]}`, which is not installed, and nothing can be installed here."
    return Refused("package", "SANDBOX_ERROR", fact, _PACKAGE_ADVICE)
