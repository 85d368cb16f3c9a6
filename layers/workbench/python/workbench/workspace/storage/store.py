"""Workspaces in S3 and DynamoDB: reading a version, staging changes to it, and preparing the one commit.

A commit is: PUT the new blobs (or packs) and pages, then one transaction that swaps HEAD under its conditions and
adds the version. A crash before the transaction leaves nothing visible, a crash after it is complete.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

from botocore.exceptions import ClientError

from workbench.keys import head_key, version_key
from workbench.operations import ACTIVE, Condition, Operation, Update, all_of, not_leased, put, same_base, update
from workbench.runtime import Runtime
from workbench.workspace.desk import limit_exceeded, refuse_in_the_way
from workbench.workspace.paths import parents
from workbench.workspace.storage.cache import ContentCache
from workbench.workspace.storage.head import Head, held
from workbench.workspace.storage.manifest import Applied, Entry, Manifest, apply, blob_key, pack_key, page_key
from workbench.workspace.text.lines import measure

PACK_ABOVE_BLOBS = 16
PACK_BYTES = 4 * 1024 * 1024
INLINE_PATHS = 200


class BlobGone(Exception):
    """A blob that an old version named was removed with that version."""


class WorkspaceStore:
    """The bytes of all workspaces. One per process."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._cache = ContentCache(runtime.settings.cache_directory, runtime.settings.cache_bytes)

    def manifest(self, head: Head) -> Manifest:
        """The version that ``head`` names."""
        return Manifest(head.table, lambda digest: self.page(head.conversation, digest))

    def page(self, conversation: str, digest: str) -> bytes:
        """A manifest page; one request when it is not cached."""
        return self._object(conversation, page_key(digest), digest)

    def read(self, conversation: str, entry: Entry) -> bytes:
        """The bytes of a file; one request when they are not cached. Raises BlobGone."""
        if entry.bytes == 0:
            return b""
        name = blob_key(entry.sha256)
        data = self._cache.get(conversation, name)
        if data is not None:
            return data
        if entry.key != name:
            data = self._cache.get_part(conversation, entry.key, entry.offset, entry.length)
            if data is not None:
                return data
        else:
            return self._object(conversation, name, entry.sha256)
        last = entry.offset + entry.length - 1
        data = self._get(conversation, entry.key, byte_range=f"bytes={entry.offset}-{last}")
        _verify(data, entry.sha256)
        self._cache.put(conversation, name, data)
        return data

    def read_whole_pack(self, conversation: str, entry: Entry) -> bytes:
        """Like :meth:`read`, but a pack is fetched and cached as one: for work that reads most of a workspace."""
        if entry.key.startswith("packs/") and self._cache.get(conversation, blob_key(entry.sha256)) is None:
            part = self._cache.get_part(conversation, entry.key, entry.offset, entry.length)
            if part is not None:
                return part
            pack = self._object(conversation, entry.key, entry.key.removeprefix("packs/"))
            return pack[entry.offset : entry.offset + entry.length]
        return self.read(conversation, entry)

    def pack(self, conversation: str, entry: Entry) -> bytes | None:
        """The whole pack that a file lies in, fetched and cached as one; None when the file is at hand without it."""
        if not entry.key.startswith("packs/"):
            return None
        # Packs of a workspace may be more than fit in memory: one that is on disk is not kept there in another's place.
        held = self._cache.get_part(conversation, entry.key, 0, max(PACK_BYTES, entry.offset + entry.length))
        if held is None and self._cache.get(conversation, blob_key(entry.sha256)) is None:
            return self._object(conversation, entry.key, entry.key.removeprefix("packs/"))
        return held

    def put(self, conversation: str, key: str, data: bytes) -> None:
        """Store a blob, pack or page under its key and remember it."""
        self._runtime.clients.s3.put_object(
            Bucket=self._runtime.settings.workspace_bucket, Key=f"conversations/{conversation}/{key}", Body=data
        )
        self._cache.put(conversation, key, data)

    def _object(self, conversation: str, key: str, digest: str) -> bytes:
        data = self._cache.get(conversation, key)
        if data is None:
            data = self._get(conversation, key)
            _verify(data, digest)
            self._cache.put(conversation, key, data)
        return data

    def _get(self, conversation: str, key: str, byte_range: str | None = None) -> bytes:
        request: dict[str, Any] = {
            "Bucket": self._runtime.settings.workspace_bucket,
            "Key": f"conversations/{conversation}/{key}",
        }
        if byte_range:
            request["Range"] = byte_range
        try:
            body: bytes = self._runtime.clients.s3.get_object(**request)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("NoSuchKey", "404"):
                raise BlobGone(key) from error
            raise
        return body


def _verify(data: bytes, digest: str) -> None:
    if hashlib.sha256(data).hexdigest() != digest:
        raise OSError("stored bytes do not match their hash")


# ---------------------------------------------------------------- a working copy


class WorkingCopy:
    """A version with changes staged over it; what the file tools read and write. Nothing is stored before commit."""

    def __init__(self, runtime: Runtime, head: Head) -> None:
        self._runtime = runtime
        self._store = runtime.workspaces
        self.head = head
        self.manifest = self._store.manifest(head)
        self.staged: dict[str, Entry | None] = {}
        self.contents: dict[str, bytes] = {}
        self._staged_folders: set[str] = set()
        self._pack_key, self._pack = "", b""

    def entry(self, path: str) -> Entry | None:
        """The entry for ``path`` as staged, or as the version has it."""
        return self.staged[path] if path in self.staged else self.manifest.entry(path)

    def entries(self, folder: str = "", after: str = "") -> Iterator[Entry]:
        """Entries below ``folder`` in path order, staged changes included, beginning behind ``after``."""
        prefix = f"{folder}/" if folder else ""
        staged = sorted(
            (path for path in self.staged if path.startswith(prefix) and path > after), key=str.encode, reverse=True
        )
        for entry in self.manifest.entries(folder, after):
            while staged and staged[-1].encode() < entry.path.encode():
                if added := self.staged[staged.pop()]:
                    yield added
            if staged and staged[-1] == entry.path:
                if changed := self.staged[staged.pop()]:
                    yield changed
            else:
                yield entry
        yield from (added for path in reversed(staged) if (added := self.staged[path]))

    def is_folder(self, path: str) -> bool:
        """True when ``path`` is a folder: one of its own, or one that files lie in."""
        entry = self.entry(path)
        if entry is not None:
            return entry.kind == "folder"
        if path in self._staged_folders:
            return True
        return any(self.staged.get(below.path, below) is not None for below in self.manifest.entries(path))

    def read(self, entry: Entry) -> bytes:
        """The bytes of a file of this copy."""
        if entry.sha256 in self.contents:
            return self.contents[entry.sha256]
        return self._store.read(self.head.conversation, entry)

    def scan(self, entry: Entry) -> bytes:
        """Like :meth:`read`, for work that goes through many files: packs are fetched whole, the last is at hand."""
        if entry.sha256 in self.contents:
            return self.contents[entry.sha256]
        if entry.key != self._pack_key:
            pack = self._store.pack(self.head.conversation, entry)
            if pack is None:
                return self._store.read(self.head.conversation, entry)
            self._pack_key, self._pack = entry.key, pack
        return self._pack[entry.offset : entry.offset + entry.length]

    def blob(self, digest: str, place: str = "") -> bytes | None:
        """The bytes of a blob this workspace had in an earlier version, or None when they are gone.

        ``place`` is what :attr:`Entry.place` said of it then.
        """
        key, offset, length = place.rsplit(":", 2) if place else (blob_key(digest), "0", "1")
        entry = Entry("", sha256=digest, key=key, offset=int(offset), length=int(length), bytes=int(length))
        try:
            return self._store.read(self.head.conversation, entry)
        except BlobGone:
            return None

    def write(self, path: str, data: bytes, mode: int | None = None) -> Entry:
        """Stage a file. The mode stays as it was when none is given. Raises where a folder or a file is in the way."""
        old = self.entry(path)
        refuse_in_the_way(self, path, old)
        if mode is None:
            mode = old.mode if old and old.kind == "file" else 0o644
        digest = hashlib.sha256(data).hexdigest()
        counts = measure(data)
        entry = Entry(path, "file", digest, blob_key(digest), 0, len(data), len(data), mode=mode)
        if counts:
            entry = entry._replace(lines=counts[0], characters=counts[1])
        self.contents[digest] = data
        self.stage(entry)
        return entry

    def stage(self, entry: Entry) -> None:
        """Stage an entry whose bytes are stored already (a pack that a run sent, an entry of an older version)."""
        self.staged[entry.path] = entry
        self._staged_folders.update(parents(entry.path))

    def delete(self, path: str) -> None:
        """Stage the removal of one entry."""
        taken_back = self.staged.get(path) is not None
        self.staged[path] = None
        if taken_back:
            self._staged_folders = {above for name, entry in self.staged.items() if entry for above in parents(name)}

    # ------------------------------------------------------------ committing

    def prepare(self, tool: str, turn: str | None, *, sent_bytes: int = 0) -> Commit:
        """Compute the next version and check the limits of the whole batch; raises ``limit_exceeded``.

        ``sent_bytes`` is the size of contents that were stored before, for the history's accounts.
        """
        applied = apply(self.manifest, self.staged, self.head.version + 1)
        self._check_limits(applied)
        named = {entry.sha256 for entry in self.staged.values() if entry and entry.kind == "file"}
        blobs = {digest: data for digest, data in self.contents.items() if digest in named and data}
        if len(blobs) > PACK_ABOVE_BLOBS:
            packs, places = pack(blobs)
            moved = {
                path: entry._replace(key=places[entry.sha256][0], offset=places[entry.sha256][1])
                for path, entry in self.staged.items()
                if entry and entry.sha256 in places
            }
            applied = apply(self.manifest, self.staged | moved, self.head.version + 1)
        else:
            packs = {blob_key(digest): data for digest, data in blobs.items()}
        new_bytes = sent_bytes + sum(map(len, blobs.values())) + sum(map(len, applied.pages.values()))
        return Commit(self._runtime, self.head, applied, packs, tool, turn, new_bytes)

    def _check_limits(self, applied: Applied) -> None:
        settings, head = self._runtime.settings, self.head
        for what, used, asked, allowed in (
            ("files", head.files, applied.files, settings.workspace_files),
            ("bytes", head.bytes, applied.bytes, settings.workspace_bytes),
        ):
            if asked > 0 and used + asked > allowed:
                raise limit_exceeded(what, used, asked, allowed)


def pack(blobs: Mapping[str, bytes]) -> tuple[dict[str, bytes], dict[str, tuple[str, int]]]:
    """Blobs joined into packs of at most 4 MiB (a larger blob stays alone): objects by key, and each blob's place."""
    groups: list[list[str]] = [[]]
    size = 0
    for digest, data in blobs.items():
        if size + len(data) > PACK_BYTES and groups[-1]:
            groups.append([])
            size = 0
        groups[-1].append(digest)
        size += len(data)
    objects: dict[str, bytes] = {}
    places: dict[str, tuple[str, int]] = {}
    for group in groups:
        joined = b"".join(blobs[digest] for digest in group)
        key = pack_key(hashlib.sha256(joined).hexdigest())
        objects[key] = joined
        offset = 0
        for digest in group:
            places[digest] = key, offset
            offset += len(blobs[digest])
    return objects, places


@dataclass
class Commit:
    """A version ready to be committed: objects to PUT, then operations for the one transaction."""

    runtime: Runtime
    head: Head
    applied: Applied
    objects: dict[str, bytes]
    tool: str
    turn: str | None
    new_bytes: int

    @property
    def version(self) -> int:
        return self.head.version + 1

    def uploads(self) -> list[Callable[[], Any]]:
        """The PUTs to make before :meth:`operations` may be committed. They may go in parallel."""
        store, conversation = self.runtime.workspaces, self.head.conversation
        named = self.objects | {page_key(digest): page for digest, page in self.applied.pages.items()}
        works: list[Callable[[], Any]] = [partial(store.put, conversation, key, data) for key, data in named.items()]
        return works + [partial(self._put_paths, key, data) for key, data in self._path_lists.items()]

    def operations(self, *, lease_fence: int | None = None) -> list[Operation]:
        """HEAD's swap and the new version's item.

        Without ``lease_fence`` this is a short write: nobody may have committed or taken the lease since the head was
        read. With it, the holder of that lease commits and gives the lease back.
        """
        now, skew = self.runtime.clock.now(), self.runtime.settings.skew_seconds
        change = (
            Update()
            .set("version", self.version)
            .set("pages", self.applied.table.encode())
            .set("files", self.head.files + self.applied.files)
            .set("bytes", self.head.bytes + self.applied.bytes)
            .add("fence", 1)
            .add("historyVersions", 1)
            .add("historyBytes", self.new_bytes)
        )
        condition: Condition
        if lease_fence is None:
            condition = all_of(ACTIVE, same_base(self.head.version, self.head.fence), not_leased(now - skew))
        else:
            change.set("leaseUntil", 0).remove("lease")
            condition = all_of(ACTIVE, held(lease_fence))
        return [
            update(head_key(self.head.conversation), change, condition),
            put(self._version_item(now)),
        ]

    def _version_item(self, now: float) -> dict[str, Any]:
        pk, sk = version_key(self.head.conversation, self.version)
        applied = self.applied
        paths = {"created": applied.created, "modified": applied.modified, "deleted": applied.deleted}
        lists = self._path_lists
        return {
            "PK": pk,
            "SK": sk,
            "version": self.version,
            "pages": applied.table.encode(),
            "files": self.head.files + applied.files,
            "bytes": self.head.bytes + applied.bytes,
            "at": now,
            "turn": self.turn,
            "tool": self.tool,
            **{name: len(listed) for name, listed in paths.items()},
            **({"pathsKey": next(iter(lists))} if lists else {"paths": paths}),
            "newBytes": self.new_bytes,
        }

    @cached_property
    def _path_lists(self) -> dict[str, bytes]:
        applied = self.applied
        listed: Sequence[list[str]] = (applied.created, applied.modified, applied.deleted)
        if sum(map(len, listed)) <= INLINE_PATHS:
            return {}
        data = gzip.compress(json.dumps(dict(zip(("created", "modified", "deleted"), listed, strict=True))).encode())
        return {f"conversations/{self.head.conversation}/paths/{hashlib.sha256(data).hexdigest()}": data}

    def _put_paths(self, key: str, data: bytes) -> None:
        self.runtime.clients.s3.put_object(Bucket=self.runtime.settings.workspace_bucket, Key=key, Body=data)
