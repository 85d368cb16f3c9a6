"""The Lambda behind the DeleteConversation state machine: one small step at a time, each repeatable and resumable.

The same machine erases a person: the same steps in the same order, over everything that is theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench import runtime as runtimes
from workbench.conversations import deletion, erasure
from workbench.conversations.deletion import Hold, NotThisDeletion, holding
from workbench.logs import logger
from workbench.runtime import Runtime

STEPS: dict[str, Callable[[Hold], bool]] = {
    "fence": deletion.fence,
    "stop_runs": deletion.stop_runs,
    "remove_workspace": deletion.remove_workspace,
    "remove_records": deletion.remove_records,
    "retire_artifacts": deletion.retire_artifacts,
    "settle": deletion.settle,
}


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """The function ``lifecycle``."""
    return do_step(runtimes.current(), event)


def do_step(runtime: Runtime, event: Mapping[str, Any]) -> dict[str, Any]:
    """Do one step: ``{"step", "conversation", "person", "deletion", "waited"}`` -> ``{"next"}``.

    ``person`` is empty for the deletion of a conversation; ``waited`` is true in the second pass.

    ``next`` is ``again`` (call this step once more), ``on`` or ``gone`` (the conversation was restored: stop).
    Raises :class:`ConversationBusy` while a restore is at work, which the state machine retries.
    """
    if event["person"]:
        return {"next": erasure.do_step(runtime, event["person"], event["deletion"], event["step"], event["waited"])}
    step = STEPS[event["step"]]
    try:
        with holding(runtime, event["conversation"], "deletion", event["deletion"]) as hold:
            more = step(hold)
    except NotThisDeletion:
        return {"next": "gone"}
    logger.info("deletion step", extra={"step": event["step"], "conversation": event["conversation"], "more": more})
    return {"next": "again" if more else "on"}
