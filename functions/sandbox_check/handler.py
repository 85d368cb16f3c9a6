"""Proves what a sandbox of this deployment can and cannot do; invoked by an admin after the first deployment."""

from workbench.selfcheck.function import handler

__all__ = ["handler"]
