"""Whether a program that failed says that the kernel gave it no more memory.

A process at its limit is not ended but refused, so that the supervisor sees an ordinary failure: what happened stands
only in what the program printed. A program that says so falsely gets other advice, and nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

# The last line of a Python traceback, also of its subclasses (NumPy's _ArrayMemoryError), and of C programs that
# tell an errno; Node.js and C++ say it before a stack or before they abort.
_SAID = re.compile(
    r"^(?:[\w.]*MemoryError(?::.*)?|OSError: \[Errno 12\].*|.*(?:Cannot allocate memory|memory exhausted))\s*\Z"
    r"|^RangeError: Array buffer allocation failed$"
    r"|^FATAL ERROR: .*JavaScript heap out of memory$"
    r"|^  what\(\):  std::bad_alloc$",
    re.MULTILINE,
)
_WINDOW_CHARACTERS = 4_000


def refused_memory(report: Mapping[str, Any]) -> bool:
    """True when the program ended itself with a failure, and the end of its stderr says that memory was refused."""
    failed = report["outcome"] == "finished" and (report["exitCode"] != 0 or report["signal"])
    return bool(failed and _SAID.search(report["stderr"][-_WINDOW_CHARACTERS:]))
