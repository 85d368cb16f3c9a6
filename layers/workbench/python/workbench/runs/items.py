"""A run as data: the items that hold it, where its staged bytes lie, and how its status may move.

``queued`` (admitted) -> ``starting`` (a sandbox was asked for) -> ``running`` (claimed) -> ``reported`` (somebody has
the last word: the sandbox, the news of its end, or a stop) -> ``committing`` -> ``succeeded`` or ``failed``. Every
move is one conditional write on the run's record; the task tokens live nowhere else.
"""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Iterable
from typing import Literal

from workbench import ids
from workbench.keys import Key, conversation_key
from workbench.operations import Condition, Item

Status = Literal["queued", "starting", "running", "reported", "committing", "succeeded", "failed"]

AT_WORK = ("queued", "starting", "running")
FINAL = ("succeeded", "failed")
# What the contract calls each status; callers need not know who had the last word.
SHOWN = {"reported": "committing"}

LANGUAGES = ("python", "javascript", "shell")
PROGRAM_NAMES: dict[str, str] = {"python": "main.py", "javascript": "main.js", "shell": "main.sh"}

# A run's records are kept for a month; its answer lives with its call.
RECORD_SECONDS = 30 * 24 * 3600
# Time the sandbox may need around the program: fetching inputs, scanning, sending what changed.
AROUND_SECONDS = 120
# How many beats may be missed before the workflow gives the sandbox up.
MISSED_BEATS = 6


def at_work_key(conversation: str) -> Key:
    """The one run of a conversation that is at work; the item is there exactly as long as it is."""
    return conversation_key(conversation, "RUN#at-work")


def admission_key() -> Key:
    """The set of runs that this deployment has at work."""
    return "POOL", "ADMISSION"


def pack_item_key(run: str, part: int) -> Key:
    """Which pack the sandbox sent as ``part``."""
    return f"R#{run}", f"PACK#{part:06d}"


def staging_prefix(conversation: str, run: str) -> str:
    """Where a run's staged objects lie in the workspace bucket; the day's expiry cleans what a crash leaves."""
    return f"tmp/runs/{conversation}/{run}/"


def execution_name(run: str, attempt: int) -> str:
    """The same call always names the same execution, so that starting it twice is harmless."""
    return hashlib.sha256(f"{run}#{attempt}".encode()).hexdigest()[:64]


def status_in(statuses: Iterable[str]) -> Condition:
    """The record's status is one of ``statuses``."""
    listed = list(statuses)
    names = [f":status{number}" for number in range(len(listed))]
    return Condition(f"#status IN ({', '.join(names)})", {"#status": "status"}, dict(zip(names, listed, strict=True)))


def attempt_is(attempt: int) -> Condition:
    """The record is still that of this attempt: a call that was sent again has another."""
    return Condition("attempt = :attempt", {}, {":attempt": attempt})


def secret_matches(given: object, stored_hash: object) -> bool:
    """Compare a secret with its stored hash in constant time; False when either is missing."""
    if not isinstance(given, str) or not isinstance(stored_hash, str):
        return False
    return hmac.compare_digest(ids.digest(given if given.isascii() else ""), stored_hash)


def shown_status(item: Item) -> str:
    """The status as the contract names it."""
    status = str(item["status"])
    return SHOWN.get(status, status)


def shown_output(record: Item | None, output: Item | None) -> Item | None:
    """What the run printed so far; None before it has, also when what is stored is of an earlier attempt."""
    ours = record and output and record.get("fence") == output.get("fence")
    return output if ours else None


def program_path(job: Item) -> str:
    """The file name under which the sandbox gets the code."""
    return PROGRAM_NAMES[str(job["language"])]
