"""One call on its way to the function: finding the tool by its name, decoding, checking and converting its arguments.

All sides publish a function with the parameters of ``read_file`` and an empty body, get the arguments as the JSON text
a model wrote, and end in a call of the function. Nothing is stored on any side. A run is several calls, so that
starting an event loop for the peers does not count against them.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Annotated, Any

from pydantic import BaseModel, Field

from bench.measure import Row, in_turns
from workbench.tools import catalogue

CALLS = 200
NAME = "read_file"
ARGUMENTS = json.dumps({"paths": ["notes/plan.md", {"path": "src/app.py", "startLine": 10, "endLine": 80}]})

Line = Annotated[int, Field(ge=1)]


class PathRange(BaseModel):
    """A file and the lines wanted of it, with the names as they are published."""

    path: str
    startLine: Line | None = None  # noqa: N815
    endLine: Line | None = None  # noqa: N815


def read_file(
    path: str | None = None,
    paths: Annotated[list[str | PathRange], Field(min_length=1, max_length=10)] | None = None,
    startLine: Line | None = None,  # noqa: N803
    endLine: Line | None = None,  # noqa: N803
) -> str:
    """Read text files by line.

    Args:
        path: The file to read.
        paths: Up to 10 files instead of path, each a path or an object with path, startLine and endLine.
        startLine: First line to return, counted from 1.
        endLine: Last line to return.
    """
    assert path is None and paths is not None and startLine is endLine is None
    return f"{len(paths)} files"


def against_fastmcp() -> Row:
    """The server's ``get_tool`` and the tool's ``run``, without its transport and its middleware."""
    from fastmcp import FastMCP

    server = FastMCP("bench")
    server.tool(read_file)

    async def calls() -> None:
        for _ in range(CALLS):
            tool = await server.get_tool(NAME)
            assert tool is not None
            await tool.run(json.loads(ARGUMENTS))

    return _row(lambda: asyncio.run(calls()), "FastMCP")


def against_pydantic_ai() -> Row:
    """The tool manager's ``handle_call``, as an agent makes it; the listing of a step's tools does not count."""
    from pydantic_ai import RunContext
    from pydantic_ai.messages import ToolCallPart
    from pydantic_ai.models.test import TestModel
    from pydantic_ai.tool_manager import ToolManager
    from pydantic_ai.toolsets import FunctionToolset
    from pydantic_ai.usage import RunUsage

    toolset = FunctionToolset[None]()
    toolset.add_function(read_file)

    async def prepared() -> Any:
        context = RunContext(deps=None, model=TestModel(), usage=RunUsage())
        return await ToolManager(toolset).for_run_step(context)

    manager = asyncio.run(prepared())

    async def calls() -> None:
        for number in range(CALLS):
            await manager.handle_call(ToolCallPart(NAME, ARGUMENTS, f"call{number}"))

    return _row(lambda: asyncio.run(calls()), "pydantic-ai")


def _ours() -> None:
    for _ in range(CALLS):
        tool = catalogue.get(NAME)
        assert tool is not None
        bound = tool.bind(ARGUMENTS)
        read_file(bound.values["path"], bound.values["paths"], bound.values["start_line"], bound.values["end_line"])


def _row(theirs: Callable[[], object], peer: str) -> Row:
    ours, others = in_turns(_ours, theirs)
    return Row(ours, f"{peer}, {CALLS} calls", others, "no slower", most=1.0)
