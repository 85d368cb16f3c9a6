"""Directory descriptors: opening, making and removing without ever following a link or a path."""

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY


@contextmanager
def folder(path: str) -> Iterator[int]:
    """A descriptor of the folder at ``path``, closed afterwards."""
    descriptor = os.open(path, FOLDER_FLAGS)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def empty(top: int) -> None:
    """Remove everything beneath the folder ``top``, however deep and whatever its modes.

    Every folder met is first moved up to ``top``, so neither the depth of the tree nor the length of its paths
    matters. For use when nothing of the sandbox runs any more.
    """
    serial = 0
    waiting: list[str] = []
    names = os.listdir(top)
    parent = top
    while True:
        for name in names:
            if not _unlocked_folder(name, parent):
                os.unlink(name, dir_fd=parent)
            elif parent == top:
                waiting.append(name)
            else:
                moved, serial = _free_name(top, serial)
                os.rename(name, moved, src_dir_fd=parent, dst_dir_fd=top)
                waiting.append(moved)
        if parent != top:
            os.close(parent)
            os.rmdir(waiting.pop(0), dir_fd=top)
        if not waiting:
            return
        parent = os.open(waiting[0], FOLDER_FLAGS, dir_fd=top)
        names = os.listdir(parent)


def remove(name: str, parent: int) -> None:
    """Remove the entry ``name`` of the folder ``parent``, with everything beneath it."""
    try:
        is_folder = _unlocked_folder(name, parent)
    except FileNotFoundError:
        return
    if not is_folder:
        os.unlink(name, dir_fd=parent)
        return
    descriptor = os.open(name, FOLDER_FLAGS, dir_fd=parent)
    try:
        empty(descriptor)
    finally:
        os.close(descriptor)
    os.rmdir(name, dir_fd=parent)


def _unlocked_folder(name: str, parent: int) -> bool:
    """Whether the entry is a folder; one whose mode keeps its own owner out is opened up."""
    mode = os.lstat(name, dir_fd=parent).st_mode
    if not stat.S_ISDIR(mode):
        return False
    if mode & 0o700 != 0o700:
        os.chmod(name, 0o700, dir_fd=parent)
    return True


def _free_name(top: int, serial: int) -> tuple[str, int]:
    while True:
        serial += 1
        name = f"remove-{serial}"
        try:
            os.lstat(name, dir_fd=top)
        except FileNotFoundError:
            return name, serial
