"""The API's routes of the group replay."""

from workbench.routes import api_function

handler = api_function("replay")
