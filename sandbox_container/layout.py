"""Lays out what the code sees, by directory descriptors, from the plan and the data stream.

Names are checked although the route is trusted: the paths were once chosen by people and by earlier runs.
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sandbox_container import tree
from sandbox_container.route import PART_BYTES

WORKSPACE, INPUTS, SKILLS, PROGRAM = "workspace", "inputs", "skills", "program"
FOLDERS = (WORKSPACE, INPUTS, SKILLS)
_READ_ONLY_FILE, _READ_ONLY_FOLDER, _WRITABLE_FOLDER = 0o444, 0o555, 0o755
_PERMISSIONS = 0o777
_PLAN_CAP = 200_000
_FILE_OPEN = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class Planned(NamedTuple):
    """One line of the plan. ``path`` is relative to its root; ``offset`` counts in the data stream."""

    root: str
    path: str
    kind: str
    mode: int
    size: int
    sha256: str
    offset: int


class Owner(NamedTuple):
    uid: int
    gid: int


def parse_plan(text: bytes) -> list[Planned]:
    """The plan's lines, checked. ValueError names the line."""
    plan = []
    for number, line in enumerate(text.splitlines(), 1):
        if number > _PLAN_CAP:
            raise ValueError("the plan has too many lines")
        try:
            plan.append(_planned(json.loads(line)))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"line {number} of the plan does not fit: {error}") from error
    if [entry.root for entry in plan].count(PROGRAM) != 1:
        raise ValueError("the plan holds no program, or several")
    return plan


def _planned(line: dict[str, Any]) -> Planned:
    root, kind, path = line["root"], line["kind"], str(line["path"])
    segments = path.split("/")
    if root not in (*FOLDERS, PROGRAM) or kind not in ("file", "folder"):
        raise ValueError(f"no such root or kind: {root!r}, {kind!r}")
    if "\0" in path or any(segment in ("", ".", "..") for segment in segments):
        raise ValueError(f"no path: {path!r}")
    default = "0644" if kind == "file" else "0755"
    mode = int(str(line.get("mode") or default), 8) & _PERMISSIONS
    if kind == "folder":
        return Planned(root, path, kind, mode, 0, "", 0)
    size, offset = int(line["bytes"]), int(line.get("offset") or 0)
    if size < 0 or offset < 0:
        raise ValueError("a negative size or offset")
    return Planned(root, path, kind, mode, size, str(line["sha256"]), offset)


class DataStream:
    """Random access to the data stream, of which two parts are kept: files come sorted by offset."""

    def __init__(self, fetch: Callable[[int], bytes], parts: int) -> None:
        self._fetch, self._parts = fetch, parts
        self._kept: dict[int, bytes] = {}

    def read(self, offset: int, length: int) -> Iterator[memoryview]:
        while length > 0:
            part, start = divmod(offset, PART_BYTES)
            piece = memoryview(self._part(part))[start : start + length]
            if not piece:
                raise ValueError("the data stream ends too early")
            yield piece
            offset += len(piece)
            length -= len(piece)

    def _part(self, part: int) -> bytes:
        if part not in self._kept:
            if part >= self._parts:
                raise ValueError("the data stream ends too early")
            while len(self._kept) > 1:
                del self._kept[min(self._kept)]
            self._kept[part] = self._fetch(part)
        return self._kept[part]


class Layout:
    """Writes a plan beneath ``root``. The workspace belongs to ``owner``, everything else to us and is read-only."""

    def __init__(self, root: str, owner: Owner) -> None:
        self._root, self._owner = root, owner
        self._open: list[tuple[str, int]] = []  # the chain of open folders of the last path, and their names

    def write(self, plan: list[Planned], data: DataStream, program_name: str) -> None:
        """Everything in the plan, the program as ``program_name``. ValueError when a file is not what it should be."""
        with tree.folder(self._root) as top:
            for name in FOLDERS:
                os.mkdir(name, 0o700, dir_fd=top)
            try:
                for entry in plan:
                    if entry.root == PROGRAM:
                        self._file(top, program_name, entry._replace(mode=_READ_ONLY_FILE), data)
                    else:
                        self._entry(top, entry, data)
            finally:
                self._close_down_to(0)
            # Last and from the leaves up, because a mode such as 0555 or 0000 may stop us too.
            odd = [e for e in plan if e.kind == "folder" and e.root == WORKSPACE and e.mode != _WRITABLE_FOLDER]
            for entry in sorted(odd, key=lambda entry: entry.path, reverse=True):
                self._set_mode(top, entry)
            for name in FOLDERS:
                os.chmod(name, _WRITABLE_FOLDER if name == WORKSPACE else _READ_ONLY_FOLDER, dir_fd=top)
                if name == WORKSPACE:
                    os.chown(name, *self._owner, dir_fd=top, follow_symlinks=False)

    def _entry(self, top: int, entry: Planned, data: DataStream) -> None:
        segments = [entry.root, *entry.path.split("/")]
        if entry.kind == "folder":
            self._folder(top, segments)
        else:
            self._file(self._folder(top, segments[:-1]), segments[-1], entry, data)

    def _folder(self, top: int, segments: list[str]) -> int:
        """A descriptor of the folder, made where missing; the chain stays open for the next path."""
        same = 0
        for (name, _), segment in zip(self._open, segments, strict=False):
            if name != segment:
                break
            same += 1
        self._close_down_to(same)
        parent = self._open[-1][1] if self._open else top
        writable = segments[0] == WORKSPACE
        for segment in segments[same:]:
            try:
                os.mkdir(segment, 0o755, dir_fd=parent)
                made = True
            except FileExistsError:
                made = False
            parent = os.open(segment, tree.FOLDER_FLAGS, dir_fd=parent)
            self._open.append((segment, parent))
            if made and writable:
                os.fchown(parent, *self._owner)
        return parent

    def _file(self, parent: int, name: str, entry: Planned, data: DataStream) -> None:
        descriptor = os.open(name, _FILE_OPEN, 0o600, dir_fd=parent)
        try:
            digest = hashlib.sha256()
            for piece in data.read(entry.offset, entry.size):
                digest.update(piece)
                _write_all(descriptor, piece)
            if digest.hexdigest() != entry.sha256:
                raise ValueError(f"{entry.root}/{entry.path} is not what its sum says")
            if entry.root == WORKSPACE:
                os.fchown(descriptor, *self._owner)
            os.fchmod(descriptor, entry.mode if entry.root == WORKSPACE else _READ_ONLY_FILE | entry.mode & 0o111)
        finally:
            os.close(descriptor)

    def _set_mode(self, top: int, entry: Planned) -> None:
        parent = top
        try:
            for segment in (entry.root, *entry.path.split("/")):
                inner = os.open(segment, tree.FOLDER_FLAGS, dir_fd=parent)
                if parent != top:
                    os.close(parent)
                parent = inner
            os.fchmod(parent, entry.mode)
        finally:
            if parent != top:
                os.close(parent)

    def _close_down_to(self, depth: int) -> None:
        while len(self._open) > depth:
            os.close(self._open.pop()[1])


def _write_all(descriptor: int, data: memoryview) -> None:
    while data:
        data = data[os.write(descriptor, data) :]


def mounted(plan: list[Planned]) -> list[str]:
    """The paths of the inputs and skills, as the code sees them."""
    return [f"{entry.root}/{entry.path}" for entry in plan if entry.root in (INPUTS, SKILLS) and entry.kind == "file"]
