"""The API's routes of the group approvals."""

from workbench.routes import api_function

handler = api_function("approvals")
