"""Reads back what the program left of its workspace. Nothing about it is believed, and it fails closed.

An iterative walk over directory descriptors, run when no process of the sandbox is left. Entries are told apart by
what they are (``fstat``), contents by their hash: sizes and times can be forged. What a workspace cannot hold is left
out and named; a tree that is too deep, too large or unreadable is refused as a whole.
"""

import hashlib
import os
import re
import stat
import time
import unicodedata
from collections.abc import Iterator
from typing import NamedTuple

from sandbox_container import tree
from sandbox_container.job import Limits

DEEPEST = 128
SCAN_SECONDS = 120.0
_READ_BYTES = 1024 * 1024
_PERMISSIONS = 0o777  # a setuid bit has no business in a workspace
_PATH_BYTES, _SEGMENT_BYTES = 1024, 255
_NAMED_AT_MOST = 200
_FOLDERS_PER_FILE = 2
_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}
# The tree is mounted under this name, so a folder of that name at its top could not be told from it.
RESERVED_FOLDER = "workspace"
SPILL = re.compile(r"\.spill-([1-9][0-9]{0,5})\.txt")
_SPILLS_AT_MOST = 100


class Refused(Exception):
    """The tree cannot be taken over; the message says why."""


class TooLarge(Refused):
    """It is deeper, or holds more, than a workspace may."""


class Found(NamedTuple):
    """A file or a folder. Until the next one is asked for, a file's content can be read (again) with :meth:`read`."""

    path: str
    kind: str
    mode: int
    descriptor: int
    size: int = 0
    sha256: str = ""
    data: bytes | None = None  # of a file small enough to be kept while it was hashed

    @classmethod
    def of_data(cls, path: str, data: bytes) -> "Found":
        """A file that we add ourselves."""
        return cls(path, "file", 0o644, -1, len(data), hashlib.sha256(data).hexdigest(), data)

    def read(self) -> Iterator[bytes]:
        if self.data is not None:
            return iter((self.data,))
        os.lseek(self.descriptor, 0, os.SEEK_SET)
        return read_all(self.descriptor, self.size)


class LeftOut(NamedTuple):
    name: str
    reason: str


class _Folder(NamedTuple):
    descriptor: int
    path: str
    names: Iterator[bytes]
    taken: set[bytes]  # composed or not: two names that differ only in that are one path


class Scan:
    """One walk over the folder ``top``; :meth:`found` yields its entries, ``left_out`` what was not taken."""

    def __init__(self, top: int, limits: Limits, keep_bytes: int) -> None:
        self._top, self._limits, self._keep_bytes = top, limits, keep_bytes
        self._deadline = time.monotonic() + SCAN_SECONDS
        self._most_folders = _FOLDERS_PER_FILE * limits.workspace_files
        self._most_entries = self._most_folders + limits.workspace_files + _NAMED_AT_MOST
        self._folders = self._left_out = self._spills = 0
        self.files = self.size = 0
        self.left_out: list[LeftOut] = []

    def found(self) -> Iterator[Found]:
        """Every file and folder, parents first. Raises :class:`Refused`; OSError means unreadable, refused as well."""
        stack = [self._enter(os.dup(self._top), "")]
        try:
            while stack:
                folder = stack[-1]
                raw = next(folder.names, None)
                if raw is None:
                    os.close(stack.pop().descriptor)
                    continue
                found = self._look(folder, raw)
                if found is None:
                    continue
                if found.kind == "folder":
                    if len(stack) >= DEEPEST:
                        os.close(found.descriptor)
                        raise TooLarge(f"folders are nested more than {DEEPEST} deep")
                    stack.append(self._enter(found.descriptor, found.path))
                    yield found
                    continue
                try:
                    yield found
                finally:
                    os.close(found.descriptor)
        finally:
            for open_folder in stack:
                os.close(open_folder.descriptor)

    def _enter(self, descriptor: int, path: str) -> _Folder:
        names: list[bytes] = []
        with os.scandir(descriptor) as entries:
            for entry in entries:
                names.append(os.fsencode(entry.name))
                if len(names) > self._most_entries:
                    raise TooLarge("too many entries in one folder")
        names.sort()
        return _Folder(descriptor, path, iter(names), set(names))

    def _look(self, folder: _Folder, raw: bytes) -> Found | None:
        if time.monotonic() > self._deadline:
            raise Refused("reading the tree took too long")
        before = f"{folder.path}/" if folder.path else ""
        mode = os.lstat(raw, dir_fd=folder.descriptor).st_mode
        name, complaint = usable(raw)
        path, composed = before + name, name.encode()
        if stat.S_IFMT(mode) in _KINDS:
            complaint = _KINDS[stat.S_IFMT(mode)]
        elif complaint:
            pass
        elif composed != raw and composed in folder.taken:
            complaint = "another name differs only in how its characters are composed"
        elif len(path.encode()) > _PATH_BYTES:
            complaint = f"its path is longer than {_PATH_BYTES} bytes"
        elif path == RESERVED_FOLDER and stat.S_ISDIR(mode):
            complaint = f"a folder named {RESERVED_FOLDER} cannot stand at the top of the workspace"
        if complaint:
            self._leave_out(before + _printable(raw), complaint)
            return None
        folder.taken.add(composed)
        if not stat.S_ISDIR(mode):
            return self._file(folder.descriptor, raw, path)
        self._folders += 1
        if self._folders > self._most_folders:
            raise TooLarge("too many folders")
        inner = os.open(raw, tree.FOLDER_FLAGS, dir_fd=folder.descriptor)
        return Found(path, "folder", stat.S_IMODE(mode) & _PERMISSIONS, inner)

    def _file(self, parent: int, raw: bytes, path: str) -> Found:
        descriptor = os.open(raw, tree.FILE_FLAGS, dir_fd=parent)
        try:
            status = os.fstat(descriptor)
            if not stat.S_ISREG(status.st_mode):
                raise Refused(f"{path} changed while it was read")
            self._count(path, status.st_size)
            if self.files > self._limits.workspace_files:
                raise TooLarge("too many files")
            if self.size > self._limits.workspace_bytes:
                raise TooLarge("too many bytes in all files together")
            sha256, data = self._hash(descriptor, status.st_size, path)
        except BaseException:
            os.close(descriptor)
            raise
        mode = stat.S_IMODE(status.st_mode) & _PERMISSIONS
        return Found(path, "file", mode, descriptor, status.st_size, sha256, data)

    def _count(self, path: str, size: int) -> None:
        # Spill files of earlier runs are the first to go when a tree is over its limits, so they must not void it here.
        if SPILL.fullmatch(path) and size <= self._limits.output_bytes and self._spills < _SPILLS_AT_MOST:
            self._spills += 1
            return
        self.files += 1
        self.size += size

    def _hash(self, descriptor: int, size: int, path: str) -> tuple[str, bytes | None]:
        if size <= self._keep_bytes:
            data = b"".join(read_all(descriptor, size))
            if len(data) != size:
                raise Refused(f"{path} changed while it was read")
            return hashlib.sha256(data).hexdigest(), data
        digest = hashlib.sha256()
        for piece in read_all(descriptor, size):
            digest.update(piece)
            if time.monotonic() > self._deadline:
                raise Refused("reading the tree took too long")
        return digest.hexdigest(), None

    def _leave_out(self, shown: str, reason: str) -> None:
        self._left_out += 1
        if self._left_out <= _NAMED_AT_MOST:
            self.left_out.append(LeftOut(shown, reason))
        elif self._left_out == _NAMED_AT_MOST + 1:
            self.left_out.append(LeftOut("…", f"more than {_NAMED_AT_MOST} entries were left out"))
        if self._left_out > self._most_entries:
            raise TooLarge("too many entries that a workspace cannot hold")


def read_all(descriptor: int, size: int) -> Iterator[bytes]:
    """The file in pieces, ``size`` bytes and no more."""
    while size > 0:
        data = os.read(descriptor, min(size, _READ_BYTES))
        if not data:
            return
        size -= len(data)
        yield data


def usable(raw: bytes) -> tuple[str, str]:
    """The name as text and, where the path rules forbid it, why."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "", "its name is not UTF-8"
    text = unicodedata.normalize("NFC", text)
    if any(ord(character) < 32 or 127 <= ord(character) < 160 for character in text):
        return text, "its name holds a control character"
    if "\\" in text:
        return text, "its name holds a backslash"
    if len(text.encode()) > _SEGMENT_BYTES:
        return text, f"its name is longer than {_SEGMENT_BYTES} bytes"
    return text, ""


def _printable(raw: bytes) -> str:
    text = raw.decode("utf-8", "backslashreplace")
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
