"""The items of an artifact, in whatever way it came to be: exported by a turn, or uploaded as a document."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.artifacts import billing, model, store
from workbench.artifacts.model import Kind, Origin
from workbench.keys import artifact_key
from workbench.operations import Item


@dataclass(frozen=True, slots=True)
class Stored:
    """A version whose bytes are stored. ``owner`` and ``department`` pay; ``expires`` is None for what stays."""

    artifact: str
    number: int
    name: str
    media_type: str
    bytes: int
    sha256: str
    at: float
    owner: str
    department: str
    turn: str | None
    expires: float | None


def version_item(stored: Stored) -> Item:
    pk, sk = store.version_key(stored.artifact, stored.number)
    item: Item = {
        "PK": pk,
        "SK": sk,
        "version": stored.number,
        "bytes": stored.bytes,
        "sha256": stored.sha256,
        "at": stored.at,
        "turn": stored.turn,
        "owner": stored.owner,
        "department": stored.department,
        "name": stored.name,
        "mediaType": stored.media_type,
    }
    if stored.expires is not None:
        item |= {"expiresAt": stored.expires, "ttl": int(stored.expires + billing.LATE_SECONDS)}
    return item


def meta_item(
    stored: Stored,
    *,
    kind: Kind,
    origin: Origin,
    source: dict[str, Any] | None = None,
    conversation: str | None = None,
    sharing: model.Sharing | None = None,
) -> Item:
    """The artifact's own item, at its first version; one that stays counts as attached from the beginning."""
    pk, sk = artifact_key(stored.artifact)
    item: Item = {
        "PK": pk,
        "SK": sk,
        "kind": kind,
        "name": stored.name,
        "mediaType": stored.media_type,
        "origin": origin,
        "source": source,
        "owner": stored.owner,
        "department": stored.department,
        "turn": stored.turn,
        "createdAt": stored.at,
        "highest": stored.number,
        "keptThrough": 0 if stored.expires is not None else stored.number,
        "sharing": (sharing or model.Sharing()).as_dict(),
    }
    if conversation is not None:
        item["conversation"] = conversation
    if stored.expires is not None:
        item["ttl"] = int(stored.expires + billing.LATE_SECONDS)
    if stored.owner:
        item |= {"gsi1pk": f"P#{stored.owner}", "gsi1sk": pk}
    return item
