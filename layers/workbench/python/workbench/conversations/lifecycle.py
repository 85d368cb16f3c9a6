"""The Lambda behind the DeleteConversation state machine: one small step at a time, each repeatable and resumable."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from workbench import runtime as runtimes
from workbench.conversations import deletion
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
    """Do one step: ``{"step", "conversation", "deletion"}`` -> ``{"next"}``.

    ``next`` is ``again`` (call this step once more), ``on`` or ``gone`` (the conversation was restored: stop).
    Raises :class:`ConversationBusy` while a restore is at work, which the state machine retries.
    """
    step = STEPS[event["step"]]
    try:
        with holding(runtime, event["conversation"], "deletion", event["deletion"]) as hold:
            more = step(hold)
    except NotThisDeletion:
        return {"next": "gone"}
    logger.info("deletion step", extra={"step": event["step"], "conversation": event["conversation"], "more": more})
    return {"next": "again" if more else "on"}
