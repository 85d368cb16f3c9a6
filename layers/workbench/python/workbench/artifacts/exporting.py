"""Making an artifact, or another version of one, out of a workspace file or a given text.

The bytes are stored first, under a number that nobody else has; the items follow in the call's one transaction, which
also counts up the turn's record, so that finishing the turn can neither miss the file nor attach half of it.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.artifacts import access, billing, items, model, store
from workbench.artifacts.items import Stored
from workbench.artifacts.model import Artifact, Kind, Origin
from workbench.conversations.conversation import DAY_SECONDS
from workbench.conversations.people import not_erasing
from workbench.conversations.turns import STILL_OPEN
from workbench.errors import ToolError
from workbench.ids import is_part
from workbench.keys import artifact_key, head_key, turn_key
from workbench.operations import ABSENT, ACTIVE, PRESENT, Condition, Item, Operation, Update, all_of, check, put, update

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

# Finishing attaches all exports of a turn in one transaction, which takes 100 writes: two for each and a few more.
EXPORTS_PER_TURN = 48
VERSIONS_PER_ARTIFACT = 500


@dataclass(frozen=True)
class Export:
    """A file as the caller wants it delivered, checked and with its bytes."""

    origin: Origin
    name: str
    media_type: str
    data: bytes
    wanted_kind: Kind | None
    path: str | None = None

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Exported:
    """What came of it; ``repeated`` when the turn had exported the very same before."""

    artifact: str
    version: int
    bytes: int
    name: str
    repeated: bool


def export(turn: Turn, wanted: Export, artifact: str | None) -> Exported:
    """Store ``wanted`` as a new artifact, or as the next version of ``artifact``.

    The same origin, name, type and content twice in a turn gives the first one again. Raises ToolError: ``not_found``
    and ``not_allowed`` for an artifact that the caller may not read or change, ``limit_exceeded``.
    """
    before = _exported_before(turn, wanted, artifact)
    if before is not None:
        return Exported(before["artifact"], before["version"], before["bytes"], before["name"], repeated=True)
    _check_limit(turn)
    old = _changeable(turn, artifact) if artifact else None
    kind = _kind(wanted, old)
    identifier = old.id if old else store.new_id()
    first_free = old.highest + 1 if old else 1
    number = store.put_bytes(turn.runtime, identifier, first_free, wanted.data, wanted.media_type)
    for operation in _operations(turn, wanted, kind, old, identifier, number):
        turn.also_commit(operation)
    return Exported(identifier, number, len(wanted.data), wanted.name, repeated=False)


def _exported_before(turn: Turn, wanted: Export, artifact: str | None) -> dict[str, Any] | None:
    same = [
        entry
        for entry in turn.item["exports"].values()
        if (entry["origin"], entry["name"], entry["mediaType"], entry["sha256"])
        == (wanted.origin, wanted.name, wanted.media_type, wanted.sha256)
        and artifact in (None, entry["artifact"])
    ]
    return min(same, key=lambda entry: (entry["at"], entry["version"]), default=None)


def _check_limit(turn: Turn) -> None:
    if turn.item["exportCount"] >= EXPORTS_PER_TURN:
        raise ToolError(
            f"This turn has exported {EXPORTS_PER_TURN} files, which is all that one reply carries. Nothing was "
            "exported. Put further files into one archive, or export them in the next turn.",
            code="limit_exceeded",
            allowed=EXPORTS_PER_TURN,
        )


def _changeable(turn: Turn, artifact: str) -> Artifact:
    viewer = access.Viewer(turn.caller.user, turn.caller.department)
    found = store.find(turn.runtime, artifact)
    if found is None or not access.may_read(found, viewer):
        raise unknown(artifact)
    if not access.may_change(found, viewer):
        raise ToolError(
            f"`{found.id}` may be read here but belongs to somebody else, who alone may add versions. "
            "Leave `artifact` out to export a new one.",
            code="not_allowed",
            artifact=found.id,
        )
    if found.origin == model.UPLOAD:
        # It has no conversation: a version would outlive the one whose reply carries it, and go with the document.
        raise ToolError(
            f"`{found.id}` is a file that a person uploaded, and stays as it was uploaded. Leave `artifact` out to "
            "export a new one.",
            code="not_allowed",
            artifact=found.id,
        )
    if found.highest >= VERSIONS_PER_ARTIFACT:
        raise ToolError(
            f"`{found.id}` has {VERSIONS_PER_ARTIFACT} versions, which is the most. Leave `artifact` out to export a "
            "new one.",
            code="limit_exceeded",
            allowed=VERSIONS_PER_ARTIFACT,
        )
    return found


def unknown(artifact: str) -> ToolError:
    """The same refusal for an artifact that does not exist and for one that the caller may not see."""
    named = f"`{artifact}`" if is_part(artifact) else "of that id"
    return ToolError(
        f"There is no artifact {named} that this turn may use. Take an id that an earlier export or a list "
        "of artifacts gave.",
        code="not_found",
    )


def _kind(wanted: Export, old: Artifact | None) -> Kind:
    """As asked; otherwise as the artifact was, when the bytes still are of that kind; otherwise as the type implies."""
    if wanted.wanted_kind is None and old is not None and model.fits(old.kind, wanted.data):
        return old.kind
    return model.kind_for(wanted.wanted_kind, wanted.media_type, wanted.data)


def _operations(
    turn: Turn, wanted: Export, kind: Kind, old: Artifact | None, identifier: str, number: int
) -> list[Operation]:
    now = turn.clock.now()
    expires = now + turn.settings.unattached_days * DAY_SECONDS
    facts: dict[str, Any] = {"kind": kind, "name": wanted.name, "mediaType": wanted.media_type, "origin": wanted.origin}
    facts["source"] = _source(turn, wanted, identifier, number) if model.has_source(kind) else None
    caller, size = turn.caller, len(wanted.data)
    stored = Stored(
        artifact=identifier,
        number=number,
        name=wanted.name,
        media_type=wanted.media_type,
        bytes=size,
        sha256=wanted.sha256,
        at=now,
        owner=caller.user,
        department=caller.department,
        turn=str(turn.id),
        expires=expires,
    )
    operations = [check(head_key(turn.conversation), ACTIVE), not_erasing(caller.user)]
    operations.append(billing.change(caller.department, caller.user, size, now))
    operations.append(put(items.version_item(stored), ABSENT))
    if old is None:
        operations += [put(item, ABSENT) for item in _new_items(turn, facts, stored)]
    else:
        operations += _changed(turn, facts, old, number, expires)
    entry = {**facts, "artifact": identifier, "version": number, "sha256": wanted.sha256, "at": now}
    entry |= {"bytes": size}
    operations.append(_on_the_record(turn, entry, old))
    return operations


def _new_items(turn: Turn, facts: dict[str, Any], stored: Stored) -> list[Item]:
    meta = items.meta_item(
        stored, kind=facts["kind"], origin=facts["origin"], source=facts["source"], conversation=turn.conversation
    )
    pointer = store.pointer(turn.conversation, stored.artifact, stored.turn, stored.at)
    return [meta, {**pointer, "ttl": meta["ttl"]}]


def _changed(turn: Turn, facts: dict[str, Any], old: Artifact, number: int, expires: float) -> list[Operation]:
    change = Update().set("highest", number)
    for name, value in facts.items():
        change.set(name, value)
    if not old.kept_through:
        change.set("ttl", int(expires + billing.LATE_SECONDS))
    # Whoever added a later version meanwhile stays the latest; whoever attached it has taken its expiry away.
    newer = Condition("highest < :number AND keptThrough = :kept", {}, {":number": number, ":kept": old.kept_through})
    home = str(old.conversation)
    # It lasts longer from now on than its pointer was made to. Without an expiry, because somebody may be attaching an
    # earlier version at this moment: a pointer that stays too long is cleared away, one that goes loses the artifact.
    pointer = put(store.pointer(home, old.id, old.turn, old.created_at))
    operations = [update(artifact_key(old.id), change, all_of(PRESENT, newer)), pointer]
    if home != turn.conversation:
        operations.append(check(head_key(home), ACTIVE))
    return operations


def _on_the_record(turn: Turn, entry: dict[str, Any], old: Artifact | None) -> Operation:
    """The turn's record learns of the export; two equal ones at once have the same place in it, and one must wait."""
    identity = [entry["origin"], entry["name"], entry["mediaType"], entry["sha256"], old.id if old else ""]
    place = hashlib.sha256("\0".join(identity).encode()).hexdigest()[:32]
    kept = {name: value for name, value in entry.items() if name not in ("source", "kind")}
    change = Update().set(("exports", place), kept).add("exportCount", 1)
    # The export fits the turn as it was read: it is open, and the same file was not exported meanwhile.
    first = Condition("attribute_not_exists(exports.#place)", {"#place": place})
    return update(turn_key(turn.id), change, all_of(STILL_OPEN, first))


def _source(turn: Turn, wanted: Export, identifier: str, number: int) -> dict[str, Any]:
    """Where the text that people edit is, and where it was made."""
    source = model.source_of(identifier, number)
    if wanted.path is not None:
        source |= {"path": wanted.path, "workspaceVersion": turn.head.version}
    return source
