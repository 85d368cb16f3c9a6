"""The tool export_artifact."""

from workbench.tools.path import tool_route

handler = tool_route("export_artifact")
