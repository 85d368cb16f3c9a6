"""Documents in a run: the uploaded files as they were, or their passages in order. Read where they lie, never copied.

Whether the turn may use a document is asked before this (:mod:`.permission`); no byte is read here.
"""

from __future__ import annotations

from collections.abc import Sequence

from workbench.artifacts.store import object_key
from workbench.knowledge import names
from workbench.knowledge.model import FILE_VERSION, Document, passages_key
from workbench.operations import Item

FILES, PASSAGES = "files", "passages"


def files(documents: Sequence[Document]) -> list[Item]:
    """Each document's file under its own name, as a run's record keeps it; equal names are told apart by its caller."""
    return [
        {
            "root": "inputs",
            "path": f"{FILES}/{names.file_name(document.name)}",
            "place": "artifacts",
            "key": object_key(document.artifact, FILE_VERSION),
            "bytes": document.bytes,
            "sha256": document.sha256,
        }
        for document in documents
    ]


def passages(documents: Sequence[Document]) -> list[Item]:
    """Each document's passages as ``passages/<id>.json``; :func:`workbench.knowledge.passages.encode` has the shape."""
    return [
        {
            "root": "inputs",
            "path": f"{PASSAGES}/{document.id}.json",
            "place": "artifacts",
            "key": passages_key(document.id),
            "bytes": document.stored_bytes,
            "sha256": document.stored_sha256,
        }
        for document in documents
    ]
