"""Taking a document: announced, stored, indexed, then published in one transaction. All of it or nothing is seen.

The announcement is an item that only this upload and the cleaners look at. Whatever is stored after it can be found
again and removed when the upload crashes, and the last write makes document, artifact and bill appear together.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench import ids, uploads
from workbench.artifacts import billing, items, model
from workbench.artifacts import store as artifact_store
from workbench.artifacts.items import Stored
from workbench.conversations.people import being_erased, not_erasing, person_key
from workbench.errors import Conflict, Forbidden, RequestError, WorkbenchError
from workbench.ids import DocumentId
from workbench.keys import collection_key, document_key
from workbench.knowledge import extracting, names, passages, removing, store
from workbench.knowledge.extracting import Extracted
from workbench.knowledge.model import (
    ACTIVE,
    FILE_VERSION,
    PENDING,
    READY,
    Collection,
    Document,
    Owner,
    new_document,
    passages_key,
    reserved,
)
from workbench.logs import logger
from workbench.operations import ABSENT, Condition, Item, Operation, Update, put, update
from workbench.retrieval import index
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

TRIES = 3
# Whose bytes an upload counts for when nothing tells the person's department.
NO_DEPARTMENT = "unassigned"


@dataclass(frozen=True)
class Wish:
    """An upload as asked for, checked. ``collection`` None is the owner's own; ``owner`` is who a new one belongs to.

    ``welcome`` are all on whose behalf it comes: it may go into a collection of any of them. ``upload`` names the
    signed upload that ``data`` came by.
    """

    collection: str | None
    owner: Owner
    welcome: tuple[Owner, ...]
    department: str | None
    name: str
    media_type: str
    charset: str | None
    data: bytes
    upload: str | None


@dataclass
class _Begun:
    """A document that is announced: what every later step needs of it, and whether the index may know of it."""

    id: DocumentId
    artifact: str
    owner: Owner
    payer: str
    at: float
    collection: Collection
    indexed: bool = False


def upload(runtime: Runtime, wish: Wish) -> Document:
    """Store, read, split and index a document; it can be used and found when this returns.

    Raises Forbidden (somebody else's collection), Conflict, Unreadable, and what the index refuses, leaving nothing.
    """
    collection = _collection(runtime, wish)
    read = extracting.extract(wish.data, wish.media_type, wish.charset, names.file_name(wish.name))
    begun = _announce(runtime, wish, collection)
    try:
        return _publish(runtime, wish, begun, read)
    except Exception:
        document = _give_up(runtime, begun)
        if document is None:
            raise
        return document


def _give_up(runtime: Runtime, begun: _Begun) -> Document | None:
    """Clear away what was stored; the document when it stands after all, because only an answer was lost."""
    try:
        if removing.give_up(runtime, begun.id, begun.artifact, indexed=begun.indexed):
            return None
        found = store.load_document(runtime, begun.id)
    except Exception:  # noqa: BLE001 - why the upload failed is what its sender has to hear
        logger.exception("a failed upload is left to be cleared away", extra={"document": str(begun.id)})
        return None
    return found[1] if found else None


# ---------------------------------------------------------------- whose collection


def _collection(runtime: Runtime, wish: Wish) -> Collection | None:
    """The collection that the upload goes to, when there is one already."""
    name = wish.collection or wish.owner.default_collection
    found = store.load_collection(runtime, name)
    if found is None:
        if reserved(name) and name != wish.owner.default_collection:
            raise _not_theirs(name)
        return None
    if found.owner not in wish.welcome:
        raise _not_theirs(name)
    if not found.active:
        raise Conflict("This collection is being removed. Upload to another one, or try again later.")
    try:
        removing.repair(runtime, found)
    except WorkbenchError as error:
        logger.info("left to be cleared away later", extra={"collection": name, "reason": error.code})
    return found


def _not_theirs(name: str) -> Forbidden:
    return Forbidden(
        f"The collection `{name}` belongs to somebody else. Leave `collection` out to use the owner's own, or name one "
        "of theirs.",
        collection=name,
    )


def _payer(runtime: Runtime, wish: Wish, collection: Collection | None) -> str:
    """The department that is billed: as asked for, as before in this collection, or where the person works."""
    if wish.department is not None:
        return wish.department
    if collection is not None:
        return collection.department
    return _department_of(runtime, wish.owner.name) or NO_DEPARTMENT


def _department_of(runtime: Runtime, user: str) -> str | None:
    """The department that the person's latest conversation or turn names. Two requests."""
    keys = runtime.table.query(f"P#{user}", "C#", index="gsi1", newest_first=True, limit=20)
    found = runtime.table.get_many([(key["PK"], key["SK"]) for key in keys]) if keys else {}
    known: list[tuple[float, str]] = []
    for item in found.values():
        caller: dict[str, Any] = item.get("caller") or item
        if "department" in caller and "createdAt" in item:
            known.append((item["createdAt"], caller["department"]))
    return max(known, default=(0.0, None))[1]


# ---------------------------------------------------------------- announcing


def _announce(runtime: Runtime, wish: Wish, collection: Collection | None) -> _Begun:
    payer = _payer(runtime, wish, collection)
    for _attempt in range(TRIES):
        now = runtime.clock.now()
        target = collection or _new_collection(wish, payer, now)
        begun = _Begun(new_document(target.id, now), artifact_store.new_id(), target.owner, payer, now, target)
        try:
            runtime.table.transact(_announcement(begun, wish, made=collection is None))
        except ConditionFailed:
            _refuse_if_erasing(runtime, target.owner)
            # Made or removed meanwhile by somebody else.
            collection = _collection(runtime, wish)
            continue
        return begun
    raise Conflict("Others keep changing this collection. Try again.", retryAfterSeconds=1)


def _new_collection(wish: Wish, payer: str, now: float) -> Collection:
    name = wish.collection or wish.owner.default_collection
    return Collection(name, wish.owner, payer, ids.random_part("", 72), ACTIVE, now, 0, 0, frozenset())


def _announcement(begun: _Begun, wish: Wish, *, made: bool) -> list[Operation]:
    collection, part = begun.collection, begun.id.part
    operations = _fence(begun.owner)
    if made:
        pk, sk = collection_key(collection.id)
        item: Item = {
            "PK": pk,
            "SK": sk,
            "owner": collection.owner.name,
            "ownerKind": collection.owner.kind,
            "department": collection.department,
            "serial": collection.serial,
            "status": ACTIVE,
            "createdAt": collection.created_at,
            "documents": 0,
            "bytes": 0,
            "unfinished": {part},
        }
        # A person's are found when everything of theirs is erased; all are, when remains are looked for.
        item |= {"gsi1pk": collection.owner.partition, "gsi1sk": pk}
        pointer_pk, pointer_sk = collection.owner.pointer(collection.id)
        operations.append(put(item, ABSENT))
        operations.append(put({"PK": pointer_pk, "SK": pointer_sk, "at": begun.at}))
    else:
        operations.append(update(collection_key(collection.id), Update().add("unfinished", {part}), _still(collection)))
    return [*operations, put(_pending(begun, wish), ABSENT)]


def _pending(begun: _Begun, wish: Wish) -> Item:
    pk, sk = document_key(begun.id)
    return {
        "PK": pk,
        "SK": sk,
        "state": PENDING,
        "artifact": begun.artifact,
        "at": begun.at,
        "name": wish.name,
        "mediaType": wish.media_type,
        "format": "",
        "bytes": len(wish.data),
        "sha256": "",
        "passages": 0,
        "storedBytes": 0,
        "storedSha256": "",
        "extent": {},
        "notes": [],
    }


def _fence(owner: Owner) -> list[Operation]:
    return [not_erasing(owner.name)] if owner.kind == "person" else []


def _still(collection: Collection) -> Condition:
    """The collection is the one that was read, and nobody removes it."""
    return Condition(
        "serial = :serial AND #status = :active",
        {"#status": "status"},
        {":serial": collection.serial, ":active": ACTIVE},
    )


def _refuse_if_erasing(runtime: Runtime, owner: Owner) -> None:
    if owner.kind == "person":
        record = runtime.table.get(person_key(owner.name))
        if record is not None and "erasing" in record:
            raise being_erased()


# ---------------------------------------------------------------- publishing


def _publish(runtime: Runtime, wish: Wish, begun: _Begun, read: Extracted) -> Document:
    stored = passages.encode(str(begun.id), wish.name, read.passages)
    file_key = artifact_store.object_key(begun.artifact, FILE_VERSION)
    runtime.clients.together(
        partial(_put, runtime, file_key, wish.data, read.media_type),
        partial(_put, runtime, passages_key(begun.id), stored, "application/json"),
    )
    if read.passages:
        _index(runtime, wish, begun, read)
    facts: Item = {
        "state": READY,
        "mediaType": read.media_type,
        "format": read.format,
        "sha256": hashlib.sha256(wish.data).hexdigest(),
        "passages": len(read.passages),
        "storedBytes": len(stored),
        "storedSha256": hashlib.sha256(stored).hexdigest(),
        "extent": dict(read.extent),
        "notes": list(read.notes),
    }
    try:
        runtime.table.transact(_publication(runtime, wish, begun, facts))
    except ConditionFailed as failed:
        _refuse_if_erasing(runtime, begun.owner)
        raise Conflict("The collection was removed, or the upload was used already. Nothing was stored.") from failed
    if wish.upload is not None:
        uploads.discard(runtime, wish.upload)
    return Document.from_item(_pending(begun, wish) | facts)


def _index(runtime: Runtime, wish: Wish, begun: _Begun, read: Extracted) -> None:
    begun.indexed = True
    try:
        index.add(runtime, begun.id.collection, begun.id, wish.name, read.passages)
    except RequestError:
        # Busy or full: the index says so before it changes anything.
        begun.indexed = False
        raise


def _put(runtime: Runtime, key: str, data: bytes, media_type: str) -> None:
    # Kept from the beginning: the announcement finds it again when the upload is not finished.
    runtime.clients.s3.put_object(
        Bucket=runtime.settings.artifact_bucket,
        Key=key,
        Body=data,
        ContentType=media_type,
        Tagging=f"retention={artifact_store.KEPT}",
    )


def _publication(runtime: Runtime, wish: Wish, begun: _Begun, facts: Item) -> list[Operation]:
    now, size = runtime.clock.now(), len(wish.data)
    person = begun.owner.kind == "person"
    ready = Update()
    for name, value in facts.items():
        ready.set(name, value)
    more = Update().add("documents", 1).add("bytes", size).take("unfinished", {begun.id.part})
    file = Stored(
        artifact=begun.artifact,
        number=FILE_VERSION,
        name=names.file_name(wish.name),
        media_type=facts["mediaType"],
        bytes=size,
        sha256=facts["sha256"],
        at=now,
        owner=begun.owner.name if person else "",
        department=begun.payer,
        turn=None,
        expires=None,
    )
    sharing = model.Sharing() if person else model.Sharing(departments=(begun.owner.name,))
    operations = [
        *_fence(begun.owner),
        update(document_key(begun.id), ready, removing.in_state(PENDING)),
        update(collection_key(begun.id.collection), more, _still(begun.collection)),
        put(items.meta_item(file, kind="file", origin=model.UPLOAD, sharing=sharing), ABSENT),
        put(items.version_item(file), ABSENT),
        billing.change(file.department, file.owner, size, now),
    ]
    return [*operations, uploads.used(runtime, wish.upload)] if wish.upload is not None else operations
