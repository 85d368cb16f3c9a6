"""The API's routes of the group prompts."""

from workbench.routes import api_function

handler = api_function("prompts")
