"""The API's routes of the group skills."""

from workbench.routes import api_function

handler = api_function("skills")
