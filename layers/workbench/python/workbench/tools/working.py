"""Doing a tool's work: its function on a thread that can be given up, within its budget, tried again where it may be.

Whatever the function raises becomes an answer; nothing here commits anything.
"""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout

from workbench.errors import ToolError, ToolInternal, ToolThrottled, is_throttling
from workbench.logs import logger
from workbench.runtime import Runtime
from workbench.table import Contended
from workbench.tools.answer import Answer
from workbench.tools.contract import Bound, Tool
from workbench.tools.recording import failed
from workbench.tools.turn import Turn
from workbench.workspace.storage.store import BlobGone

RETRY_PAUSE_SECONDS = 0.2

_workers = ThreadPoolExecutor(max_workers=64, thread_name_prefix="tool")


class Work:
    """The work of one call. ``attempts`` counts how often the function was called; ``view`` gives a fresh turn."""

    def __init__(self, runtime: Runtime, view: Callable[[], Turn]) -> None:
        self._runtime = runtime
        self._view = view
        self.attempts = 0

    def do(self, tool: Tool, turn: Turn, bound: Bound, deadline: float) -> tuple[Answer, Turn]:
        """The function's answer and the turn it worked on; ``timeout`` when the deadline passed first.

        ``deadline`` is on the monotonic clock. Raises BlobGone, for which the state must be read again.
        """
        context = contextvars.copy_context()
        future = _workers.submit(context.run, self._tries, tool, turn, bound)
        try:
            return future.result(timeout=max(0.0, deadline - self._runtime.clock.monotonic()))
        except FutureTimeout:
            # The worker may go on, but it cannot commit: only this thread does, and it moves on.
            future.cancel()
            error = ToolError(
                f"{tool.name} did not finish within {tool.budget_seconds:g} seconds. Nothing was changed. "
                "Ask for less at once.",
                code="timeout",
            )
            return failed(error, "timeout"), turn

    def _tries(self, tool: Tool, turn: Turn, bound: Bound) -> tuple[Answer, Turn]:
        """Call the function; a failure that may pass is tried again where the tool allows it, on a fresh view."""
        for left in range(tool.retries, -1, -1):
            self.attempts += 1
            try:
                return tool.function(turn, **bound.values), turn
            except BlobGone:
                raise
            except Exception as error:  # noqa: BLE001 - the model gets an answer whatever a tool does
                refusal = _refusal(tool, error)
            if not (left and refusal.retryable):
                return failed(refusal, "invalid_args" if refusal.code == "invalid_args" else "error"), turn
            self._runtime.clock.sleep(random.uniform(0, RETRY_PAUSE_SECONDS))  # noqa: S311
            turn = self._view()
        raise AssertionError("unreachable")


def _refusal(tool: Tool, error: Exception) -> ToolError:
    if isinstance(error, ToolError):
        return error
    if isinstance(error, Contended) or is_throttling(error):
        return ToolThrottled()
    logger.exception("tool failed", extra={"tool": tool.name})
    return ToolInternal(f"{tool.name} failed on our side ({type(error).__name__}).")
