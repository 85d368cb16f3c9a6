"""The Lambda ``javascript``: evaluates one program and answers how it ended. Its role may do nothing at all.

It knows no table, no bucket and no conversation; what it answers is checked again by whoever asked.
"""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from workbench.closed_memory import hide_memory_in_lambda
from workbench.javascript.evaluator import Evaluator, EvaluatorUnavailable

_evaluator = Evaluator()


def handler(event: dict[str, Any], _context: Any) -> dict[str, Any]:
    """``{"code"}`` to ``{"outcome": {...}}`` (fields of :class:`Outcome`) or ``{"unavailable": why}``.

    ``{"attempts": true}`` asks instead what native code could do in the place of a program: ``{"attempts": {...}}``.
    """
    hide_memory_in_lambda()
    try:
        if event.get("attempts") is True:
            return {"attempts": _evaluator.attempts()}
        return {"outcome": asdict(_evaluator.evaluate(event["code"]))}
    except EvaluatorUnavailable as error:
        return {"unavailable": error.message}
