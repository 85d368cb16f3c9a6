"""The tool load_skill."""

from workbench.tools.path import tool_route

handler = tool_route("load_skill")
