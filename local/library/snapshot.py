"""The directory as a sandbox gets it: read once, by the scanner that also reads what a program left, into one file.

A command runs on a copy. What it changes is compared with this snapshot, so that only that is taken over.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import IO

from local.library.directory import Top
from sandbox_container.job import Limits
from sandbox_container.scan import Found, LeftOut, Refused, Scan
from workbench.errors import ToolError, WorkspaceBusy
from workbench.runs.plan import PART_BYTES, parts_of
from workbench.workspace.paths import printable
from workbench.workspace.storage.manifest import Entry

_KEPT_WHILE_HASHED_BYTES = 4 * 1024 * 1024
_TRIES = 3
_COPIED_BYTES = 1024 * 1024


@dataclass
class Snapshot:
    """Every file and folder by path, their bytes in ``data`` one after another, and what is not among them."""

    data: IO[bytes]
    entries: dict[str, Entry] = field(default_factory=dict)
    offsets: dict[str, int] = field(default_factory=dict)
    left_out: list[LeftOut] = field(default_factory=list)
    size: int = 0

    def contents(self, sha256: str, size: int) -> Iterator[bytes]:
        """The bytes of a content that the snapshot holds; KeyError when it does not."""
        return self.read(self.offsets[sha256], size) if size else iter(())

    def read(self, offset: int, size: int) -> Iterator[bytes]:
        """Bytes ``[offset, offset + size)`` of the data, in pieces."""
        while size > 0:
            piece = os.pread(self.data.fileno(), min(size, _COPIED_BYTES), offset)
            if not piece:
                raise OSError("the copy of the directory is cut short")
            yield piece
            offset, size = offset + len(piece), size - len(piece)

    def add(self, found: Found) -> None:
        """Take one entry of the scan, with its bytes if they are new."""
        if found.kind == "folder":
            self.entries[found.path] = Entry(found.path, "folder", mode=found.mode)
            return
        self.entries[found.path] = Entry(found.path, "file", found.sha256, bytes=found.size, mode=found.mode)
        if found.sha256 not in self.offsets:
            self.offsets[found.sha256] = self._append(found)

    def _append(self, found: Found) -> int:
        begin, digest = self.size, hashlib.sha256()
        for piece in found.read():
            self.data.write(piece)
            digest.update(piece)
            self.size += len(piece)
        # A large file is read again for this.
        if digest.hexdigest() != found.sha256:
            raise Refused(f"{found.path} changed while it was read")
        return begin


def take(top: Top, limits: Limits) -> Snapshot:
    """Read the whole directory. Raises ToolError, ``limit_exceeded`` where it is too large for a sandbox."""
    for _ in range(_TRIES - 1):
        try:
            return _take(top, limits)
        except (Refused, FileNotFoundError) as fault:
            # Somebody writes without our lock: most likely it is whole a moment later.
            if "changed while" not in str(fault) and not isinstance(fault, FileNotFoundError):
                break
    try:
        return _take(top, limits)
    except FileNotFoundError as error:
        raise WorkspaceBusy(
            "Files of the directory came and went while it was read for the command. Nothing was run. Try again."
        ) from error
    except Refused as refusal:
        raise ToolError(
            f"The directory cannot be given to a command: {refusal}. Nothing was run. It may hold at most "
            f"{limits.workspace_files:,} files and {limits.workspace_bytes:,} bytes: move what the command does not "
            "need to another directory.",
            code="limit_exceeded",
        ) from refusal
    except PermissionError as error:
        name = printable(os.fsdecode(error.filename))
        raise ToolError(
            f"The directory cannot be given to a command: `{name}` cannot be read ({error.strerror}). Nothing was run. "
            "Make it readable or move it elsewhere.",
            code="not_allowed",
        ) from error


def _take(top: Top, limits: Limits) -> Snapshot:
    snapshot = Snapshot(tempfile.TemporaryFile())  # noqa: SIM115 - it lives as long as the snapshot
    scan = Scan(top.descriptor, limits, _KEPT_WHILE_HASHED_BYTES)
    for found in scan.found():
        snapshot.add(found)
    snapshot.data.flush()
    snapshot.left_out = scan.left_out
    return snapshot


@dataclass(frozen=True)
class Streams:
    """The plan and the data of one job, in parts, as the sandbox asks for them."""

    snapshot: Snapshot
    program: bytes
    plan: bytes

    @classmethod
    def of(cls, snapshot: Snapshot, program: bytes) -> Streams:
        """The plan for the snapshot and one program: folders first, then files in the order of the data."""
        lines = [_line(entry, 0) for entry in snapshot.entries.values() if entry.kind == "folder"]
        files = [entry for entry in snapshot.entries.values() if entry.kind == "file"]
        files.sort(key=lambda entry: snapshot.offsets[entry.sha256])
        lines += [_line(entry, snapshot.offsets[entry.sha256]) for entry in files]
        facts = {"root": "program", "path": "program", "kind": "file", "mode": "0444", "offset": snapshot.size}
        facts |= {"bytes": len(program), "sha256": hashlib.sha256(program).hexdigest()}
        return cls(snapshot, program, b"".join([*lines, json.dumps(facts).encode() + b"\n"]))

    @property
    def plan_parts(self) -> int:
        return parts_of(len(self.plan))

    @property
    def data_parts(self) -> int:
        return parts_of(self.snapshot.size + len(self.program))

    def part(self, stream: str, part: int) -> bytes:
        """One part; IndexError when there is none of that number."""
        if not 0 <= part < (self.plan_parts if stream == "plan" else self.data_parts):
            raise IndexError(part)
        begin = part * PART_BYTES
        if stream == "plan":
            return self.plan[begin : begin + PART_BYTES]
        from_snapshot = max(0, min(PART_BYTES, self.snapshot.size - begin))
        pieces = list(self.snapshot.read(begin, from_snapshot))
        after = max(0, begin - self.snapshot.size)
        return b"".join([*pieces, self.program[after : after + PART_BYTES - from_snapshot]])


def _line(entry: Entry, offset: int) -> bytes:
    facts = {"root": "workspace", "path": entry.path, "kind": entry.kind, "mode": f"{entry.mode:04o}", "offset": offset}
    facts |= {"bytes": entry.bytes, "sha256": entry.sha256}
    return json.dumps(facts, ensure_ascii=False).encode() + b"\n"
