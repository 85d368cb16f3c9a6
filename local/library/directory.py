"""A plain directory as the file tools need it: reached by directory descriptors, and no link is ever followed.

Names follow the workspace's path rules (:mod:`workbench.workspace.paths`): a name on disk that no rule allows, a link
or a device is left out and named. A name that is stored decomposed is found by its composed form.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
import secrets
import stat
import unicodedata
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, NamedTuple

from sandbox_container.scan import DEEPEST, RESERVED_FOLDER, LeftOut, read_all
from sandbox_container.tree import FILE_FLAGS, FOLDER_FLAGS
from workbench.clock import Clock
from workbench.errors import ToolError, WorkspaceBusy
from workbench.workspace.paths import InvalidPath, name_fault, printable

LOCK_SECONDS = 10.0
_LOCK_PAUSE_SECONDS = 0.01
# A walk that met so much stops and says so: nobody reads further, and memory stays bounded.
ENTRIES_MET = 200_000
LEFT_OUT_NAMED = 50

# What a writer stages before it changes anything; never shown, and removed by whoever locks the directory next.
_STAGING = re.compile(r"\.workbench-tmp-[0-9a-f]{16}\Z")
_OTHER_KINDS = {
    stat.S_IFLNK: "a link",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}

Kind = Literal["file", "folder"]


class NotFollowed(ToolError):
    """Something stands there that is neither a file nor a folder."""

    code = "unsupported_type"

    def __init__(self, path: str, what: str) -> None:
        super().__init__(
            f"`{printable(path)}` is {what}; only plain files and folders are opened here, and no link is followed. "
            "Name the file itself.",
            path=path,
        )


@dataclass(frozen=True, slots=True)
class Found:
    """A file or folder as it stands on disk; permissions without setuid bits."""

    path: str
    kind: Kind
    mode: int
    bytes: int = 0
    # Not known without reading; listings ask for it.
    lines: int | None = None


class Directory:
    """The directory ``root``. Its path is resolved once; from there on only descriptors are used."""

    def __init__(self, root: str | os.PathLike[str], clock: Clock) -> None:
        self.path = Path(root).resolve()
        self._clock = clock

    @contextmanager
    def opened(self) -> Iterator[Top]:
        """To look at. What others write meanwhile is seen whole or not at all."""
        descriptor = self._open()
        try:
            yield Top(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def locked(self) -> Iterator[Top]:
        """To change: one at a time, across threads and processes. Raises WorkspaceBusy after ``LOCK_SECONDS``."""
        descriptor = self._open()
        try:
            # The lock belongs to this opening of the directory, so threads exclude each other too; it leaves no file.
            give_up = self._clock.monotonic() + LOCK_SECONDS
            while True:
                try:
                    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if self._clock.monotonic() > give_up:
                        raise WorkspaceBusy(
                            f"Somebody else has been changing the directory for {LOCK_SECONDS:.0f} s. Nothing was "
                            "changed. Send the call again later."
                        ) from None
                self._clock.sleep(_LOCK_PAUSE_SECONDS)
            try:
                yield Top(descriptor)
            finally:
                # Closing alone would leave it with a child that was forked meanwhile.
                fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)

    def _open(self) -> int:
        try:
            return os.open(self.path, FOLDER_FLAGS)
        except OSError as error:
            raise ToolError(
                f"The root directory cannot be opened ({error.strerror}). Nothing works until it is there again.",
                code="not_found",
            ) from error


class Top:
    """The root, open. Paths are normalised workspace paths; ``""`` is the root itself."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor

    @contextmanager
    def folder(self, path: str) -> Iterator[int | None]:
        """A descriptor of the folder at ``path``; None when there is none. Raises :class:`NotFollowed`."""
        here: int | None = os.dup(self.descriptor)
        try:
            done: list[str] = []
            for segment in _segments(path):
                assert here is not None
                done.append(segment)
                inner = _enter(here, segment, "/".join(done))
                os.close(here)
                here = inner
                if here is None:
                    break
            yield here
        finally:
            if here is not None:
                os.close(here)

    @contextmanager
    def place(self, path: str) -> Iterator[tuple[int, bytes] | None]:
        """The folder that ``path`` lies in and the name that it has or would get there; None without that folder."""
        *_, name = _segments(path)
        with self.folder(path.rpartition("/")[0]) as parent:
            yield None if parent is None else (parent, stored_name(parent, name))

    def look(self, path: str) -> Found | None:
        """What stands at ``path``, or None. Raises :class:`NotFollowed`."""
        if not path:
            return _found("", os.fstat(self.descriptor))
        status = self.status(path)
        return None if status is None else _found(path, status)

    def status(self, path: str) -> os.stat_result | None:
        """What the file system says of ``path``, which is not the root, or None without it; no link is followed."""
        with self.place(path) as place:
            if place is None:
                return None
            try:
                return os.lstat(place[1], dir_fd=place[0])
            except FileNotFoundError:
                return None

    def read(self, path: str, most: int) -> tuple[Found, bytes] | None:
        """A file with its bytes, or None. Raises :class:`NotFollowed`, and ``too_large`` above ``most`` bytes."""
        with self.place(path) as place:
            if place is None:
                return None
            return read_file(place[0], place[1], path, most)

    def walk(self, folder: str = "") -> Walk:
        """Everything below ``folder``, in the order of the paths' bytes."""
        return Walk(self, folder)


def read_file(parent: int, name: bytes, path: str, most: int) -> tuple[Found, bytes] | None:
    """The file ``name`` of an open folder, or None when there is none (any more). Raises as :meth:`Top.read`."""
    try:
        descriptor = os.open(name, FILE_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        return None
    except OSError as error:
        # A link (ELOOP) or a socket (ENXIO) is told as what it is; everything else is a fault of the machine.
        if error.errno in (errno.ELOOP, errno.ENXIO):
            _found(path, os.lstat(name, dir_fd=parent))
        raise
    try:
        found = _found(path, os.fstat(descriptor))
        if found.kind == "folder":
            return found, b""
        if found.bytes > most:
            raise ToolError(
                f"`{printable(path)}` has {found.bytes:,} bytes; the file tools open up to {most:,}.",
                code="too_large",
                path=path,
            )
        # A file that grows meanwhile is read as far as it went when it was opened.
        return found, b"".join(read_all(descriptor, found.bytes))
    finally:
        os.close(descriptor)


def stored_name(parent: int, name: str) -> bytes:
    """The name as it is on disk: exactly, or else the first that differs only in how characters are composed."""
    exact = name.encode()
    if name.isascii():
        return exact
    try:
        os.lstat(exact, dir_fd=parent)
        return exact
    except FileNotFoundError:
        same = [raw for raw in names_in(parent) if composed(raw) == name]
        return min(same, default=exact)


class Visit(NamedTuple):
    """One entry met on a walk: what it is, and where it can be opened until the next one is asked for."""

    found: Found
    parent: int
    name: bytes


@dataclass
class Walk:
    """One walk; ``left_out`` and ``complete`` are true of what was met so far."""

    top: Top
    folder: str
    left_out: list[LeftOut] = field(default_factory=list)
    left_out_count: int = 0
    complete: bool = True

    def __iter__(self) -> Iterator[Found]:
        return (visit.found for visit in self.visits())

    def visits(self) -> Iterator[Visit]:
        """Parents before what they hold. A folder that cannot be opened is left out by name, never shown as empty."""
        stack: list[tuple[int, Iterator[Visit]]] = []
        met = 0
        try:
            with self.top.folder(self.folder) as start:
                if start is None:
                    return
                stack.append(self._entered(os.dup(start), self.folder))
            while stack:
                visit = next(stack[-1][1], None)
                if visit is None:
                    os.close(stack.pop()[0])
                    continue
                met += 1
                if met > ENTRIES_MET:
                    self.complete = False
                    return
                if visit.found.kind == "file":
                    yield visit
                elif len(stack) >= DEEPEST:
                    self._leave_out(visit.found.path, f"folders are nested more than {DEEPEST} deep")
                else:
                    try:
                        inner = os.open(visit.name, FOLDER_FLAGS, dir_fd=visit.parent)
                    except FileNotFoundError:
                        continue
                    except OSError as error:
                        self._leave_out(visit.found.path, f"the folder cannot be opened ({error.strerror})")
                        continue
                    stack.append(self._entered(inner, visit.found.path))
                    yield visit
        finally:
            for descriptor, _ in stack:
                os.close(descriptor)

    def _entered(self, descriptor: int, path: str) -> tuple[int, Iterator[Visit]]:
        before = f"{path}/" if path else ""
        names = names_in(descriptor)
        taken = {name.decode("utf-8", "surrogateescape") for name in names}
        visits: list[tuple[bytes, Visit]] = []
        for name in names:
            if not path and _STAGING.match(os.fsdecode(name)):
                continue
            shown = before + printable(os.fsdecode(name))
            reason = name_fault(before.encode() + name)
            if reason is None:
                spelled = composed(name)
                if spelled.encode() != name:
                    if spelled in taken:
                        reason = "another name differs only in how its characters are composed"
                    taken.add(spelled)
            with suppress(FileNotFoundError):  # it went away since the folder was read
                if reason is None:
                    status = os.lstat(name, dir_fd=descriptor)
                    reason = _OTHER_KINDS.get(stat.S_IFMT(status.st_mode))
                if reason is not None:
                    self._leave_out(shown, reason)
                    continue
                found = _found(before + spelled, status)
                if found == replace(found, path=RESERVED_FOLDER, kind="folder"):
                    # As in a conversation's workspace, where code sees the tree under this name.
                    self._leave_out(shown, f"a folder named {RESERVED_FOLDER} cannot stand at the top")
                    continue
                key = f"{spelled}/" if found.kind == "folder" else spelled
                visits.append((key.encode(), Visit(found, descriptor, name)))
        visits.sort(key=lambda one: one[0])
        return descriptor, iter([visit for _, visit in visits])

    def _leave_out(self, name: str, reason: str) -> None:
        self.left_out_count += 1
        if len(self.left_out) < LEFT_OUT_NAMED:
            self.left_out.append(LeftOut(name, reason))


def staging_name() -> str:
    """A fresh name for a writer's staging folder in the root."""
    return f".workbench-tmp-{secrets.token_hex(8)}"


def staged_names(descriptor: int) -> Sequence[str]:
    """Staging folders in the root that ``descriptor`` is open on."""
    return [name for name in map(os.fsdecode, names_in(descriptor)) if _STAGING.match(name)]


def is_staging(path: str) -> bool:
    """True for a path that only writers use."""
    return _STAGING.match(path.partition("/")[0]) is not None


def _segments(path: str) -> list[str]:
    """The names in a normalised path. Whatever was checked before: none of them leads up."""
    segments = path.split("/") if path else []
    if any(segment in ("", ".", "..") for segment in segments):
        raise InvalidPath(f"`{printable(path)}` is no path below the root.")
    return segments


def _enter(parent: int, segment: str, path: str) -> int | None:
    name = stored_name(parent, segment)
    try:
        return os.open(name, FOLDER_FLAGS, dir_fd=parent)
    except FileNotFoundError:
        return None
    except (NotADirectoryError, OSError) as error:
        if error.errno not in (errno.ENOTDIR, errno.ELOOP):
            raise
        with suppress(FileNotFoundError):
            _found(path, os.lstat(name, dir_fd=parent))
        return None


def _found(path: str, status: os.stat_result) -> Found:
    kind = stat.S_IFMT(status.st_mode)
    if kind in _OTHER_KINDS:
        raise NotFollowed(path, _OTHER_KINDS[kind])
    permissions = stat.S_IMODE(status.st_mode) & 0o777
    if kind == stat.S_IFDIR:
        return Found(path, "folder", permissions)
    return Found(path, "file", permissions, status.st_size)


def names_in(descriptor: int) -> list[bytes]:
    """The names in an open folder, in the order of their bytes."""
    return sorted(map(os.fsencode, os.listdir(descriptor)))


def composed(name: bytes) -> str:
    """A name on disk as paths spell it."""
    return unicodedata.normalize("NFC", name.decode("utf-8", "surrogateescape"))
