"""A tool's parameters as JSON Schema: without references, titles and nulls, or flattened for poorer dialects.

The published schema may promise less than the call accepts (a lone string where a list is taken, ``null`` for an
absent value); the full check stays inside.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from workbench.tools import docstrings
from workbench.tools.contract import Tool

Schema = dict[str, Any]

_PLAIN_KEYS = ("type", "description", "enum", "properties", "required", "items")
_BOUNDS = {
    "minimum": "at least {}",
    "exclusiveMinimum": "more than {}",
    "maximum": "at most {}",
    "exclusiveMaximum": "less than {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "pattern": "matching {}",
    "default": "default {}",
}


@cache
def schema_of(tool: Tool) -> Schema:
    """The full schema, descriptions as written; raises Undocumented when a parameter has none, nested ones included."""
    raw = {**tool.model.model_json_schema(by_alias=True), "description": None}
    documentation = docstrings.read(tool)
    schema: Schema = _plain(raw, raw.get("$defs", {}))
    published = {info.alias or name: name for name, info in tool.model.model_fields.items()}
    for name, part in schema.setdefault("properties", {}).items():
        part["description"] = documentation.parameters[published[name]]
    for path in _undescribed(schema, ""):
        raise docstrings.Undocumented(f"{tool.id}: {path} has no description")
    return schema


def flattened(schema: Schema) -> Schema:
    """The schema with ``type``, ``properties``, ``required``, ``items``, ``enum`` and ``description`` only.

    Bounds and defaults are told in the description. Of several kinds the object is kept, because it can say most.
    """
    if "anyOf" in schema:
        chosen = next((one for one in schema["anyOf"] if one.get("type") == "object"), schema["anyOf"][0])
        schema = {**chosen, **{key: value for key, value in schema.items() if key != "anyOf"}}
    flat = {key: schema[key] for key in _PLAIN_KEYS if key in schema}
    bounds = [_bound(text, schema[key]) for key, text in _BOUNDS.items() if key in schema]
    if bounds:
        words = ", ".join(bounds)
        flat["description"] = f"{schema.get('description', '').rstrip('.')} ({words}).".lstrip()
    if "properties" in flat:
        flat["properties"] = {name: flattened(part) for name, part in flat["properties"].items()}
    if "items" in flat:
        flat["items"] = flattened(flat["items"])
    return flat


def with_descriptions(schema: Schema, change: Any) -> Schema:
    """A copy of ``schema`` with ``change`` applied to every description."""
    copy: Schema = {}
    for key, value in schema.items():
        if key == "description":
            copy[key] = change(value)
        elif key == "properties":
            copy[key] = {name: with_descriptions(part, change) for name, part in value.items()}
        elif key == "anyOf":
            copy[key] = [with_descriptions(part, change) for part in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            copy[key] = with_descriptions(value, change)
        else:
            copy[key] = value
    return copy


def _plain(schema: Schema, definitions: dict[str, Schema]) -> Schema:
    if "$ref" in schema:
        # A model's docstring says what the class is for in code; the parameter's own text says what to send.
        target = {**definitions[schema["$ref"].rpartition("/")[2]], "description": None}
        return _plain({**target, **{key: value for key, value in schema.items() if key != "$ref"}}, definitions)
    if "anyOf" in schema:
        kinds = [one for one in schema["anyOf"] if one.get("type") != "null"]
        rest = {key: value for key, value in schema.items() if key != "anyOf"}
        if len(kinds) == 1:
            return _plain({**kinds[0], **rest}, definitions)
        schema = {**rest, "anyOf": kinds}
    plain: Schema = {}
    for key, value in schema.items():
        if key in ("title", "$defs") or (key in ("default", "description") and value is None):
            continue
        if key == "properties":
            plain[key] = {name: _plain(part, definitions) for name, part in value.items()}
        elif key == "anyOf":
            plain[key] = [_plain(part, definitions) for part in value]
        elif key in ("items", "additionalProperties") and isinstance(value, dict):
            plain[key] = _plain(value, definitions)
        elif key == "const":
            plain["enum"] = [value]
        else:
            plain[key] = value
    return plain


def _undescribed(schema: Schema, path: str) -> list[str]:
    found: list[str] = []
    for name, part in schema.get("properties", {}).items():
        here = f"{path}.{name}" if path else name
        if not part.get("description"):
            found.append(here)
        found += _undescribed(part, here)
    for part in [schema.get("items"), *schema.get("anyOf", [])]:
        if isinstance(part, dict):
            found += _undescribed(part, f"{path}[]" if part is schema.get("items") else path)
    return found


def _bound(text: str, value: Any) -> str:
    words = text.format(str(value).lower() if isinstance(value, bool) else value)
    return words.removesuffix("s") if value == 1 and words.endswith("s") else words
