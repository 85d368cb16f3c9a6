"""A conversation's record: who owns it, whether it is active, and when a deleted one is gone for good."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench import ids
from workbench.clock import iso
from workbench.errors import Conflict, NotFound
from workbench.keys import head_key, meta_key
from workbench.operations import Condition, Item
from workbench.runtime import Runtime

ACTIVE_STATUS, DELETED_STATUS = "active", "deleted"
DAY_SECONDS = 86_400
# Names without a version keep the version that the conversation first pinned.
PINS = "PINS"

DELETED = Condition("#status = :deleted", {"#status": "status"}, {":deleted": DELETED_STATUS})


@dataclass(frozen=True)
class Conversation:
    """META and HEAD, in what the API says of them. Times in Unix seconds; ``deletion`` names the deletion at work."""

    id: str
    owner: str
    department: str
    status: str
    created_at: float
    purge_at: float | None = None
    deletion: str | None = None

    @classmethod
    def from_items(cls, meta: Item, head: Item) -> Conversation:
        deleted = head["status"] == DELETED_STATUS
        return cls(
            id=meta["PK"].removeprefix("C#"),
            owner=meta["owner"],
            department=meta["department"],
            status=head["status"],
            created_at=meta["createdAt"],
            purge_at=meta["purgeAt"] if deleted else None,
            deletion=head.get("deletion") if deleted else None,
        )

    @property
    def deleted(self) -> bool:
        return self.status == DELETED_STATUS

    def gone(self, now: float) -> bool:
        """True when its grace is over. TTL deletes days late: the time decides."""
        return self.purge_at is not None and self.purge_at <= now

    def require_active(self) -> Conversation:
        """This conversation; raises Conflict when it is deleted."""
        if self.deleted:
            raise deleted_conflict(self.purge_at)
        return self

    def as_dict(self) -> dict[str, Any]:
        answer = {
            "id": self.id,
            "owner": self.owner,
            "department": self.department,
            "status": self.status,
            "createdAt": iso(self.created_at),
        }
        return answer if self.purge_at is None else answer | {"purgeAt": iso(self.purge_at)}


def deleted_conflict(purge_at: float | None) -> Conflict:
    """The 409 of everything that a deleted conversation refuses."""
    until = f" It can be restored until {iso(purge_at)}." if purge_at is not None else ""
    return Conflict(f"This conversation is deleted.{until}", status=DELETED_STATUS)


def require_active(head: Item | None) -> None:
    """Raises Conflict when the conversation of this HEAD is deleted."""
    if head is not None and head["status"] == DELETED_STATUS:
        raise deleted_conflict(head.get("purgeAt"))


def not_found() -> NotFound:
    return NotFound("There is no such conversation.")


def load(runtime: Runtime, conversation: str) -> Conversation:
    """The conversation, active or deleted; NotFound when there is none or its grace is over. One request."""
    if not ids.is_part(conversation):
        raise not_found()
    keys = meta_key(conversation), head_key(conversation)
    found = runtime.table.get_many(keys)
    if len(found) < len(keys):
        raise not_found()
    loaded = Conversation.from_items(*(found[key] for key in keys))
    if loaded.gone(runtime.clock.now()):
        raise not_found()
    return loaded
