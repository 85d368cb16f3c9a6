"""Removing documents and collections: hidden first, in one write, then emptied; what is left is found and finished.

A collection's item lists the documents that are being made or removed (``unfinished``), and a collection that goes
keeps its item until nothing else of it is left, so that a crash anywhere loses nothing but time.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress

from workbench.errors import NotFound
from workbench.ids import DocumentId
from workbench.keys import collection_key, document_key
from workbench.knowledge import store
from workbench.knowledge.model import PENDING, READY, REMOVING, Collection, Document
from workbench.operations import PRESENT, Condition, Item, Update, all_of, delete, update
from workbench.retrieval import generations, index
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

# An upload that is not done after this long never will be: it is past the longest that a function works.
ABANDONED_SECONDS = 15 * 60
# How many leftovers one upload clears away on its way.
CLEARED_AT_ONCE = 3


def in_state(state: str) -> Condition:
    return Condition("#state = :state", {"#state": "state"}, {":state": state})


def remove_document(runtime: Runtime, document: Document) -> bool:
    """Remove a document that is ready; False when somebody else did. From its first write on nobody can use it."""
    part = document.id.part
    less = Update().add("documents", -1).add("bytes", -document.bytes).add("unfinished", {part})
    try:
        runtime.table.transact(
            [
                update(document_key(document.id), Update().set("state", REMOVING), in_state(READY)),
                update(collection_key(document.id.collection), less, PRESENT),
            ]
        )
    except ConditionFailed:
        return False
    clear_away(runtime, document.id, document.artifact)
    return True


def give_up(runtime: Runtime, document: DocumentId, artifact: str, *, indexed: bool = True) -> bool:
    """Clear away a document that was begun and not finished; False when it is ready after all.

    ``indexed`` False spares the waiting for an index that never knew of it.
    """
    try:
        runtime.table.update(document_key(document), Update().set("state", REMOVING), in_state(PENDING))
    except ConditionFailed:
        item = runtime.table.get(document_key(document))
        if item is not None and item["state"] == READY:
            return False
    clear_away(runtime, document, artifact, indexed=indexed)
    return True


def clear_away(runtime: Runtime, document: DocumentId, artifact: str, *, indexed: bool = True) -> None:
    """Take a hidden document out of the index, remove what it holds, then its record; repeatable."""
    if indexed:
        # Without its collection there is no index either.
        with suppress(NotFound):
            index.remove(runtime, document.collection, document)
    store.remove_contents(runtime, document, artifact)
    operations = [delete(document_key(document))]
    operations.append(
        update(collection_key(document.collection), Update().take("unfinished", {document.part}), PRESENT)
    )
    try:
        runtime.table.transact(operations)
    except ConditionFailed:
        runtime.table.delete_many([document_key(document)])


def abandoned(runtime: Runtime, collection: Collection) -> list[Item]:
    """The items of documents whose upload or removal a crash left unfinished; one request, none where nothing is."""
    keys = [document_key(DocumentId(collection.id, part)) for part in sorted(collection.unfinished)]
    found = runtime.table.get_many(keys) if keys else {}
    now = runtime.clock.now()
    return [item for item in found.values() if _is_abandoned(item, now)]


def repair(runtime: Runtime, collection: Collection, most: int = CLEARED_AT_ONCE) -> int:
    """Clear away what :func:`abandoned` finds, at most so many; returns how many.

    A removal at work at this moment may be among them, which harms neither.
    """
    found = abandoned(runtime, collection)[:most]
    for item in found:
        document = DocumentId(collection.id, item["SK"].removeprefix("DOC#"))
        if item["state"] == PENDING:
            give_up(runtime, document, item["artifact"])
        else:
            clear_away(runtime, document, item["artifact"])
    return len(found)


def _is_abandoned(item: Item, now: float) -> bool:
    return bool(item["state"] != READY and item["at"] + ABANDONED_SECONDS <= now)


# ---------------------------------------------------------------- collections


def hide_collection(runtime: Runtime, collection: Collection) -> None:
    """From this write on nobody can use the collection or anything in it, or add to it.

    Raises ConditionFailed when it is gone, or another one has its id by now, which must not be emptied in its place.
    """
    change = Update().set("status", REMOVING).set_if_absent("removingAt", runtime.clock.now())
    runtime.table.transact(
        [
            update(collection_key(collection.id), change, all_of(PRESENT, _same(collection))),
            delete(collection.owner.pointer(collection.id)),
        ]
    )


def _same(collection: Collection) -> Condition:
    return Condition("serial = :serial", {}, {":serial": collection.serial})


def empty_collection(
    runtime: Runtime, collection: Collection, over: Callable[[], bool], *, keep_records: bool = False
) -> tuple[int, int, bool]:
    """Remove a hidden collection: (documents, artifacts, whether more is left to do when ``over`` said stop).

    With ``keep_records`` the items stay, so that a later pass finds what a late writer left behind this one.
    """
    documents = artifacts = 0
    items = store.documents_of(runtime, collection.id)
    if not generations.is_free_of_others(runtime, collection.id, collection.serial):
        # Somebody else ended this removal, and these may be the documents of a new collection.
        return documents, artifacts, False
    for item in items:
        if over():
            return documents, artifacts, True
        document = DocumentId(collection.id, item["SK"].removeprefix("DOC#"))
        artifacts += store.remove_contents(runtime, document, item["artifact"])
        documents += item["state"] == READY
        if keep_records:
            _blank(runtime, document)
        else:
            runtime.table.delete_many([document_key(document)])
    index.drop(runtime, collection.id, collection.serial)
    if not keep_records:
        try:
            runtime.table.delete(collection_key(collection.id), _same(collection))
        except ConditionFailed:
            # As above.
            return documents, artifacts, False
        # A writer of the index that was at work still had the record to publish to.
        index.drop(runtime, collection.id, collection.serial)
    return documents, artifacts, False


def _blank(runtime: Runtime, document: DocumentId) -> None:
    change = Update().set("state", REMOVING).set("name", "").set("notes", [])
    try:
        runtime.table.update(document_key(document), change, PRESENT)
    except ConditionFailed:
        return
