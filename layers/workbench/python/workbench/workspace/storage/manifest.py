"""A workspace version as an immutable manifest: sorted, content-addressed pages and the table that names them.

A page is plain text, one line an entry, sorted by path bytes. Paths hold no control characters, so a tab ends the
path and sorting lines sorts paths. One changed entry is spliced into the page's bytes without decoding the others,
which is what keeps a write in a workspace of 50,000 files as cheap as in one of 50. No I/O here: pages come from a
``load`` callable.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, NamedTuple

Kind = Literal["file", "folder"]
PageLoader = Callable[[str], bytes]

PAGE_ENTRIES = 1_000
# Below this many changes a page is spliced line by line; above, its lines are merged in one pass.
SPLICE_AT_MOST = 24

_PAGE_REF = struct.Struct(">32sIH")


class Entry(NamedTuple):
    """One path of a version. A tuple: a search makes thousands, and a frozen dataclass takes half as long again.

    ``key`` is relative to ``conversations/{c}/``: ``blobs/{sha256}`` or ``packs/{sha256}``; the bytes are
    ``[offset, offset + length)`` of that object. ``lines`` and ``characters`` are None for binary files. Folders
    have an entry only when they were made on purpose (an empty folder a run left). ``version`` is the one that wrote
    the entry, 0 before it is committed.
    """

    path: str
    kind: Kind = "file"
    sha256: str = ""
    key: str = ""
    offset: int = 0
    length: int = 0
    bytes: int = 0
    lines: int | None = None
    characters: int | None = None
    mode: int = 0o644
    version: int = 0

    @property
    def is_text(self) -> bool:
        return self.lines is not None

    @property
    def place(self) -> str:
        """``key:offset:length`` of bytes that lie in a pack; empty when they are an object of their own."""
        own_blob = self.key == blob_key(self.sha256) and self.offset == 0
        return "" if own_blob or not self.key else f"{self.key}:{self.offset}:{self.length}"


def blob_key(sha256: str) -> str:
    """Where a blob of its own lies, relative to the conversation's folder."""
    return f"blobs/{sha256}"


def pack_key(sha256: str) -> str:
    """Where a pack lies, relative to the conversation's folder."""
    return f"packs/{sha256}"


def page_key(sha256: str) -> str:
    """Where a page lies, relative to the conversation's folder."""
    return f"pages/{sha256}"


# ---------------------------------------------------------------- lines


def encode(entry: Entry) -> bytes:
    """The entry's line, with its newline."""
    if entry.kind == "folder":
        return f"{entry.path}\td\t{entry.mode:o}\t{entry.version}\n".encode()
    own_blob = entry.key == blob_key(entry.sha256) and entry.offset == 0
    place = "" if own_blob else f"{entry.key}:{entry.offset}"
    lines = "" if entry.lines is None else f"{entry.lines}:{entry.characters}"
    facts = f"{entry.mode:o}\t{entry.sha256}\t{place}\t{entry.bytes}\t{lines}\t{entry.version}"
    return f"{entry.path}\tf\t{facts}\n".encode()


def decode(line: bytes) -> Entry:
    """The entry of one line (with or without its newline)."""
    path, kind, mode, *rest = line.decode().rstrip("\n").split("\t")
    if kind == "d":
        return Entry(path, "folder", mode=int(mode, 8), version=int(rest[0]))
    sha256, place, digits, counts, version = rest
    key, _, offset = place.rpartition(":") if place else (blob_key(sha256), "", "0")
    size = int(digits)
    lines = characters = None
    if counts:
        lines, characters = map(int, counts.split(":"))
    return Entry(path, "file", sha256, key, int(offset), size, size, lines, characters, int(mode, 8), int(version))


def _position(page: bytes, path: bytes) -> int:
    """Offset of the first line whose path is not below ``path``: a binary search over raw bytes."""
    low, high = 0, len(page)
    while low < high:
        middle = page.rfind(b"\n", low, (low + high) // 2) + 1 or low
        end = page.find(b"\n", middle) + 1
        if page[middle : page.index(b"\t", middle)] < path:
            low = end
        else:
            high = middle
    return low


def _line_at(page: bytes, position: int) -> bytes:
    return page[position : page.find(b"\n", position) + 1]


def _has_path(line: bytes, path: bytes) -> bool:
    return line.startswith(path + b"\t")


def find(page: bytes, path: str) -> Entry | None:
    """The entry for ``path`` in one page."""
    raw = path.encode()
    line = _line_at(page, _position(page, raw))
    return decode(line) if _has_path(line, raw) else None


def splice(page: bytes, path: str, entry: Entry | None) -> tuple[bytes, Entry | None]:
    """The page with ``path`` set to ``entry`` (None removes it), and the entry that stood there before."""
    raw = path.encode()
    start = _position(page, raw)
    line = _line_at(page, start)
    old = decode(line) if _has_path(line, raw) else None
    end = start + len(line) if old else start
    return page[:start] + (encode(entry) if entry else b"") + page[end:], old


def object_keys(page: bytes) -> Iterator[str]:
    """The keys that a page's files name, as often as they do, without decoding whole entries."""
    for line in page.splitlines():
        fields = line.split(b"\t")
        if fields[1] == b"f":
            place = fields[4].decode()
            yield place.rpartition(":")[0] if place else blob_key(fields[3].decode())


# ---------------------------------------------------------------- the page table


@dataclass(frozen=True, slots=True)
class PageRef:
    """A page by its first path, its SHA-256 and its number of entries."""

    first: bytes
    sha256: str
    count: int


@dataclass(frozen=True, slots=True)
class PageTable:
    """The pages of one version in path order; what HEAD and every ``V#`` item carry."""

    refs: tuple[PageRef, ...] = ()

    def encode(self) -> bytes:
        """Compressed binary: about 2 KB for 50,000 files."""
        parts = [_PAGE_REF.pack(bytes.fromhex(ref.sha256), ref.count, len(ref.first)) + ref.first for ref in self.refs]
        return zlib.compress(b"".join(parts), 6)

    @classmethod
    def decode(cls, data: bytes) -> PageTable:
        """The table of :meth:`encode`'s bytes; empty bytes are an empty table."""
        raw = zlib.decompress(data) if data else b""
        refs, at = [], 0
        while at < len(raw):
            digest, count, length = _PAGE_REF.unpack_from(raw, at)
            at += _PAGE_REF.size
            refs.append(PageRef(raw[at : at + length], digest.hex(), count))
            at += length
        return cls(tuple(refs))

    def index(self, path: bytes) -> int:
        """Which page holds ``path`` or would hold it."""
        return max(0, bisect_right(self.refs, path, key=lambda ref: ref.first) - 1)


# ---------------------------------------------------------------- a version


@dataclass(frozen=True)
class Manifest:
    """A version: its page table and a way to load pages. Reading touches only the pages it needs."""

    table: PageTable
    load: PageLoader

    def entry(self, path: str) -> Entry | None:
        """The entry for ``path``, or None."""
        if not self.table.refs:
            return None
        raw = path.encode()
        return find(self.load(self.table.refs[self.table.index(raw)].sha256), path)

    def entries(self, folder: str = "", after: str = "") -> Iterator[Entry]:
        """Entries below ``folder`` (all when empty) in path order, beginning behind the path ``after``."""
        prefix = f"{folder}/".encode() if folder else b""
        begin = max(prefix, after.encode() + b"\0") if after else prefix
        if not self.table.refs:
            return
        for ref in self.table.refs[self.table.index(begin) :]:
            if prefix and ref.first > prefix and not ref.first.startswith(prefix):
                return
            page = self.load(ref.sha256)
            for line in page[_position(page, begin) :].splitlines() if begin else page.splitlines():
                if not line.startswith(prefix):
                    return
                yield decode(line)

    def has_below(self, folder: str) -> bool:
        """True when some entry lies below ``folder``."""
        return next(self.entries(folder), None) is not None


def differences(old: Manifest, new: Manifest) -> Iterator[tuple[str, Entry | None, Entry | None]]:
    """``(path, before, after)`` for every path that differs, in path order. Pages both versions share are skipped."""
    shared = {ref.sha256 for ref in old.table.refs} & {ref.sha256 for ref in new.table.refs}
    before, after = _unshared(old, shared), _unshared(new, shared)
    for path in sorted(before.keys() | after.keys(), key=str.encode):
        old_entry, new_entry = before.get(path), after.get(path)
        if old_entry is None or new_entry is None or _differ(old_entry, new_entry):
            yield path, old_entry, new_entry


def _differ(old: Entry, new: Entry) -> bool:
    """Whether a reader sees a difference; where the bytes lie, and since which version, is none."""
    return (old.sha256, old.mode, old.kind) != (new.sha256, new.mode, new.kind)


def _unshared(manifest: Manifest, shared: set[str]) -> dict[str, Entry]:
    pages = (manifest.load(ref.sha256) for ref in manifest.table.refs if ref.sha256 not in shared)
    return {entry.path: entry for page in pages for entry in map(decode, page.splitlines())}


@dataclass
class Applied:
    """What a set of changes makes of a version. ``pages`` holds the new pages by SHA-256."""

    table: PageTable
    pages: dict[str, bytes] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)


def apply(manifest: Manifest, changes: Mapping[str, Entry | None], version: int = 0) -> Applied:
    """The version that follows ``manifest`` with ``changes`` (None deletes); files and bytes are differences.

    ``version`` is its number, which the changed entries get. Only touched pages are rewritten; a page that grew too
    large is split, neighbours that shrank are joined.
    """
    applied = Applied(manifest.table)
    changes = {path: entry._replace(version=version) if entry else None for path, entry in changes.items()}
    by_page: dict[int, list[str]] = {}
    for path in sorted(changes, key=str.encode):
        by_page.setdefault(manifest.table.index(path.encode()), []).append(path)
    refs: list[PageRef] = []
    # Bytes and entry count of touched pages that still wait to be cut into new ones.
    waiting: list[tuple[bytes, int]] = []

    def flush() -> None:
        for page, count in _repacked(waiting):
            digest = hashlib.sha256(page).hexdigest()
            applied.pages[digest] = page
            refs.append(PageRef(page[: page.index(b"\t")], digest, count))
        waiting.clear()

    for number in range(max(1, len(manifest.table.refs))):
        touched = by_page.get(number)
        if touched is None:
            flush()
            refs += manifest.table.refs[number : number + 1]
            continue
        page, count = b"", 0
        if manifest.table.refs:
            ref = manifest.table.refs[number]
            page, count = manifest.load(ref.sha256), ref.count
        waiting.append(_changed(page, count, touched, changes, applied))
    flush()
    applied.table = PageTable(tuple(refs))
    return applied


def _changed(
    page: bytes, count: int, paths: list[str], changes: Mapping[str, Entry | None], applied: Applied
) -> tuple[bytes, int]:
    if len(paths) <= SPLICE_AT_MOST:
        for path in paths:
            page, old = splice(page, path, changes[path])
            count += _note(applied, path, old, changes[path])
        return page, count
    lines = {line[: line.index(b"\t")]: line for line in page.splitlines(keepends=True)}
    for path in paths:
        raw, entry = path.encode(), changes[path]
        before = lines.pop(raw, None)
        count += _note(applied, path, decode(before) if before else None, entry)
        if entry:
            lines[raw] = encode(entry)
    return b"".join(lines[path] for path in sorted(lines)), count


def _note(applied: Applied, path: str, old: Entry | None, new: Entry | None) -> int:
    """Count one change; returns the difference in entries."""
    applied.bytes += (new.bytes if new else 0) - (old.bytes if old else 0)
    applied.files += (new is not None and new.kind == "file") - (old is not None and old.kind == "file")
    if old is None and new is not None:
        applied.created.append(path)
    elif old is not None and new is None:
        applied.deleted.append(path)
    elif old is not None and new is not None and _differ(old, new):
        applied.modified.append(path)
    return (new is not None) - (old is not None)


def _repacked(touched: list[tuple[bytes, int]]) -> Iterator[tuple[bytes, int]]:
    """Touched neighbours as new pages: joined while they stay small, cut evenly when too large."""
    joined: list[tuple[bytes, int]] = []
    for page, count in touched:
        if joined and joined[-1][1] + count <= PAGE_ENTRIES // 2:
            before, before_count = joined.pop()
            joined.append((before + page, before_count + count))
        elif count:
            joined.append((page, count))
    for page, count in joined:
        if count <= PAGE_ENTRIES:
            yield page, count
            continue
        lines = page.splitlines(keepends=True)
        parts = -(-count // PAGE_ENTRIES) if count > 2 * PAGE_ENTRIES else 2
        size = -(-count // parts)
        for start in range(0, count, size):
            part = lines[start : start + size]
            yield b"".join(part), len(part)
