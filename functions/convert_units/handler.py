"""The tool convert_units."""

from workbench.tools.path import tool_route

handler = tool_route("convert_units")
