"""Why an edit is refused. The raiser gives the facts; the class words them: what is wrong, what is there, what next.

``details`` carries the same facts for programs. No refusal names a tool that a turn may lack.
"""

from __future__ import annotations

from workbench.errors import ToolError


class Binary(ToolError):
    """The file is no text: it holds a NUL byte and begins with no byte-order mark."""

    code = "binary"

    def __init__(self, path: str | None = None) -> None:
        super().__init__(
            f"{path or 'The file'} is binary, not text: it has no lines to read or edit. Only code can open it.",
            path=path,
        )
