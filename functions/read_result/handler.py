"""The tool read_result."""

from workbench.tools.path import tool_route

handler = tool_route("read_result")
