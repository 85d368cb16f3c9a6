"""Closes this process to the children it starts for strangers' work, where those run as the same user: in Lambda."""

from __future__ import annotations

import os

_PR_SET_DUMPABLE = 4
_IN_LAMBDA = "AWS_LAMBDA_FUNCTION_NAME"


def hide_memory_in_lambda() -> None:
    """Before such a child is started. On a developer's machine the process is not only one function's, and stays."""
    if _IN_LAMBDA in os.environ:
        hide_memory()


def hide_memory() -> None:
    """Close this process' memory and environment, where the platform keeps credentials, to others of its user."""
    # Only functions that start such children need it.
    import ctypes

    ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
