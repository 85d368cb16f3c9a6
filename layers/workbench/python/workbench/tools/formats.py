"""The catalogue as each kind of client wants it: workbench, openai, anthropic, bedrock, mcp; and its route.

Every format is the same tools in the provider's own published shape. Nothing here knows a particular tool.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.conversations.conversation import require_active
from workbench.errors import InvalidRequest, NotFound
from workbench.http import Request, Response
from workbench.ids import TurnId
from workbench.keys import head_key, turn_key
from workbench.settings import Settings
from workbench.tools import catalogue, docstrings
from workbench.tools.contract import Tool
from workbench.tools.schemas import Schema, flattened, schema_of, with_descriptions

if TYPE_CHECKING:
    from workbench.runtime import Runtime

_CHANGES_NOTHING = frozenset({"read", "search", "compute"})


@dataclass(frozen=True, slots=True)
class Published:
    """One tool, described for one turn (or for nobody in particular)."""

    tool: Tool
    description: str
    parameters: Schema


def published(tool: Tool, has: docstrings.Has, settings: Settings) -> Published:
    """``tool`` with the sentences that ``has`` allows; raises Undocumented when its docstring is incomplete."""

    def rendered(text: str) -> str:
        return docstrings.render(text, has, settings)

    description = rendered(docstrings.read(tool).description)
    return Published(tool, description, with_descriptions(schema_of(tool), rendered))


def workbench(one: Published) -> dict[str, Any]:
    return {
        "name": one.tool.name,
        "version": one.tool.version,
        "description": one.description,
        "step": one.tool.step,
        "risk": one.tool.risk,
        "tags": sorted(one.tool.tags),
        "budgetSeconds": one.tool.budget_seconds,
        "parameters": one.parameters,
    }


def openai(one: Published) -> dict[str, Any]:
    """A tool of the Chat Completions API."""
    function = {"name": one.tool.name, "description": one.description, "parameters": one.parameters}
    return {"type": "function", "function": function}


def anthropic(one: Published) -> dict[str, Any]:
    """A tool of the Messages API."""
    return {"name": one.tool.name, "description": one.description, "input_schema": one.parameters}


def bedrock(one: Published) -> dict[str, Any]:
    """A tool of the Converse API; the schema keeps to what every model behind it understands."""
    schema = {"json": flattened(one.parameters)}
    return {"toolSpec": {"name": one.tool.name, "description": one.description, "inputSchema": schema}}


def mcp(one: Published) -> dict[str, Any]:
    """A tool of the Model Context Protocol's ``tools/list``."""
    harmless = one.tool.step in _CHANGES_NOTHING
    title = one.tool.name.replace("_", " ").capitalize()
    return {
        "name": one.tool.name,
        "title": title,
        "description": one.description,
        "inputSchema": one.parameters,
        "annotations": {
            "title": title,
            "readOnlyHint": harmless,
            "destructiveHint": one.tool.step in ("write", "run"),
            "idempotentHint": harmless,
            "openWorldHint": False,
        },
    }


FORMATS: dict[str, Callable[[Published], dict[str, Any]]] = {
    "workbench": workbench,
    "openai": openai,
    "anthropic": anthropic,
    "bedrock": bedrock,
    "mcp": mcp,
}


def publish(name: str, tools: Iterable[Tool], has: docstrings.Has, settings: Settings) -> list[dict[str, Any]]:
    """``tools`` in the format ``name``; raises KeyError for a format that is not published."""
    shape = FORMATS[name]
    return [shape(published(tool, has, settings)) for tool in tools]


def tools_of_turn(item: dict[str, Any]) -> list[Tool]:
    """The tools that a turn's item offers, at the versions it pinned."""
    offered = item["tools"]
    found = (catalogue.get(name, offered[name]) for name in catalogue.names() if name in offered)
    return [tool for tool in found if tool is not None]


def of_turn(item: dict[str, Any]) -> docstrings.Has:
    """What the descriptions for this turn may speak of: its tools, and ``vision`` if its model can see."""
    has = {*item["tools"], *(["vision"] if item.get("model", {}).get("vision") else [])}
    return has.__contains__


def get_catalogue(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/catalogue?format=&turn=``: every tool, or those of a turn, as that format publishes them."""
    name = request.query.get("format", "workbench")
    if name not in FORMATS:
        raise InvalidRequest(f"There is no format {name[:40]!r}. There are {', '.join(FORMATS)}.")
    if "turn" not in request.query:
        return Response({"tools": publish(name, catalogue.tools(), lambda _: True, runtime.settings)})
    turn = TurnId.parse(request.query["turn"])
    if turn is None:
        raise NotFound("There is no such turn.")
    head, record = head_key(turn.conversation), turn_key(turn)
    found = runtime.table.get_many([head, record])
    require_active(found.get(head))
    item = found.get(record)
    if item is None:
        raise NotFound("There is no such turn.")
    return Response({"tools": publish(name, tools_of_turn(item), of_turn(item), runtime.settings)})
