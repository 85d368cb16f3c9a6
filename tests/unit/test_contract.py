"""A function becomes a tool: what is taken from it, and which functions are no tools."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Annotated, Any

import pytest
from pydantic import Field

from workbench.tools.answer import Answer
from workbench.tools.contract import tool
from workbench.tools.docstrings import Undocumented
from workbench.tools.schemas import schema_of

if TYPE_CHECKING:
    from workbench.tools.turn import Turn


@tool(step="search", version="1.2.0", tags={"search", "read"}, budget=2.5, retries=1, breaker=8, exact=True)
def search_docs(
    turn: Turn, query: Annotated[str, Field(min_length=2)], top_k: Annotated[int, Field(le=5)] = 3
) -> Answer:
    """Search the documents.

    Args:
        query: What to look for.
        top_k: How many passages to return.
    """
    return Answer.of(f"{turn}: {query} {top_k}")


def test_name_version_and_promises_come_from_the_decorator_and_the_function():
    assert search_docs.id == "search_docs@1.2.0"
    assert (search_docs.step, search_docs.risk, search_docs.budget_seconds) == ("search", "low", 2.5)
    assert (search_docs.retries, search_docs.breaker_after, search_docs.exact) == (1, 8, True)
    assert search_docs.tags == {"search", "read"}


def test_bound_values_call_the_function_and_the_turn_is_injected():
    bound = search_docs.bind({"query": "limits", "topK": "2"})
    assert search_docs.function("turn 1", **bound.values).text == "turn 1: limits 2"


def test_the_turn_is_never_published_and_names_are_camel_case():
    schema = schema_of(search_docs)
    assert schema["properties"] == {
        "query": {"type": "string", "minLength": 2, "description": "What to look for."},
        "topK": {"type": "integer", "maximum": 5, "default": 3, "description": "How many passages to return."},
    }
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False


def test_a_missing_description_keeps_a_tool_from_being_published():
    @tool(step="read")
    def undescribed(turn: Any, path: str, depth: int = 1) -> Answer:
        """List.

        Args:
            path: Where.
        """
        return Answer.of(f"{turn}{path}{depth}")

    assert undescribed.bind({"path": "a"}).values == {"path": "a", "depth": 1}
    with pytest.raises(Undocumented, match="depth"):
        schema_of(undescribed)


def test_a_description_of_a_parameter_that_is_not_taken_is_an_error():
    @tool(step="read")
    def overdescribed(turn: Any, path: str) -> Answer:
        """List.

        Args:
            path: Where.
            depth: How deep.
        """
        return Answer.of(f"{turn}{path}")

    with pytest.raises(Undocumented, match="depth"):
        schema_of(overdescribed)


def test_a_tool_without_a_docstring_is_not_published():
    @tool(step="read")
    def silent(turn: Any) -> Answer:
        return Answer.of(str(turn))

    with pytest.raises(Undocumented, match="no description"):
        schema_of(silent)


def test_the_first_parameter_has_to_be_the_turn():
    @tool(step="read")
    def lonely(path: str) -> Answer:
        return Answer.of(path)

    with pytest.raises(TypeError, match="first parameter"):
        lonely.bind({})


def test_a_type_that_json_cannot_say_is_refused():
    @tool(step="read")
    def odd(turn: Any, when: complex) -> Answer:
        return Answer.of(f"{turn}{when}")

    with pytest.raises(TypeError, match="complex"):
        odd.bind({"when": 1})


@pytest.mark.parametrize("wrong", [{"version": "1.0"}, {"step": "dance"}, {"risk": "none"}])
def test_a_tool_cannot_be_made_with_unknown_words(wrong):
    with pytest.raises(TypeError):
        tool(**{"step": "read", **wrong})(lambda turn: Answer.of(str(turn)))


def test_a_second_version_keeps_the_published_name():
    @tool(step="read", name="search_docs", version="2.0.0")
    def search_docs_2(turn: Any) -> Answer:
        return Answer.of(str(turn))

    assert search_docs_2.id == "search_docs@2.0.0"


def test_a_call_loads_neither_the_docstring_parser_nor_the_unit_library():
    program = (
        "import sys; from workbench.tools import catalogue; catalogue.get('calculate').bind({'expressions': '1'});"
        "print([name for name in ('griffe', 'pint', 'difflib') if name in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONPATH": ":".join(sys.path)},
    )
    assert done.stdout.strip() == "[]"
