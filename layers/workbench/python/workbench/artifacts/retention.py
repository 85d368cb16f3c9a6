"""How long artifacts live: attached to a reply, retired with their conversation, brought back with it.

The bucket's lifecycle rules do the expiring. They know only tags and delete markers, so this module writes those, in
an order in which a crash may leak bytes for a while but never lose them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from functools import partial

from botocore.exceptions import ClientError

from workbench import objects
from workbench.artifacts import billing
from workbench.artifacts.model import Artifact, Version, source_of
from workbench.artifacts.store import KEPT, load_many, object_key, pointed_at, pointer_key, pointers, version_key
from workbench.keys import Key, artifact_key
from workbench.objects import code_of
from workbench.operations import PRESENT, Condition, Item, Operation, Update, check, update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

# How many artifacts of a conversation are worked on at once, between two looks at the time.
TOGETHER = 16


class BytesGone(Exception):
    """The file that was to be attached is stored no longer: its owner is being erased, or its conversation deleted."""

    def __init__(self, artifact: str) -> None:
        super().__init__(artifact)
        self.artifact = artifact


def attach(runtime: Runtime, chosen: Sequence[tuple[Artifact, int]]) -> list[Operation]:
    """Make artifacts safe from expiry up to a version, and return the writes that commit it, one for each.

    Tags come first: a crash between them and the commit leaves bytes that nobody attached (a leak), never a reply
    whose file is gone (a loss). Raises :class:`BytesGone`.
    """
    works: list[Callable[[], object]] = []
    for artifact, through in chosen:
        works += [
            partial(_keep_version, runtime, artifact.id, version.version, through)
            for version in artifact.versions
            if version.version <= through and version.expires_at is not None
        ]
        works.append(partial(_set_pointer_ttl, runtime, artifact, None))
    # What has expired unattached must not seem to come back when a later version is attached.
    expired = [version_key(artifact.id, number) for artifact, _through in chosen for number in artifact.expired]
    works.append(partial(_forget, runtime, expired))
    runtime.clients.together(*works)
    return [_attached(artifact, through) for artifact, through in chosen]


def _keep_version(runtime: Runtime, artifact: str, number: int, attached: int) -> None:
    try:
        runtime.clients.s3.put_object_tagging(
            Bucket=runtime.settings.artifact_bucket,
            Key=object_key(artifact, number),
            Tagging={"TagSet": [{"Key": "retention", "Value": KEPT}]},
        )
    except ClientError as error:
        # 404, and 405 where a delete marker is the latest.
        if code_of(error) not in ("NoSuchKey", "MethodNotAllowed"):
            raise
        if number == attached:
            raise BytesGone(artifact) from None
        # An earlier version: the reply names another one.
        return
    runtime.table.update(version_key(artifact, number), Update().remove("ttl"), PRESENT)


def _forget(runtime: Runtime, versions: list[Key]) -> None:
    for item in runtime.table.get_many(versions).values():
        billing.take_off(runtime, item)
    runtime.table.delete_many(versions)


def _attached(artifact: Artifact, through: int) -> Operation:
    key = artifact_key(artifact.id)
    if artifact.kept_through >= through:
        return check(key, PRESENT)
    # Another turn may attach a later version at the same time, which must stay attached.
    not_later = Condition("keptThrough < :through", {}, {":through": through})
    return update(key, Update().set("keptThrough", through).remove("ttl"), not_later)


def retire_all(runtime: Runtime, conversation: str, deletion: str, purge_at: float, over: Callable[[], bool]) -> bool:
    """Put the artifacts of a deleted conversation into their grace period; True when ``over`` said so before the end.

    What is done is noted in the pointers, so that the next call does not look at it again. One with another deletion's
    note is that of an earlier conversation of the same id.
    """
    waiting = [pointer for pointer in pointers(runtime, conversation) if "retired" not in pointer]
    for batch in _batches(waiting):
        if over():
            return True
        names = pointed_at(batch)
        found = load_many(runtime, names)
        runtime.clients.together(*(partial(retire, runtime, artifact, deletion, purge_at) for artifact in found))
        # What has expired meanwhile leaves a pointer to nothing.
        lone = set(names) - {artifact.id for artifact in found}
        runtime.table.delete_many(pointer_key(conversation, name) for name in lone)
    return False


def revive_all(runtime: Runtime, conversation: str, deletion: str, *, noted: bool, over: Callable[[], bool]) -> bool:
    """Undo :func:`retire_all`; True when ``over`` said so before the end.

    ``noted`` is False for a deletion that has not ended, which may have marked bytes without noting it yet.
    """
    wanted = (deletion,) if noted else (deletion, None)
    waiting = [pointer for pointer in pointers(runtime, conversation) if pointer.get("retired") in wanted]
    for batch in _batches(waiting):
        if over():
            return True
        found = load_many(runtime, pointed_at(batch))
        runtime.clients.together(*(partial(revive, runtime, artifact) for artifact in found))
    return False


def purge_all(runtime: Runtime, conversation: str, over: Callable[[], bool]) -> Iterator[bool]:
    """Remove the artifacts of a conversation for good, one by one, until the end or until ``over`` says so."""
    for name in pointed_at(pointers(runtime, conversation)):
        if over():
            return
        yield purge(runtime, name)


def _batches(waiting: list[Item]) -> Iterator[list[Item]]:
    return (waiting[start : start + TOGETHER] for start in range(0, len(waiting), TOGETHER))


def retire(runtime: Runtime, artifact: Artifact, deletion: str, purge_at: float) -> None:
    """Put an artifact of a deleted conversation into its grace period; repeating it changes nothing.

    The attached bytes get delete markers, from which the lifecycle counts the grace. Unattached versions keep the
    expiry they have: behind a marker, their rule would remove them within a day.
    """
    attached = {object_key(artifact.id, v.version) for v in artifact.versions if v.version <= artifact.kept_through}
    bucket = runtime.settings.artifact_bucket
    stored, _markers = objects.versions(runtime.clients, bucket, f"artifacts/{artifact.id}/")
    # Delete only where the latest is no marker yet: a second marker would start the count again.
    unmarked = [{"Key": entry["Key"]} for entry in stored if entry["IsLatest"] and entry["Key"] in attached]
    objects.delete(runtime.clients, bucket, unmarked)
    expires = artifact.expires_at
    goes_at = purge_at if expires is None else min(expires, purge_at)
    for version in artifact.versions:
        _set_version_ttl(runtime, artifact, version, version.expires_at or purge_at)
    _set_ttl(runtime, artifact_key(artifact.id), _late(goes_at), Update().set("retired", deletion))
    # Last, because it says that all of this is done.
    _set_pointer_ttl(runtime, artifact, goes_at, Update().set("retired", deletion))


def revive(runtime: Runtime, artifact: Artifact) -> None:
    """Bring a retired artifact back; its conversation's becoming active is what shows it again.

    Every delete marker is removed and nothing but markers, so that a second restore cannot remove bytes.
    """
    bucket = runtime.settings.artifact_bucket
    _stored, markers = objects.versions(runtime.clients, bucket, f"artifacts/{artifact.id}/")
    objects.delete(
        runtime.clients, bucket, [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in markers]
    )
    for version in artifact.versions:
        _set_version_ttl(runtime, artifact, version, version.expires_at)
    _set_ttl(runtime, artifact_key(artifact.id), _late(artifact.expires_at), Update().remove("retired"))
    _set_pointer_ttl(runtime, artifact, artifact.expires_at, Update().remove("retired"))


def purge(
    runtime: Runtime, artifact: str, *, of_turn: str | None = None, numbers: AbstractSet[int] | None = None
) -> bool:
    """Remove an artifact for good, or only the versions that one turn made, or those of ``numbers``.

    True when there was something to remove.
    """
    items = runtime.table.query(f"A#{artifact}")
    versions = [item for item in items if item["SK"] != "META"]
    meta = next((item for item in items if item["SK"] == "META"), None)
    gone = [
        item for item in versions if of_turn in (None, item["turn"]) and (not numbers or item["version"] in numbers)
    ]
    if not gone and (of_turn is not None or numbers or meta is None):
        return False
    whole = len(gone) == len(versions)
    keys = {object_key(artifact, item["version"]) for item in gone}
    bucket = runtime.settings.artifact_bucket
    stored, markers = objects.versions(runtime.clients, bucket, f"artifacts/{artifact}/")
    # By version id: a plain delete of a versioned bucket only hides.
    objects.delete(
        runtime.clients,
        bucket,
        [
            {"Key": entry["Key"], "VersionId": entry["VersionId"]}
            for entry in [*stored, *markers]
            if whole or entry["Key"] in keys
        ],
    )
    for item in gone:
        billing.take_off(runtime, item)
    removed = [(item["PK"], item["SK"]) for item in gone]
    if whole and meta is not None:
        removed.append((meta["PK"], meta["SK"]))
    runtime.table.delete_many(removed)
    if not whole and meta is not None:
        _call_it_after(runtime, meta, [item for item in versions if item not in gone][-1])
    if whole and meta is not None and meta.get("conversation"):
        # Last, because it is what finds the artifact again should this end half-way.
        runtime.table.delete_many([pointer_key(meta["conversation"], artifact)])
    return True


def _call_it_after(runtime: Runtime, meta: Item, version: Item) -> None:
    """What was removed may have given the artifact its name and source: it is called after what is left."""
    identifier = meta["PK"].removeprefix("A#")
    change = Update().set("name", version["name"]).set("mediaType", version["mediaType"])
    change.set("source", source_of(identifier, version["version"]) if meta["source"] else None)
    # Whoever adds a version meanwhile says it anew.
    same = Condition("highest = :seen", {}, {":seen": meta["highest"]})
    with suppress(ConditionFailed):
        runtime.table.update(artifact_key(identifier), change, same)


def _set_pointer_ttl(runtime: Runtime, artifact: Artifact, at: float | None, change: Update | None = None) -> None:
    if artifact.conversation is not None:
        _set_ttl(runtime, pointer_key(artifact.conversation, artifact.id), at, change)


def _set_version_ttl(runtime: Runtime, artifact: Artifact, version: Version, at: float | None) -> None:
    _set_ttl(runtime, version_key(artifact.id, version.version), _late(at))


def _late(at: float | None) -> float | None:
    """When the record may go: past the time at which S3's news of the bytes can still come."""
    return None if at is None else at + billing.LATE_SECONDS


def _set_ttl(runtime: Runtime, key: Key, at: float | None, change: Update | None = None) -> None:
    change = change or Update()
    try:
        runtime.table.update(key, change.remove("ttl") if at is None else change.set("ttl", int(at)), PRESENT)
    except ConditionFailed:
        # The item is gone: it had expired, and TTL or an earlier pass has removed it.
        return
