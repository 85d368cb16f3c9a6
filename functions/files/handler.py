"""The API's routes of the group files."""

from workbench.routes import api_function

handler = api_function("files")
