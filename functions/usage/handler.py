"""The API's routes of the group usage."""

from workbench.routes import api_function

handler = api_function("usage")
