"""How many runs go on at once: one in a conversation, and ``runs_at_once`` in the deployment.

The deployment's places are a set of run ids under a condition on its size: adding and removing a run twice changes
nothing, so the number cannot drift. When the set is full, members whose run is over are thrown out, and a run that
outlived every deadline is ended by :mod:`.beginning`.
"""

from __future__ import annotations

from workbench.errors import ToolError
from workbench.keys import run_key
from workbench.operations import Condition, Item, Operation, Update, update
from workbench.runs.items import FINAL, admission_key
from workbench.runtime import Runtime

RETRY_AFTER_SECONDS = 5


def enter(runtime: Runtime, run: str) -> Operation:
    """The write that takes a place; its condition is false when all are taken."""
    room = Condition(
        "attribute_not_exists(runs) OR size(runs) < :most OR contains(runs, :run)",
        {},
        {":most": runtime.settings.runs_at_once, ":run": run},
    )
    return update(admission_key(), Update().add("runs", {run}), room)


def leave(runtime: Runtime, run: str) -> None:
    """Give a place back; harmless when it was given back before."""
    runtime.table.update(admission_key(), Update().take("runs", {run}))


def throw_out_finished(runtime: Runtime) -> tuple[bool, list[Item]]:
    """Free the places of runs that are over or unknown.

    Returns whether there were any, and the records of runs that are past every deadline: they hold more than a place.
    """
    item = runtime.table.get(admission_key())
    members = sorted(item.get("runs", ())) if item else []
    found = runtime.table.get_many([run_key(run) for run in members])
    at_work = [record for record in found.values() if record["status"] not in FINAL]
    gone = set(members) - {record["run"] for record in at_work}
    if gone:
        runtime.table.update(admission_key(), Update().take("runs", gone))
    now = runtime.clock.now()
    return bool(gone), [record for record in at_work if record["deadline"] <= now]


def full(runtime: Runtime) -> ToolError:
    """The refusal when the deployment is at its limit."""
    return ToolError(
        f"All {runtime.settings.runs_at_once} places for running code are taken at the moment. Nothing was run. "
        f"Send the same call again in about {RETRY_AFTER_SECONDS} seconds.",
        code="throttled",
        limit=runtime.settings.runs_at_once,
        retryAfterSeconds=RETRY_AFTER_SECONDS,
    )


def one_at_a_time(other: str) -> ToolError:
    """The refusal when the conversation has a run at work."""
    return ToolError(
        f"Another run of this conversation is at work (`{other}`), and one runs at a time. Nothing was run. "
        f"Wait for its answer, then send this call again; about {RETRY_AFTER_SECONDS} seconds is a good guess.",
        code="throttled",
        run=other,
        retryAfterSeconds=RETRY_AFTER_SECONDS,
    )
