"""Every step of the RunCode state machine."""

from workbench.runs.workflow import handler

__all__ = ["handler"]
