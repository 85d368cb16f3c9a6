"""The API's routes of the group uploads."""

from workbench.routes import api_function

handler = api_function("uploads")
