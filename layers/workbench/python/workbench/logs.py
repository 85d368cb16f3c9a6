"""Structured logs through Powertools. Audit events are log lines with ``audit`` set; they never hold contents."""

from __future__ import annotations

import contextvars
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from aws_lambda_powertools.logging import Logger

NAMESPACE = "Workbench"

# Who acts where no request says so: workflows and schedules; and who, where a request names no person.
SYSTEM, PORTAL = "system", "portal"
NAME_CHARACTERS = 256

logger = Logger(service="workbench")
_actor: contextvars.ContextVar[str] = contextvars.ContextVar("actor", default=SYSTEM)


@contextmanager
def acting(person: str | None) -> Iterator[None]:
    """Audit events of the block name ``person``, or the portal when None, as the one who did it."""
    # A header holds whatever somebody sends.
    token = _actor.set(person[:NAME_CHARACTERS] if person else PORTAL)
    try:
        yield
    finally:
        _actor.reset(token)


def audit(event: str, **facts: Any) -> None:
    """Write one audit event, such as ``file.write`` with path, mode, created and sizes, as ``{"audit", "facts"}``.

    ``facts`` say ``by`` whom it was done, by id, unless the event says otherwise.
    """
    # Nested, because a log record has attributes of its own: `created` and `name` may not be overwritten.
    logger.info(event, extra={"audit": True, "facts": {"by": _actor.get(), **facts}})


def measured(message: str, function: str, metrics: Mapping[str, float], **facts: Any) -> None:
    """Write one log line that is also taken as metrics of ``function`` (CloudWatch's embedded metric format)."""
    described = [{"Name": name} for name in metrics]
    directive = {"Namespace": NAMESPACE, "Dimensions": [["FunctionName"]], "Metrics": described}
    embedded = {"Timestamp": int(time.time() * 1000), "CloudWatchMetrics": [directive]}
    logger.info(message, extra={"_aws": embedded, "FunctionName": function, **metrics, **facts})
