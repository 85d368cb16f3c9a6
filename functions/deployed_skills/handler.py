"""Keeps the skills that a deployment brings along, one for each custom resource of its stack."""

from workbench.skills.deployment import handler

__all__ = ["handler"]
