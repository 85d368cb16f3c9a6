"""Artifact records: versions that should be gone, and versions whose bytes are.

S3's rules remove bytes, and S3's news takes them off the bill. A crash between tagging and attaching leaves bytes that
no rule removes, lost news leaves a bill that never ends: both are found by the records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from functools import partial

from workbench import objects
from workbench.artifacts import billing, retention, store
from workbench.conversations.conversation import DAY_SECONDS, DELETED_STATUS
from workbench.keys import artifact_key, head_key
from workbench.operations import Condition, Item, Update
from workbench.reconciling.findings import Finding, guarded, safe_before
from workbench.runtime import Runtime

# S3 removes at the midnight after, and a version behind a marker a day later; its news needs minutes.
OVERDUE_SECONDS = 4 * DAY_SECONDS
# Each artifact's bytes are looked for once in so many days: that is a request for each.
DAYS_OF_A_ROUND = 30
# No version can follow this one: an artifact about to be removed takes no more.
LAST_NUMBER = 2**31


def look(runtime: Runtime, names: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with these artifacts."""
    queries = [partial(runtime.table.query, f"A#{name}") for name in names]
    records: list[list[Item]] = runtime.clients.together(*queries) if queries else []
    metas = [item for items in records for item in items if item["SK"] == "META"]
    homes = {meta["conversation"] for meta in metas if meta.get("conversation")}
    heads = runtime.table.get_many([head_key(home) for home in homes])
    for name, items in zip(names, records, strict=True):
        meta = next((item for item in items if item["SK"] == "META"), None)
        if meta is not None:
            home = meta.get("conversation")
            head = heads.get(head_key(home)) if home else None
            versions = [item for item in items if item is not meta]
            yield from guarded(name, partial(_of_artifact, runtime, name, meta, versions, head))


def _of_artifact(
    runtime: Runtime, name: str, meta: Item, versions: Sequence[Item], head: Item | None
) -> Iterator[Finding]:
    gone = bool(meta.get("conversation")) and head is None and meta["createdAt"] < safe_before(runtime)
    overdue = {item["version"] for item in versions if gone or _is_overdue(runtime, meta, item)}
    if overdue or (gone and not versions):
        yield _finding(runtime, "overdue_artifacts", name, meta, versions, overdue)
    deleted = head is not None and head["status"] == DELETED_STATUS
    rest = [item for item in versions if item["version"] not in overdue and "unbilledAt" not in item]
    if rest and not gone and not deleted and _has_its_turn(runtime, name):
        stored, _markers = objects.versions(runtime.clients, runtime.settings.artifact_bucket, f"artifacts/{name}/")
        there = {entry["Key"] for entry in stored}
        missing = {item["version"] for item in rest if store.object_key(name, item["version"]) not in there}
        if missing:
            yield _finding(runtime, "artifacts_without_bytes", name, meta, versions, missing)


def _is_overdue(runtime: Runtime, meta: Item, version: Item) -> bool:
    """Its bytes should have been gone for days, and nobody has heard that they are."""
    if "unbilledAt" in version:
        return False
    if version["version"] > meta["keptThrough"]:
        goes_at = version["expiresAt"]
    elif "retired" in meta and "ttl" in version:
        goes_at = version["ttl"] - billing.LATE_SECONDS
    else:
        return False
    return bool(goes_at + OVERDUE_SECONDS < runtime.clock.now())


def _has_its_turn(runtime: Runtime, name: str) -> bool:
    day = int(runtime.clock.now() // DAY_SECONDS)
    place = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
    return place % DAYS_OF_A_ROUND == day % DAYS_OF_A_ROUND


def _finding(
    runtime: Runtime, kind: str, name: str, meta: Item, versions: Sequence[Item], numbers: set[int]
) -> Finding:
    whole = len(numbers) == len(versions)

    def remove() -> None:
        if whole:
            # Whoever is about to add a version fails; otherwise it would lose its record with the others.
            nothing_new = Condition("highest = :seen", {}, {":seen": meta["highest"]})
            runtime.table.update(artifact_key(name), Update().set("highest", LAST_NUMBER), nothing_new)
        retention.purge(runtime, name, numbers=None if whole else numbers)

    return Finding(kind, name, remove, max(1, len(numbers)))
