"""Requests as they come: what a hostile body may cost before it is refused."""

from __future__ import annotations

import time

import pytest

from workbench.errors import InvalidRequest
from workbench.http import NESTED_LEVELS, Request


def body(data: bytes) -> Request:
    return Request("POST", "/", "POST /", {}, {}, {}, data)


def test_a_string_that_never_ends_costs_no_more_than_its_length() -> None:
    escaped_quotes = b"[" * (NESTED_LEVELS + 1) + b'"' + b'\\"' * 40_000
    began = time.monotonic()
    with pytest.raises(InvalidRequest):
        body(escaped_quotes).json()
    assert time.monotonic() - began < 2


def test_brackets_in_strings_are_no_levels_and_those_outside_are() -> None:
    words = b'{"a": "' + b"[" * 1_000 + b'\\" {", "b": [[1]]}'
    assert body(words).json()["b"] == [[1]]
    deep = b"[" * (NESTED_LEVELS + 1) + b"]" * (NESTED_LEVELS + 1)
    with pytest.raises(InvalidRequest, match=f"more than {NESTED_LEVELS} levels"):
        body(b'{"a": "x", "b": ' + deep + b"}").json()
