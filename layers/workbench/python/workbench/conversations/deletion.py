"""Deleting a conversation: the tombstone, then steps that may each be repeated and resumed at any point.

The tombstone refuses everybody at once. Each later step takes the conversation's lease for as long as it works, so
that a restore and a step never work at the same time: a step that removed what a restored conversation just wrote
would lose it. A step answers whether it has more to do; the state machine calls it again then.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from workbench import ids, objects
from workbench.artifacts import retention, store
from workbench.conversations.conversation import (
    DAY_SECONDS,
    DELETED,
    DELETED_STATUS,
    PINS,
    Conversation,
    load,
)
from workbench.keys import Key, conversation_key, head_key, meta_key, run_key
from workbench.logs import audit
from workbench.operations import ACTIVE, PRESENT, Condition, Item, Update, all_of, not_leased, put, update
from workbench.runs.items import at_work_key
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage.head import TIDYING
from workbench.workspace.storage.manifest import PageTable

# One call of a step works this long: well inside the lease, whatever the retries of its last request take.
SLICE_SECONDS = 20.0
QUERY_ITEMS = 50
# The lease may change hands between two tries.
ENTOMB_TRIES = 3
# What stays for a restore: the records of the conversation itself, its pinned versions, its artifacts.
_STAYING = ("META", "HEAD", PINS)


class ConversationBusy(Exception):
    """Another step or a restore is at work on the deleted conversation; the same step may be called again later."""


class NotThisDeletion(Exception):
    """The conversation was restored (or deleted anew) since: this deletion has nothing to do any more."""


# ---------------------------------------------------------------- the tombstone


def begin(runtime: Runtime, conversation: str) -> Conversation:
    """Refuse everybody from now on and start the deletion. A deleted conversation is answered as it is.

    Starting is repeated for a deleted one, because the first attempt may have crashed between tombstone and start.
    """
    found = load(runtime, conversation)
    if not found.deleted:
        found = _entomb(runtime, conversation)
    assert found.deletion is not None
    start(runtime, found.id, found.deletion)
    return found


def start(runtime: Runtime, conversation: str, deletion: str, again: str = "") -> None:
    """Start the state machine of a deletion: once, and once more for each value of ``again``."""
    name = hashlib.sha256(f"{conversation}/{deletion}{again}".encode()).hexdigest()
    start_machine(runtime, name, {"conversation": conversation, "person": "", "deletion": deletion})


def _entomb(runtime: Runtime, conversation: str) -> Conversation:
    purge_at = runtime.clock.now() + runtime.settings.grace_days * DAY_SECONDS
    try:
        entomb(runtime, conversation, purge_at, ids.random_part("del_"))
    except ConditionFailed:
        # Somebody else was faster; what they wrote is answered.
        return load(runtime, conversation)
    audit("conversation.delete", conversation=conversation)
    return load(runtime, conversation)


def entomb(runtime: Runtime, conversation: str, purge_at: float, deletion: str) -> None:
    """The tombstone of an active conversation; raises ConditionFailed when it is deleted already.

    From now on nobody can commit. A run's lease is taken from it; whoever tidies up keeps theirs, because a request to
    remove objects may be on its way: what they remove must not be written again before that has arrived.
    """
    now = runtime.clock.now()
    for attempt in reversed(range(ENTOMB_TRIES)):
        for tidying in (False, True):
            head = Update().set("status", DELETED_STATUS).set("deletion", deletion)
            head.set("deletedAt", now).set("purgeAt", purge_at)
            if not tidying:
                head.set("leaseUntil", 0).remove("lease").add("fence", 1)
            held = _tidied(runtime, held=tidying)
            meta = update(meta_key(conversation), Update().set("purgeAt", purge_at))
            try:
                runtime.table.transact([update(head_key(conversation), head, all_of(ACTIVE, held)), meta])
            except ConditionFailed:
                if tidying and not attempt:
                    raise
            else:
                return


def _tidied(runtime: Runtime, *, held: bool) -> Condition:
    """Somebody holds the lease to tidy up, or nobody does."""
    since = runtime.clock.now() - runtime.settings.skew_seconds
    text = "lease.#purpose = :tidying AND leaseUntil >= :since"
    names, values = {"#purpose": "purpose"}, {":tidying": TIDYING, ":since": since}
    return Condition(text if held else f"NOT ({text})", names, values)


def start_machine(runtime: Runtime, name: str, given: dict[str, Any]) -> None:
    """Start DeleteConversation under ``name`` (64 characters at most), once however often this is called."""
    settings = runtime.settings
    wait = settings.deletion_wait_seconds
    given = {**given, "waitSeconds": settings.longest_function_seconds if wait is None else wait, "waited": False}
    try:
        runtime.clients.stepfunctions.start_execution(
            stateMachineArn=settings.delete_state_machine, name=name, input=json.dumps(given)
        )
    except ClientError as error:
        if objects.code_of(error) != "ExecutionAlreadyExists":
            raise


# ---------------------------------------------------------------- the right to work on it


@dataclass(frozen=True)
class Hold:
    """The lease of a deleted conversation, held by one step; it stops well before the lease ends."""

    runtime: Runtime
    conversation: str
    owner: str
    until: float
    head: Item

    @property
    def over(self) -> bool:
        return self.runtime.clock.now() >= self.until

    @property
    def mine(self) -> Condition:
        """The lease is still this holder's, and the conversation still deleted."""
        return all_of(
            DELETED,
            Condition(
                "lease.#owner = :owner AND leaseUntil > :now",
                {"#owner": "owner"},
                {":owner": self.owner, ":now": self.runtime.clock.now()},
            ),
        )


@contextmanager
def holding(runtime: Runtime, conversation: str, purpose: str, deletion: str | None = None) -> Iterator[Hold]:
    """Take the lease of a deleted conversation for one slice of work.

    Raises :class:`NotThisDeletion` when it is active, gone, or deleted by another deletion than ``deletion``, and
    :class:`ConversationBusy` while somebody else works on it.
    """
    now, settings = runtime.clock.now(), runtime.settings
    owner = ids.random_part(f"{purpose}_")
    change = (
        Update()
        .set("leaseUntil", now + settings.lease_seconds)
        .set("lease", {"owner": owner, "purpose": purpose, "startedAt": now})
        .add("fence", 1)
    )
    conditions = [DELETED, not_leased(now - settings.skew_seconds)]
    if deletion is not None:
        conditions.append(Condition("deletion = :deletion", {}, {":deletion": deletion}))
    try:
        head = runtime.table.update(head_key(conversation), change, all_of(*conditions))
    except ConditionFailed:
        item = runtime.table.get(head_key(conversation))
        if item is None or item["status"] != DELETED_STATUS or deletion not in (None, item["deletion"]):
            raise NotThisDeletion(conversation) from None
        if (item.get("lease") or {}).get("owner") != owner:
            raise ConversationBusy(conversation) from None
        # Our own request, sent again by the client because its answer was lost on the way.
        head = item
    hold = Hold(runtime, conversation, owner, now + min(SLICE_SECONDS, settings.lease_seconds / 3), head)
    try:
        yield hold
    finally:
        _give_back(hold)


def _give_back(hold: Hold) -> None:
    change = Update().set("leaseUntil", 0).remove("lease")
    try:
        hold.runtime.table.update(head_key(hold.conversation), change, hold.mine)
    except ConditionFailed:
        # Given up already: a restore ends by making the conversation active.
        return


# ---------------------------------------------------------------- the steps: each answers whether more is left to do


def fence(_hold: Hold) -> bool:
    """Nothing more than holding: taking the lease bumps the fence, so no write in flight can commit."""
    return False


def stop_runs(hold: Hold) -> bool:
    """Stop the run at work, if there is one. What it changed cannot be committed any more."""
    pointer = hold.runtime.table.get(at_work_key(hold.conversation))
    if pointer is not None:
        from workbench.runs.verdict import stop_run

        stop_run(hold.runtime, pointer["run"])
    return False


def remove_workspace(hold: Hold) -> bool:
    """Delete every object of the workspace and of stored results."""
    conversation, runtime = hold.conversation, hold.runtime
    bucket = runtime.settings.workspace_bucket
    for prefix in ("conversations", "results", "tmp/runs"):
        for keys in objects.pages(runtime.clients, bucket, f"{prefix}/{conversation}/"):
            if hold.over:
                return True
            objects.delete(runtime.clients, bucket, [{"Key": key} for key in keys])
    return False


def remove_records(hold: Hold, about_to_go: Callable[[list[Item]], object] = len) -> bool:
    """Delete versions, turns, calls and everything else that is no part of what a restore brings back.

    ``about_to_go`` is called with the items before they are removed, some at a time.
    """
    table, after = hold.runtime.table, ""
    while True:
        items = table.query(f"C#{hold.conversation}", limit=QUERY_ITEMS, after=after)
        if not items:
            return False
        if hold.over:
            return True
        about_to_go(items)
        _remove(hold.runtime, items)
        after = items[-1]["SK"]


def _remove(runtime: Runtime, items: list[Item]) -> None:
    now = runtime.clock.now()
    gone: list[Key] = []
    for item in items:
        sort = item["SK"]
        if sort in _STAYING or sort.startswith(store.POINTER):
            continue
        if _is_turn(sort) and item["expiresAt"] > now:
            if "caller" in item:
                runtime.table.transact([put(stub(item))])
            continue
        if "run" in item:
            gone += [(record["PK"], record["SK"]) for record in runtime.table.query(run_key(item["run"])[0])]
        gone.append((item["PK"], sort))
    runtime.table.delete_many(gone)


def _is_turn(sort: str) -> bool:
    return sort.startswith("T#") and sort.count("#") == 1


def stub(turn: Item) -> Item:
    """What stays of a turn until its token expires, so that its holder is told what happened instead of 401."""
    return {
        "PK": turn["PK"],
        "SK": turn["SK"],
        "tokenHash": turn["tokenHash"],
        "expiresAt": turn["expiresAt"],
        "ttl": int(turn["expiresAt"]),
        "state": "cancelled",
        "reply": {"parts": []},
        "tools": {},
    }


def retire_artifacts(hold: Hold) -> bool:
    """Put the conversation's artifacts into their grace period."""
    head = hold.head
    return retention.retire_all(hold.runtime, hold.conversation, head["deletion"], head["purgeAt"], lambda: hold.over)


def settle(hold: Hold) -> bool:
    """Empty the head and note that this deletion has removed what there was. Only now may TTL take the records."""
    runtime, ttl = hold.runtime, int(hold.head["purgeAt"])
    change = Update().set("swept", hold.head["deletion"]).set("pages", PageTable().encode())
    change.set("files", 0).set("bytes", 0).set("ttl", ttl)
    records = [meta_key(hold.conversation), conversation_key(hold.conversation, PINS)]
    others = [update(key, Update().set("ttl", ttl), PRESENT) for key in runtime.table.get_many(records)]
    try:
        runtime.table.transact([update(head_key(hold.conversation), change, hold.mine), *others])
    except ConditionFailed:
        raise ConversationBusy(hold.conversation) from None
    return False
