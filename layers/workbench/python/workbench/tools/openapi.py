"""``GET /v1/openapi.json``: the API as an OpenAPI 3.1 document, derived from the route table and the catalogue.

Descriptions are the docstrings of the code behind a route, a tool's arguments its published schema. What neither tells
(titles, queries, bodies, answers) stands in ``openapi_routes``.
"""

from __future__ import annotations

import re
from importlib import import_module
from typing import Any

from workbench.http import Request, Response
from workbench.routes import ROUTES, TOOL_ROUTE, Route
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.tools import catalogue, formats
from workbench.tools.openapi_routes import PATH_PARAMETERS, PEOPLE_HEADERS, ROUTES_DESCRIBED, Described, Query
from workbench.tools.openapi_shapes import COMPONENTS, TEXT, Schema, named

CONTRACT_VERSION = "1.0.0"

# What any route may answer, whatever else it does.
_ALWAYS = (400, 413, 429, 500)
_MEANINGS = {
    400: "The request is malformed: `invalid_request`, with what to send instead.",
    401: "The turn or its token is unknown or expired: `unauthorized`.",
    403: "Not allowed to this person: `forbidden`.",
    404: "There is no such thing, or none that may be seen: `not_found`.",
    409: "The state does not allow it, such as a deleted conversation: `conflict`.",
    413: "More than the API carries or the workspace holds: `too_large`.",
    429: "Busy or throttled: `throttled`. Try again after the seconds of Retry-After.",
    500: "A failure on our side: `internal`.",
}
_DESCRIPTION = (
    "Workspaces of files, tools on them, a code sandbox and durable artifacts for a chat portal's language model. "
    "Requests are signed with IAM credentials in AWS; the local system on loopback asks for none. Failures of a "
    'request are `{"error": {…}}`; a tool that refuses or fails answers 200 with its outcome, for the model to read.'
)


def get_openapi(runtime: Runtime, _request: Request) -> Response:
    """``GET /v1/openapi.json``: this document."""
    return Response(document(runtime.settings))


def document(settings: Settings) -> dict[str, Any]:
    """The whole document; ``settings`` give the figures that descriptions of tools name."""
    paths: dict[str, dict[str, Any]] = {}
    for route in ROUTES:
        method, path = route.key.split(" ")
        paths.setdefault(path, {})[method.lower()] = _operation(route)
    for name in catalogue.names():
        method, path = TOOL_ROUTE.replace("{tool}", name).split(" ")
        paths.setdefault(path, {})[method.lower()] = _tool_operation(name, settings)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Workbench", "version": CONTRACT_VERSION, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in dict.fromkeys([*(route.function for route in ROUTES), "tools"])],
        "security": [{"iam": []}],
        "paths": paths,
        "components": {
            "schemas": COMPONENTS,
            "responses": {_name(status): _failure(status) for status in _MEANINGS},
            "securitySchemes": {
                "iam": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "Authorization",
                    "description": "AWS Signature Version 4; not asked for by the local system.",
                    "x-amazon-apigateway-authtype": "awsSigv4",
                },
                "turnToken": {
                    "type": "apiKey",
                    "in": "header",
                    "name": "X-Turn-Token",
                    "description": "The token that opening the turn gave.",
                },
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    said = _sentence(route.target)
    described = ROUTES_DESCRIBED.get(route.key, Described(said, {}))
    path = route.key.split(" ")[1]
    parameters = [_path_parameter(name) for name in re.findall(r"\{(\w+)\}", path)]
    parameters += [_query_parameter(query) for query in described.query]
    if described.scoped:
        parameters += [_header(name) for name in PEOPLE_HEADERS]
    operation: dict[str, Any] = {
        "operationId": f"{route.function}_{route.target.partition(':')[2]}",
        "tags": [route.function],
        "summary": described.title,
        **({"description": said} if said else {}),
        **({"parameters": parameters} if parameters else {}),
    }
    if described.raw:
        upload = {
            "schema": {"description": "Bytes like any other, unless it is exactly one field that names an upload."},
            "example": {"upload": "upl_Jb2xqkzVyQwZ3n1f"},
        }
        operation["requestBody"] = {
            "required": False,
            "content": {"application/octet-stream": {}, "application/json": upload},
        }
    elif described.body is not None:
        operation["requestBody"] = _json_body(described.body)
    operation["responses"] = _responses(described)
    if described.token:
        operation["security"] = [{"iam": [], "turnToken": []}]
    return operation


def _tool_operation(name: str, settings: Settings) -> dict[str, Any]:
    """A tool's own route: the generic one with the arguments of every version that a turn may have pinned."""
    tools = [tool for version in catalogue.versions(name) if (tool := catalogue.get(name, version))]
    published = [formats.published(tool, lambda _: True, settings) for tool in tools]
    described = ROUTES_DESCRIBED[TOOL_ROUTE]
    objects: list[Schema] = [
        {**one.parameters, "title": one.tool.id} if len(published) > 1 else one.parameters for one in published
    ]
    text = {"type": "string", "contentMediaType": "application/json", "description": "The same as a JSON text."}
    body = {
        **COMPONENTS["ToolCall"],
        "properties": {**COMPONENTS["ToolCall"]["properties"], "arguments": {"anyOf": [*objects, text]}},
    }
    latest = published[-1]
    return {
        "operationId": f"call_{name}",
        "tags": ["tools", *sorted(latest.tool.tags)],
        "summary": latest.description.partition("\n")[0],
        "description": latest.description,
        "parameters": [_path_parameter("turn")],
        "requestBody": _json_body(body),
        "responses": _responses(described),
        "security": [{"iam": [], "turnToken": []}],
        "x-workbench-version": latest.tool.version,
        "x-workbench-step": latest.tool.step,
        "x-workbench-risk": latest.tool.risk,
        "x-workbench-budget-seconds": latest.tool.budget_seconds,
    }


def _responses(described: Described) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if described.answer is None:
        content: dict[str, Any] = {media_type: {} for media_type in described.media_types}
        link = {"location": {"required": True, "schema": {**TEXT, "format": "uri"}}}
        responses["307"] = {"description": "Large: a link to the bytes that is good for a minute.", "headers": link}
    else:
        content = {"application/json": {"schema": described.answer}}
    responses[str(described.status)] = {
        "description": "Done." if described.answer else "The bytes.",
        "content": content,
    }
    for status in sorted({*_ALWAYS, *described.failures}):
        responses[str(status)] = {"$ref": f"#/components/responses/{_name(status)}"}
    return responses


def _failure(status: int) -> dict[str, Any]:
    failure: dict[str, Any] = {
        "description": _MEANINGS[status],
        "content": {"application/json": {"schema": named("Failure")}},
    }
    if status in (409, 429):
        failure["headers"] = {"retry-after": {"schema": {"type": "integer", "minimum": 0}, "description": "Seconds."}}
    return failure


def _name(status: int) -> str:
    return f"Failure{status}"


def _json_body(schema: Schema) -> dict[str, Any]:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _path_parameter(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": PATH_PARAMETERS.get(name, TEXT)}


def _query_parameter(query: Query) -> dict[str, Any]:
    said = {"name": query.name, "in": "query", "description": query.description, "schema": query.schema}
    return {**said, "required": True} if query.required else said


def _header(name: str) -> dict[str, Any]:
    said = "The person on whose behalf; left out, the portal asks, which may see everything."
    schema = TEXT if name == "X-Workbench-Groups" else {**TEXT, "pattern": r"^\S(.*\S)?$"}
    return {"name": name, "in": "header", "description": said, "schema": schema}


def _sentence(target: str) -> str:
    """What the docstring's first line says behind the route that it begins with; may be empty."""
    module, _, name = target.partition(":")
    first = (getattr(import_module(module), name).__doc__ or "").strip().partition("\n")[0]
    text = re.sub(r"^``[A-Z]+ [^`]*``[:.]?\s*", "", first).strip()
    return text[:1].upper() + text[1:]
