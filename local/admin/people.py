"""People: what a department's people have stored, and erasing everything of one of them."""

from __future__ import annotations

import time
from typing import Any

from rich.progress import Progress, TaskID

from local.admin import show
from local.admin.client import AdminError, Deployment, part

USAGE = (("Person", "left"), ("Bytes", "right"), ("", "left"), ("Byte-hours", "right"))
LOOK_AGAIN_SECONDS = 0.5
# What an erasure counts, and what the index told of it before.
COUNTED = {"workspaces": "conversations", "artifacts": "artifacts"}


def usage(deployment: Deployment, department: str, month: str | None, *, json: bool) -> int:
    """Stored bytes and byte-hours of everybody in a department, the largest first."""
    rows = deployment.get("/v1/usage", department=department, month=month)["usage"]
    if json:
        show.as_json({"department": department, "month": month, "usage": rows})
        return 0
    if not rows:
        show.say(show.plain(f"Nobody of {department} has stored anything in {month or 'this month'}."))
        return 0
    rows = sorted(rows, key=lambda row: (-row["bytes"], row["person"]))
    most = max(row["bytes"] for row in rows)
    cells: list[list[show.Cell]] = [
        [row["person"], show.size(row["bytes"]), show.bar(row["bytes"], most), show.byte_hours(row["byteHours"])]
        for row in rows
    ]
    total, hours = (sum(row[name] for row in rows) for name in ("bytes", "byteHours"))
    footer = [show.count(len(rows), "person", "people"), show.size(total), "", show.byte_hours(hours)]
    show.say(show.table(USAGE, cells, footer))
    return 0


def erase(deployment: Deployment, person: str, *, dry_run: bool, yes: bool, json: bool) -> int:
    """Remove everything of ``person``: shown first, asked for by name, watched until it is done."""
    held = deployment.get(f"/v1/people/{part(person)}")["person"]
    if dry_run:
        if json:
            show.as_json({"dryRun": True, "person": held})
        else:
            show.say(show.plain(_what_goes(held)))
        return 0
    if not held["erasing"]:
        show.notes().print(show.plain(_what_goes(held)))
        show.confirm("There is no grace and no way back.", yes=yes, exactly="yes" if yes else person)
    erasure = _watched(deployment, person, held["counts"])
    if json:
        show.as_json({"erasure": erasure})
        return 0
    counts = ", ".join(f"{name} {count:,}" for name, count in erasure["counts"].items())
    show.say(show.plain(f"Erased of {person}: {counts}."))
    show.say(show.plain(erasure["remains"]))
    return 0


def _watched(deployment: Deployment, person: str, counts: dict[str, int]) -> dict[str, Any]:
    """Begin, or join one that is at work, and look until it is done. Interrupting the command does not stop it."""
    path = f"/v1/people/{part(person)}/erase"
    erasure: dict[str, Any] = deployment.call("POST", path, query={"wait": 0})["erasure"]
    with show.progress() as progress:
        tasks = {name: progress.add_task(f"Erasing {name}", total=counts.get(of)) for name, of in COUNTED.items()}
        tasks["results"] = progress.add_task("Erasing results", total=None)
        try:
            while True:
                _advance(progress, tasks, erasure)
                if erasure["status"] == "done":
                    return erasure
                time.sleep(LOOK_AGAIN_SECONDS)
                erasure = deployment.get(path)["erasure"]
        except KeyboardInterrupt:
            raise AdminError("The erasure goes on without this command. Send it again to see how far it is.") from None


def _advance(progress: Progress, tasks: dict[str, TaskID], erasure: dict[str, Any]) -> None:
    for name, task in tasks.items():
        gone = erasure["counts"][name]
        # The index knew no more than it did: what came to light since makes the whole larger.
        expected = progress.tasks[task].total
        progress.update(task, completed=gone, total=None if expected is None else max(expected, gone))


def _what_goes(held: dict[str, Any]) -> str:
    if held["erasing"]:
        return f"{held['user']} is being erased already."
    counts = held["counts"]
    things = [
        f"{show.count(counts['conversations'], 'conversation')} with workspace, results and artifacts",
        show.count(counts["collections"], "collection of documents", "collections of documents"),
        f"{show.count(counts['artifacts'], 'artifact')} of their own",
    ]
    if counts["turns"]:
        things.append(f"what {show.count(counts['turns'], 'turn')} of theirs made, in conversations of others too")
    return f"Everything of {held['user']} goes: {', '.join(things)}. The sums of their department's usage stay."
