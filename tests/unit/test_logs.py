"""What one line of the log holds."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from workbench.logs import JsonLines, audit, logger


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonLines())
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def only_line(written: io.StringIO) -> Any:
    (line,) = written.getvalue().splitlines()
    return json.loads(line)


def test_a_line_is_one_json_object_whatever_it_holds(written: io.StringIO) -> None:
    logger.info("two\nlines \N{SNOWMAN}", extra={"path": "a\nb", "odd": {1}})
    line = only_line(written)
    assert (line["message"], line["path"], line["odd"]) == ("two\nlines \N{SNOWMAN}", "a\nb", "{1}")
    assert (line["level"], line["service"]) == ("INFO", "workbench")
    assert line["timestamp"].endswith("+00:00")


def test_an_audit_event_keeps_its_facts_from_the_records_own(written: io.StringIO) -> None:
    audit("file.write", created=True, name="a.txt")
    line = only_line(written)
    assert (line["message"], line["audit"], line["facts"]) == ("file.write", True, {"created": True, "name": "a.txt"})


def test_a_failure_comes_with_its_traceback_and_name(written: io.StringIO) -> None:
    try:
        raise KeyError("gone")
    except KeyError:
        logger.exception("it failed")
    line = only_line(written)
    assert line["exception_name"] == "KeyError"
    assert "test_a_failure_comes_with" in line["exception"]


def test_a_trace_is_named(written: io.StringIO, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-5759e988-bd862e3fe1be46a994272793;Parent=557abcec3ee5a047;Sampled=1")
    logger.info("traced")
    assert only_line(written)["xray_trace_id"] == "1-5759e988-bd862e3fe1be46a994272793"
