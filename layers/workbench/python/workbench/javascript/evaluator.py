"""Evaluates JavaScript in child processes: one program each, started ahead, ended from here when its time is over.

The parent never lets the engine near its own memory. What comes back is text from a process that may have been taken
over: it is read up to a limit, checked and cut.
"""

from __future__ import annotations

import importlib.util
import json
import os
import select
import subprocess
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from workbench.errors import ToolError

SECONDS = 2.0
CHARACTERS = 4_000
MEMORY_MB = 128

_HERE = Path(__file__).parent
_KEPT = ("LD_LIBRARY_PATH",)
_START_SECONDS = 5.0
_READ_BYTES = 65_536
# Both texts at their longest, each character escaped, and some 4,000 messages around them.
_ANSWER_BYTES = 1024 * 1024
_TYPES = frozenset(
    {"undefined", "null", "boolean", "number", "bigint", "string", "symbol", "function", "array", "object"}
)


class EvaluatorUnavailable(ToolError):
    """No program can be evaluated right now; not the program's fault."""

    code = "SANDBOX_UNAVAILABLE"


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a program ended: ``value``, ``error``, ``pending`` (its promise), ``timeout`` or ``died``.

    ``printed`` and ``text`` (the result as text) are cut to a number of characters, which their flags say; ``type`` is
    the result's; ``name``, ``message`` and ``stack`` are an error's.
    """

    ended: Literal["value", "error", "pending", "timeout", "died"]
    printed: str = ""
    printed_cut: bool = False
    type: str = ""
    text: str = ""
    text_cut: bool = False
    name: str = ""
    message: str = ""
    stack: str = ""


class Evaluator:
    """One spare child waits for the next program, so that a call pays for no start."""

    def __init__(self) -> None:
        self._spare: _Child | None = None
        self._guard = threading.Lock()

    def evaluate(self, code: str) -> Outcome:
        """Run ``code`` to its end or through its time; raises :class:`EvaluatorUnavailable`."""
        child = self._take()
        try:
            return child.evaluate(code)
        finally:
            child.end()
            # Only the next call would miss it, and starts one then.
            with suppress(EvaluatorUnavailable, OSError):
                self.prepare()

    def prepare(self) -> None:
        """Have a spare child, started but not waited for."""
        with self._guard:
            if self._spare is None:
                self._spare = _Child()

    def attempts(self) -> dict[str, Any]:
        """What native code could do in a child; see :mod:`workbench.javascript.attempts`."""
        process = _start("attempts.py", str(_HERE / "child.py"))
        try:
            printed, _ = process.communicate(timeout=_START_SECONDS)
            found: dict[str, Any] = json.loads(printed)
        except (subprocess.TimeoutExpired, ValueError) as error:
            process.kill()
            process.communicate()
            raise EvaluatorUnavailable(f"The attempts gave no answer: {error!r}") from error
        return found

    def close(self) -> None:
        """End the spare child."""
        with self._guard:
            spare, self._spare = self._spare, None
        if spare is not None:
            spare.end()

    def _take(self) -> _Child:
        with self._guard:
            child, self._spare = self._spare, None
        # The platform may have ended a child that waited.
        for waiting in (child, None):
            try:
                ready = waiting or _Child()
            except OSError as error:
                raise EvaluatorUnavailable(f"The JavaScript engine cannot be started ({error.strerror}).") from error
            if ready.wait_until_ready():
                return ready
            ready.end()
        raise EvaluatorUnavailable("The JavaScript engine did not start.")


class _Child:
    """One process of :mod:`workbench.javascript.child`."""

    def __init__(self) -> None:
        engine = importlib.util.find_spec("_quickjs")
        if engine is None or engine.origin is None:
            raise EvaluatorUnavailable("The JavaScript engine is not installed here: install the package quickjs-ng.")
        self._process = _start("child.py", engine.origin, str(_HERE / "prelude.js"), str(CHARACTERS))
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._poll = select.poll()
        self._poll.register(self._output, select.POLLIN)
        self._buffer, self._received = bytearray(), 0

    def wait_until_ready(self) -> bool:
        """True once it has given up its rights; False when it ended or took too long."""
        return bool(self._message(time.monotonic() + _START_SECONDS) == ["ready"])

    def evaluate(self, code: str) -> Outcome:
        deadline = time.monotonic() + SECONDS
        assert self._process.stdin is not None
        try:
            # Half of a surrogate pair, which JSON can carry, reaches the engine as it is.
            self._process.stdin.write(json.dumps(code).encode("ascii"))
            self._process.stdin.close()
        except BrokenPipeError:
            return Outcome("died")
        return self._listen(deadline)

    def end(self) -> None:
        """Kill and reap it. It could start no process, so nothing is left of it."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()

    def _listen(self, deadline: float) -> Outcome:
        printed: list[str] = []
        cut, room = False, CHARACTERS
        while True:
            match self._message(deadline):
                case ["printed", str(text), bool(full)]:
                    printed.append(whole(text)[:room])
                    room -= len(printed[-1])
                    cut = cut or full
                case message:
                    timed_out = time.monotonic() >= deadline
                    return replace(_ending(message, timed_out), printed="".join(printed), printed_cut=cut)

    def _message(self, deadline: float) -> Any:
        """The next message; None at the end of the output or of the time, and for what is no message."""
        while (end := self._buffer.find(b"\n")) < 0:
            ready = self._poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            data = os.read(self._output, _READ_BYTES) if ready else b""
            self._received += len(data)
            if not data or self._received > _ANSWER_BYTES:
                return None
            self._buffer += data
        line = bytes(self._buffer[:end])
        del self._buffer[: end + 1]
        try:
            return json.loads(line)
        except (ValueError, RecursionError):
            return None


def _start(script: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of our own Python that knows nothing of this one."""
    return subprocess.Popen(
        [sys.executable, "-I", "-S", "-B", str(_HERE / script), *arguments],
        # Of this process' environment, where the platform keeps credentials, only where Python's own library lies.
        env={"TZ": "UTC0", **{name: os.environ[name] for name in _KEPT if name in os.environ}},
        cwd="/",
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _ending(message: Any, timed_out: bool) -> Outcome:
    """What the last message says; a child that said nothing, or nothing that it should, was ended or has died."""
    match message:
        case ["value", str(kind), str(text), bool(cut)] if kind in _TYPES:
            return Outcome("value", type=kind, text=whole(text)[:CHARACTERS], text_cut=cut)
        case ["error", str(name), str(reason), str(stack)]:
            name, reason, stack = (whole(text)[:CHARACTERS] for text in (name, reason, stack))
            return Outcome("error", name=name, message=reason, stack=stack)
        case ["pending"]:
            return Outcome("pending")
        case _:
            return Outcome("timeout" if timed_out else "died")


def whole(text: str) -> str:
    """``text`` without halves of surrogate pairs: JavaScript has strings with them, no encoding has."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
