"""Documents and collections as data: what their items hold, and what the API says of them. No AWS here.

A collection belongs to a person or to a department. A document is an uploaded file (also an artifact) whose text was
extracted and split into passages. Only a document that is ``ready`` is there for anybody; one being made or removed
has a record only so that nothing of it can be forgotten.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workbench import ids
from workbench.clock import iso
from workbench.ids import DocumentId
from workbench.keys import Key
from workbench.operations import Item

OwnerKind = Literal["person", "department"]

# The states of a document's item; those of a collection are ACTIVE and REMOVING.
PENDING, READY, REMOVING = "pending", "ready", "removing"
ACTIVE = "active"
# Ids of this form are kept for the collections that people and departments have without naming one.
DEFAULT_PREFIXES: Mapping[OwnerKind, str] = {"person": "col_of_", "department": "col_dept_"}
# The one version of an upload's artifact that is the document.
FILE_VERSION = 1
# What is counted of a document, by the kind of file.
EXTENTS = ("pages", "slides", "sheets", "rows", "lines")


@dataclass(frozen=True, slots=True)
class Owner:
    """Whose a collection is."""

    kind: OwnerKind
    name: str

    @property
    def partition(self) -> str:
        """The partition that holds the pointers to this owner's collections."""
        return f"P#{self.name}" if self.kind == "person" else f"D#{self.name}"

    def pointer(self, collection: str) -> Key:
        return self.partition, f"COL#{collection}"

    @property
    def default_collection(self) -> str:
        """The id of the collection that is meant when none is named: always the same for the same owner."""
        digest = hashlib.sha256(f"{self.kind}\0{self.name}".encode()).hexdigest()
        return f"{DEFAULT_PREFIXES[self.kind]}{digest[:20]}"


def reserved(collection: str) -> bool:
    """True when only the owner whose default it is may have a collection of this id."""
    return collection.startswith(tuple(DEFAULT_PREFIXES.values()))


def new_document(collection: str, now: float) -> DocumentId:
    """An id that sorts by time within its collection and that nobody guesses (72 random bits)."""
    return DocumentId(collection, ids.random_part(f"{int(now * 1000):011x}", 72))


def passages_key(document: DocumentId) -> str:
    """Where a document's passages lie in the artifact bucket."""
    return f"documents/{document.collection}/{document.part}/passages"


@dataclass(frozen=True, slots=True)
class Collection:
    """A collection; ``serial`` tells it from an earlier one of the same id, ``department`` is billed."""

    id: str
    owner: Owner
    department: str
    serial: str
    status: str
    created_at: float
    documents: int
    bytes: int
    unfinished: frozenset[str]

    @classmethod
    def from_item(cls, item: Item) -> Collection:
        return cls(
            id=item["PK"].removeprefix("COL#"),
            owner=Owner(item["ownerKind"], item["owner"]),
            department=item["department"],
            serial=item["serial"],
            status=item["status"],
            created_at=item["createdAt"],
            documents=item["documents"],
            bytes=item["bytes"],
            unfinished=frozenset(item.get("unfinished", ())),
        )

    @property
    def active(self) -> bool:
        return self.status == ACTIVE

    def as_dict(self) -> dict[str, Any]:
        return {
            "id": self.id,
            "owner": self.owner.name if self.owner.kind == "person" else None,
            "department": self.department,
            "documents": self.documents,
            "bytes": self.bytes,
            "createdAt": iso(self.created_at),
        }


@dataclass(frozen=True, slots=True)
class Document:
    """An uploaded document. ``extent`` counts its pages, slides, sheets or rows, whatever its kind of file has.

    ``stored_bytes`` and ``stored_sha256`` are of the object that holds its passages.
    """

    id: DocumentId
    name: str
    media_type: str
    format: str
    artifact: str
    bytes: int
    sha256: str
    passages: int
    stored_bytes: int
    stored_sha256: str
    extent: Mapping[str, int]
    notes: tuple[str, ...]
    at: float
    state: str

    @classmethod
    def from_item(cls, item: Item) -> Document:
        return cls(
            id=DocumentId(item["PK"].removeprefix("COL#"), item["SK"].removeprefix("DOC#")),
            name=item["name"],
            media_type=item["mediaType"],
            format=item["format"],
            artifact=item["artifact"],
            bytes=item["bytes"],
            sha256=item["sha256"],
            passages=item["passages"],
            stored_bytes=item["storedBytes"],
            stored_sha256=item["storedSha256"],
            extent=item["extent"],
            notes=tuple(item["notes"]),
            at=item["at"],
            state=item["state"],
        )

    @property
    def ready(self) -> bool:
        return self.state == READY

    @property
    def title(self) -> str:
        """What people call it: the name that it was uploaded under."""
        return self.name

    def as_dict(self) -> dict[str, Any]:
        """The document as the API answers it."""
        return {
            "id": str(self.id),
            "artifact": self.artifact,
            "collection": self.id.collection,
            "name": self.name,
            "bytes": self.bytes,
            "passages": self.passages,
            "mediaType": self.media_type,
            "format": self.format,
            **self.extent,
            "notes": list(self.notes),
            "at": iso(self.at),
        }
