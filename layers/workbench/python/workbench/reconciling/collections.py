"""Collections of documents: uploads that crashed, removals that stopped half-way, indexes that were lost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from workbench.keys import collection_key
from workbench.knowledge import removing
from workbench.knowledge.model import Collection
from workbench.reconciling.findings import Finding, stalled_before
from workbench.retrieval import index
from workbench.runtime import Runtime

# A collection's removal goes on tomorrow where it stops today.
REMOVE_SECONDS = 30.0
# So does an index that is built anew.
REFILL_SECONDS = 30.0


def look(runtime: Runtime, names: Sequence[str]) -> Iterator[Finding]:
    """What is wrong with these collections."""
    found = runtime.table.get_many([collection_key(name) for name in names])
    for item in found.values():
        collection = Collection.from_item(item)
        if not collection.active:
            if item.get("removingAt", 0) < stalled_before(runtime):
                yield Finding("stalled_collections", collection.id, partial(_finish, runtime, collection))
        elif abandoned := removing.abandoned(runtime, collection):
            repair = partial(removing.repair, runtime, collection, len(abandoned))
            yield Finding("abandoned_documents", collection.id, repair, len(abandoned))
        elif not index.is_whole(runtime, collection.id, item):
            yield Finding("lost_indexes", collection.id, partial(_refill, runtime, collection.id))


def _refill(runtime: Runtime, collection: str) -> None:
    until = runtime.clock.monotonic() + REFILL_SECONDS
    while not index.refill(runtime, collection) and runtime.clock.monotonic() < until:
        continue


def _finish(runtime: Runtime, collection: Collection) -> None:
    until = runtime.clock.monotonic() + REMOVE_SECONDS
    removing.hide_collection(runtime, collection)
    removing.empty_collection(runtime, collection, lambda: runtime.clock.monotonic() >= until)
