"""Keeping the history within its limits: which versions to drop, and removing what no kept version names.

What takes long (reading every kept version's pages, listing the objects) is done without the lease, because versions,
pages and blobs never change. Only then the lease is taken, for what was committed meanwhile and for removing. Taking it
bumps the fence: a writer that has stored blobs but not committed must start again and store them again. So nothing can
begin to name an object that is about to be removed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from workbench import ids, objects
from workbench.errors import Conflict, NotFound, WorkspaceBusy
from workbench.keys import head_key, version_key
from workbench.logs import logger
from workbench.operations import ACTIVE, Item, Update, all_of, same_base
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.table import ConditionFailed
from workbench.workspace.storage.head import TIDYING, Fenced, Head, acquire, extend, held, read_head, release
from workbench.workspace.storage.kept import Kept
from workbench.workspace.storage.store import BlobGone

# A pass looks at everything, so it waits until some part of what is allowed is new again.
NEW_PART = 20
# The portal waits for the pass. What it does not manage, the next one does.
PASS_SECONDS = 10
PAGES_AT_ONCE = 32
# S3's times are whole seconds of another clock.
CLOCKS_APART_SECONDS = 60


@dataclass(frozen=True)
class Thinned:
    """What one pass did. ``finished`` is False when its time ran out; another pass goes on from there."""

    versions: int
    objects: int
    finished: bool


def is_due(head: Head, settings: Settings) -> bool:
    """True when the history is past its limits, and long enough after the last pass that another one may help."""
    return any(
        now > allowed and now - then >= max(1, allowed // NEW_PART)
        for now, then, allowed in (
            (head.history_versions, head.thinned_versions, settings.history_versions),
            (head.history_bytes, head.thinned_bytes, settings.history_bytes),
        )
    )


def tidy(runtime: Runtime, conversation: str, head_item: Item) -> None:
    """Thin the history when it is due. Whatever goes wrong is left to the next time: nobody's call depends on it."""
    try:
        if is_due(Head.from_item(conversation, head_item), runtime.settings):
            thinned = thin(runtime, conversation)
            logger.info("history thinned", extra={"conversation": conversation, **vars(thinned)})
    except (WorkspaceBusy, Conflict, NotFound, Fenced, BlobGone) as reason:
        logger.info("history not thinned", extra={"conversation": conversation, "reason": type(reason).__name__})
    except Exception:  # noqa: BLE001 - housekeeping must not spoil the answer it is done beside
        logger.exception("thinning the history failed", extra={"conversation": conversation})


def to_drop(versions: Sequence[Item], kept: Kept, most_versions: int, most_bytes: int) -> list[Item]:
    """The versions to drop, oldest first, until count and bytes fit; they are taken out of ``kept``.

    The newest version and the first and last of each turn stay. ``versions`` are ``V#`` items in ascending order.
    """
    first_and_last: set[int] = set()
    by_turn: dict[str, list[int]] = {}
    for item in versions:
        if item["turn"]:
            by_turn.setdefault(item["turn"], []).append(item["version"])
    for numbers in by_turn.values():
        first_and_last |= {numbers[0], numbers[-1]}
    dropped: list[Item] = []
    for item in versions[:-1]:
        if len(versions) - len(dropped) <= most_versions and kept.bytes <= most_bytes:
            break
        if item["version"] not in first_and_last:
            dropped.append(item)
            kept.drop(item)
    return dropped


@dataclass(frozen=True)
class Survey:
    """What one look at a conversation found, made without the lease: nothing here changes, and nothing was changed.

    ``dropped`` are the versions that the limits do not allow; ``unnamed`` are the keys that no other version names,
    but for what was too new to tell (``spared``). Of what was stored before ``complete_until`` (Unix seconds) nothing
    was left out.
    """

    before: Head
    versions: list[Item]
    kept: Kept
    dropped: list[Item]
    spared: frozenset[str]
    complete_until: float

    @property
    def unnamed(self) -> list[str]:
        return sorted(key for key in self.kept.unnamed() if key not in self.spared)


def thin(
    runtime: Runtime, conversation: str, *, seconds: float = PASS_SECONDS, spare_after: float = math.inf
) -> Thinned:
    """Drop what the limits do not allow and remove every object no kept version names, crash remains included.

    Objects stored after ``spare_after`` stay whoever names them. Raises WorkspaceBusy while somebody holds the lease,
    Fenced when it is lost, BlobGone when another pass was faster; Conflict or NotFound without an active conversation.
    A crash at any point leaves what the next pass removes.
    """
    until = runtime.clock.monotonic() + seconds
    survey = look(runtime, conversation, until, spare_after)
    if survey is None:
        return Thinned(0, 0, finished=False)
    return carry_out(runtime, conversation, survey, until)


def look(runtime: Runtime, conversation: str, until: float, spare_after: float = math.inf) -> Survey | None:
    """Find out what may go; None when the time (``until``, monotonic) is up before everything was looked at."""
    began = runtime.clock.now()
    before = read_head(runtime, conversation)
    versions = runtime.table.query(f"C#{conversation}", "V#")
    # Listed before the lease is taken: what a writer stores from now on is none of our business.
    stored = _stored(runtime, conversation, until)
    if stored is None:
        return None
    kept = Kept(f"conversations/{conversation}/", {entry.key: entry.bytes for entry in stored})
    if not _take_in(runtime, conversation, kept, versions, until):
        return None
    settings = runtime.settings
    dropped = to_drop(versions, kept, settings.history_versions, settings.history_bytes)
    spared = frozenset(entry.key for entry in stored if entry.modified > spare_after)
    return Survey(before, versions, kept, dropped, spared, min(began - CLOCKS_APART_SECONDS, spare_after))


def carry_out(runtime: Runtime, conversation: str, survey: Survey, until: float) -> Thinned:
    """Remove under the lease what ``survey`` found and nobody has named since; raises as :func:`thin` does."""
    versions, kept = survey.versions, survey.kept
    if not versions and not survey.unnamed:
        return Thinned(0, 0, finished=True)
    head = acquire(runtime, conversation, ids.random_part("tidy_"), TIDYING)
    try:
        newer = _newer(runtime, conversation, versions)
        newest = [*versions, *newer][-1]["version"] if versions or newer else 0
        if newest != head.version or head.thinned_bytes != survey.before.thinned_bytes:
            # Another pass came between.
            raise Fenced
        _take_in(runtime, conversation, kept, newer, None)
        if survey.dropped:
            _forget_pass(runtime, head)
        # The items go first: a crash after this leaves objects nobody names, which the next pass removes.
        runtime.table.delete_many(version_key(conversation, item["version"]) for item in survey.dropped)
        unnamed = survey.unnamed
        removed = _remove(runtime, head, unnamed, until)
        finished = removed == len(unnamed)
        if finished:
            _note_pass(runtime, head, len(versions) + len(newer) - len(survey.dropped), survey)
    finally:
        release(runtime, conversation, head.fence)
    return Thinned(len(survey.dropped), removed, finished)


def _newer(runtime: Runtime, conversation: str, versions: Sequence[Item]) -> list[Item]:
    """The versions after those looked at. Raises Fenced when the last of these is no more, or is another one: after a
    deletion and a restore the numbers begin anew."""
    if not versions:
        return runtime.table.query(f"C#{conversation}", "V#")
    before_last = version_key(conversation, versions[-1]["version"] - 1)[1]
    found = runtime.table.query(f"C#{conversation}", "V#", after=before_last)
    if not found or found[0] != versions[-1]:
        raise Fenced
    return found[1:]


def _stored(runtime: Runtime, conversation: str, until: float) -> list[objects.Stored] | None:
    """The workspace's objects; None when the time is up before all are listed."""
    stored: list[objects.Stored] = []
    for page in objects.listed(runtime.clients, runtime.settings.workspace_bucket, f"conversations/{conversation}/"):
        stored += page
        if runtime.clock.monotonic() > until:
            return None
    return stored


def _take_in(runtime: Runtime, conversation: str, kept: Kept, versions: Sequence[Item], until: float | None) -> bool:
    """Let ``kept`` know what the versions name; False when the time is up. Pages that versions share are read once."""
    missing = kept.pages_to_read(versions)
    for start in range(0, len(missing), PAGES_AT_ONCE):
        if until is not None and runtime.clock.monotonic() > until:
            return False
        batch = missing[start : start + PAGES_AT_ONCE]
        loads = [partial(runtime.workspaces.page, conversation, digest) for digest in batch]
        for digest, page in zip(batch, runtime.clients.together(*loads), strict=True):
            kept.read(digest, page)
    for item in versions:
        kept.add(item)
    return True


def _remove(runtime: Runtime, head: Head, keys: Sequence[str], until: float) -> int:
    """Remove objects under the lease; returns how many.

    Each request is sent with the whole lease ahead, which is longer than the client goes on trying: it can never reach
    S3 after another writer was let in.
    """
    for start in range(0, len(keys), objects.BATCH):
        if start and runtime.clock.monotonic() > until:
            return start
        extend(runtime, head.conversation, head.fence)
        batch = [{"Key": key} for key in keys[start : start + objects.BATCH]]
        objects.delete(runtime.clients, runtime.settings.workspace_bucket, batch)
    return len(keys)


def _forget_pass(runtime: Runtime, head: Head) -> None:
    """Dropping a version leaves old objects unnamed: should this end half-way, they must be looked for again."""
    try:
        runtime.table.update(head_key(head.conversation), Update().set("tidiedAt", 0), held(head.fence))
    except ConditionFailed:
        raise Fenced from None


def note_clean(runtime: Runtime, survey: Survey) -> None:
    """Note that a survey found nothing to remove, unless something was committed or removed since."""
    before = survey.before
    same = all_of(ACTIVE, same_base(before.version, before.fence))
    with suppress(ConditionFailed):
        change = Update().set("tidiedAt", survey.complete_until)
        runtime.table.update(head_key(before.conversation), change, same)


def _note_pass(runtime: Runtime, head: Head, versions: int, survey: Survey) -> None:
    """The exact counts, in place of the sums that commits keep, and up to when nothing unnamed is left."""
    size = survey.kept.bytes
    change = Update().set("historyVersions", versions).set("historyBytes", size)
    change.set("thinnedVersions", versions).set("thinnedBytes", size).set("tidiedAt", survey.complete_until)
    try:
        runtime.table.update(head_key(head.conversation), change, held(head.fence))
    except ConditionFailed:
        raise Fenced from None
