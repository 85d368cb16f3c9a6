"""What nothing names in a deployment: looked for now instead of at night, shown first, and removed when asked to."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from typing import Any

from local.admin import show
from local.admin.client import AdminError, Deployment, part

LOOK_AGAIN_SECONDS = 1.0
# Step Functions tells of an execution a moment after it began.
UNKNOWN_SECONDS = 10.0
NUMBERS = ("found", "repaired", "left", "failed")
COUNTS = (
    ("Kind", "left"),
    ("Found", "right"),
    ("Repaired", "right"),
    ("Left for later", "right"),
    ("Failed", "right"),
)
LISTED = (("What", "left"), ("Kind", "left"), ("Objects or records", "right"))
FAILED_STATUS = 1


def reconcile(deployment: Deployment, *, dry_run: bool, yes: bool, json: bool) -> int:
    """Look through everything and wait for the end; 1 when something was found that only a person can put right."""
    if not dry_run:
        show.confirm("Remove what nothing names? --dry-run shows it first.", yes=yes)
    came = _watched(deployment, dry_run)
    counts: dict[str, dict[str, int]] = came["counts"]
    ended = FAILED_STATUS if any(numbers["failed"] for numbers in counts.values()) else 0
    if json:
        show.as_json({"reconciliation": came})
        return ended
    if not counts:
        show.say(show.plain("Everything that is stored is named by something, and nothing has stalled."))
        return ended
    columns = COUNTS[:2] if dry_run else COUNTS
    numbers = NUMBERS[: len(columns) - 1]
    rows = [[_words(kind), *(f"{found[name]:,}" for name in numbers)] for kind, found in sorted(counts.items())]
    show.say(show.table(columns, rows, ["", *_sums(counts.values(), numbers)]))
    show.say()
    shown = [[one["what"], _words(one["kind"]), f"{one['count']:,}"] for one in came["listed"]]
    show.say(show.table(LISTED, shown))
    hidden = sum(found["found"] for found in counts.values()) - sum(one["count"] for one in came["listed"])
    if hidden > 0:
        show.say(show.plain(f"… and {hidden:,} more, which the log of the function reconciler names."))
    if ended:
        show.say(show.plain("What failed needs a person: the log of the function reconciler says why."))
    return ended


def _watched(deployment: Deployment, dry_run: bool) -> dict[str, Any]:
    """Begin, and look until it is done. Interrupting the command does not stop it."""
    begun = deployment.call("POST", "/v1/reconciliations", {"dryRun": dry_run})["reconciliation"]
    path, unknown_until = f"/v1/reconciliations/{part(begun['id'])}", time.monotonic() + UNKNOWN_SECONDS
    doing = "Looking for what nothing names" if dry_run else "Removing what nothing names"
    with show.progress() as progress:
        progress.add_task(doing, total=None)
        try:
            while True:
                came = _look(deployment, path, begun, unknown_until)
                if came["status"] == "done":
                    return came
                if came["status"] == "failed":
                    raise AdminError(
                        f"{begun['id']} did not come to its end. The execution of that name of the state machine "
                        "`…-reconcile` says why; what it has done stays done."
                    )
                time.sleep(LOOK_AGAIN_SECONDS)
        except KeyboardInterrupt:
            raise AdminError(f"{begun['id']} goes on without this command.") from None


def _look(deployment: Deployment, path: str, begun: dict[str, Any], unknown_until: float) -> dict[str, Any]:
    try:
        found: dict[str, Any] = deployment.get(path)["reconciliation"]
    except AdminError as error:
        if error.status != 404 or time.monotonic() > unknown_until:
            raise
        return begun
    return found


def _words(kind: str) -> str:
    return kind.replace("_", " ")


def _sums(counts: Iterable[Mapping[str, int]], names: Iterable[str]) -> list[str]:
    listed = list(counts)
    return [f"{sum(found[name] for found in listed):,}" for name in names]
