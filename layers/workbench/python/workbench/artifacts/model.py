"""Artifacts as data: kinds, media types, names, versions, sharing, and what the API says of one. No AWS here.

An artifact is a durable, versioned file delivered to people. Each version has bytes and a life of its own: until a
reply carries it, it expires; once attached it lives as long as its conversation.
"""

from __future__ import annotations

import json
import mimetypes
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from workbench.clock import iso
from workbench.errors import ToolError
from workbench.operations import Item

Kind = Literal["document", "chart", "web", "text", "file"]
Origin = Literal["sandbox_export", "model_output", "tool_output", "upload"]

SANDBOX_EXPORT: Origin = "sandbox_export"
MODEL_OUTPUT: Origin = "model_output"
TOOL_OUTPUT: Origin = "tool_output"
UPLOAD: Origin = "upload"
# Captures and uploads are never attached to a reply.
ATTACHED_ORIGINS = frozenset({SANDBOX_EXPORT, MODEL_OUTPUT})

CONTENT_TYPES = {"text/plain": ".txt", "text/markdown": ".md", "text/csv": ".csv", "application/json": ".json"}
CONTENT_BYTES = 1024 * 1024
NAME_BYTES = 255
EXTENSIONS: dict[str, str] = {"document": ".md", "chart": ".json", "web": ".html", "text": ".txt"}

_KIND_OF_TYPE: dict[str, Kind] = {"text/markdown": "document", "text/html": "web", "text/plain": "text"}
_KINDS_WITH_SOURCE = frozenset({"document", "web"})
_MEDIA_TYPE = re.compile(r"[a-z0-9][a-z0-9!#$&^_.+-]{0,62}/[a-z0-9][a-z0-9!#$&^_.+-]{0,62}\Z")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_TYPES = {
    ".md": "text/markdown",
    ".markdown": "text/markdown",
    ".csv": "text/csv",
    ".json": "application/json",
    ".txt": "text/plain",
    ".log": "text/plain",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".docx": "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    ".webp": "image/webp",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".parquet": "application/vnd.apache.parquet",
}


class BadExport(ToolError):
    """The arguments of an export do not make a file."""

    code = "invalid_args"


@dataclass(frozen=True, slots=True)
class Sharing:
    """Who besides the owner may read: people and departments by name, or everyone in the deployment."""

    people: tuple[str, ...] = ()
    departments: tuple[str, ...] = ()
    everyone: bool = False

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Sharing:
        return cls(tuple(item["people"]), tuple(item["departments"]), item["everyone"])

    def as_dict(self) -> dict[str, Any]:
        return {"people": list(self.people), "departments": list(self.departments), "everyone": self.everyone}


@dataclass(frozen=True, slots=True)
class Version:
    """One version; ``expires_at`` is None once it is attached. Sizes in bytes, times in Unix seconds."""

    version: int
    bytes: int
    sha256: str
    at: float
    turn: str | None
    name: str
    media_type: str
    expires_at: float | None

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "bytes": self.bytes,
            "sha256": self.sha256,
            "at": iso(self.at),
            "turn": self.turn,
            "name": self.name,
            "mediaType": self.media_type,
            "expiresAt": None if self.expires_at is None else iso(self.expires_at),
        }


@dataclass(frozen=True)
class Artifact:
    """An artifact as it stands at one moment: ``versions`` holds what has not expired, oldest first.

    ``highest`` is the last number given, ``kept_through`` the last one attached (0 for none), ``retired`` the deletion
    that put it into its grace period. An upload has no conversation and no turn.
    """

    id: str
    kind: Kind
    name: str
    media_type: str
    origin: Origin
    owner: str
    department: str
    conversation: str | None
    turn: str | None
    created_at: float
    highest: int
    kept_through: int
    versions: tuple[Version, ...]
    expired: tuple[int, ...]
    sharing: Sharing
    source: dict[str, Any] | None
    run: str | None
    retired: str | None

    @classmethod
    def from_items(cls, meta: Item, versions: list[Item], now: float) -> Artifact:
        kept_through = meta["keptThrough"]
        known = [_version(item, kept_through) for item in versions]
        alive = [version for version in known if version.expires_at is None or version.expires_at > now]
        identifier = meta["PK"].removeprefix("A#")
        source = meta.get("source")
        if source and alive and source["version"] not in [version.version for version in alive]:
            # The version that was edited last has expired; the text that is left is an earlier one.
            source = source_of(identifier, alive[-1].version)
        return cls(
            id=identifier,
            kind=meta["kind"],
            name=alive[-1].name if alive else meta["name"],
            media_type=alive[-1].media_type if alive else meta["mediaType"],
            origin=meta["origin"],
            owner=meta["owner"],
            department=meta["department"],
            conversation=meta.get("conversation"),
            turn=meta["turn"],
            created_at=meta["createdAt"],
            highest=meta["highest"],
            kept_through=kept_through,
            versions=tuple(alive),
            expired=tuple(version.version for version in known if version not in alive),
            sharing=Sharing.from_item(meta["sharing"]),
            source=source,
            run=meta.get("run"),
            retired=meta.get("retired"),
        )

    @property
    def latest(self) -> Version:
        return self.versions[-1]

    @property
    def expires_at(self) -> float | None:
        """When the last of it goes; None when a version is attached."""
        times = [version.expires_at for version in self.versions]
        return None if None in times else max((time for time in times if time is not None), default=None)

    def version(self, number: int) -> Version | None:
        """That version, unless it is unknown or expired."""
        return next((version for version in self.versions if version.version == number), None)

    def as_dict(self) -> dict[str, Any]:
        """The artifact as the API answers it."""
        expires = self.expires_at
        answer: dict[str, Any] = {
            "id": self.id,
            "kind": self.kind,
            "name": self.name,
            "mediaType": self.media_type,
            "origin": self.origin,
            "owner": self.owner,
            "department": self.department,
            "conversation": self.conversation,
            "turn": self.turn,
            "versions": [version.as_dict() for version in self.versions],
            "sharing": self.sharing.as_dict(),
            "expiresAt": None if expires is None else iso(expires),
            "source": self.source,
        }
        return answer | {"run": self.run} if self.run else answer


def _version(item: Item, kept_through: int) -> Version:
    return Version(
        version=item["version"],
        bytes=item["bytes"],
        sha256=item["sha256"],
        at=item["at"],
        turn=item["turn"],
        name=item["name"],
        media_type=item["mediaType"],
        expires_at=None if item["version"] <= kept_through else item["expiresAt"],
    )


# ---------------------------------------------------------------- what an export may be


def check_name(name: str) -> str:
    """A bare file name in composed Unicode, as people will see it. Raises BadExport."""
    normal = unicodedata.normalize("NFC", name)
    fault = None
    if normal != normal.strip() or normal in ("", ".", ".."):
        fault = "is empty, only dots, or begins or ends with a blank"
    elif "/" in normal or "\\" in normal:
        fault = "holds a folder; an artifact has a bare file name"
    elif _CONTROL.search(normal):
        fault = "holds a control or direction character"
    elif not _encodable(normal):
        fault = "holds half a character"
    elif len(normal.encode()) > NAME_BYTES:
        fault = f"has more than {NAME_BYTES} bytes"
    if fault:
        raise BadExport(f"`name` {fault}. Give a name such as `report.md`.", argument="name")
    return normal


def check_media_type(media_type: str) -> str:
    """A media type without parameters, in lower case. Raises BadExport."""
    lower = media_type.strip().lower()
    if not _MEDIA_TYPE.match(lower):
        raise BadExport(
            "`mediaType` must be a type and a subtype such as `text/csv`, without parameters.", argument="mediaType"
        )
    return lower


def type_of_name(name: str) -> str:
    """The media type that the name's extension stands for."""
    return _known_types().guess_type(name, strict=False)[0] or "application/octet-stream"


@cache
def _known_types() -> mimetypes.MimeTypes:
    """Python's own types and ours, never the machine's: the same name must give the same type everywhere.

    Made at the first use, because Python reads the machine's for others all the same, which takes longer than the rest.
    """
    known = mimetypes.MimeTypes(filenames=())
    for extension, media_type in _TYPES.items():
        known.add_type(media_type, extension)
    return known


def type_of_content(name: str | None, media_type: str | None) -> str:
    """The type under which given text is kept: one of four. Raises BadExport when name or type ask for another."""
    if media_type is None:
        guessed = type_of_name(name) if name else "text/plain"
        if guessed in CONTENT_TYPES:
            return guessed
        if guessed == "application/octet-stream" or (guessed.startswith("text/") and guessed != "text/html"):
            return "text/plain"
        media_type = guessed
    if media_type not in CONTENT_TYPES:
        raise BadExport(
            f"`content` can be saved as {', '.join(CONTENT_TYPES)}. For any other kind of file make it in the "
            "workspace and export its `path`.",
            code="unsupported_type",
            argument="mediaType",
        )
    return media_type


def kind_for(wanted: Kind | None, media_type: str, data: bytes) -> Kind:
    """The kind as asked for, when the bytes are of that kind, or the one that the type implies. Raises BadExport."""
    if wanted is None:
        implied = _KIND_OF_TYPE.get(media_type, "file")
        return implied if implied == "file" or fits(implied, data) else "file"
    if not fits(wanted, data):
        needs = "JSON" if wanted == "chart" else "UTF-8 text"
        raise BadExport(
            f'A {wanted} must be {needs}, and these bytes are not. Export it as kind "file", or correct the content.',
            argument="kind",
        )
    return wanted


def fits(kind: Kind, data: bytes) -> bool:
    """True when ``data`` may be an artifact of ``kind``: charts are JSON, a file is anything, the rest is text."""
    if kind == "file":
        return True
    try:
        text = data.decode("utf-8-sig")
        if kind == "chart":
            json.loads(text)
    except (ValueError, RecursionError):
        return False
    return "\0" not in text


def has_source(kind: Kind) -> bool:
    """True for kinds whose stored text is what people edit when the workspace is gone."""
    return kind in _KINDS_WITH_SOURCE


def source_of(artifact: str, version: int) -> dict[str, Any]:
    """Where the text that people edit is: the stored version itself, which outlives the workspace it came from."""
    return {"version": version, "content": f"/v1/artifacts/{artifact}/versions/{version}/content"}


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
