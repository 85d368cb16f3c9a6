"""The table's keys, as docs/architecture.md lists them: which item holds what follows from its key alone."""

from __future__ import annotations

from workbench.ids import DocumentId, TurnId

Key = tuple[str, str]


def conversation_key(conversation: str, sort: str) -> Key:
    """An item of a conversation: META, HEAD, V#…, T#…, BRK, PINS, APPR#…, ART#…, RUN#…."""
    return f"C#{conversation}", sort


def meta_key(conversation: str) -> Key:
    return conversation_key(conversation, "META")


def head_key(conversation: str) -> Key:
    return conversation_key(conversation, "HEAD")


def version_key(conversation: str, version: int) -> Key:
    return conversation_key(conversation, f"V#{version:010d}")


def turn_key(turn: TurnId) -> Key:
    return conversation_key(turn.conversation, f"T#{turn.part}")


def call_key(turn: TurnId, call: str) -> Key:
    return conversation_key(turn.conversation, f"T#{turn.part}#CALL#{call}")


def seen_key(turn: TurnId) -> Key:
    return conversation_key(turn.conversation, f"T#{turn.part}#SEEN")


def breaker_key(conversation: str) -> Key:
    return conversation_key(conversation, "BRK")


def run_key(run: str) -> Key:
    return f"R#{run}", "RUN"


def run_output_key(run: str) -> Key:
    return f"R#{run}", "OUT"


def sandbox_key(sandbox: str) -> Key:
    return f"SBX#{sandbox}", "SBX"


def artifact_key(artifact: str) -> Key:
    return f"A#{artifact}", "META"


def collection_key(collection: str) -> Key:
    return f"COL#{collection}", "META"


def document_key(document: DocumentId) -> Key:
    return f"COL#{document.collection}", f"DOC#{document.part}"
