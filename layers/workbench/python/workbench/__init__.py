"""Workbench: a workspace, tools, a sandbox and artifacts for a chat portal's language model."""
