"""The tool run_code."""

from workbench.tools.path import tool_route

handler = tool_route("run_code")
