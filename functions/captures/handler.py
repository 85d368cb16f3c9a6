"""The API's routes of the group captures."""

from workbench.routes import api_function

handler = api_function("captures")
