"""The tool list_artifacts."""

from workbench.tools.path import tool_route

handler = tool_route("list_artifacts")
