"""The API's routes of the group catalogue."""

from workbench.routes import api_function

handler = api_function("catalogue")
