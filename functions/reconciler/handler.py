"""The daily look for what nothing names."""

from workbench.reconciling.engine import handler

__all__ = ["handler"]
