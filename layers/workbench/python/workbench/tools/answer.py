"""What a tool returns, before the call path dresses it as the contract's tool answer."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import ToolError


@dataclass(frozen=True, slots=True)
class TextPart:
    text: str

    def as_dict(self) -> dict[str, Any]:
        return {"type": "text", "text": self.text}


@dataclass(frozen=True, slots=True)
class ImagePart:
    """A picture for the model: encoded bytes of ``media_type``."""

    media_type: str
    data: bytes

    def as_dict(self) -> dict[str, Any]:
        return {"type": "image", "mediaType": self.media_type, "data": base64.b64encode(self.data).decode()}


@dataclass(slots=True)
class Answer:
    """Content for the model, the same facts for programs, and what the trace should note.

    ``error`` marks a call that did its work but failed all the same (a program that exited non-zero); a tool that
    refuses raises :class:`~workbench.errors.ToolError` instead. ``outcome`` overrides ``ok``/``error``.
    """

    content: list[TextPart | ImagePart]
    structured: dict[str, Any] = field(default_factory=dict)
    error: ToolError | None = None
    outcome: str | None = None
    refs: list[str] = field(default_factory=list)
    # What the receipt and the audit log need to know of this call; never contents.
    effects: dict[str, Any] = field(default_factory=dict)
    # The finished contract answer, when the work recorded the call itself (a run that the workflow finished).
    wire: dict[str, Any] | None = None

    @classmethod
    def of(cls, text: str, **structured: Any) -> Answer:
        """An answer of one text part."""
        return cls([TextPart(text)], structured)

    @property
    def text(self) -> str:
        """All text parts as one text."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))
