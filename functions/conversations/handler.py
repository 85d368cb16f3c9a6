"""The API's routes of the group conversations."""

from workbench.routes import api_function

handler = api_function("conversations")
