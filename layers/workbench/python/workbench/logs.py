"""Structured logs: one JSON object a line on standard output, which is where Lambda takes its log from.

Audit events are log lines with ``audit`` set; they never hold contents. The standard library is enough for this: a
logging library's import would take a tenth of a function's cold start.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from datetime import UTC, datetime
from typing import Any

SERVICE = "workbench"

# What every record carries; anything else came as ``extra`` and belongs in the line.
_OWN_ATTRIBUTES = frozenset({*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"})


class JsonLines(logging.Formatter):
    """A record as ``{"level", "location", "message", "timestamp", "service", …extra}``, and a failure's traceback."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "level": record.levelname,
            "location": f"{record.funcName}:{record.lineno}",
            "message": record.getMessage(),
            "timestamp": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "service": SERVICE,
        }
        line |= {name: value for name, value in vars(record).items() if name not in _OWN_ATTRIBUTES}
        if record.exc_info and record.exc_info[0]:
            line["exception"] = self.formatException(record.exc_info)
            line["exception_name"] = record.exc_info[0].__name__
        trace = os.environ.get("_X_AMZN_TRACE_ID", "")
        if trace:
            line["xray_trace_id"] = trace.partition(";")[0].removeprefix("Root=")
        return json.dumps(line, default=str)


def _structured(name: str) -> logging.Logger:
    made = logging.getLogger(name)
    if not made.handlers:
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(JsonLines())
        made.addHandler(handler)
        made.setLevel(logging.INFO)
        # Lambda's own handler would write every line a second time.
        made.propagate = False
    return made


logger = _structured(SERVICE)


def audit(event: str, **facts: Any) -> None:
    """Write one audit event, such as ``file.write`` with path, mode, created and sizes, as ``{"audit", "facts"}``."""
    # Nested, because a log record has attributes of its own: `created` and `name` may not be overwritten.
    logger.info(event, extra={"audit": True, "facts": facts})
