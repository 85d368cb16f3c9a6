"""The API's routes of the group artifacts."""

from workbench.routes import api_function

handler = api_function("artifacts")
