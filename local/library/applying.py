"""Changes to a directory, all of them or none: staged first, then moved into place, with a journal to go back by.

Every new content is written and flushed before anything is touched. Then files are exchanged by rename, so that a
reader sees the old file or the new one. A step that fails undoes the ones before it; after a crash the next writer
does so from the journal. Callers hold the directory's lock.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from local.library.directory import Directory, Top, read_file, staged_names, staging_name
from sandbox_container import tree
from workbench.errors import ToolError
from workbench.workspace.paths import check_path, parents

_JOURNAL = "journal"
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
# Of a folder that we make and that is taken away again.
_NEW_FOLDER = 0o755
_OWNER_ENTERS = 0o700
# More files than this are flushed together.
_FLUSHED_ONE_BY_ONE = 8

Contents = Callable[[], Iterable[bytes]]


@dataclass(frozen=True, slots=True)
class Put:
    """A file as it shall be: permissions, and its bytes in pieces."""

    path: str
    mode: int
    sha256: str
    contents: Contents


@dataclass(frozen=True, slots=True)
class Drop:
    """A file, or a folder that is empty by then, that shall be gone."""

    path: str
    kind: Literal["file", "folder"]


@dataclass(frozen=True, slots=True)
class Shape:
    """A folder that shall be there; ``mode`` None leaves it as it is, or as new folders are."""

    path: str
    mode: int | None = None


Change = Put | Drop | Shape


class _Step(NamedTuple):
    """One line of the journal. ``number`` names the staged files ``new-N`` and ``old-N``; modes are a folder's."""

    what: Literal["put", "drop", "make", "unmake", "mode"]
    path: str
    number: int = -1
    sha256: str = ""
    mode: int = 0
    mode_before: int = 0


@contextmanager
def writing(directory: Directory) -> Iterator[Top]:
    """The directory locked for one writer, and whole: what a crash left half done is undone first."""
    with directory.locked() as top:
        recover(top)
        yield top


def apply(top: Top, changes: Sequence[Change]) -> None:
    """Make every change, or raise OSError and make none. Missing folders are made, with modes as the umask has them."""
    if not changes:
        return
    name = staging_name()
    os.mkdir(name, 0o700, dir_fd=top.descriptor)
    staging = os.open(name, tree.FOLDER_FLAGS, dir_fd=top.descriptor)
    steps: list[_Step] = []
    try:
        steps = _staged(top, staging, changes)
        # A single rename is whole by itself.
        if len(steps) > 1:
            _write(staging, _JOURNAL, [json.dumps(steps).encode()], 0o600, flush=True)
        for step in steps:
            _do(top, staging, step)
        _flush(top, [change.path for change in changes if not isinstance(change, Shape)])
        # From here on the changes stand, whatever becomes of what was staged.
        _close_journal(staging)
    except BaseException:
        _undo(top, staging, steps)
        _close_journal(staging)
        raise
    finally:
        os.close(staging)
        with suppress(OSError):  # the next writer removes it
            tree.remove(name, top.descriptor)


def recover(top: Top) -> None:
    """Undo what a writer that crashed has left half done, and remove what it staged."""
    for name in staged_names(top.descriptor):
        with _opened(name, top) as staging:
            if staging is not None:
                _undo(top, staging, _journal(staging))
                _close_journal(staging)
        tree.remove(name, top.descriptor)


@contextmanager
def _opened(name: str, top: Top) -> Iterator[int | None]:
    try:
        descriptor = os.open(name, tree.FOLDER_FLAGS, dir_fd=top.descriptor)
    except OSError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


# ---------------------------------------------------------------- before anything is touched


def _staged(top: Top, staging: int, changes: Sequence[Change]) -> list[_Step]:
    """Write every new content, and say what to do in which order: files go, folders go, folders come, files come."""
    puts = [change for change in changes if isinstance(change, Put)]
    drops = [change for change in changes if isinstance(change, Drop)]
    shapes = [change for change in changes if isinstance(change, Shape)]
    gone = {change.path for change in drops}
    files = [change.path for change in drops if change.kind == "file"]
    folders = sorted((change.path for change in drops if change.kind == "folder"), reverse=True)
    locked = [(shape.path, _mode_of(top, shape.path)) for shape in shapes if shape.path not in gone]
    steps = [
        _Step("mode", path, mode=mode | _OWNER_ENTERS, mode_before=mode)
        for path, mode in sorted(locked)
        if mode & _OWNER_ENTERS != _OWNER_ENTERS
    ]
    steps += [_Step("drop", path, number) for number, path in enumerate(files)]
    steps += [_Step("unmake", path, mode_before=_mode_of(top, path)) for path in folders]
    wanted = {shape.path for shape in shapes}.union(*(parents(put.path) for put in puts))
    wanted.update(*(parents(shape.path) for shape in shapes))
    made = [path for path in sorted(wanted) if path in gone or top.look(path) is None]
    steps += [_Step("make", path) for path in made]
    one_by_one = len(puts) <= _FLUSHED_ONE_BY_ONE
    for number, put in enumerate(puts, len(files)):
        owner = _owner(top, put.path)
        _write(staging, f"new-{number}", put.contents(), put.mode, owner=owner, flush=one_by_one)
        steps.append(_Step("put", put.path, number, put.sha256))
    if not one_by_one:
        _flush_all(staging)
    # From the leaves up: a mode may keep its own owner out.
    shaped = sorted((shape for shape in shapes if shape.mode is not None), key=lambda one: one.path, reverse=True)
    steps += [
        _Step(
            "mode",
            shape.path,
            mode=shape.mode or 0,
            mode_before=_NEW_FOLDER if shape.path in made else _mode_of(top, shape.path),
        )
        for shape in shaped
    ]
    return steps


def _write(
    staging: int, name: str, contents: Iterable[bytes], mode: int, *, flush: bool, owner: tuple[int, int] | None = None
) -> None:
    descriptor = os.open(name, _NEW_FILE, 0o600, dir_fd=staging)
    try:
        for piece in contents:
            view = memoryview(piece)
            while view:
                view = view[os.write(descriptor, view) :]
        if owner is not None:
            with suppress(PermissionError):  # only root may give a file away
                os.fchown(descriptor, *owner)
        os.fchmod(descriptor, mode)
        if flush:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _flush(top: Top, paths: Sequence[str]) -> None:
    """What was renamed stays renamed."""
    if len(paths) > _FLUSHED_ONE_BY_ONE:
        _flush_all(top.descriptor)
        return
    for path in paths:
        with top.place(path) as place:
            if place is not None:
                os.fsync(place[0])


def _flush_all(descriptor: int) -> None:
    # One call for the whole file system, where one for each of many files takes seconds.
    library = ctypes.CDLL(None, use_errno=True)
    if not hasattr(library, "syncfs"):
        os.sync()
    elif library.syncfs(descriptor):
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))


def _mode_of(top: Top, path: str) -> int:
    found = top.look(path)
    return found.mode if found is not None else _NEW_FOLDER


def _owner(top: Top, path: str) -> tuple[int, int] | None:
    """Whose the file is that will be replaced, where that is somebody else."""
    status = top.status(path)
    if status is None or (status.st_uid, status.st_gid) == (os.geteuid(), os.getegid()):
        return None
    return status.st_uid, status.st_gid


# ---------------------------------------------------------------- forth and back


def _do(top: Top, staging: int, step: _Step) -> None:
    with top.place(step.path) as place:
        if place is None:
            raise FileNotFoundError(errno.ENOENT, "the folder that it lies in is gone", step.path)
        parent, name = place
        old = f"old-{step.number}"
        if step.what == "make":
            os.mkdir(name, dir_fd=parent)
        elif step.what == "unmake":
            os.rmdir(name, dir_fd=parent)
        elif step.what == "mode":
            _set_mode(parent, name, step.mode)
        elif step.what == "drop":
            _require_file(parent, name)
            os.rename(name, old, src_dir_fd=parent, dst_dir_fd=staging)
        else:
            if _exists(parent, name):
                _keep(parent, name, staging, old)
            os.rename(f"new-{step.number}", name, src_dir_fd=staging, dst_dir_fd=parent)


def _keep(parent: int, name: bytes, staging: int, old: str) -> None:
    """A second name for what is about to be replaced; where the file system knows none, the file itself moves."""
    _require_file(parent, name)
    try:
        os.link(name, old, src_dir_fd=parent, dst_dir_fd=staging, follow_symlinks=False)
    except OSError:
        os.rename(name, old, src_dir_fd=parent, dst_dir_fd=staging)


def _require_file(parent: int, name: bytes) -> None:
    # Somebody else may have put a folder there just now, and all that it holds would go with it.
    if not stat.S_ISREG(os.lstat(name, dir_fd=parent).st_mode):
        raise OSError(errno.EISDIR, "no file stands there any more", os.fsdecode(name))


def _undo(top: Top, staging: int, steps: Sequence[_Step]) -> None:
    """Take back what was done of the steps; each may have been done, or not."""
    staged = set(os.listdir(staging))
    for step in reversed(steps):
        with suppress(OSError, ToolError), top.place(step.path) as place:
            if place is not None:
                _undo_one(staging, staged, step, *place)


def _undo_one(staging: int, staged: set[str], step: _Step, parent: int, name: bytes) -> None:
    old = f"old-{step.number}"
    if step.what == "make":
        os.rmdir(name, dir_fd=parent)
    elif step.what == "unmake":
        os.mkdir(name, 0o700, dir_fd=parent)
        _set_mode(parent, name, step.mode_before)
    elif step.what == "mode":
        _set_mode(parent, name, step.mode_before)
    elif step.what == "drop":
        if old in staged and not _exists(parent, name):
            os.rename(old, name, src_dir_fd=staging, dst_dir_fd=parent)
    elif f"new-{step.number}" not in staged and _is_ours(parent, name, step):
        if old in staged:
            os.rename(old, name, src_dir_fd=staging, dst_dir_fd=parent)
        else:
            os.unlink(name, dir_fd=parent)
    elif old in staged and not _exists(parent, name):
        os.rename(old, name, src_dir_fd=staging, dst_dir_fd=parent)


def _is_ours(parent: int, name: bytes, step: _Step) -> bool:
    """Whether the file still is what we put there: what somebody wrote after a crash is not taken back."""
    read = read_file(parent, name, step.path, 1 << 40)
    return read is not None and hashlib.sha256(read[1]).hexdigest() == step.sha256


def _exists(parent: int, name: bytes) -> bool:
    try:
        os.lstat(name, dir_fd=parent)
    except FileNotFoundError:
        return False
    return True


def _set_mode(parent: int, name: bytes, mode: int) -> None:
    if stat.S_ISDIR(os.lstat(name, dir_fd=parent).st_mode):
        os.chmod(name, mode, dir_fd=parent)


def _close_journal(staging: int) -> None:
    """No step is undone after this. It comes before anything else of the staging folder is removed."""
    with suppress(FileNotFoundError):
        os.unlink(_JOURNAL, dir_fd=staging)


def _journal(staging: int) -> list[_Step]:
    """The steps of a journal; none when it was not written to its end, and so nothing was touched."""
    try:
        read = read_file(staging, _JOURNAL.encode(), _JOURNAL, 1 << 40)
        lines: Any = json.loads(read[1]) if read is not None else []
        steps = [_Step(*line) for line in lines]
        # One that we did not write may say anything.
        return steps if all(check_path(step.path) == step.path for step in steps) else []
    except (ValueError, TypeError, ToolError):
        return []
