"""The tool read_file."""

from workbench.tools.path import tool_route

handler = tool_route("read_file")
