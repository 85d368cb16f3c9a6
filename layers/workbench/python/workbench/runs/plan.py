"""What a sandbox is sent: the plan (which file goes where) and where each part of the data stream comes from.

Files are ordered by the object they lie in, so that a pack which a run sent is read back in one request. The data
stream is never assembled ahead: a part is read from its objects when the sandbox asks for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from workbench.workspace.storage.manifest import Entry

PART_BYTES = 4 * 1024 * 1024

Root = Literal["workspace", "inputs", "skills", "program"]
Place = Literal["conversation", "workspace", "artifacts"]


@dataclass(frozen=True, slots=True)
class Source:
    """Bytes ``[offset, offset + length)`` of an object.

    ``place`` says what ``key`` counts from: ``conversation`` (its folder), or one of the two buckets.
    """

    place: Place
    key: str
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Mount:
    """A file (or, without ``source``, a folder) that the sandbox lays out under one of its roots."""

    root: Root
    path: str
    mode: int
    sha256: str = ""
    source: Source | None = None


@dataclass(frozen=True)
class Plan:
    """``lines`` is the plan stream; ``sources`` are the data stream's, in order and joined where they touch."""

    lines: bytes
    sources: tuple[Source, ...]

    @property
    def data_bytes(self) -> int:
        return sum(source.length for source in self.sources)

    @property
    def plan_parts(self) -> int:
        return parts_of(len(self.lines))

    @property
    def data_parts(self) -> int:
        return parts_of(self.data_bytes)

    def plan_part(self, part: int) -> bytes:
        """One part of the plan stream; raises IndexError."""
        if not 0 <= part < self.plan_parts:
            raise IndexError(part)
        return self.lines[part * PART_BYTES : (part + 1) * PART_BYTES]

    def part(self, part: int) -> list[Source]:
        """The sources of one part of the data stream, in order; raises IndexError."""
        if not 0 <= part < self.data_parts:
            raise IndexError(part)
        begin, end, at = part * PART_BYTES, (part + 1) * PART_BYTES, 0
        cut: list[Source] = []
        for source in self.sources:
            low, high = max(begin, at), min(end, at + source.length)
            if low < high:
                cut.append(Source(source.place, source.key, source.offset + low - at, high - low))
            at += source.length
        return cut

    def encode(self) -> bytes:
        """The plan as one object to be stored; :meth:`decode` reads it."""
        table = [[source.place, source.key, source.offset, source.length] for source in self.sources]
        return json.dumps(table, separators=(",", ":")).encode() + b"\n" + self.lines

    @classmethod
    def decode(cls, data: bytes) -> Plan:
        table, _, lines = data.partition(b"\n")
        return cls(lines, tuple(Source(*row) for row in json.loads(table)))


def parts_of(size: int) -> int:
    """How many parts a stream of ``size`` bytes has."""
    return -(-size // PART_BYTES)


def from_entries(entries: Iterable[Entry]) -> Iterable[Mount]:
    """The workspace's entries as mounts."""
    for entry in entries:
        if entry.kind == "folder":
            yield Mount("workspace", entry.path, entry.mode)
        else:
            source = Source("conversation", entry.key, entry.offset, entry.length)
            yield Mount("workspace", entry.path, entry.mode, entry.sha256, source)


def build(mounts: Iterable[Mount]) -> Plan:
    """The plan for ``mounts``: folders first, then files in the order of the data stream."""
    lines: list[bytes] = []
    sources: list[Source] = []
    offset = 0
    for mount in sorted(mounts, key=_stream_order):
        line: dict[str, object] = {"root": mount.root, "path": mount.path}
        line |= {"kind": "file" if mount.source else "folder", "mode": f"{mount.mode:04o}", "offset": offset}
        if mount.source:
            line |= {"bytes": mount.source.length, "sha256": mount.sha256}
            _append(sources, mount.source)
            offset += mount.source.length
        else:
            line |= {"bytes": 0, "sha256": ""}
        lines.append(json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
    return Plan(b"".join(lines), tuple(sources))


def _stream_order(mount: Mount) -> tuple[int, str, str, int, str, str]:
    source = mount.source
    if source is None:
        return 0, "", "", 0, mount.root, mount.path
    return 1, source.place, source.key, source.offset, mount.root, mount.path


def _append(sources: list[Source], source: Source) -> None:
    if source.length == 0:
        return
    last = sources[-1] if sources else None
    if last and (last.place, last.key, last.offset + last.length) == (source.place, source.key, source.offset):
        sources[-1] = Source(last.place, last.key, last.offset, last.length + source.length)
    else:
        sources.append(source)
