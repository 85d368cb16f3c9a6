"""Objects whose owner is an item of the table: what no item names goes. One small entry for each kind.

Keys hold random characters or a call's id, so that a key of which nothing is known after a day is never named again, or
what is removed is the old object alone: looking and removing need no lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from workbench import ids, objects
from workbench.artifacts import store
from workbench.ids import DocumentId, TurnId
from workbench.keys import Key, call_key, collection_key, document_key
from workbench.operations import Item
from workbench.reconciling.findings import Finding, Step, Sweep, safe_before
from workbench.runtime import Runtime

RANDOM_CHARACTERS = 16


@dataclass(frozen=True)
class Kind:
    """One kind of object: where it lies, the key of the item that names it, and whether that item does.

    ``owner`` gets the parts of the key behind ``prefix``; None says that the key is none of this kind, and it stays.
    """

    name: str
    bucket: Literal["workspaces", "artifacts"]
    prefix: str
    owner: Callable[[Sequence[str]], Key | None]
    names: Callable[[Item, str], bool] = lambda _item, _key: True


def _result(parts: Sequence[str]) -> Key | None:
    turn = TurnId.parse(".".join(parts[:2]))
    return call_key(turn, parts[2]) if turn and len(parts) == 3 and ids.is_part(parts[2]) else None


def _artifact(parts: Sequence[str]) -> Key | None:
    fits = len(parts) == 2 and ids.is_part(parts[0]) and parts[1].isascii() and parts[1].isdigit()
    return store.version_key(parts[0], int(parts[1])) if fits else None


def _document(parts: Sequence[str]) -> Key | None:
    fits = len(parts) >= 3 and all(map(ids.is_part, parts[:2]))
    return document_key(DocumentId(*parts[:2])) if fits else None


def _index(parts: Sequence[str]) -> Key | None:
    return collection_key(parts[0]) if len(parts) == 2 and ids.is_part(parts[0]) else None


def _skill(parts: Sequence[str]) -> Key | None:
    """``{name}/{version}-{random}``: what is random may hold hyphens too, but has its length."""
    if len(parts) != 2 or len(parts[1]) <= RANDOM_CHARACTERS + 1:
        return None
    return f"SKILL#{parts[0]}", f"V#{parts[1][: -RANDOM_CHARACTERS - 1]}"


KINDS: tuple[Kind, ...] = (
    Kind("results", "workspaces", "results/", _result, lambda call, key: call.get("answerKey") == key),
    Kind(
        "indexes",
        "workspaces",
        "indexes/",
        _index,
        lambda collection, key: key.endswith(f"/{collection.get('generation')}.sqlite"),
    ),
    Kind(
        "skills",
        "workspaces",
        "skills/",
        _skill,
        lambda version, key: version.get("key") == key and "withdrawn" not in version,
    ),
    Kind("artifacts", "artifacts", "artifacts/", _artifact),
    Kind("documents", "artifacts", "documents/", _document),
)


def sweep_of(kind: Kind) -> Sweep:
    """The sweep over one kind: one listing and one or more batch reads for 1,000 objects."""

    def sweep(runtime: Runtime, after: str) -> Iterator[Step]:
        bucket, safe = bucket_of(runtime, kind), safe_before(runtime)
        for page in objects.listed(runtime.clients, bucket, kind.prefix, after):
            owners = {
                entry.key: owner
                for entry in page
                if entry.modified < safe and (owner := kind.owner(entry.key.removeprefix(kind.prefix).split("/")))
            }
            items = runtime.table.get_many(list(dict.fromkeys(owners.values())))
            orphans = [
                key for key, owner in owners.items() if not ((item := items.get(owner)) and kind.names(item, key))
            ]
            yield Step(page[-1].key, _findings(runtime, kind, orphans))

    return sweep


def bucket_of(runtime: Runtime, kind: Kind) -> str:
    settings = runtime.settings
    return settings.workspace_bucket if kind.bucket == "workspaces" else settings.artifact_bucket


def _findings(runtime: Runtime, kind: Kind, orphans: Sequence[str]) -> list[Finding]:
    if not orphans:
        return []
    if kind.bucket == "workspaces":
        return [Finding(kind.name, orphans[0], partial(_remove, runtime, kind, orphans), len(orphans))]
    return [Finding(kind.name, key, partial(_remove_for_good, runtime, kind, key)) for key in orphans]


def _remove(runtime: Runtime, kind: Kind, keys: Sequence[str]) -> None:
    objects.delete(runtime.clients, bucket_of(runtime, kind), [{"Key": key} for key in keys])


def _remove_for_good(runtime: Runtime, kind: Kind, key: str) -> None:
    """By version id: a plain delete of a versioned bucket only hides.

    An artifact's numbers are not random: since the look, S3 may have removed the orphan and an export stored its own
    bytes under the key. Those are young, and stay.
    """
    bucket, safe = bucket_of(runtime, kind), safe_before(runtime)
    stored, markers = objects.versions(runtime.clients, bucket, key)
    mine = [
        {"Key": key, "VersionId": entry["VersionId"]}
        for entry in [*stored, *markers]
        if entry["Key"] == key and entry["LastModified"].timestamp() < safe
    ]
    objects.delete(runtime.clients, bucket, mine)
