"""The Lambda ``javascript``: evaluates one program and answers how it ended. Its role may do nothing at all.

It knows no table, no bucket and no conversation; what it answers is checked again by whoever asked.
"""

from __future__ import annotations

import ctypes
import os
from dataclasses import asdict
from typing import Any

from workbench.javascript.evaluator import Evaluator, EvaluatorUnavailable

_PR_SET_DUMPABLE = 4
_IN_LAMBDA = "AWS_LAMBDA_FUNCTION_NAME"

_evaluator = Evaluator()


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """``{"code"}`` to ``{"outcome": {...}}`` (fields of :class:`Outcome`) or ``{"unavailable": why}``.

    ``{"attempts": true}`` asks instead what native code could do in the place of a program: ``{"attempts": {...}}``.
    """
    if _IN_LAMBDA in os.environ:
        hide_memory()
    try:
        if event.get("attempts") is True:
            return {"attempts": _evaluator.attempts()}
        return {"outcome": asdict(_evaluator.evaluate(event["code"]))}
    except EvaluatorUnavailable as error:
        return {"unavailable": error.message}


def hide_memory() -> None:
    """Close this process' memory and environment to others of the same user, which a child would be in Lambda.

    On a developer's machine the process is not only this function's, and a child of root is another user there.
    """
    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
