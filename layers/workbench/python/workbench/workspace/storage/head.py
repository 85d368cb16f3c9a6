"""The head of a conversation's workspace: which version is current, who may write, and the lease on it.

Short writes are optimistic and conditioned on version and fence. Long work (runs, garbage collection, deletion)
takes the lease; taking it bumps the fence, so that whoever read before cannot commit any more.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.clock import iso
from workbench.errors import Conflict, NotFound, WorkspaceBusy
from workbench.keys import head_key
from workbench.operations import ACTIVE, Condition, Item, Update, all_of, not_leased
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage.manifest import PageTable

# The purpose of a lease under which objects are removed that no version names.
TIDYING = "history"


class Fenced(Exception):
    """Somebody else took over; nothing that was prepared under the old fence may be committed."""


@dataclass(frozen=True)
class Head:
    """The HEAD item. ``lease_until`` is in Unix seconds, 0 when free.

    ``history_versions`` and ``history_bytes`` are what the kept versions take, at most; ``thinned_versions`` and
    ``thinned_bytes`` are what they took after they were last thinned.
    """

    conversation: str
    status: str
    version: int
    fence: int
    lease_until: float
    lease: dict[str, Any] | None
    table: PageTable
    files: int
    bytes: int
    history_versions: int = 0
    history_bytes: int = 0
    thinned_versions: int = 0
    thinned_bytes: int = 0

    @classmethod
    def from_item(cls, conversation: str, item: Item | None) -> Head:
        """Read the item; NotFound when there is no such conversation, Conflict when it is deleted."""
        if item is None:
            raise NotFound("There is no such conversation.")
        if item["status"] != "active":
            raise Conflict("This conversation is deleted.", status=item["status"])
        return cls(
            conversation,
            item["status"],
            item["version"],
            item["fence"],
            item["leaseUntil"],
            item.get("lease"),
            PageTable.decode(item["pages"]),
            item["files"],
            item["bytes"],
            item.get("historyVersions", 0),
            item.get("historyBytes", 0),
            item.get("thinnedVersions", 0),
            item.get("thinnedBytes", 0),
        )

    def leased(self, now: float, skew: float) -> bool:
        """True while somebody may hold the lease; a lease outlasts the skew between two clocks."""
        return self.lease_until + skew >= now

    def busy(self, now: float) -> WorkspaceBusy:
        """The refusal that tells who writes, since when, and when to try again."""
        lease = self.lease or {}
        purpose = lease.get("purpose", "another call")
        since = iso(lease["startedAt"]) if "startedAt" in lease else "a moment ago"
        wait = round(min(10.0, max(1.0, self.lease_until - now)), 1)
        return WorkspaceBusy(
            f"The workspace is being written by {purpose} since {since}. Nothing was changed. "
            f"Send the same call again in about {wait:g} {'second' if wait == 1 else 'seconds'}.",
            holder=purpose,
            since=since,
            retryAfterSeconds=wait,
        )


def empty_head(conversation: str) -> Item:
    """The HEAD item of a new conversation."""
    pk, sk = head_key(conversation)
    return {
        "PK": pk,
        "SK": sk,
        "status": "active",
        "version": 0,
        "fence": 0,
        "leaseUntil": 0,
        "pages": PageTable().encode(),
        "files": 0,
        "bytes": 0,
        "historyVersions": 0,
        "historyBytes": 0,
        "thinnedVersions": 0,
        "thinnedBytes": 0,
    }


def read_head(runtime: Runtime, conversation: str) -> Head:
    """One read of HEAD; NotFound or Conflict when there is none that may be used."""
    return Head.from_item(conversation, runtime.table.get(head_key(conversation)))


# ---------------------------------------------------------------- the lease


def held(fence: int) -> Condition:
    """The lease taken with ``fence`` is still ours: nobody was let in since."""
    return Condition("fence = :held AND leaseUntil > :free", {}, {":held": fence, ":free": 0})


def acquire(runtime: Runtime, conversation: str, owner: str, purpose: str) -> Head:
    """Take the lease and return the head as it then is, its fence bumped.

    Raises WorkspaceBusy while somebody holds it; NotFound or Conflict without an active conversation. One request.
    """
    now, settings = runtime.clock.now(), runtime.settings
    lease = {"owner": owner, "purpose": purpose, "startedAt": now}
    change = Update().set("leaseUntil", now + settings.lease_seconds).set("lease", lease).add("fence", 1)
    try:
        item = runtime.table.update(
            head_key(conversation), change, all_of(ACTIVE, not_leased(now - settings.skew_seconds))
        )
    except ConditionFailed:
        head = read_head(runtime, conversation)
        if head.lease == lease:
            # Our own request, whose answer was lost on the way, was sent again by the client.
            return head
        raise head.busy(now) from None
    return Head.from_item(conversation, item)


def extend(runtime: Runtime, conversation: str, fence: int) -> None:
    """Hold the lease for another ``lease_seconds``; raises Fenced when it is lost."""
    until = runtime.clock.now() + runtime.settings.lease_seconds
    try:
        runtime.table.update(head_key(conversation), Update().set("leaseUntil", until), all_of(ACTIVE, held(fence)))
    except ConditionFailed:
        raise Fenced from None


def release(runtime: Runtime, conversation: str, fence: int) -> None:
    """Give the lease back; harmless when it is lost already."""
    change = Update().set("leaseUntil", 0).remove("lease")
    try:
        runtime.table.update(head_key(conversation), change, held(fence))
    except ConditionFailed:
        return
