"""A skill's folder on this machine as a bundle, checked as the deployment will check it."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.skills.bundle import (
    FILES,
    BadBundle,
    Bundle,
    Paths,
    bundle_of,
    is_left_out,
    mode_of,
    shown_name,
    too_large,
)

DEFAULT_LIMIT_BYTES = 5 * 1024 * 1024


def read_folder(folder: Path, limit: int = DEFAULT_LIMIT_BYTES) -> Bundle:
    """The skill in ``folder``; raises BadSkill with the reason when it is none, OSError when a file cannot be read."""
    files: dict[str, tuple[bytes, int]] = {}
    paths, size = Paths(), 0
    for path in _walk(folder):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not path.is_file():
            raise BadBundle(f"`{shown_name(name)}` is a link or no plain file. Put the file itself there.")
        if len(files) == FILES:
            raise BadBundle(f"There are more than {FILES:,} files. Leave out what is not needed.")
        status = path.stat()
        size += status.st_size
        if size > limit:
            raise too_large(size, limit)
        files[paths.add(os.fsencode(name))] = path.read_bytes(), mode_of(status.st_mode)
    return bundle_of(files, limit)


def _walk(folder: Path) -> list[Path]:
    """Everything but folders below ``folder``, in order; links to folders are not followed but listed."""
    found: list[Path] = []
    for parent, folders, files in os.walk(folder):
        place = Path(parent)
        links = [name for name in folders if (place / name).is_symlink()]
        folders[:] = sorted(name for name in folders if name not in links and not is_left_out(name))
        found += [place / name for name in (*links, *files) if not is_left_out(name)]
    return sorted(found)
