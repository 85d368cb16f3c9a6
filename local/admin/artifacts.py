"""Artifacts in every state: lists of a person or a conversation, and one with what the bucket holds of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.table import Table

from local.admin import show
from local.admin.client import Deployment, part

COLUMNS = (
    ("Artifact", "left"),
    ("Name", "left"),
    ("Kind", "left"),
    ("Owner", "left"),
    ("Versions", "right"),
    ("Bytes", "right"),
    ("State", "left"),
    ("Until", "left"),
)
STORED = (
    ("Version", "right"),
    ("Bytes", "right"),
    ("Made", "left"),
    ("Life", "left"),
    ("Stored", "right"),
    ("Delete marker", "left"),
    ("SHA-256", "left"),
)


def list_them(deployment: Deployment, person: str | None, conversation: str | None, *, json: bool) -> int:
    """All artifacts of a person or of a conversation, expired and deleted ones until nothing is left of them."""
    found: list[dict[str, Any]] = []
    with show.progress() as progress:
        task = progress.add_task("Listing artifacts", total=None)
        asked = deployment.pages("/v1/artifacts", "artifacts", person=person, conversation=conversation, state="all")
        for page in asked:
            found += page
            progress.update(task, completed=len(found))
    if json:
        show.as_json({"artifacts": found})
    elif not found:
        show.say(show.plain(f"There are no artifacts of {person or conversation}."))
    else:
        show.say(as_table(found))
    return 0


def show_one(deployment: Deployment, artifact: str, *, json: bool) -> int:
    """One artifact with its versions, and of each what is stored and whether a delete marker hides it."""
    found = deployment.get(f"/v1/artifacts/{part(artifact)}", state="all")["artifact"]
    if json:
        show.as_json({"artifact": found})
        return 0
    show.say(
        show.facts(
            [
                ("Artifact", found["id"]),
                ("Name", found["name"]),
                ("Kind", f"{found['kind']}, {found['mediaType']}"),
                ("Origin", found["origin"]),
                ("Owner", f"{found['owner']}, {found['department']}"),
                ("Shared with", _sharing(found["sharing"])),
                ("Conversation", found["conversation"] or "none"),
                ("State", f"{_state(found)} {_until(found)}".strip()),
            ]
        )
    )
    show.say()
    show.say(show.table(STORED, _versions(found)))
    return 0


def as_table(found: Sequence[dict[str, Any]]) -> Table:
    """One line for each artifact."""
    total = show.size(sum(map(_bytes, found)))
    return show.table(COLUMNS, map(_row, found), [f"{len(found)} in all", "", "", "", "", total])


def _row(one: dict[str, Any]) -> list[show.Cell]:
    return [
        one["id"],
        one["name"],
        one["kind"],
        one["owner"],
        str(len(one["versions"])),
        show.size(_bytes(one)),
        _state(one),
        _until(one),
    ]


def _versions(found: dict[str, Any]) -> list[list[show.Cell]]:
    alive = {version["version"]: version for version in found["versions"]}
    stored = {entry["version"]: entry for entry in found["stored"]}
    rows: list[list[show.Cell]] = []
    for number in sorted(alive.keys() | stored.keys()):
        version, entry = alive.get(number), stored.get(number)
        rows.append(
            [
                str(number),
                show.size(version["bytes"]) if version else "",
                show.when(version["at"]) if version else "",
                _life(found, version),
                show.size(entry["bytes"]) if entry else "nothing",
                show.when(entry["deletedAt"]) if entry else "",
                version["sha256"][:16] if version else "",
            ]
        )
    return rows


def _life(found: dict[str, Any], version: dict[str, Any] | None) -> str:
    if version is None:
        return "expired"
    return _kept(found) if version["expiresAt"] is None else f"until {show.when(version['expiresAt'])}"


def _state(one: dict[str, Any]) -> str:
    return _kept(one) if one["state"] == "attached" else str(one["state"])


def _kept(one: dict[str, Any]) -> str:
    """What keeps it for good: a reply that it is attached to, or being somebody's document, which no reply carries."""
    return "document" if one["origin"] == "upload" else "attached"


def _until(one: dict[str, Any]) -> str:
    return show.when(one.get("purgeAt") if one["state"] == "deleted" else one["expiresAt"])


def _bytes(one: dict[str, Any]) -> int:
    return sum(version["bytes"] for version in one["versions"])


def _sharing(sharing: dict[str, Any]) -> str:
    if sharing["everyone"]:
        return "everyone"
    return ", ".join([*sharing["people"], *(f"department {name}" for name in sharing["departments"])]) or "nobody"
