"""ECS says that a sandbox task stopped."""

from workbench.runs.task_stopped import handler

__all__ = ["handler"]
