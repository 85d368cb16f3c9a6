"""What clients are told about tools: each provider's own shape, and sentences that are true of the turn."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Annotated, Any, Literal

import jsonschema
import pytest
from moto import mock_aws
from pydantic import Field

from local.resources import create_table
from workbench.clients import Clients
from workbench.clock import ManualClock
from workbench.errors import InvalidRequest, NotFound
from workbench.http import Request
from workbench.keys import turn_key
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.tools import catalogue, formats
from workbench.tools.answer import Answer
from workbench.tools.arguments import ArgumentObject
from workbench.tools.contract import Tool, tool
from workbench.tools.docstrings import render
from workbench.tools.schemas import schema_of


class Span(ArgumentObject):
    """What a reader of the code should know of it."""

    path: str = Field(description="Path of a file.")
    start_line: Annotated[int, Field(ge=1)] | None = Field(None, description="First line.")


@tool(step="write", risk="moderate", tags={"files", "a"}, budget=2.0)
def sample(
    turn: Any,
    paths: Annotated[list[str | Span], Field(min_length=1, max_length=3)],
    span: Span | None = None,
    mode: Literal["text", "lines"] = "text",
    k: Annotated[int, Field(ge=1, le=5)] = 3,
    variables: dict[str, str] | None = None,
) -> Answer:
    """Write files.

    A file holds at most {written_file_bytes}; {braces} stay.
    [if export_artifact] Only export_artifact gives the person
    a file.
    [if not export_artifact] Files cannot be handed over.

    Always said.

    Args:
        paths: Paths, each optionally with lines.
            [if vision] Pictures are shown.
        span: One span.
        mode: How.
        k: How many.
        variables: Names and texts.
    """
    return Answer.of(f"{turn}{paths}{span}{mode}{k}{variables}")


NAME = {"type": "string", "pattern": "^[a-zA-Z0-9_-]{1,64}$"}
TEXT = {"type": "string", "minLength": 1}


def strict(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}


# JSON Schema that needs nothing resolved, and an object at the top, as every provider asks.
PARAMETERS = {
    "type": "object",
    "required": ["type", "properties"],
    "properties": {"type": {"const": "object"}, "properties": {"type": "object"}},
    "not": {"anyOf": [{"required": ["$ref"]}, {"required": ["$defs"]}, {"required": ["anyOf"]}]},
}
FLAT: dict[str, Any] = {
    "$id": "flat",
    "type": "object",
    "required": ["type"],
    "additionalProperties": False,
    "properties": {
        "type": {"enum": ["object", "array", "string", "integer", "number", "boolean"]},
        "description": TEXT,
        "enum": {"type": "array"},
        "required": {"type": "array"},
        "items": {"$ref": "flat"},
        "properties": {"type": "object", "additionalProperties": {"$ref": "flat"}},
    },
}
SHAPES: dict[str, dict[str, Any]] = {
    "workbench": strict(
        name=NAME,
        version={"type": "string", "pattern": r"^\d+\.\d+\.\d+$"},
        description=TEXT,
        step={"enum": ["read", "write", "run", "compute", "search", "export"]},
        risk={"enum": ["low", "moderate", "high", "dangerous"]},
        tags={"type": "array", "items": TEXT},
        budgetSeconds={"type": "number", "exclusiveMinimum": 0},
        parameters=PARAMETERS,
    ),
    "openai": strict(type={"const": "function"}, function=strict(name=NAME, description=TEXT, parameters=PARAMETERS)),
    "anthropic": strict(name=NAME, description=TEXT, input_schema=PARAMETERS),
    "bedrock": strict(toolSpec=strict(name=NAME, description=TEXT, inputSchema=strict(json=FLAT))),
    "mcp": strict(
        name=NAME,
        title=TEXT,
        description=TEXT,
        inputSchema=PARAMETERS,
        annotations=strict(
            title=TEXT,
            readOnlyHint={"type": "boolean"},
            destructiveHint={"type": "boolean"},
            idempotentHint={"type": "boolean"},
            openWorldHint={"const": False},
        ),
    ),
}


def everything(_name: str) -> bool:
    return True


def publish(name: str, *tools: Tool, has: Any = everything) -> list[dict[str, Any]]:
    return formats.publish(name, tools, has, Settings())


def test_every_format_of_the_contract_is_published():
    assert list(formats.FORMATS) == ["workbench", "openai", "anthropic", "bedrock", "mcp"]


@pytest.mark.parametrize("name", formats.FORMATS)
def test_each_format_has_its_providers_own_shape(name):
    tools = [sample, *(catalogue.get(one) for one in ("calculate", "convert_units", "current_time"))]
    for published in publish(name, *tools):
        jsonschema.validate(published, SHAPES[name])


def test_schemas_are_valid_and_say_what_a_call_takes():
    schema = schema_of(sample)
    jsonschema.Draft202012Validator.check_schema(schema)
    good = {"paths": ["a", {"path": "b", "startLine": 2}], "span": {"path": "c"}, "variables": {"a": "b"}}
    jsonschema.validate(good, schema)
    assert sample.bind(good).conversions == []
    for bad in (
        {"paths": []},
        {"paths": ["a"], "k": 6},
        {"paths": ["a"], "mode": "x"},
        {"paths": [{"path": 1}]},
        {"x": 1},
    ):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(bad, schema)


def test_schemas_hold_no_references_titles_nulls_or_code_comments():
    text = json.dumps(schema_of(sample))
    for unwanted in ("$ref", "$defs", '"title"', "null", "reader of the code"):
        assert unwanted not in text
    assert schema_of(sample)["properties"]["span"]["description"] == "One span."


def test_flattened_schemas_tell_bounds_in_words_and_keep_the_object_of_a_union():
    (published,) = publish("bedrock", sample)
    properties = published["toolSpec"]["inputSchema"]["json"]["properties"]
    assert properties["k"] == {"type": "integer", "description": "How many (at least 1, at most 5, default 3)."}
    assert properties["paths"]["items"]["properties"].keys() == {"path", "startLine"}
    assert properties["paths"]["description"].endswith("(at least 1 item, at most 3 items).")
    assert properties["mode"]["enum"] == ["text", "lines"]


def test_mcp_says_which_tools_change_nothing():
    changing, computing = publish("mcp", sample, catalogue.get("calculate"))
    assert changing["annotations"]["readOnlyHint"] is False
    assert changing["annotations"]["destructiveHint"] is True
    assert computing["annotations"]["readOnlyHint"] is True


# ---------------------------------------------------------------- true of the turn


def test_descriptions_name_only_what_the_turn_has():
    (with_export,) = publish("workbench", sample, has={"export_artifact", "vision"}.__contains__)
    (without,) = publish("workbench", sample, has=lambda _name: False)
    assert "Only export_artifact gives the person a file." in with_export["description"]
    assert "cannot be handed over" not in with_export["description"]
    assert "export_artifact" not in json.dumps(without)
    assert without["description"].endswith("Files cannot be handed over.\n\nAlways said.")
    assert with_export["parameters"]["properties"]["paths"]["description"].endswith("Pictures are shown.")
    assert without["parameters"]["properties"]["paths"]["description"] == "Paths, each optionally with lines."


def test_limits_are_those_of_the_deployment():
    small = formats.published(sample, everything, Settings(written_file_bytes=64 * 1024))
    assert "at most 64 KiB; {braces} stay" in small.description


@pytest.mark.parametrize(
    ("text", "rendered"),
    [
        ("A\nb.\n\nC.", "A b.\n\nC."),
        ("A:\n- one\n  more\n- two", "A:\n- one more\n- two"),
        ("[if x] yes\n[if y] no\nmore no\n\nback", "yes\n\nback"),
        ("[if y] no\n\n[if not y] yes", "yes"),
        ("Holds {workspace_files} files of {written_file_bytes}.", "Holds 2,000 files of 1 MiB."),
        ("[a] [if x stays", "[a] [if x stays"),
    ],
)
def test_marks_and_paragraphs(text, rendered):
    assert render(text, "x".__eq__, Settings()) == rendered


@pytest.mark.parametrize("name", catalogue.names())
def test_a_tool_offered_alone_names_no_other(name):
    for version in catalogue.versions(name):
        published = json.dumps(publish("workbench", catalogue.get(name, version), has=name.__eq__))
        others = [other for other in catalogue.names() if other != name]
        assert re.findall(rf"\b(?:{'|'.join(others)})\b", published) == []
        assert re.findall(r"\[if|\{[a-z_]+\}", published) == [], "every mark and setting is known"


# ---------------------------------------------------------------- the route


@pytest.fixture(scope="module")
def runtime() -> Iterator[Runtime]:
    with mock_aws():
        made = Runtime(Settings(table="catalogue-test"), Clients(region="eu-central-1"), ManualClock())
        create_table(made.clients.dynamodb, made.settings.table)
        yield made


def ask(runtime: Runtime, **query: str) -> list[dict[str, Any]]:
    request = Request("GET", "/v1/catalogue", "GET /v1/catalogue", {}, query, {}, b"")
    tools: list[dict[str, Any]] = formats.get_catalogue(runtime, request).body["tools"]
    return tools


def test_a_turns_catalogue_holds_its_tools_at_their_pinned_versions(runtime):
    turn = formats.TurnId.parse("conv.t1")
    pk, sk = turn_key(turn)
    tools = {"current_time": "1.0.0", "calculate": "1.0.0"}
    runtime.table.put({"PK": pk, "SK": sk, "tools": tools, "model": {"name": "m", "vision": False}})
    offered = ask(runtime, turn="conv.t1")
    assert [(one["name"], one["version"]) for one in offered] == [("calculate", "1.0.0"), ("current_time", "1.0.0")]
    assert [one["toolSpec"]["name"] for one in ask(runtime, turn="conv.t1", format="bedrock")] == [
        "calculate",
        "current_time",
    ]


@pytest.mark.parametrize("turn", ["conv.unknown", "nonsense", "", "a.b.c"])
def test_an_unknown_turn_is_not_found(runtime, turn):
    with pytest.raises(NotFound):
        ask(runtime, turn=turn)


def test_an_unknown_format_is_refused_naming_the_real_ones(runtime):
    with pytest.raises(InvalidRequest, match="workbench, openai, anthropic, bedrock, mcp"):
        ask(runtime, format="yaml")


@pytest.mark.parametrize("name", formats.FORMATS)
def test_the_whole_catalogue_is_published(runtime, name):
    published = ask(runtime, format=name)
    assert len(published) == len(catalogue.names())
    assert "$ref" not in json.dumps(published)
    for one in published:
        jsonschema.validate(one, SHAPES[name])
