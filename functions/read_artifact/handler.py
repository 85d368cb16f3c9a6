"""The tool read_artifact."""

from workbench.tools.path import tool_route

handler = tool_route("read_artifact")
