"""The API's routes of the group people."""

from workbench.routes import api_function

handler = api_function("people")
