"""What lies there of a conversation of which there is no record: a tombstone is made for it, whose deletion removes it.

The tombstone keeps the id from being taken while that goes on, so that nothing of a new conversation can be met.
"""

from __future__ import annotations

from contextlib import suppress

from workbench import ids
from workbench.conversations import deletion
from workbench.conversations.conversation import DELETED_STATUS
from workbench.operations import ABSENT, Item
from workbench.reconciling.findings import Finding
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage.head import empty_head


def adopt(runtime: Runtime, conversation: str, count: int = 1) -> Finding:
    """The finding that a conversation without a record has ``count`` objects or records."""

    def repair() -> None:
        now = runtime.clock.now()
        tombstone: Item = {
            **empty_head(conversation),
            "status": DELETED_STATUS,
            "deletion": ids.random_part("del_"),
            "deletedAt": now,
            # Nobody can restore it.
            "purgeAt": now,
        }
        # Somebody may have made a conversation of that id this very moment.
        with suppress(ConditionFailed):
            runtime.table.put(tombstone, ABSENT)
            deletion.start(runtime, conversation, tombstone["deletion"])

    return Finding("remains_of_unknown", conversation, repair, count)
