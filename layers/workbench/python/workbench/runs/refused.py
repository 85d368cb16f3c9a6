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

# Most of these words are also a program's own: a check of its input, a lock that is taken, an error that it printed and
# went on from. So Python's errors count with their number, as the last line or where the last one is raised from them,
# and where another call gives the same number, only below the call that starts a process. C programs say their name,
# what they did and then why, and no name of an error is theirs; Node.js names the system call.
_LAST = r".*(?:\s*\Z|\n\nThe above exception was the direct cause of )"
_C_PROGRAM = r"^(?!(?i:[\w.]*(?:error|exception|warning|info|debug|fatal|critical)\b))[\w./-]+: "
_SAID = (
    (
        _MEMORY,
        rf"^(?:[\w.]*MemoryError(?![^:\n])|OSError: \[Errno 12\]){_LAST}"
        rf"|{_C_PROGRAM}(?:.*: )?(?:Cannot allocate memory|memory exhausted)\s*\Z"
        r"|^RangeError: Array buffer allocation failed$"
        r"|^FATAL ERROR: .*JavaScript heap out of memory$|^# Fatal .*out of memory: "
        r"|^  what\(\):  std::bad_alloc$",
    ),
    (
        _DISK,
        rf"^OSError: (?:\[Errno (?:27|28|122)\]|\d+ requested and \d+ written|Not enough free space){_LAST}"
        r"|^sqlite3\.OperationalError: (?:database or disk is full|disk I/O error)\s*\Z"
        rf"|{_C_PROGRAM}.*: (?:No space left on device|File too large|Disk quota exceeded)$"
        r"|^Error: (?:ENOSPC|EFBIG|EDQUOT): .*$"
        r"|^File size limit exceeded",
    ),
    (
        _NETWORK,
        rf"^(?:[\w.]*gaierror: \[Errno -\d+\]|[\w.]*URLError: <urlopen error \[Errno (?:-\d+|97)\]"
        rf"|OSError: \[Errno 97\]){_LAST}"
        # A manager's process wants a socket; what its parent then says is that it ended.
        r'|\A(?>[^\0]*?^OSError: \[Errno 97\])(?>[^\0]*managers\.py", line \d+, in start\n)[^\0]*^EOFError\s*\Z'
        r"|\b(?:getaddrinfo|connect|listen|bind|socket) (?:EAI_AGAIN|EAFNOSUPPORT|ENOTFOUND)\b"
        r"|\b(?:Could not resolve host: |unable to resolve host address )",
    ),
    (
        _PROCESSES,
        r"^RuntimeError: can't start new thread\s*\Z"
        rf"|(?:fork|spawn|_execute_child).*\n(?:.*\n){{0,4}}BlockingIOError: \[Errno 11\]{_LAST}"
        rf"|{_C_PROGRAM}(?:.*: )?(?:Cannot fork|fork: .*Resource temporarily unavailable)$"
        r"|^Error: spawn \S+ EAGAIN$",
    ),
    (_OPEN_FILES, rf"^OSError: \[Errno 24\]{_LAST}|{_C_PROGRAM}.*: Too many open files$|^Error: EMFILE: "),
)
# A name that is more than a name would speak in our words.
_NO_PACKAGE = (
    r"^ModuleNotFoundError: No module named '([\w.]{1,80})'\s*\Z"
    r"|^Error(?: \[\w+\])?: Cannot find (?:module|package) '([\w@][\w@/.-]{0,79})'"
)
_FILE_SIZE_SIGNAL = 25


def refused(report: Mapping[str, Any]) -> Refused | None:
    """What a program that ended itself with a failure was refused, as the end of its stderr says; None for all else."""
    if report["outcome"] != "finished" or (report["exitCode"] == 0 and not report["signal"]):
        return None
    if report["signal"] == _FILE_SIZE_SIGNAL:
        return _DISK
    told = report["stderr"][-_WINDOW_CHARACTERS:]
    # Compiled when a program failed: no other run waits for that.
    for kind, pattern in _SAID:
        if re.search(pattern, told, re.MULTILINE):
            return kind
    missing = re.search(_NO_PACKAGE, told, re.MULTILINE)
    if missing is None:
        return None
    fact = f"imports `{missing[1] or missing[2]}`, which is not installed, and nothing can be installed here."
    return Refused("package", "SANDBOX_ERROR", fact, _PACKAGE_ADVICE)
