"""The tool delete_file."""

from workbench.tools.path import tool_route

handler = tool_route("delete_file")
