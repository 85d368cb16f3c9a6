"""The id grammar. Parts are ``[A-Za-z0-9_-]{1,64}``; ids embed their parents, joined by dots.

``turn = conversation.part``, ``run``, ``ref`` and ``approval`` = prefix + ``conversation.turnpart.callId``, a document
= ``doc_`` + ``collection.part``, so the keys of everything a call touches are known before its first request. Nothing
here touches AWS.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from dataclasses import dataclass

PART = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
RUN_PREFIX, RESULT_PREFIX, APPROVAL_PREFIX = "run_", "res_", "apr_"
DOCUMENT_PREFIX = "doc_"


def is_part(text: object) -> bool:
    """True when ``text`` may stand as one part of an id (a conversation id, a call id, a user name …)."""
    return isinstance(text, str) and PART.match(text) is not None


def random_part(prefix: str, bits: int = 96) -> str:
    """An unguessable id part such as ``art_9fQ…``; ``bits`` of randomness."""
    return prefix + secrets.token_urlsafe(bits // 8)


def new_secret() -> str:
    """256 random bits, URL-safe, for turn tokens and sandbox secrets."""
    return secrets.token_urlsafe(32)


def digest(secret: str) -> str:
    """How a secret is stored: its SHA-256 in hex (the secrets are random, so no salt is needed)."""
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass(frozen=True, slots=True)
class TurnId:
    """``conversation.part``."""

    conversation: str
    part: str

    @classmethod
    def parse(cls, text: object) -> TurnId | None:
        """The turn that ``text`` names, or None when it is no turn id."""
        if not isinstance(text, str):
            return None
        parts = text.split(".")
        if len(parts) != 2 or not all(map(is_part, parts)):
            return None
        return cls(*parts)

    def __str__(self) -> str:
        return f"{self.conversation}.{self.part}"


@dataclass(frozen=True, slots=True)
class CallId:
    """One tool call of one turn; also names its run, its stored result and its approval."""

    turn: TurnId
    call: str

    @classmethod
    def parse(cls, text: object, prefix: str) -> CallId | None:
        """The call behind a ``run_…``, ``res_…`` or ``apr_…`` id, or None."""
        if not isinstance(text, str) or not text.startswith(prefix):
            return None
        turn_text, dot, call = text[len(prefix) :].rpartition(".")
        turn = TurnId.parse(turn_text)
        return cls(turn, call) if dot and turn and is_part(call) else None

    @property
    def run(self) -> str:
        return f"{RUN_PREFIX}{self.turn}.{self.call}"

    @property
    def ref(self) -> str:
        return f"{RESULT_PREFIX}{self.turn}.{self.call}"

    @property
    def approval(self) -> str:
        return f"{APPROVAL_PREFIX}{self.turn}.{self.call}"


@dataclass(frozen=True, slots=True)
class DocumentId:
    """``doc_collection.part``: an uploaded document, in the collection that holds it."""

    collection: str
    part: str

    @classmethod
    def parse(cls, text: object) -> DocumentId | None:
        """The document that ``text`` names, or None when it is no document's id (a collection's has no dot)."""
        if not isinstance(text, str) or not text.startswith(DOCUMENT_PREFIX):
            return None
        parts = text.removeprefix(DOCUMENT_PREFIX).split(".")
        if len(parts) != 2 or not all(map(is_part, parts)):
            return None
        return cls(*parts)

    def __str__(self) -> str:
        return f"{DOCUMENT_PREFIX}{self.collection}.{self.part}"
