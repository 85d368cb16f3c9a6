"""The tool write_file."""

from workbench.tools.path import tool_route

handler = tool_route("write_file")
