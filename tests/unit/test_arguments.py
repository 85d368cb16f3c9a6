"""What happens to a model's arguments before a tool sees them: decoding, conversion, refusal."""

from __future__ import annotations

import json
import math
from typing import Annotated, Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import Field

from workbench.tools.arguments import ArgumentObject, Given, InvalidArguments, digest
from workbench.tools.contract import Bound, tool

# A busy machine takes its time over drawing examples, which says nothing about the code.
calmly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


class Span(ArgumentObject):
    path: Annotated[str, Field(min_length=1)]
    start_line: Annotated[int, Field(ge=1)] | None = None


class Sheet(ArgumentObject):
    path: str
    content: str | None = None


@tool(step="read")
def sample(
    turn: Any,
    query: Annotated[str, Field(min_length=2)] = "any",
    k: Annotated[int, Field(ge=1, le=5)] = 3,
    ratio: float = 1.0,
    deep: bool = False,
    mode: Literal["text", "lines"] = "text",
    queries: Annotated[list[str], Field(min_length=1, max_length=5)] | None = None,
    paths: Annotated[list[str | Span], Field(max_length=3)] | None = None,
    files: Annotated[list[Sheet], Field(max_length=3)] | None = None,
    path: str | None = None,
    content: str | None = None,
    variables: dict[str, Any] | None = None,
    start_line: int | None = None,
) -> Any:
    """For these tests."""


def bind(**arguments: Any) -> Bound:
    return sample.bind(arguments)


def refused(arguments: Any) -> InvalidArguments:
    with pytest.raises(InvalidArguments) as caught:
        sample.bind(arguments)
    return caught.value


def rules(error: InvalidArguments) -> dict[str, str]:
    return {problem["argument"]: problem["rule"] for problem in error.details["problems"]}


# ---------------------------------------------------------------- the whole


def test_arguments_may_be_a_json_string_and_that_is_no_conversion():
    bound = sample.bind('{"query": "rate limits", "k": 2}')
    assert (bound.values["query"], bound.values["k"]) == ("rate limits", 2)
    assert bound.conversions == []


@pytest.mark.parametrize("nothing", [None, "", "  \n", {}, "{}"])
def test_no_arguments_are_an_empty_object(nothing):
    assert sample.bind(nothing).values["k"] == 3


DEEP = json.loads("[" * 900 + "]" * 900)


@pytest.mark.parametrize(
    "broken", [DEEP, "{bad", "[1]", '"text"', "12", "null", [1], 7, True, '{"k": NaN}', "[" * 100_000]
)
def test_anything_else_than_an_object_is_refused(broken):
    error = refused(broken)
    assert error.code == "invalid_args"
    assert list(rules(error)) == ["arguments"]


@pytest.mark.parametrize(
    ("broken", "why"),
    [('{"k": NaN}', "NaN is not a JSON number"), ('{"k": 1' + "0" * 5_000 + "}", "a number in it has too many digits")],
)
def test_why_arguments_are_no_json_is_said_in_words_of_json(broken, why):
    error = refused(broken)
    assert f"not valid JSON: {why}" in error.message and "sys." not in error.message


def test_the_digest_is_of_the_decoded_json_before_conversion():
    assert sample.bind('{"k": "3", "query": "ab"}').digest == sample.bind({"query": "ab", "k": "3"}).digest
    assert sample.bind({"k": "3"}).digest != sample.bind({"k": 3}).digest
    assert Given.read("{bad").digest != Given.read("{worse").digest


def test_values_carry_the_functions_names_and_defaults():
    bound = bind(startLine=4)
    assert bound.values["start_line"] == 4
    assert bound.values["mode"] == "text"


# ---------------------------------------------------------------- conversions


@pytest.mark.parametrize(
    ("argument", "sent", "value"),
    [
        ("k", "3", 3),
        ("k", " 3 ", 3),
        ("k", 3.0, 3),
        ("k", "3.0", 3),
        ("ratio", "0.5", 0.5),
        ("ratio", "1e3", 1000.0),
        ("deep", "true", True),
        ("deep", "False", False),
        ("startLine", "-2", -2),
        ("queries", "one", ["one"]),
        ("queries", '["a", "b"]', ["a", "b"]),
        ("variables", '{"a": [1]}', {"a": [1]}),
        ("k", None, 3),
    ],
)
def test_a_value_is_converted_where_nothing_is_lost_and_that_is_reported(argument, sent, value):
    bound = bind(**{argument: sent})
    name = "start_line" if argument == "startLine" else argument
    assert bound.values[name] == value
    assert type(bound.values[name]) is type(value)
    assert bound.conversions == [{"argument": argument, "from": sent, "to": value}]


def test_null_for_an_optional_parameter_is_its_absence():
    bound = bind(startLine=None)
    assert bound.values["start_line"] is None
    assert bound.conversions == []


def test_an_encoded_array_is_decoded_whole_item_by_item_or_as_one_object():
    whole = bind(files='[{"path": "a", "content": "12"}]')
    items = bind(files=['{"path": "a", "content": "12"}'])
    alone = bind(files={"path": "a", "content": "12"})
    encoded_alone = bind(files='{"path": "a", "content": "12"}')
    for bound in (whole, items, alone, encoded_alone):
        assert bound.values["files"] == [Sheet(path="a", content="12")]
        assert [one["argument"] for one in bound.conversions] == ["files[0]" if bound is items else "files"]


def test_malformed_json_for_an_array_is_refused_with_the_direct_fields():
    error = refused({"files": "not json"})
    assert list(rules(error)) == ["files"]
    assert "direct fields path, content" in error.message


@pytest.mark.parametrize("text", ["12", "null", '"a"', "true"])
def test_other_json_in_a_string_is_no_list(text):
    assert "not JSON inside a string (it holds no list)" in refused({"files": text}).message


def test_items_of_a_union_keep_their_kind():
    bound = bind(paths=["a", {"path": "b", "startLine": "2"}, '{"path": "c"}'])
    assert bound.values["paths"] == ["a", Span(path="b", start_line=2), '{"path": "c"}']
    assert bound.conversions == [{"argument": "paths[1].startLine", "from": "2", "to": 2}]


def test_a_long_conversion_is_reported_in_short():
    text = json.dumps([{"path": "a", "content": "x" * 5_000}])
    (report,) = bind(files=text).conversions
    assert len(json.dumps(report)) < 600


# ---------------------------------------------------------------- text stays text


@pytest.mark.parametrize("text", ['{"a":1}', "[1,2]", '"s"', "null", "12", "true", "", "a\\n&amp;", "\x00", "👩‍👩‍👧"])
def test_text_is_never_looked_into(text):
    bound = bind(content=text, files=[{"path": "p", "content": text}])
    assert bound.values["content"] == text
    assert bound.values["files"][0].content == text
    assert bound.conversions == []


@pytest.mark.parametrize("value", [12, 1.5, True, {"a": 1}, ["a"]])
def test_anything_else_for_text_is_refused_not_written_out(value):
    error = refused({"content": value, "files": [{"path": "p", "content": value}]})
    assert set(rules(error)) == {"content", "files[0].content"}
    assert "text in quotes" in error.message


def test_text_that_utf8_cannot_hold_is_refused_and_the_refusal_can_be_sent():
    error = refused({"query": "ab\ud800"})
    assert "surrogate" in rules(error)["query"]
    json.dumps(error.as_dict(), ensure_ascii=False).encode()


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("argument", "value", "rule"),
    [
        ("k", 99, "must be <= 5"),
        ("k", 0, "must be >= 1"),
        ("k", 1.5, "must be a whole number"),
        ("k", "1.5", "must be a whole number"),
        ("k", "two", "must be a whole number"),
        ("k", "2; rm", "must be a whole number"),
        ("k", "", "must be a whole number"),
        ("k", "0x10", "must be a whole number"),
        ("k", "٣", "must be a whole number"),
        ("k", True, "must be a whole number"),
        ("k", [3], "must be a whole number"),
        ("k", math.nan, "must be a whole number"),
        ("k", 1e300, "must be a whole number"),
        ("k", "9" * 31, "must be a whole number"),
        ("ratio", "", "must be a number"),
        ("ratio", "nan", "must be a number"),
        ("ratio", "1e9999", "must be a number"),
        ("ratio", math.inf, "must be a finite number"),
        ("ratio", 10**400, "must be a finite number"),
        ("deep", 1, "must be true or false"),
        ("deep", "yes", "must be true or false"),
        ("mode", "Text", "must be one of text, lines"),
        ("query", "a", "must have at least 2 characters"),
        ("queries", [], "must have at least 1 item"),
        ("queries", list("abcdef"), "must have at most 5 items"),
        ("queries", ["a"] * 100_000, "must have at most 5 items"),
        ("queries", {"a": 1}, "must be a list, each item text"),
        ("variables", [1], "must be an object"),
        ("variables", "text", "must be an object"),
    ],
)
def test_a_refusal_names_parameter_and_rule(argument, value, rule):
    error = refused({argument: value})
    assert rules(error) == {argument: rule}
    assert error.message.startswith(f"{argument} {rule}, got ")


def test_every_problem_is_named_at_once():
    error = refused({"query": "a", "k": 99, "mode": 1, "paths": [{"startLine": 0}, 7]})
    assert set(rules(error)) == {"query", "k", "mode", "paths[1]"}
    assert rules(refused({"paths": [{"startLine": 0}]})) == {
        "paths[0].path": "is required",
        "paths[0].startLine": "must be >= 1",
    }


@pytest.mark.parametrize(
    ("unknown", "near"), [("kk", "k"), ("start_line", "startLine"), ("Query", "query"), ("varaibles", "variables")]
)
def test_an_unknown_name_is_refused_with_the_nearest_real_one(unknown, near):
    error = refused({unknown: 1})
    assert f"{unknown} is no parameter here (did you mean {near}?)" in error.message


def test_an_unknown_name_unlike_any_lists_the_real_ones():
    assert "there are query, k, ratio" in refused({"zzzzzz": 1}).message
    assert "there are path, content" in refused({"files": [{"path": "a", "zzzzzz": 1}]}).message


@pytest.mark.parametrize(
    "hostile",
    [
        {f"name{number}": 1 for number in range(20_000)},
        {"x" * 100_000: 1},
        {"a\ud800\n": 1},
        {"k": "9" * 1_000_000},
        {"k": int("9" * 4_000)},
        {"files": "[" * 50_000},
        {"path": DEEP},
        {"files": DEEP},
        {"files": [{"path": 1}] * 1_000},
        {"variables": json.loads('{"a":' * 200 + "1" + "}" * 200)},
        {"variables": dict.fromkeys(map(str, range(5_000)))},
    ],
)
def test_hostile_arguments_are_refused_in_a_few_words(hostile):
    error = refused(hostile)
    assert len(error.message) < 3_000
    assert len(error.details["problems"]) <= 10
    json.dumps(error.as_dict(), ensure_ascii=False).encode()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
names = st.sampled_from([*sample.shape.fields, "kk", ""])


@calmly
@given(st.dictionaries(names, json_values | json_values.map(lambda value: json.dumps(value)), max_size=5))
def test_any_json_is_bound_or_refused_and_text_comes_through_unchanged(arguments):
    try:
        bound = sample.bind(arguments)
    except InvalidArguments as error:
        assert error.details["problems"]
        json.dumps(error.as_dict(), ensure_ascii=False).encode()
        return
    assert bound.digest == digest(arguments)
    for name in ("query", "path", "content"):
        if isinstance(arguments.get(name), str):
            assert bound.values[name] == arguments[name]
    json.dumps(bound.conversions, ensure_ascii=False).encode()
