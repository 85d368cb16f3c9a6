"""Runs that are over and hold a place all the same: the conversation's one, or one of the deployment's."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from workbench.keys import run_key
from workbench.operations import Condition, Item
from workbench.reconciling.findings import Finding, Step
from workbench.runs import admission
from workbench.runs.items import FINAL, admission_key, at_work_key
from workbench.runtime import Runtime
from workbench.table import ConditionFailed


def sweep(runtime: Runtime, after: str) -> Iterator[Step]:
    """The deployment's set of runs at work, in one look."""
    if after:
        return
    item = runtime.table.get(admission_key()) or {}
    members = sorted(item.get("runs", ()))
    records = runtime.table.get_many([run_key(run) for run in members])
    findings = []
    for run in members:
        record = records.get(run_key(run))
        if record is None or record["status"] in FINAL:
            findings.append(Finding("places_of_runs", run, partial(admission.leave, runtime, run)))
        elif record["deadline"] <= runtime.clock.now():
            findings.append(lost(runtime, record))
    yield Step("all", findings)


def lost(runtime: Runtime, record: Item) -> Finding:
    """A run that outlived every deadline: whatever worked for it is gone. It is ended and frees what it holds."""

    def end() -> None:
        # Only a run that is really lost needs the modules of running.
        from workbench.runs.beginning import end_if_stale

        end_if_stale(runtime, record)

    return Finding("lost_runs", record["run"], end)


def of_place(runtime: Runtime, conversation: str, place: Item, record: Item | None) -> Finding | None:
    """What is wrong with a conversation's place, whose run has this record; None when the run is at work."""
    if record is not None and record["status"] not in FINAL:
        return lost(runtime, record) if record["deadline"] <= runtime.clock.now() else None
    same = Condition("#run = :run", {"#run": "run"}, {":run": place["run"]})

    def free() -> None:
        try:
            runtime.table.delete(at_work_key(conversation), same)
        except ConditionFailed:
            # Another run has the place by now.
            return

    return Finding("places_of_runs", place["run"], free)
