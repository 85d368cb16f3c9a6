"""POST /v1/turns/{turn}/tools/run_javascript"""

from workbench.tools.path import tool_route

handler = tool_route("run_javascript")
