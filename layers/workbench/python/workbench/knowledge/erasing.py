"""What a person uploaded, removed with everything of theirs: collections, documents, files, passages, index."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from workbench.knowledge import permission, removing, store
from workbench.knowledge.model import Owner
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

# (documents, artifacts) that went.
Count = Callable[[int, int], None]


def erase(
    runtime: Runtime, user: str, indexed: Iterable[str], count: Count, over: Callable[[], bool], *, last: bool
) -> bool:
    """One pass over the person's collections; True when it stopped early because ``over`` said so.

    ``indexed`` are the ids that the index knows: a collection that is being removed has no pointer any more. Only the
    ``last`` pass removes the records too, so that it finds what an upload that was at work left behind the first.
    """
    owner = Owner("person", user)
    for name in sorted({*permission.own_collections(runtime, user), *indexed}):
        collection = store.load_collection(runtime, name)
        # The index lags: the id may have gone, or gone to somebody else.
        if collection is None or collection.owner != owner:
            continue
        try:
            removing.hide_collection(runtime, collection)
        except ConditionFailed:
            # Somebody else ended its removal just now.
            continue
        documents, artifacts, more = removing.empty_collection(runtime, collection, over, keep_records=not last)
        count(documents, artifacts)
        if more:
            return True
    return False
