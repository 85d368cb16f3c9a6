"""What a turn may know from its beginning: its bindings, checked when it is opened, and a list of what they come to."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.errors import InvalidRequest
from workbench.ids import DocumentId, is_part
from workbench.keys import Key, collection_key, document_key
from workbench.knowledge import names, store
from workbench.knowledge.model import Collection, Document, Owner
from workbench.knowledge.offered import Bindings
from workbench.runtime import Runtime

# How many documents the instructions name; a search reaches the others.
LISTED = 50


def bind(runtime: Runtime, user: str, asked: Sequence[str]) -> Bindings:
    """Check the ids of documents and collections that a turn is given, and list what it may use.

    The caller's own collections are among it. One request without bindings and own collections; otherwise one for the
    bindings, one for the own collections, and one for each collection until enough documents are listed. Raises
    InvalidRequest naming the first id that there is not.
    """
    bound, whole, single = _bound(runtime, asked)
    own = store.collections_of(runtime, Owner("person", user))
    searched = {collection.id: collection for collection in [*whole, *own]}
    others = [document for document in single if document.id.collection not in searched]
    listed = others[:LISTED]
    for collection in searched.values():
        if collection.documents and len(listed) < LISTED:
            listed += store.list_documents(runtime, collection.id, LISTED - len(listed))
    total = len(others) + sum(collection.documents for collection in searched.values())
    return Bindings(bound, tuple(listed), max(total, len(listed)))


def _bound(runtime: Runtime, asked: Sequence[str]) -> tuple[dict[str, str], list[Collection], list[Document]]:
    parsed = {text: DocumentId.parse(text) for text in asked}
    keys: dict[Key, None] = {}
    for text, document in parsed.items():
        if document is None and not is_part(text):
            raise _unknown(text)
        keys[collection_key(document.collection if document else text)] = None
        if document is not None:
            keys[document_key(document)] = None
    found = runtime.table.get_many(list(keys)) if keys else {}
    bound: dict[str, str] = {}
    whole: list[Collection] = []
    single: list[Document] = []
    for text, document in parsed.items():
        meta = found.get(collection_key(document.collection if document else text))
        collection = Collection.from_item(meta) if meta else None
        if collection is None or not collection.active:
            raise _unknown(text)
        if document is None:
            whole.append(collection)
        else:
            item = found.get(document_key(document))
            if item is None or not (known := Document.from_item(item)).ready:
                raise _unknown(text)
            single.append(known)
        bound[text] = collection.serial
    return bound, whole, single


def _unknown(text: str) -> InvalidRequest:
    shown = names.quoted(text)
    return InvalidRequest(
        f"There is no document or collection {shown}. Leave it out of `knowledge`.", field="knowledge", id=text
    )
