"""Requests as they come: what a hostile body may cost before it is refused, and in which words."""

from __future__ import annotations

import time

import pytest

from workbench.errors import InvalidRequest
from workbench.http import NESTED_LEVELS, Request


def body(data: bytes) -> Request:
    return Request("POST", "/", "POST /", {}, {}, {}, data)


def test_a_string_that_never_ends_costs_no_more_than_its_length() -> None:
    escaped_quotes = b"[" * (NESTED_LEVELS + 1) + b'"' + b'\\"' * 40_000
    # This thread's processor time: a busy machine may let it stand still.
    began = time.thread_time()
    with pytest.raises(InvalidRequest):
        body(escaped_quotes).json()
    assert time.thread_time() - began < 2


def test_brackets_in_strings_are_no_levels_and_those_outside_are() -> None:
    words = b'{"a": "' + b"[" * 1_000 + b'\\" {", "b": [[1]]}'
    assert body(words).json()["b"] == [[1]]
    deep = b"[" * (NESTED_LEVELS + 1) + b"]" * (NESTED_LEVELS + 1)
    with pytest.raises(InvalidRequest, match=f"more than {NESTED_LEVELS} levels"):
        body(b'{"a": "x", "b": ' + deep + b"}").json()


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b'{"a": 1' + b"0" * 5_000 + b"}", "a number in it has too many digits"),
        (b'{"a": NaN}', "NaN is not allowed in JSON"),
        (b'{"a": ', "line 1 column 7"),
        (b"[]", "must be a JSON object, not a list"),
        (b"null", "must be a JSON object, not null"),
        (b"1.5", "must be a JSON object, not a number"),
    ],
)
def test_a_body_that_cannot_be_read_is_refused_in_words_of_json(data: bytes, says: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        body(data).json()
    assert says in caught.value.message and "sys." not in caught.value.message
