"""Filling an index that was lost from the passages that are stored with the documents, a while at a time.

A lost index is rare: the table was set back to an earlier time, or somebody removed the object. Documents are the
truth and the index follows from them, so that nothing is lost for good; until it is whole again, searches say that
documents may be missing.
"""

from __future__ import annotations

from enum import Enum
from pathlib import Path

from workbench.retrieval import index_file
from workbench.runtime import Runtime

# One writer's share, beside its own document and within its lease; the next writer, or the daily reconciler, goes on.
REFILL_SECONDS = 8.0


class Filled(Enum):
    """How far an index came: every document is in it, the time was over before the last, or the room was."""

    WHOLE = "whole"
    PARTLY = "partly"
    FULL = "full"


def refill(runtime: Runtime, collection: str, path: Path, most_bytes: int) -> Filled:
    """Add the documents that the file at ``path`` lacks, none any more once it has ``most_bytes``.

    The last may take it past them: how large a document's postings get is known when they are made.
    """
    # Needs much that searches never do.
    from workbench.knowledge import store

    until = runtime.clock.monotonic() + REFILL_SECONDS
    known = index_file.documents_in(path)
    for document in store.list_documents(runtime, collection):
        if not document.passages or str(document.id) in known:
            continue
        if path.stat().st_size >= most_bytes:
            return Filled.FULL
        if runtime.clock.monotonic() >= until:
            return Filled.PARTLY
        passages = store.read_passages(runtime, document)
        if passages is not None:
            texts = [(passage.number, passage.place, passage.text) for passage in passages]
            index_file.add_document(path, str(document.id), document.title, texts)
    return Filled.WHOLE
