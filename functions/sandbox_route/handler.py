"""The sandbox's one route, POST /v1/sandbox."""

from workbench.runs.sandbox_route import handler

__all__ = ["handler"]
