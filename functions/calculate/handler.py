"""The tool calculate."""

from workbench.tools.path import tool_route

handler = tool_route("calculate")
