"""The API's routes of the group reconciliations."""

from workbench.routes import api_function

handler = api_function("reconciliations")
