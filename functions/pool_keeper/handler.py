"""Keeps sandboxes waiting for work."""

from workbench.runs.keeper import handler

__all__ = ["handler"]
