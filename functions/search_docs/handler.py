"""The tool search_docs."""

from workbench.tools.path import tool_route

handler = tool_route("search_docs")
