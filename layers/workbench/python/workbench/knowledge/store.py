"""Where documents lie: their items in the table, their passages beside the artifacts, and reading both.

The file itself is version 1 of its artifact and is stored nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence

from botocore.exceptions import ClientError

from workbench import objects
from workbench.artifacts import retention
from workbench.ids import DocumentId, is_part
from workbench.keys import collection_key, document_key
from workbench.knowledge.model import Collection, Document, Owner, passages_key
from workbench.knowledge.passages import Passage, decode
from workbench.operations import Item
from workbench.runtime import Runtime


def load_collection(runtime: Runtime, collection: str) -> Collection | None:
    """The collection in whatever state, or None. One request."""
    item = runtime.table.get(collection_key(collection)) if is_part(collection) else None
    return Collection.from_item(item) if item else None


def load_document(runtime: Runtime, document: DocumentId) -> tuple[Collection, Document] | None:
    """A document in whatever state, with its collection, or None. One request."""
    keys = collection_key(document.collection), document_key(document)
    found = runtime.table.get_many(keys)
    if len(found) < len(keys):
        return None
    return Collection.from_item(found[keys[0]]), Document.from_item(found[keys[1]])


def list_documents(
    runtime: Runtime, collection: str, limit: int | None = None, after: DocumentId | None = None
) -> list[Document]:
    """The documents that are ready, oldest first, behind ``after``; one request for about 1 MB of items."""
    at = f"DOC#{after.part}" if after else None
    found: list[Document] = []
    while True:
        most = None if limit is None else limit - len(found)
        items = runtime.table.query(f"COL#{collection}", "DOC#", limit=most, after=at)
        found += [document for document in map(Document.from_item, items) if document.ready]
        # Documents that are being made or removed took places of others.
        if most is None or len(items) < most or len(found) >= (limit or 0):
            return found
        at = items[-1]["SK"]


def collections_of(runtime: Runtime, owner: Owner) -> list[Collection]:
    """The collections of a person or a department, by id. Two requests, and one more for each 100."""
    pointers = runtime.table.query(owner.partition, "COL#")
    keys = [collection_key(pointer["SK"].removeprefix("COL#")) for pointer in pointers]
    items = runtime.table.get_many(keys) if keys else {}
    found = [Collection.from_item(items[key]) for key in keys if key in items]
    return [collection for collection in found if collection.active and collection.owner == owner]


def read_passages(runtime: Runtime, document: Document) -> list[Passage] | None:
    """The passages in order, or None when the document was removed meanwhile. One request."""
    key = passages_key(document.id)
    try:
        answer = runtime.clients.s3.get_object(Bucket=runtime.settings.artifact_bucket, Key=key)
    except ClientError as error:
        if objects.is_missing(error):
            return None
        raise
    return decode(answer["Body"].read())


def remove_contents(runtime: Runtime, document: DocumentId, artifact: str) -> bool:
    """Remove the file with its artifact and bill, and the passages, for good; True when there was an artifact.

    Repeating it changes nothing.
    """
    existed = retention.purge(runtime, artifact)
    # Stored, but never committed: nothing in the table names these.
    _remove_objects(runtime, [f"artifacts/{artifact}/", passages_key(document)])
    return existed


def _remove_objects(runtime: Runtime, prefixes: Sequence[str]) -> None:
    bucket = runtime.settings.artifact_bucket
    for prefix in prefixes:
        stored, markers = objects.versions(runtime.clients, bucket, prefix)
        # By version id: a plain delete of a versioned bucket only hides.
        entries = [{"Key": entry["Key"], "VersionId": entry["VersionId"]} for entry in [*stored, *markers]]
        objects.delete(runtime.clients, bucket, entries)


def documents_of(runtime: Runtime, collection: str) -> list[Item]:
    """The items of all documents, those being made or removed among them."""
    return runtime.table.query(f"COL#{collection}", "DOC#")
