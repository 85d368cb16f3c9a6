"""Which documents a turn may use: those that its bindings name, and those of the caller's own collections.

The portal binds whatever it likes when it opens the turn, documents or whole collections, a department's among them.
Everything that reads documents for a turn asks here, every time: what was removed meanwhile is refused at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workbench.errors import ToolError
from workbench.ids import DocumentId
from workbench.keys import Key, collection_key, document_key
from workbench.knowledge.model import Collection, Document, Owner
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

SHOWN_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Scope:
    """What may be searched of one collection: all of it (``documents`` is None) or these documents."""

    collection: str
    documents: frozenset[DocumentId] | None


def may_use(document: DocumentId, collection: Collection, user: str, bound: dict[str, str]) -> bool:
    """True when a turn of ``user`` with the bindings ``bound`` ({id: the collection's serial}) may use it."""
    if not collection.active:
        return False
    if collection.owner == Owner("person", user):
        return True
    # The serial: a collection that was removed and made again under the same id is another one, maybe somebody else's.
    return collection.serial in (bound.get(str(document)), bound.get(collection.id))


def documents(turn: Turn, ids: Sequence[str], argument: str) -> list[Document]:
    """The documents of ``ids``, each once, in order. One request.

    Raises ToolError ``not_allowed`` that names every id the turn may not use and ``argument``; a document that does
    not exist, one of somebody else and a removed one are refused alike.
    """
    parsed = {text: DocumentId.parse(text) for text in dict.fromkeys(ids)}
    known = [document for document in parsed.values() if document is not None]
    usable = _usable(turn, known)
    refused = [text for text, document in parsed.items() if document not in usable]
    if refused:
        raise _refusal(refused, argument)
    return [usable[document] for document in parsed.values() if document is not None]


def usable_now(turn: Turn, found: Sequence[DocumentId]) -> dict[DocumentId, Document]:
    """Those of ``found`` (what an index knows) that the turn may use at this moment. One request."""
    return _usable(turn, list(dict.fromkeys(found)))


def scopes(turn: Turn) -> list[Scope]:
    """What the turn may search, a collection at a time. Two requests at most (one more for each 100 bindings).

    A scope says where to look; whether a document found there is still to be had, :func:`usable_now` knows.
    """
    table, user, bound = turn.runtime.table, turn.caller.user, turn.item["knowledge"]
    own = own_collections(turn.runtime, user)
    named: dict[str, set[DocumentId]] = {}
    for name in bound:
        document = DocumentId.parse(name)
        collection = document.collection if document else name
        named.setdefault(collection, set())
        if document:
            named[collection].add(document)
    others = [collection for collection in named if collection not in own]
    items = table.get_many([collection_key(collection) for collection in others])
    found = [Scope(collection, None) for collection in own]
    for item in items.values():
        collection = Collection.from_item(item)
        if not collection.active:
            continue
        if bound.get(collection.id) == collection.serial:
            found.append(Scope(collection.id, None))
        elif here := frozenset(doc for doc in named[collection.id] if bound[str(doc)] == collection.serial):
            found.append(Scope(collection.id, here))
    return sorted(found, key=lambda scope: scope.collection)


def own_collections(runtime: Runtime, user: str) -> list[str]:
    """The ids of the collections that belong to the person, in order. One request, strongly consistent."""
    pointers = runtime.table.query(Owner("person", user).partition, "COL#")
    return [pointer["SK"].removeprefix("COL#") for pointer in pointers]


def _usable(turn: Turn, wanted: Sequence[DocumentId]) -> dict[DocumentId, Document]:
    keys: list[Key] = [document_key(document) for document in wanted]
    keys += [collection_key(name) for name in dict.fromkeys(document.collection for document in wanted)]
    items: dict[Key, Item] = turn.runtime.table.get_many(keys) if keys else {}
    usable: dict[DocumentId, Document] = {}
    for document in wanted:
        item, meta = items.get(document_key(document)), items.get(collection_key(document.collection))
        if item is None or meta is None:
            continue
        found = Document.from_item(item)
        if found.ready and may_use(document, Collection.from_item(meta), turn.caller.user, turn.item["knowledge"]):
            usable[document] = found
    return usable


def _refusal(refused: Sequence[str], argument: str) -> ToolError:
    shown = [printable(text[:SHOWN_CHARACTERS]) for text in refused]
    named = ", ".join(f"`{text}`" for text in shown)
    return ToolError(
        f"The {argument} {named} cannot be used: not available to this turn. Nothing was run. Take ids of documents "
        f"from this turn's instructions, or leave `{argument}` out.",
        code="not_allowed",
        argument=argument,
        ids=shown,
    )
