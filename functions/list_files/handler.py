"""The tool list_files."""

from workbench.tools.path import tool_route

handler = tool_route("list_files")
