"""The API's routes of the group turns."""

from workbench.routes import api_function

handler = api_function("turns")
