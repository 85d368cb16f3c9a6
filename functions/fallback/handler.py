"""Requests that no other function serves: unknown tools and unknown routes."""

from workbench.routes import api_function

handler = api_function("fallback")
