"""Hears from S3 that the bytes of an exported file are gone for good."""

from workbench.artifacts.billing_api import handler

__all__ = ["handler"]
