"""The tool search_files."""

from workbench.tools.path import tool_route

handler = tool_route("search_files")
