"""Records as the index lists them: conversations and persons whose deletion stalled, runs that are lost, artifacts.

The index holds the keys of whatever belongs to somebody and nothing else, so that going through all of it costs a
fraction of what going through the table would; what is found is then read by its key.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import partial

from workbench.conversations import deletion, erasure
from workbench.conversations.conversation import DELETED_STATUS
from workbench.conversations.people import person_key
from workbench.keys import Key, head_key, meta_key, run_key
from workbench.operations import Item
from workbench.reconciling import artifacts, collections, orphans, runs
from workbench.reconciling.findings import Finding, Step, guarded, stalled_before, today
from workbench.runs.items import at_work_key
from workbench.runtime import Runtime

PAGE_KEYS = 200


def sweep(runtime: Runtime, after: str) -> Iterator[Step]:
    """Everything in gsi1; a cursor is the index's own, as JSON."""
    following: Item | None = json.loads(after) if after else {}
    while following is not None:
        keys, following = runtime.table.index_page("gsi1", PAGE_KEYS, following or None)
        found = [
            *conversations(runtime, keys),
            *artifacts.look(runtime, _ids(keys, "A#", "META")),
            *people(runtime, keys),
            *guarded("collections", partial(collections.look, runtime, _ids(keys, "COL#", "META"))),
        ]
        yield Step(json.dumps(following), found)


def _ids(keys: Sequence[Item], partition: str, *sorts: str) -> list[str]:
    """The ids behind ``partition`` of those keys whose sort key begins with one of ``sorts``, each once."""
    found = (
        key["PK"].removeprefix(partition)
        for key in keys
        if key["PK"].startswith(partition) and key["SK"].startswith(sorts)
    )
    return list(dict.fromkeys(found))


# ---------------------------------------------------------------- conversations


def conversations(runtime: Runtime, keys: Sequence[Item]) -> Iterator[Finding]:
    """Deletions that stalled, places of runs that are over, records without a conversation."""
    names = _ids(keys, "C#", "META", "T#")
    wanted = [key for name in names for key in (meta_key(name), head_key(name), at_work_key(name))]
    found = runtime.table.get_many(wanted)
    places = {name: found[at_work_key(name)] for name in names if at_work_key(name) in found}
    records = runtime.table.get_many([run_key(place["run"]) for place in places.values()])
    for name in names:
        place = places.get(name)
        record = records.get(run_key(place["run"])) if place else None
        yield from guarded(name, partial(_of_conversation, runtime, name, found, place, record))


def _of_conversation(
    runtime: Runtime, name: str, found: dict[Key, Item], place: Item | None, record: Item | None
) -> Iterator[Finding]:
    meta, head = found.get(meta_key(name)), found.get(head_key(name))
    if head is None:
        if meta is None:
            yield orphans.adopt(runtime, name)
        elif "purgeAt" not in meta and meta["createdAt"] < stalled_before(runtime):
            # TTL takes both of a deleted one, one a little before the other. Otherwise both are there.
            yield Finding("damaged_conversations", name, None)
    elif not _is_active(head):
        if head.get("swept") != head["deletion"] and head.get("deletedAt", 0) < stalled_before(runtime):
            again = partial(deletion.start, runtime, name, head["deletion"], today(runtime))
            yield Finding("stalled_deletions", name, again)
    elif meta is None and head["version"]:
        yield Finding("damaged_conversations", name, None)
    elif place is not None:
        wrong = runs.of_place(runtime, name, place, record)
        if wrong is not None:
            yield wrong


def _is_active(head: Item | None) -> bool:
    return head is not None and head["status"] != DELETED_STATUS


# ---------------------------------------------------------------- people


def people(runtime: Runtime, keys: Sequence[Item]) -> Iterator[Finding]:
    """Erasures that stalled. They are in the index only as long as they are at work."""
    for user in _ids(keys, "P#", "PERSON"):
        record = runtime.table.get(person_key(user))
        if record is not None and "erasing" in record and record["at"] < stalled_before(runtime):
            again = partial(erasure.start, runtime, user, record["erasing"], today(runtime))
            # The log names the erasure, not the person.
            yield Finding("stalled_erasures", record["erasing"], again)
