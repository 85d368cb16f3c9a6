"""The tool current_time."""

from workbench.tools.path import tool_route

handler = tool_route("current_time")
