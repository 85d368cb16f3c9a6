"""EventBridge's schedules on one machine: calls a function now and then again every so many seconds, until closed."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from local.functions import FunctionMissing

log = logging.getLogger("workbench.local")

Deliver = Callable[[str, bytes], None]


class Schedule:
    """Rules that call functions in turn; ``deliver(function, payload)`` is an asynchronous invocation."""

    def __init__(self, deliver: Deliver) -> None:
        self._deliver = deliver
        self._closed = threading.Event()

    def every(self, seconds: float, function: str, payload: bytes = b"{}") -> None:
        """Call ``function`` now, and again after every ``seconds``."""
        threading.Thread(
            target=self._repeat, args=(seconds, function, payload), name=f"schedule {function}", daemon=True
        ).start()

    def close(self) -> None:
        """Call nothing any more."""
        self._closed.set()

    def _repeat(self, seconds: float, function: str, payload: bytes) -> None:
        while not self._closed.is_set():
            try:
                self._deliver(function, payload)
            except FunctionMissing:
                log.error("there is no function %s to call every %g seconds", function, seconds)
                return
            self._closed.wait(seconds)
