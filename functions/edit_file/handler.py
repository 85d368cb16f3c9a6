"""The tool edit_file."""

from workbench.tools.path import tool_route

handler = tool_route("edit_file")
