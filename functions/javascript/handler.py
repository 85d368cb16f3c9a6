"""Evaluates one JavaScript program; invoked by run_javascript, and may do nothing itself."""

from workbench.javascript.function import handler

__all__ = ["handler"]
