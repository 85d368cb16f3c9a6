"""Workspaces as they lie in S3: what no version names, histories past their limits, and folders of nobody's.

The whole prefix is listed once, in order, 1,000 keys a request. Only a conversation that was written to since it was
last found clean is looked at more closely; what is removed of an active one is removed under its lease.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from workbench import objects
from workbench.conversations import deletion
from workbench.conversations.conversation import DELETED_STATUS
from workbench.errors import Conflict, NotFound
from workbench.keys import head_key
from workbench.logs import logger
from workbench.operations import Item
from workbench.reconciling import orphans
from workbench.reconciling.findings import Finding, Step, safe_before, today
from workbench.runtime import Runtime
from workbench.workspace.storage import history
from workbench.workspace.storage.head import Head
from workbench.workspace.storage.store import BlobGone

PREFIX = "conversations/"
# One batch read of heads.
TOGETHER = 50
# Looking at one conversation may take this long, and removing again; a larger one is left and said so.
PASS_SECONDS = 30.0


@dataclass
class Folder:
    """What the listing tells of one conversation: how much of it is old enough to judge, and how new that is."""

    conversation: str
    objects: int = 0
    newest: float = 0.0


def sweep(runtime: Runtime, after: str) -> Iterator[Step]:
    """Every folder of ``conversations/``; a cursor is a conversation's id."""
    waiting: list[Folder] = []
    for folder in _folders(runtime, after):
        waiting.append(folder)
        if len(waiting) == TOGETHER:
            yield from _look(runtime, waiting)
            waiting = []
    yield from _look(runtime, waiting)


def _folders(runtime: Runtime, after: str) -> Iterator[Folder]:
    safe = safe_before(runtime)
    # Behind everything below the folder of that name.
    start = f"{PREFIX}{after}/\U0010ffff" if after else ""
    folder: Folder | None = None
    for page in objects.listed(runtime.clients, runtime.settings.workspace_bucket, PREFIX, start):
        for entry in page:
            conversation = entry.key.removeprefix(PREFIX).split("/", 1)[0]
            if folder is None or folder.conversation != conversation:
                if folder is not None:
                    yield folder
                folder = Folder(conversation)
            if entry.modified < safe:
                folder.objects += 1
                folder.newest = max(folder.newest, entry.modified)
    if folder is not None:
        yield folder


def _look(runtime: Runtime, folders: list[Folder]) -> Iterator[Step]:
    heads = runtime.table.get_many([head_key(folder.conversation) for folder in folders])
    for folder in folders:
        yield _step(runtime, folder, heads.get(head_key(folder.conversation)))


def _step(runtime: Runtime, folder: Folder, head: Item | None) -> Step:
    conversation = folder.conversation
    if head is None:
        if not folder.objects:
            return Step(conversation)
        return Step(conversation, [orphans.adopt(runtime, conversation, folder.objects)])
    if head["status"] == DELETED_STATUS:
        if not folder.objects or head.get("swept") != head["deletion"]:
            # A deletion that has not ended is found by its record.
            return Step(conversation)
        again = partial(deletion.start, runtime, conversation, head["deletion"], today(runtime))
        return Step(conversation, [Finding("remains_of_deleted", conversation, again, folder.objects)])
    due = history.is_due(Head.from_item(conversation, head), runtime.settings)
    if due or folder.newest > head.get("tidiedAt", 0):
        return _survey(runtime, conversation)
    return Step(conversation)


def _survey(runtime: Runtime, conversation: str) -> Step:
    clock = runtime.clock
    try:
        survey = history.look(runtime, conversation, clock.monotonic() + PASS_SECONDS, safe_before(runtime))
    except (Conflict, NotFound, BlobGone):
        # It was deleted or thinned while it was looked at.
        return Step(conversation)
    except Exception:  # noqa: BLE001 - one that cannot be read must not keep the others from being looked at
        logger.exception("a workspace cannot be read", extra={"conversation": conversation})
        return Step(conversation, [Finding("unreadable_workspaces", conversation, None)])
    if survey is None:
        return Step(conversation, [Finding("too_large_to_look_at", conversation, None)])
    unnamed = len(survey.unnamed)
    if not survey.dropped and not unnamed:
        return Step(conversation, notes=[partial(history.note_clean, runtime, survey)])

    def thin() -> history.Thinned:
        return history.carry_out(runtime, conversation, survey, clock.monotonic() + PASS_SECONDS)

    # Dropping versions frees objects; both are removed in one pass under one lease.
    kind, count = ("histories", len(survey.dropped)) if survey.dropped else ("workspace_objects", unnamed)
    return Step(conversation, [Finding(kind, conversation, thin, count)])
