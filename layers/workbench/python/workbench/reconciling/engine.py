"""The function ``reconciler``: every sweep in turn, a slice of a minute at a time, and one line of what came of it.

A daily state machine calls it with what it answered until it says that it is done. ``{"dryRun": true}`` looks at the
same and changes nothing. Everything may be repeated: what was repaired is not found again.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

from workbench import runtime as runtimes
from workbench.conversations.deletion import ConversationBusy, NotThisDeletion
from workbench.errors import WorkbenchError
from workbench.logs import logger, measured
from workbench.reconciling import records, runs, stored, workspaces
from workbench.reconciling.findings import Finding, Sweep
from workbench.runtime import Runtime
from workbench.table import ConditionFailed, Contended
from workbench.workspace.storage.head import Fenced
from workbench.workspace.storage.store import BlobGone

# Well inside the function's two minutes, whatever the last step takes.
SLICE_SECONDS = 45.0
# What an answer lists; the log has all.
LISTED = 200
METRICS = {f"Reconciler{name.title()}": name for name in ("found", "repaired", "left", "failed")}

SWEEPS: dict[str, Sweep] = {
    "runs": runs.sweep,
    "records": records.sweep,
    "workspaces": workspaces.sweep,
    **{kind.name: stored.sweep_of(kind) for kind in stored.KINDS},
}
# Somebody else is at work on it, or has been: tomorrow shows whether anything is left to do.
_OTHERS = (ConditionFailed, Contended, ConversationBusy, NotThisDeletion, Fenced, BlobGone, WorkbenchError)

State = dict[str, Any]


def handler(event: Mapping[str, Any], context: Any) -> State:
    """The Lambda; ``event`` is ``{"dryRun"?}`` or what an earlier call answered."""
    state = reconcile(runtimes.current(), event, SLICE_SECONDS)
    if state["done"]:
        report(state, context.function_name)
    return state


def reconcile(runtime: Runtime, event: Mapping[str, Any], seconds: float = SLICE_SECONDS) -> State:
    """One slice of work: ``{"dryRun", "sweep", "after", "dealtWith", "counts", "listed", "done"}``.

    ``counts`` has for each kind of finding how many were ``found``, ``repaired``, ``left`` (somebody was at work on
    them) and ``failed`` (a person has to look); ``listed`` the first of them as ``{"kind", "what", "count"}``.
    """
    until = runtime.clock.monotonic() + seconds
    state: State = {
        "dryRun": bool(event.get("dryRun", False)),
        "sweep": event.get("sweep") or next(iter(SWEEPS)),
        "after": event.get("after", ""),
        "dealtWith": list(event.get("dealtWith", ())),
        "counts": {kind: dict(numbers) for kind, numbers in event.get("counts", {}).items()},
        "listed": list(event.get("listed", ())),
        "done": False,
    }
    names = list(SWEEPS)
    for name in names[names.index(state["sweep"]) :]:
        if name != state["sweep"]:
            state |= {"sweep": name, "after": ""}
        for step in SWEEPS[name](runtime, state["after"]):
            findings = [finding for finding in step.findings if _mark(finding) not in state["dealtWith"]]
            for number, finding in enumerate(findings, 1):
                _deal_with(state, finding)
                if number < len(findings) and runtime.clock.monotonic() >= until:
                    # A look may find hundreds and a repair take half a minute: the next slice looks again for the rest.
                    state["dealtWith"] += map(_mark, findings[:number])
                    return state
            if not state["dryRun"]:
                for note in step.notes:
                    note()
            state |= {"after": step.after, "dealtWith": []}
            if runtime.clock.monotonic() >= until:
                return state
    return state | {"done": True}


def _deal_with(state: State, finding: Finding) -> None:
    numbers = state["counts"].setdefault(finding.kind, dict.fromkeys(METRICS.values(), 0))
    numbers["found"] += finding.count
    facts = {"kind": finding.kind, "what": finding.what, "count": finding.count}
    if len(state["listed"]) < LISTED:
        state["listed"].append(facts)
    if state["dryRun"]:
        came = "found"
    elif finding.repair is None:
        came = "failed"
    else:
        came = _repair(finding)
    if came != "found":
        numbers[came] += finding.count
    logger.info("reconciler", extra={**facts, "came": came})


def _mark(finding: Finding) -> str:
    """A finding as the next slice knows it again; short, since a state machine hands on 256 KiB."""
    return hashlib.sha256(f"{finding.kind}/{finding.what}".encode("utf-8", "surrogatepass")).hexdigest()[:12]


def _repair(finding: Finding) -> str:
    assert finding.repair is not None
    try:
        finding.repair()
    except _OTHERS as reason:
        logger.info("not repaired", extra={"what": finding.what, "reason": type(reason).__name__})
        return "left"
    except Exception:  # noqa: BLE001 - one that cannot be repaired must not keep the others from it
        logger.exception("a repair failed", extra={"kind": finding.kind, "what": finding.what})
        return "failed"
    return "repaired"


def report(state: State, function: str) -> None:
    """One log line, which CloudWatch also takes as metrics of the function."""
    counts = state["counts"].values()
    totals = {metric: sum(numbers[name] for numbers in counts) for metric, name in METRICS.items()}
    measured("reconciled", function, totals, dryRun=state["dryRun"], counts=state["counts"])
