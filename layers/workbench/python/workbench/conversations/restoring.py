"""Bringing a deleted conversation back within its grace: with its artifacts, and with an empty workspace."""

from __future__ import annotations

import random

from workbench.artifacts import retention
from workbench.conversations import deletion
from workbench.conversations.conversation import PINS, Conversation, load
from workbench.conversations.deletion import ConversationBusy, Hold, NotThisDeletion, holding
from workbench.errors import Conflict
from workbench.keys import conversation_key, head_key, meta_key
from workbench.logs import audit
from workbench.operations import Condition, Update, all_of, update
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage.head import empty_head

# A step of the deletion may be at work; it is over soon, and the caller is a person who waits.
WAIT_SECONDS = 5.0
RETRY_SECONDS = 5
# What the deletion would do first, so that nothing of the old workspace shows in the new one.
_SWEEP = (deletion.stop_runs, deletion.remove_workspace, deletion.remove_records)


def restore(runtime: Runtime, conversation: Conversation) -> Conversation:
    """Make a deleted conversation active again and return it.

    Raises Conflict with ``retryAfterSeconds`` while its workspace is still being removed.
    """
    waited_until = runtime.clock.monotonic() + WAIT_SECONDS
    while True:
        try:
            with holding(runtime, conversation.id, "restore") as hold:
                _bring_back(hold)
        except ConversationBusy:
            if runtime.clock.monotonic() >= waited_until:
                raise _still_deleting() from None
            runtime.clock.sleep(random.uniform(0.05, 0.25))  # noqa: S311
        except NotThisDeletion:
            # Another restore was faster, or the grace is over: what there is now is the answer.
            return load(runtime, conversation.id).require_active()
        else:
            audit("conversation.restore", conversation=conversation.id)
            return load(runtime, conversation.id)


def _bring_back(hold: Hold) -> None:
    swept = hold.head.get("swept") == hold.head["deletion"]
    if not swept and any(step(hold) for step in _SWEEP):
        raise _still_deleting()
    if retention.revive_all(
        hold.runtime, hold.conversation, hold.head["deletion"], noted=swept, over=lambda: hold.over
    ):
        raise Conflict(
            "The artifacts of this conversation are coming back, and there are many. Restore it again to go on.",
            retryAfterSeconds=1,
        )
    _activate(hold)


def _activate(hold: Hold) -> None:
    """One transaction shows the conversation and with it all its artifacts."""
    head = Update().add("fence", 1)
    for name, value in empty_head(hold.conversation).items():
        # The fence only ever rises: whoever read it before the deletion must still fail.
        if name not in ("PK", "SK", "fence"):
            head.set(name, value)
    for gone in ("lease", "deletion", "deletedAt", "swept", "purgeAt", "ttl"):
        head.remove(gone)
    # Without grace (its owner is being erased) there is no way back.
    in_grace = Condition("purgeAt > :now", {}, {":now": hold.runtime.clock.now()})
    operations = [
        update(head_key(hold.conversation), head, all_of(hold.mine, in_grace)),
        update(meta_key(hold.conversation), Update().remove("purgeAt").remove("ttl")),
        update(conversation_key(hold.conversation, PINS), Update().remove("ttl")),
    ]
    try:
        hold.runtime.table.transact(operations)
    except ConditionFailed:
        raise ConversationBusy(hold.conversation) from None


def _still_deleting() -> Conflict:
    return Conflict(
        "The workspace of this conversation is still being removed. Restore it again in a few seconds.",
        retryAfterSeconds=RETRY_SECONDS,
    )
