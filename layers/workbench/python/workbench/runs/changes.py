"""The changes a sandbox proposes, checked against the tree they would change. Pure; no contents are read here.

A name that no path rule allows is left out and named; everything else of such a run is kept. A list that contradicts
itself or the protocol is :class:`Untrusted` as a whole: it comes from a broken sandbox or from the program itself.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.runs.protocol import SPILL_NAME
from workbench.workspace.paths import MOUNT_NAME, name_fault, parents, printable, usable_name
from workbench.workspace.storage.manifest import Entry

LINE_BYTES = 64 * 1024
NAME_CHARACTERS = 200
REASON_CHARACTERS = 200
# Named one by one in the answer; beyond, they are only counted.
LEFT_OUT_NAMED = 200
# A program may delete everything and write as much again, and leave folders besides.
LINES_PER_ALLOWED_FILE = 4
SPARE_LINES = 1_000

_MODE = re.compile(r"0?0[0-7]{3}\Z")
_SHA256 = re.compile(r"[0-9a-f]{64}\Z")
EMPTY_SHA256 = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


class Untrusted(Exception):
    """The sandbox's account cannot be true. The words complete "the sandbox's account of the files …"."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Bytes ``[offset, offset + length)`` of the pack sent as ``part``."""

    part: int
    offset: int
    length: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """A file or folder as the run left it. Without ``pieces`` the content is one that the tree had before."""

    path: str
    kind: str
    mode: int
    bytes: int = 0
    sha256: str = ""
    pieces: tuple[Piece, ...] = ()


@dataclass
class Proposal:
    """What the run would make of the tree: ``wanted`` by path (None deletes) and what was not kept."""

    wanted: dict[str, Wanted | None] = field(default_factory=dict)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    left_out_count: int = 0

    def leave_out(self, name: str, reason: str) -> None:
        self.left_out_count += 1
        if len(self.left_out) < LEFT_OUT_NAMED:
            self.left_out.append((printable(name[:NAME_CHARACTERS]), printable(reason[:REASON_CHARACTERS])))


def lines_allowed(base_files: int, files_allowed: int) -> int:
    """How many lines a list of changes may have."""
    return LINES_PER_ALLOWED_FILE * files_allowed + base_files + SPARE_LINES


def read(data: bytes, most_lines: int, pack_sizes: Mapping[int, int]) -> Proposal:
    """Read the changes stream; raises :class:`Untrusted`. ``pack_sizes`` are the packs that were really sent."""
    if data and not data.endswith(b"\n"):
        raise Untrusted("ends in the middle of a line")
    if data.count(b"\n") > most_lines:
        raise Untrusted(f"has more than {most_lines:,} lines")
    proposal, seen = Proposal(), set[str]()
    for raw in data.split(b"\n")[:-1]:
        line = _line(raw)
        if "leftOut" in line:
            proposal.leave_out(_text(line, "name"), _text(line, "leftOut"))
            continue
        name = _text(line, "path")
        if name in seen:
            raise Untrusted(f"names {printable(name[:NAME_CHARACTERS])} twice")
        seen.add(name)
        _take(proposal, name, line, pack_sizes)
    return proposal


def _take(proposal: Proposal, name: str, line: dict[str, Any], pack_sizes: Mapping[int, int]) -> None:
    raw = name.encode("utf-8", "surrogatepass")
    deleted = line.get("deleted") is True
    path = usable_name(raw)
    if path is None:
        # The tree has no such path, so there is nothing to delete either.
        if not deleted:
            proposal.leave_out(name, name_fault(raw) or "no path rule allows the name")
        return
    if deleted:
        # A name that was only composed anew is deleted under one spelling and there under the other.
        proposal.wanted.setdefault(path, None)
        return
    if path == MOUNT_NAME and line.get("kind") == "folder":
        proposal.leave_out(name, f"a folder named `{MOUNT_NAME}` cannot stand in the root")
        return
    wanted, twin = _wanted(path, line, pack_sizes), proposal.wanted.get(path)
    if twin is None or name == path:
        proposal.wanted[path] = wanted
    if twin is not None:
        proposal.leave_out(name, "another name differs only in how its characters are composed")


def _wanted(path: str, line: dict[str, Any], pack_sizes: Mapping[int, int]) -> Wanted:
    kind, mode = line.get("kind"), line.get("mode")
    if not isinstance(mode, str) or not _MODE.match(mode):
        raise Untrusted(f"gives {path} an impossible mode")
    bits = int(mode, 8)
    if kind == "folder":
        return Wanted(path, "folder", bits)
    if kind != "file":
        raise Untrusted(f"gives {path} an impossible kind")
    size, digest, listed = line.get("bytes"), line.get("sha256"), line.get("pieces") or []
    if type(size) is not int or size < 0 or not isinstance(digest, str) or not _SHA256.match(digest):
        raise Untrusted(f"gives {path} an impossible size or hash")
    if not isinstance(listed, list):
        raise Untrusted(f"gives {path} impossible pieces")
    pieces = tuple(_piece(path, piece, pack_sizes) for piece in listed)
    if pieces and sum(piece.length for piece in pieces) != size:
        raise Untrusted(f"gives {path} pieces that do not add up to its size")
    if size == 0 and digest != EMPTY_SHA256:
        raise Untrusted(f"gives the empty file {path} the hash of another content")
    return Wanted(path, "file", bits, size, digest, pieces)


def _piece(path: str, piece: object, pack_sizes: Mapping[int, int]) -> Piece:
    numbers = [piece.get(name) for name in ("part", "offset", "length")] if isinstance(piece, dict) else []
    part, offset, length = (numbers + [None] * 3)[:3]
    if type(part) is not int or type(offset) is not int or type(length) is not int:
        raise Untrusted(f"gives {path} impossible pieces")
    if part not in pack_sizes or offset < 0 or length <= 0 or offset + length > pack_sizes[part]:
        raise Untrusted(f"gives {path} a piece that lies outside what was sent")
    return Piece(part, offset, length)


def _line(raw: bytes) -> dict[str, Any]:
    if len(raw) > LINE_BYTES:
        raise Untrusted("has a line that is too long")
    try:
        line = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise Untrusted("has a line that is not JSON") from error
    if not isinstance(line, dict):
        raise Untrusted("has a line that is no object")
    return line


def _text(line: Mapping[str, Any], name: str) -> str:
    value = line.get(name)
    if not isinstance(value, str) or not value:
        raise Untrusted(f"has a line without {name}")
    return value


# ---------------------------------------------------------------- the tree that would follow


@dataclass(frozen=True)
class After:
    """The tree with a proposal applied: its totals and the changes that remain to be made."""

    changes: dict[str, Wanted | None]
    files: int
    folders: int
    bytes: int


def weigh(base: Mapping[str, Entry], proposal: Proposal, *, without_spills: bool = False) -> After:
    """Apply the proposal to ``base`` (entries by path); raises :class:`Untrusted` when no tree could look like that.

    Folders that hold something need no entry and get none. ``without_spills`` gives up new spill files, which are
    the first to go when limits would void a run.
    """
    kinds = {path: entry.kind for path, entry in base.items()}
    changes: dict[str, Wanted | None] = {}
    for path, wanted in proposal.wanted.items():
        if wanted is None:
            if path in base:
                changes[path] = None
                del kinds[path]
        elif not (without_spills and path not in base and SPILL_NAME.match(path)):
            changes[path] = wanted
            kinds[path] = "folder" if wanted.kind == "folder" else "file"
    filled = _filled_folders(kinds)
    for path in filled & changes.keys():
        if path not in base and kinds[path] == "folder":
            del changes[path], kinds[path]
    counts = Counter(kinds.values())
    return After(changes, counts["file"], counts["folder"], _total_bytes(base, changes))


def _filled_folders(kinds: Mapping[str, str]) -> set[str]:
    """Every folder that something lies in; raises :class:`Untrusted` when one of them is a file."""
    filled: set[str] = set()
    for path in kinds:
        for folder in parents(path):
            if kinds.get(folder) == "file":
                raise Untrusted(f"puts {path} below {folder}, which is a file")
            filled.add(folder)
    return filled


def _total_bytes(base: Mapping[str, Entry], changes: Mapping[str, Wanted | None]) -> int:
    kept = sum(entry.bytes for path, entry in base.items() if path not in changes)
    return kept + sum(wanted.bytes for wanted in changes.values() if wanted)
