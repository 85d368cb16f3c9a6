"""The router of ``workbench inspect`` drafts what a small model would, and always picks something that exists."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.inspect_router import CANDIDATES, choose


@pytest.mark.parametrize(
    ("sentence", "tool", "arguments"),
    [
        ("what is 2 + 2?", "calculate", {"expressions": "2 + 2"}),
        ("15% of 80", "calculate", {"expressions": "15 / 100 * 80"}),
        ("calculate 10 divided by 3 to 2 decimal places", "calculate", {"expressions": "10 / 3", "precision": "2"}),
        ("How much is three plus four", "search_docs", {"query": "How much is three plus four", "k": "3"}),
        ("5 squared minus 3", "calculate", {"expressions": "5^2 - 3"}),
        ("the square root of 2 times 7", "calculate", {"expressions": "sqrt(2) * 7"}),
        ("calculate __import__('os')", "calculate", {"expressions": "__import__('os')"}),
        ("convert 5 miles to km", "convert_units", {"value": "5", "from": "miles", "to": "km"}),
        ("3,000 ft in meters?", "convert_units", {"value": "3000", "from": "ft", "to": "meters"}),
        ("20 degrees celsius to fahrenheit", "convert_units", {"value": "20", "from": "celsius", "to": "fahrenheit"}),
        ("how many litres are in 2.5 gallons?", "convert_units", {"value": "2.5", "from": "gallons", "to": "litres"}),
        ("What time is it?", "current_time", {}),
        ("what time is it in Berlin?", "current_time", {"zone": "Europe/Berlin"}),
        ("which day is it in new york", "current_time", {"zone": "America/New_York"}),
        ("the current time in Atlantis", "current_time", {"zone": "Atlantis"}),
        ("how large may a file be?", "search_docs", {"query": "how large may a file be?", "k": "3"}),
    ],
)
def test_sentences_get_the_tool_and_arguments_that_they_ask_for(
    sentence: str, tool: str, arguments: dict[str, Any]
) -> None:
    choice = choose(sentence, CANDIDATES)
    assert (choice.tool, choice.arguments) == (tool, arguments)
    assert choice.because


def test_a_sentence_that_no_tool_fits_is_said_so() -> None:
    with pytest.raises(ValueError, match="none of current_time fits"):
        choose("2 + 2", ["current_time"])


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_any_text_at_all_gets_a_tool_that_is_available(sentence: str) -> None:
    assert choose(sentence, CANDIDATES).tool in CANDIDATES
