"""The API's routes of the group results."""

from workbench.routes import api_function

handler = api_function("results")
