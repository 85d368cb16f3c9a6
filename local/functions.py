"""The Lambda functions of one machine: loads ``functions/<name>/handler.py`` by path and calls it as Lambda would.

A handler gets a fresh event and a context object, must return what JSON can carry, and whatever it raises becomes
the error payload of the Lambda runtime. It runs in the caller's thread; nothing can stop it at its time limit.
"""

from __future__ import annotations

import contextvars
import importlib.util
import itertools
import json
import logging
import re
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from local.work import Closed, Work

REGION = "eu-central-1"
ACCOUNT = "123456789012"
# What Lambda carries in one direction of a synchronous call.
PAYLOAD_BYTES = 6 * 1024 * 1024

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_ARN = re.compile(r"arn:aws:lambda:[a-z0-9-]+:\d{12}:function:([A-Za-z0-9_-]{1,64})(?::[A-Za-z0-9$_-]+)?\Z")

_instances = itertools.count(1)
# Whose function this thread runs.
_at_work: contextvars.ContextVar[Work | None] = contextvars.ContextVar("at_work", default=None)
log = logging.getLogger("workbench.local")

Handler = Callable[[Any, Any], Any]


class FunctionMissing(Exception):
    """There is no ``functions/<name>/handler.py``."""


class FunctionFailed(Exception):
    """The function raised, or returned what JSON cannot carry. ``payload`` is what Lambda would answer."""

    def __init__(self, error_type: str, message: str, trace: list[str] | None = None) -> None:
        super().__init__(f"{error_type}: {message}")
        self.payload = {"errorType": error_type, "errorMessage": message, "stackTrace": trace or []}


@dataclass
class Context:
    """Lambda's context object; ``deadline`` is on the monotonic clock, in seconds."""

    function_name: str
    deadline: float
    aws_request_id: str = field(default_factory=lambda: str(uuid.uuid4()))
    memory_limit_in_mb: int = 1024
    function_version: str = "$LATEST"

    @property
    def invoked_function_arn(self) -> str:
        return function_arn(self.function_name)

    @property
    def log_group_name(self) -> str:
        return f"/aws/lambda/{self.function_name}"

    @property
    def log_stream_name(self) -> str:
        return "local"

    def get_remaining_time_in_millis(self) -> int:
        """Milliseconds until Lambda would stop the function."""
        return max(0, int((self.deadline - time.monotonic()) * 1000))


def is_of_interest(_record: logging.LogRecord) -> bool:
    """A filter for the functions' log: what is cut off by stopping the system has nothing to report."""
    work = _at_work.get()
    return work is None or not work.closed


def function_arn(name: str) -> str:
    """The ARN under which the state machines call a local function."""
    return f"arn:aws:lambda:{REGION}:{ACCOUNT}:function:{name}"


def function_name(name_or_arn: str) -> str:
    """The name in a function's name or ARN (a version or alias is ignored); raises :class:`FunctionMissing`."""
    match = _ARN.match(name_or_arn)
    name = match.group(1) if match else name_or_arn
    if not _NAME.match(name):
        raise FunctionMissing(name_or_arn)
    return name


class LocalFunctions:
    """Every function under ``folder``; each handler is loaded once, at its first call."""

    def __init__(self, folder: Path, timeout_seconds: float = 60) -> None:
        self._folder = folder
        self._timeout_seconds = timeout_seconds
        self._prefix = f"workbench_local_functions_{next(_instances)}"
        self._handlers: dict[str, Handler] = {}
        self._loading = threading.RLock()
        self._work = Work()

    def call(self, name: str, event: Any) -> Any:
        """Call the function in this thread and return what its handler returned.

        Raises :class:`FunctionMissing` and :class:`FunctionFailed`. ``event`` must be the caller's to give away.
        """
        at_work = _at_work.set(self._work)
        try:
            with self._work.piece():
                return self._call(name, event)
        except Closed as error:
            raise FunctionFailed("Stopping", "The local system is stopping; start it and try again.") from error
        finally:
            _at_work.reset(at_work)

    def invoke(self, name: str, payload: bytes) -> tuple[bytes, bool]:
        """A synchronous Invoke: the response's payload and whether it is an error. Raises :class:`FunctionMissing`."""
        try:
            try:
                event = json.loads(payload or b"{}")
            except ValueError as error:
                raise FunctionFailed("Runtime.UnmarshalError", f"The payload is not JSON: {error}") from error
            result = self.call(name, event)
            return marshal(result), False
        except FunctionFailed as failure:
            return json.dumps(failure.payload).encode(), True

    def invoke_later(self, name: str, payload: bytes) -> None:
        """An Invoke of type ``Event``: returns at once; failures are only logged (Lambda would try twice more)."""
        self._handler_path(function_name(name))
        if not self._work.closed:
            # Daemons, so that a function at work never keeps a stopped system's process alive.
            threading.Thread(
                target=self._invoke_logged, args=(name, payload), name=f"lambda {name}", daemon=True
            ).start()

    def close(self) -> None:
        """Take no more calls."""
        self._work.close()

    def finish(self, seconds: float) -> None:
        """After :meth:`close`: wait for the functions at work, at most ``seconds``, and forget the loaded handlers."""
        self._work.wait(seconds)
        with self._loading:
            for name in [name for name in sys.modules if name.startswith(self._prefix + ".")]:
                del sys.modules[name]
            self._handlers.clear()

    def _call(self, name: str, event: Any) -> Any:
        handler = self._handler(function_name(name))
        context = Context(function_name(name), time.monotonic() + self._timeout_seconds)
        try:
            return handler(event, context)
        except Exception as error:
            # What the system took away from under a function when it stopped is no failure of the function.
            log.log(logging.DEBUG if self._work.closed else logging.ERROR, "function %s failed", name, exc_info=True)
            trace = traceback.format_tb(error.__traceback__)
            raise FunctionFailed(type(error).__name__, str(error), trace) from error

    def _invoke_logged(self, name: str, payload: bytes) -> None:
        answer, failed = self.invoke(name, payload)
        if failed and not self._work.closed:
            log.error("asynchronous call of %s failed: %s", name, answer.decode())

    def _handler(self, name: str) -> Handler:
        handler = self._handlers.get(name)
        if handler is not None:
            return handler
        # One lock for all: imports take the interpreter's import locks in any case, and cold starts are rare.
        with self._loading:
            if name not in self._handlers:
                self._handlers[name] = self._load(name)
            return self._handlers[name]

    def _handler_path(self, name: str) -> Path:
        path = self._folder / name / "handler.py"
        if not path.is_file():
            raise FunctionMissing(name)
        return path

    def _load(self, name: str) -> Handler:
        module = self._import(name, self._handler_path(name))
        handler = getattr(module, "handler", None)
        if not callable(handler):
            raise FunctionFailed("Runtime.HandlerNotFound", f"functions/{name}/handler.py has no callable 'handler'")
        found: Handler = handler
        return found

    def _import(self, name: str, path: Path) -> ModuleType:
        module_name = f"{self._prefix}.{name}"
        spec = importlib.util.spec_from_file_location(module_name, path)
        if spec is None or spec.loader is None:
            raise FunctionFailed("Runtime.ImportModuleError", f"{path} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[module_name] = module
        try:
            spec.loader.exec_module(module)
        except Exception as error:
            # The next call tries again: a developer has probably saved half a change.
            sys.modules.pop(module_name, None)
            log.exception("functions/%s/handler.py cannot be imported", name)
            message = f"Unable to import module 'handler': {error}"
            raise FunctionFailed("Runtime.ImportModuleError", message) from error
        return module


def marshal(result: Any) -> bytes:
    """A handler's result as the JSON that Lambda would send; raises :class:`FunctionFailed` when it cannot be."""
    try:
        payload = json.dumps(result, ensure_ascii=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise FunctionFailed("Runtime.MarshalError", f"Unable to marshal response: {error}") from error
    if len(payload) > PAYLOAD_BYTES:
        raise FunctionFailed(
            "Function.ResponseSizeTooLarge", f"The response has {len(payload)} bytes, Lambda carries {PAYLOAD_BYTES}."
        )
    return payload
