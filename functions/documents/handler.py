"""The API's routes of the group documents: documents and collections."""

from workbench.routes import api_function

handler = api_function("documents")
