"""Erasing a person: a fence first, then two passes over everything that is theirs, with a wait between them.

The first pass removes contents and leaves what finds them again (conversation heads, turn records, in the index under
the person's name); the second, past the index's lag and the longest function, removes those too. Every part may be
repeated. What belongs to others stays: their conversations' files, and artifacts that no turn of the person touched.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench import ids, objects
from workbench.artifacts import retention, store
from workbench.conversations import deletion
from workbench.conversations.conversation import DELETED, DELETED_STATUS
from workbench.conversations.deletion import Hold, NotThisDeletion, holding
from workbench.conversations.people import NOT_ERASING, person_key
from workbench.errors import NotFound
from workbench.ids import RUN_PREFIX, CallId, TurnId
from workbench.keys import Key, head_key, meta_key, run_key, turn_key
from workbench.logs import PORTAL, audit
from workbench.operations import PRESENT, Condition, Item, Update, update
from workbench.runs.items import at_work_key
from workbench.runs.verdict import stop_run
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

COUNTED = ("artifacts", "documents", "workspaces", "results")
RUNNING, DONE = "running", "done"
# How long the answer to an erasure can be asked for again.
KEPT_SECONDS = 24 * 3600


# ---------------------------------------------------------------- beginning


def begin(runtime: Runtime, user: str) -> Item:
    """Fence the person's records and start the erasure; the record of one that is at work is answered as it is."""
    record = runtime.table.get(person_key(user))
    if record is None or "erasing" not in record:
        pk, sk = person_key(user)
        fresh: Item = {"PK": pk, "SK": sk, "erasing": ids.random_part("era_"), "status": RUNNING}
        # In the index as long as it is not done, so that one whose workflow failed is found and begun again.
        fresh |= {"gsi1pk": pk, "gsi1sk": sk}
        fresh |= {"at": runtime.clock.now(), **dict.fromkeys(COUNTED, 0)}
        try:
            runtime.table.put(fresh, NOT_ERASING)
        except ConditionFailed:
            return begin(runtime, user)
        record = fresh
        # Who asked may be the person: the event names nobody.
        audit("person.erase", by=PORTAL, erasure=record["erasing"])
    start(runtime, user, record["erasing"])
    return record


def start(runtime: Runtime, user: str, erasure: str, again: str = "") -> None:
    """Start the state machine of an erasure: once, and once more for each value of ``again``."""
    name = hashlib.sha256(f"{erasure}{again}".encode()).hexdigest()
    deletion.start_machine(runtime, name, {"conversation": "", "person": user, "deletion": erasure})


def read(runtime: Runtime, user: str) -> Item:
    """The record of the latest erasure; NotFound when there is none, or none any more."""
    record = runtime.table.get(person_key(user))
    if record is None or "status" not in record:
        raise NotFound("Nothing of this person was erased lately.")
    return record


def as_dict(user: str, record: Item) -> dict[str, Any]:
    return {
        "user": user,
        "status": record["status"],
        "counts": {name: record[name] for name in COUNTED},
        "remains": "A department's usage keeps who stored how much. Backups of the table keep what was deleted for "
        "up to 35 days; logs hold ids and sizes but no contents, for as long as this deployment keeps logs.",
    }


# ---------------------------------------------------------------- the steps


class ErasureOver(Exception):
    """Another execution of the same erasure came to its end first."""


@dataclass(frozen=True)
class Pass:
    """One slice of work of one pass over a person's things."""

    runtime: Runtime
    user: str
    erasure: str
    last: bool
    until: float

    @property
    def over(self) -> bool:
        return self.runtime.clock.now() >= self.until

    def count(self, what: str, number: int) -> None:
        if number:
            self.note(Update().add(what, number))

    def note(self, change: Update) -> Item:
        """Change the record as long as it is that of this erasure; raises ErasureOver."""
        mine = Condition("erasing = :erasing", {}, {":erasing": self.erasure})
        try:
            return self.runtime.table.update(person_key(self.user), change, mine)
        except ConditionFailed:
            raise ErasureOver(self.erasure) from None

    def keys(self, partition: str, sort: Callable[[str], bool]) -> list[Key]:
        """Keys of the person's items, by the index."""
        found = self.runtime.table.query(f"P#{self.user}", index="gsi1")
        return [(item["PK"], item["SK"]) for item in found if item["PK"].startswith(partition) and sort(item["SK"])]


def do_step(runtime: Runtime, user: str, erasure: str, step: str, last: bool) -> str:
    """``again``, ``on``, or ``gone`` when the erasure is done already."""
    record = runtime.table.get(person_key(user))
    if record is None or record.get("erasing") != erasure:
        return "gone"
    work = STEPS.get(step)
    if work is None:
        return "on"
    until = runtime.clock.now() + deletion.SLICE_SECONDS
    try:
        return "again" if work(Pass(runtime, user, erasure, last, until)) else "on"
    except ErasureOver:
        return "gone"


def erase_conversations(now: Pass) -> bool:
    """The conversations that the person owns: workspace, records and artifacts, without grace."""
    for pk, _sort in now.keys("C#", lambda sort: sort == "META"):
        if now.over or _erase_conversation(now, pk.removeprefix("C#")):
            return True
    return False


def _erase_conversation(now: Pass, conversation: str) -> bool:
    runtime, table = now.runtime, now.runtime.table
    found = table.get_many([meta_key(conversation), head_key(conversation)])
    meta, head = found.get(meta_key(conversation)), found.get(head_key(conversation))
    # The index lags: the id may have gone, or gone to somebody else.
    if meta is None or head is None or meta["owner"] != now.user or ("erased" in head and not now.last):
        return False
    _entomb(runtime, conversation, head)
    try:
        with holding(runtime, conversation, "erasure") as hold:
            deletion.stop_runs(hold)
            if deletion.remove_workspace(hold):
                return True
            own = set(store.pointed_at(store.pointers(runtime, conversation)))
            if deletion.remove_records(hold, partial(_erase_what_turns_made, now, conversation, own)):
                return True
            for purged in retention.purge_all(runtime, conversation, lambda: hold.over):
                now.count("artifacts", int(purged))
            if hold.over:
                return True
            if now.last:
                _remove_rest(hold)
            else:
                now.count("workspaces", 1)
                table.update(head_key(conversation), Update().set("erased", now.erasure), hold.mine)
    except NotThisDeletion:
        return True
    return False


def _erase_what_turns_made(now: Pass, conversation: str, own: set[str], items: list[Item]) -> None:
    """Count the results among items that are about to go, and remove what the turns among them made elsewhere: versions
    of artifacts that are not the conversation's ``own``."""
    now.count("results", _results(items))
    for item in items:
        turn = TurnId(conversation, item["SK"].removeprefix("T#"))
        for export in item.get("exports", {}).values():
            if export["artifact"] not in own:
                _erase_export(now, turn, export["artifact"])


def _erase_export(now: Pass, turn: TurnId, artifact: str) -> None:
    if retention.purge(now.runtime, artifact, of_turn=str(turn)):
        now.count("artifacts", 1)


def _entomb(runtime: Runtime, conversation: str, head: Item) -> None:
    """A tombstone whose grace is over: it is refused, and found by nobody who would restore it."""
    at = runtime.clock.now()
    if head["status"] != DELETED_STATUS:
        # Somebody may have deleted it since it was looked at.
        with suppress(ConditionFailed):
            deletion.entomb(runtime, conversation, at, ids.random_part("del_"))
            return
    change = Update().set("purgeAt", at).set("deletedAt", at).add("fence", 1)
    runtime.table.transact(
        [
            update(head_key(conversation), change, DELETED),
            update(meta_key(conversation), Update().set("purgeAt", at), PRESENT),
        ]
    )


def _remove_rest(hold: Hold) -> None:
    table, partition = hold.runtime.table, f"C#{hold.conversation}"
    heads = {meta_key(hold.conversation), head_key(hold.conversation)}
    rest = [key for item in table.query(partition) if (key := (item["PK"], item["SK"])) not in heads]
    table.delete_many(rest)
    # Last what finds the conversation again, should this end half-way.
    table.delete_many([head_key(hold.conversation), meta_key(hold.conversation)])


def erase_turns(now: Pass) -> bool:
    """The person's turns in conversations of others: results, records, and the artifacts that they made."""
    for pk, sort in now.keys("C#", lambda sort: sort.startswith("T#")):
        if now.over:
            return True
        _erase_turn(now, TurnId(pk.removeprefix("C#"), sort.removeprefix("T#")))
    return False


def _erase_turn(now: Pass, turn: TurnId) -> None:
    runtime, table = now.runtime, now.runtime.table
    record = table.get(turn_key(turn))
    if record is None or ("caller" not in record and not now.last):
        return
    _stop_run_of(runtime, turn)
    for export in record.get("exports", {}).values():
        _erase_export(now, turn, export["artifact"])
    _remove_prefix(runtime, f"results/{turn.conversation}/{turn.part}/")
    pk, sort = turn_key(turn)
    under_it = table.query(pk, f"{sort}#")
    asked = [item for item in table.query(pk, "APPR#") if item.get("turn") == str(turn)]
    runs = [part for item in under_it if "run" in item for part in table.query(run_key(item["run"])[0])]
    now.count("results", _results(under_it))
    table.delete_many((item["PK"], item["SK"]) for item in [*under_it, *asked, *runs])
    if not now.last:
        # The index must find it once more.
        stub = deletion.stub(record) | {"gsi1pk": record["gsi1pk"], "gsi1sk": record["gsi1sk"]}
        table.put(stub)
    elif record["expiresAt"] > runtime.clock.now():
        table.put(deletion.stub(record))
    else:
        table.delete_many([(pk, sort)])


def _stop_run_of(runtime: Runtime, turn: TurnId) -> None:
    work = runtime.table.get(at_work_key(turn.conversation))
    call = CallId.parse(work["run"], RUN_PREFIX) if work else None
    if work is not None and call is not None and call.turn == turn:
        stop_run(runtime, work["run"])


def erase_uploads(now: Pass) -> bool:
    """The collections that the person owns, with their documents; then everything else that is stored of theirs."""
    # Only this step needs what reads and writes indexes.
    from workbench.knowledge import erasing

    def count(documents: int, artifacts: int) -> None:
        now.count("documents", documents)
        now.count("artifacts", artifacts)

    indexed = [pk.removeprefix("COL#") for pk, _sort in now.keys("COL#", lambda sort: sort == "META")]
    unfinished = erasing.erase(now.runtime, now.user, indexed, count, lambda: now.over, last=now.last)
    return unfinished or erase_artifacts(now)


def erase_artifacts(now: Pass) -> bool:
    """What the person owns wherever it was made, uploads among it, and the approvals that they gave for good."""
    for pk, _sort in now.keys("A#", lambda sort: sort == "META"):
        if now.over:
            return True
        if retention.purge(now.runtime, pk.removeprefix("A#")):
            now.count("artifacts", 1)
    table = now.runtime.table
    table.delete_many((item["PK"], item["SK"]) for item in table.query(person_key(now.user)[0], "GRANT#"))
    return False


def settle(now: Pass) -> bool:
    """Open the person's records again and keep the counts for a day."""
    change = Update().set("status", DONE).remove("erasing").set("ttl", int(now.runtime.clock.now() + KEPT_SECONDS))
    change.remove("gsi1pk").remove("gsi1sk")
    record = now.note(change)
    audit("person.erased", erasure=now.erasure, **{name: record[name] for name in COUNTED})
    return False


STEPS: dict[str, Callable[[Pass], bool]] = {
    "remove_workspace": erase_conversations,
    "remove_records": erase_turns,
    "retire_artifacts": erase_uploads,
    "settle": settle,
}


def _results(items: list[Item]) -> int:
    return sum("#CALL#" in item["SK"] for item in items)


def _remove_prefix(runtime: Runtime, prefix: str) -> None:
    bucket = runtime.settings.workspace_bucket
    for keys in objects.pages(runtime.clients, bucket, prefix):
        objects.delete(runtime.clients, bucket, [{"Key": key} for key in keys])
