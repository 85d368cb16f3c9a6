"""Structured logs through Powertools. Audit events are log lines with ``audit`` set; they never hold contents."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from aws_lambda_powertools.logging import Logger

NAMESPACE = "Workbench"

logger = Logger(service="workbench")


def audit(event: str, **facts: Any) -> None:
    """Write one audit event, such as ``file.write`` with path, mode, created and sizes, as ``{"audit", "facts"}``."""
    # Nested, because a log record has attributes of its own: `created` and `name` may not be overwritten.
    logger.info(event, extra={"audit": True, "facts": facts})


def measured(message: str, function: str, metrics: Mapping[str, float], **facts: Any) -> None:
    """Write one log line that is also taken as metrics of ``function`` (CloudWatch's embedded metric format)."""
    described = [{"Name": name} for name in metrics]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["FunctionName"]], "Metrics": described}
    embedded = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    logger.info(message, extra={"_aws": embedded, "FunctionName": function, **metrics, **facts})
