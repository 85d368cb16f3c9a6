"""Keeping the history within its limits: which versions to drop, and removing what no kept version names.

Runs under the lease. Taking it bumps the fence, so a writer that has stored blobs but not committed must start again
and store them again; after that nothing can begin to name an object that is about to be removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from workbench.runtime import Runtime
from workbench.table import Item, version_key
from workbench.workspace.head import Head, acquire, release
from workbench.workspace.manifest import PageTable, decode, page_key

DELETED_AT_ONCE = 1_000


@dataclass(frozen=True)
class Thinned:
    """What one pass did. ``finished`` is False when the lease's time ran out; another pass goes on from there."""

    versions: int
    objects: int
    finished: bool


def to_drop(versions: Sequence[Item], most_versions: int, most_bytes: int) -> list[Item]:
    """The versions to drop, oldest first, until count and bytes fit.

    The newest version and the first and last of each turn stay. ``versions`` are ``V#`` items in ascending order.
    """
    first_and_last: set[int] = set()
    by_turn: dict[str, list[int]] = {}
    for item in versions:
        if item["turn"]:
            by_turn.setdefault(item["turn"], []).append(item["version"])
    for numbers in by_turn.values():
        first_and_last |= {numbers[0], numbers[-1]}
    count, size = len(versions), sum(item["newBytes"] for item in versions)
    dropped = []
    for item in versions[:-1]:
        if count <= most_versions and size <= most_bytes:
            break
        if item["version"] in first_and_last:
            continue
        dropped.append(item)
        count -= 1
        size -= item["newBytes"]
    return dropped


def thin(runtime: Runtime, conversation: str) -> Thinned:
    """Drop what the limits do not allow and remove every object no kept version names, crash remains included.

    Raises WorkspaceBusy while somebody holds the lease; Conflict or NotFound without an active conversation.
    """
    head = acquire(runtime, conversation, "history", "tidying up the history")
    try:
        return _thin(runtime, head)
    finally:
        release(runtime, conversation, head.fence)


def _thin(runtime: Runtime, head: Head) -> Thinned:
    settings = runtime.settings
    versions = runtime.table.query(f"C#{head.conversation}", "V#")
    dropped = to_drop(versions, settings.history_versions, settings.history_bytes)
    gone = {item["version"] for item in dropped}
    # The items go first: a crash after this leaves objects nobody names, which the next pass removes.
    runtime.table.delete_many(version_key(head.conversation, number) for number in sorted(gone))
    kept = [item for item in versions if item["version"] not in gone]
    named = _named(runtime, head, kept)
    removed, finished = 0, True
    for batch in _batches(key for key in _stored(runtime, head.conversation) if key not in named):
        if runtime.clock.now() > head.lease_until - settings.skew_seconds:
            finished = False
            break
        runtime.clients.s3.delete_objects(
            Bucket=settings.workspace_bucket, Delete={"Objects": [{"Key": key} for key in batch], "Quiet": True}
        )
        removed += len(batch)
    return Thinned(len(gone), removed, finished)


def _named(runtime: Runtime, head: Head, kept: Iterable[Item]) -> set[str]:
    """Keys of every object that the current and the kept versions name. Pages that versions share are read once."""
    folder = f"conversations/{head.conversation}/"
    tables = [head.table, *(PageTable.decode(item["pages"]) for item in kept)]
    pages = {ref.sha256 for table in tables for ref in table.refs}
    keys = {folder + page_key(digest) for digest in pages}
    keys |= {item["pathsKey"] for item in kept if "pathsKey" in item}
    for digest in pages:
        page = runtime.workspaces.page(head.conversation, digest)
        keys |= {folder + entry.key for entry in map(decode, page.splitlines()) if entry.key}
    return keys


def _stored(runtime: Runtime, conversation: str) -> Iterator[str]:
    pages = runtime.clients.s3.get_paginator("list_objects_v2").paginate(
        Bucket=runtime.settings.workspace_bucket, Prefix=f"conversations/{conversation}/"
    )
    for page in pages:
        for found in page.get("Contents", ()):
            yield found["Key"]


def _batches(keys: Iterable[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    for key in keys:
        batch.append(key)
        if len(batch) == DELETED_AT_ONCE:
            yield batch
            batch = []
    if batch:
        yield batch
