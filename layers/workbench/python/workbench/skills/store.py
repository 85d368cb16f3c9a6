"""Skills as the deployment keeps them: versions on a shelf, and the files of each in one object.

The object begins with a table of the files (JSON, one line), then come their bytes one after another, SKILL.md first:
a sandbox reads it by offsets, and one request gets the instructions and what else there is.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from workbench import ids, objects
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.semver import Version
from workbench.shelf import Shelf
from workbench.skills.bundle import Bundle

SHELF = Shelf("SKILL", "skill", ("description", "files"))
FOLDER = "skills"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file of a stored skill; its bytes are ``[offset, offset + bytes)`` of the skill's object."""

    path: str
    bytes: int
    sha256: str
    mode: int
    offset: int

    def as_dict(self) -> dict[str, Any]:
        return {"path": self.path, "bytes": self.bytes}


class BytesGone(Exception):
    """The skill's object is not there any more: it was withdrawn a moment ago."""


def push(runtime: Runtime, bundle: Bundle) -> tuple[Item, bool]:
    """Keep the bundle as a version of its skill; returns the version's item and whether it is new. Raises Conflict."""
    skill, table = bundle.skill, _table(bundle)
    facts = {
        "name": skill.name,
        "version": skill.version,
        "description": skill.description,
        "digest": bundle.digest,
        "bytes": bundle.bytes,
        "files": gzip.compress(json.dumps([[file.path, len(file.data)] for file in bundle.files]).encode(), mtime=0),
    }
    details = {"tableBytes": len(table), "skillFileBytes": len(bundle.files[0].data)}

    def prepare() -> Item:
        # A key of its own for each try: withdrawing an earlier version must never take this one's bytes.
        key = f"{FOLDER}/{skill.name}/{Version(skill.version)}-{ids.random_part('')}"
        body = table + b"".join(file.data for file in bundle.files)
        runtime.clients.s3.put_object(Bucket=runtime.settings.workspace_bucket, Key=key, Body=body)
        return {"key": key}

    return SHELF.publish(runtime, facts, details, prepare)


def withdraw(runtime: Runtime, name: str) -> list[str]:
    """Take the skill away: no turn may load it from now on, and its bytes are removed. Raises NotFound.

    Returns the versions that there were.
    """

    def clean(items: list[Item]) -> None:
        keys = [{"Key": item["key"]} for item in items]
        objects.delete(runtime.clients, runtime.settings.workspace_bucket, keys)

    return [item["version"] for item in SHELF.withdraw(runtime, name, clean)]


def shown(item: Item) -> dict[str, Any]:
    """What the API says of a version: name, version, description, files by path and bytes, the bundle's digest."""
    files = [{"path": path, "bytes": size} for path, size in json.loads(gzip.decompress(item["files"]))]
    facts = {key: item[key] for key in ("name", "version", "description")}
    return {**facts, "files": files, "sha256": item["digest"]}


def read_start(runtime: Runtime, item: Item) -> tuple[list[StoredFile], bytes]:
    """The files of a stored version, and its SKILL.md. One request. Raises BytesGone."""
    data = read_range(runtime, item, 0, item["tableBytes"] + item["skillFileBytes"])
    return _files(data[: item["tableBytes"]]), data[item["tableBytes"] :]


def read_files(runtime: Runtime, key: str, table_bytes: int) -> list[StoredFile]:
    """The files of the version whose object is ``key``. One request. Raises BytesGone."""
    return _files(read_range(runtime, {"key": key}, 0, table_bytes))


def read_range(runtime: Runtime, item: Item, offset: int, length: int) -> bytes:
    """``length`` bytes of a version's object. Raises BytesGone."""
    if not length:
        return b""
    try:
        answer = runtime.clients.s3.get_object(
            Bucket=runtime.settings.workspace_bucket, Key=item["key"], Range=f"bytes={offset}-{offset + length - 1}"
        )
    except ClientError as error:
        if objects.code_of(error) != "NoSuchKey":
            raise
        raise BytesGone(item["key"]) from None
    data: bytes = answer["Body"].read()
    return data


def _table(bundle: Bundle) -> bytes:
    rows = [[file.path, len(file.data), file.sha256, file.mode] for file in bundle.files]
    return json.dumps(rows, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"


def _files(table: bytes) -> list[StoredFile]:
    files, offset = [], len(table)
    for path, size, sha256, mode in json.loads(table):
        files.append(StoredFile(path, size, sha256, mode, offset))
        offset += size
    return files
