"""Work on a stranger's bytes in a process of its own: started for one task, watched by the clock, trusted with nothing.

Decoders and parsers in C may be taken over by what they read, and the function around them holds credentials. What the
child answers is checked like anybody's input.
"""

from __future__ import annotations

import os
import resource
import select
import sys
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from workbench.closed_memory import hide_memory_in_lambda

if TYPE_CHECKING:
    import subprocess

MEMORY_BYTES = 1024 * 1024 * 1024
PROCESSOR_SECONDS = 25

_CHUNK_BYTES = 1024 * 1024
# Everything but the interpreter's own library comes from the paths it is told. In Lambda the interpreter finds its own
# shared library by a variable.
_PATHS = "import sys; sys.path[:0] = sys.argv.pop(1).split('\\n')\n"
_PASSED_ON = ("LD_LIBRARY_PATH", "TZ")


class NoAnswer(Exception):
    """The child did not answer in its time, or would not stop answering."""


def run(program: str, arguments: Sequence[str], data: bytes, *, seconds: float, most: int) -> bytes:
    """What ``program`` (Python, for ``-c``) writes to standard output when it gets ``data`` on standard input.

    At most ``most`` bytes in ``seconds``; raises :class:`NoAnswer` beyond. How it ended is not looked at.
    """
    # The child, which has this module too, needs neither.
    import subprocess
    import tempfile

    # The child may open files at first, also this process' own among those of /proc.
    hide_memory_in_lambda()
    with tempfile.TemporaryFile() as sent:
        sent.write(data)
        sent.seek(0)
        child = subprocess.Popen(
            [sys.executable, "-I", "-S", "-B", "-c", _PATHS + program, "\n".join(sys.path), *arguments],
            stdin=sent,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env={"LANG": "C.UTF-8", **{name: os.environ[name] for name in _PASSED_ON if name in os.environ}},
            cwd="/",
        )
    try:
        return _answer_of(child, seconds, most)
    finally:
        child.kill()
        child.wait()
        if child.stdout is not None:
            child.stdout.close()


def _answer_of(child: subprocess.Popen[bytes], seconds: float, most: int) -> bytes:
    assert child.stdout is not None
    descriptor, until = child.stdout.fileno(), time.monotonic() + seconds
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN | select.POLLHUP)
    received = bytearray()
    while (left := until - time.monotonic()) > 0 and len(received) <= most:
        if not waiting.poll(left * 1000):
            continue
        chunk = os.read(descriptor, _CHUNK_BYTES)
        if not chunk:
            return bytes(received)
        received += chunk
    raise NoAnswer


# ---------------------------------------------------------------- in the child


def limit() -> None:
    """At once: take away what the work does not need. The parent watches the clock."""
    for what, most in (
        (resource.RLIMIT_AS, MEMORY_BYTES),
        (resource.RLIMIT_CPU, PROCESSOR_SECONDS),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_NPROC, 0),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_NOFILE, 64),
    ):
        resource.setrlimit(what, (most, most))


def shut() -> None:
    """Once everything is loaded: from here on no descriptor can be made, and so no file, socket or pipe.

    In Lambda a socket would reach whoever hands out the function's next requests, which are other people's.
    """
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, 0))
