"""The API's routes of the group runs."""

from workbench.routes import api_function

handler = api_function("runs")
