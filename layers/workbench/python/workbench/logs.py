"""Structured logs through Powertools. Audit events are log lines with ``audit`` set; they never hold contents."""

from __future__ import annotations

from typing import Any

from aws_lambda_powertools.logging import Logger

logger = Logger(service="workbench")


def audit(event: str, **facts: Any) -> None:
    """Write one audit event, such as ``file.write`` with path, mode, created and sizes, as ``{"audit", "facts"}``."""
    # Nested, because a log record has attributes of its own: `created` and `name` may not be overwritten.
    logger.info(event, extra={"audit": True, "facts": facts})
