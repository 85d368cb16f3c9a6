"""Which generation of a collection's index holds, and who may make the next: attributes of the collection's META item.

``generation`` names the file that readers open. ``fence`` counts writers, and ``leaseUntil`` (Unix seconds, 0 is free)
keeps them apart; a writer publishes on condition that fence and lease are still its own, so one that was too slow
changes nothing. A generation's name holds its writer's fence and random characters, and is never used twice.
``incomplete`` is there while documents may be missing from it: its file was lost, and is being filled again.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.clock import iso
from workbench.errors import Conflict, NotFound
from workbench.ids import random_part
from workbench.keys import collection_key
from workbench.operations import PRESENT, Condition, Item, Update, all_of
from workbench.runtime import Runtime
from workbench.table import ConditionFailed

# Longer than a function that answers a request may live; whatever builds longer is caught by the fence.
LEASE_SECONDS = 35.0
# Whoever waits has a request open, and a build of its own ahead.
WAIT_SECONDS = 12.0


class Overtaken(Exception):
    """Another writer took over, or the collection is gone; what was built must not be published."""


@dataclass(frozen=True, slots=True)
class Lease:
    """The right to make the next generation. ``generation`` is the one that holds, None when there is no index yet;
    ``incomplete`` when documents may be missing from it.
    """

    collection: str
    fence: int
    owner: str
    generation: str | None
    incomplete: bool

    def next_generation(self) -> str:
        return random_part(f"{self.fence:010d}-", 48)


@dataclass(frozen=True, slots=True)
class Pointer:
    """Which generation holds; ``incomplete`` when documents may be missing from it."""

    generation: str
    incomplete: bool

    @classmethod
    def of(cls, meta: Item) -> Pointer | None:
        """What a collection's META item says; None when there is no index."""
        generation = meta.get("generation")
        return cls(generation, "incomplete" in meta) if generation else None


def current(runtime: Runtime, collections: Iterable[str]) -> dict[str, Pointer]:
    """Collection -> pointer, for those that have an index. One request for up to 100."""
    names = list(dict.fromkeys(collections))
    items = runtime.table.get_many([collection_key(name) for name in names]) if names else {}
    found = {name: Pointer.of(items.get(collection_key(name), {})) for name in names}
    return {name: pointer for name, pointer in found.items() if pointer}


def is_free_of_others(runtime: Runtime, collection: str, serial: str) -> bool:
    """False when another collection has this id by now than the one with ``serial``. One request.

    Whoever removes the one asks after a listing: what a later one has is not in the list then.
    """
    meta = runtime.table.get(collection_key(collection))
    return meta is None or meta.get("serial") == serial


def acquire(runtime: Runtime, collection: str) -> Lease:
    """Become the collection's writer, after the one at work.

    Raises NotFound without such a collection, and Conflict when others are still at work after ``WAIT_SECONDS``.
    """
    clock = runtime.clock
    until = clock.monotonic() + WAIT_SECONDS
    while True:
        now = clock.now()
        lease = {"owner": random_part("", 48), "startedAt": now}
        # Never there before a collection's first index: whoever makes the collection need not know of it.
        free = Condition("attribute_not_exists(leaseUntil) OR leaseUntil < :free", {}, {":free": now - _skew(runtime)})
        change = Update().set("leaseUntil", now + LEASE_SECONDS).set("lease", lease).add("fence", 1)
        try:
            item = runtime.table.update(collection_key(collection), change, all_of(PRESENT, free))
        except ConditionFailed:
            found = runtime.table.get(collection_key(collection))
            if found is None:
                raise NotFound("There is no such collection.") from None
            item = found
        # Ours also when our own request, whose answer was lost on the way, was sent again by the client.
        if item.get("lease") == lease:
            return Lease(
                collection, item["fence"], item["lease"]["owner"], item.get("generation"), "incomplete" in item
            )
        if clock.monotonic() >= until:
            since = iso(item.get("lease", lease)["startedAt"])
            raise Conflict(
                f"Another document of this collection is being indexed since {since}. Nothing was changed. Send the "
                "request again in a few seconds.",
                collection=collection,
                retryAfterSeconds=5,
            )
        clock.sleep(random.uniform(0.1, 0.4))  # noqa: S311


def publish(runtime: Runtime, lease: Lease, generation: str, *, incomplete: bool = False) -> None:
    """Let ``generation`` hold from now on, and let the next writer in. Raises Overtaken."""
    change = Update().set("leaseUntil", 0).set("generation", generation)
    if incomplete:
        change.set("incomplete", True)
    elif lease.incomplete:
        change.remove("incomplete")
    try:
        _as_writer(runtime, lease, change)
    except Overtaken:
        # The first of two sendings may have worked, and the next writer have come in before the second.
        held = current(runtime, [lease.collection]).get(lease.collection)
        if held is None or held.generation != generation:
            raise


def release(runtime: Runtime, lease: Lease) -> None:
    """Let the next writer in; harmless when another is in already."""
    try:
        _as_writer(runtime, lease, Update().set("leaseUntil", 0))
    except Overtaken:
        return


def _as_writer(runtime: Runtime, lease: Lease, change: Update) -> None:
    # Fences begin anew with a collection that is made again under the id of a removed one; owners are random.
    mine = Condition(
        "fence = :mine AND lease.#owner = :owner", {"#owner": "owner"}, {":mine": lease.fence, ":owner": lease.owner}
    )
    try:
        runtime.table.update(collection_key(lease.collection), change, all_of(PRESENT, mine))
    except ConditionFailed:
        raise Overtaken from None


def _skew(runtime: Runtime) -> float:
    return runtime.settings.skew_seconds
