"""A skill's files as data, and which files may be a skill together. Zips and folders are read beside. No AWS here."""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from workbench.skills.skill_file import SKILL_FILE, BadSkill, Skill, parse_skill_file
from workbench.workspace.paths import name_fault, parents, printable

FILES = 1_000
SKILL_FILE_BYTES = 1024 * 1024
# The list of a skill's files stands in an item, which holds 400 KB.
PATHS_BYTES = 128 * 1024
FOLDERS_DEEP = 32
PLAIN, EXECUTABLE = 0o644, 0o755
_SHOWN_CHARACTERS = 160

# What file managers and version control leave beside the files that people mean.
_LEFT_BY_OTHERS = frozenset({"__MACOSX", ".DS_Store", "Thumbs.db", "desktop.ini", ".git", "__pycache__"})


class BadBundle(BadSkill):
    """The files make no skill; the reason names the file."""


class BundleTooLarge(BadBundle):
    """Together the files are over the deployment's limit."""


@dataclass(frozen=True, slots=True)
class BundleFile:
    """One file; ``mode`` is 0644, or 0755 for a program."""

    path: str
    data: bytes
    mode: int = PLAIN

    @property
    def sha256(self) -> str:
        return hashlib.sha256(self.data).hexdigest()


@dataclass(frozen=True)
class Bundle:
    """A skill with all of its files: SKILL.md first, the others by path."""

    skill: Skill
    files: tuple[BundleFile, ...]

    @property
    def bytes(self) -> int:
        return sum(len(file.data) for file in self.files)

    @cached_property
    def digest(self) -> str:
        """The same for the same paths, contents and modes, however they were packed."""
        lines = sorted(f"{file.sha256} {file.mode:04o} {file.path}\n" for file in self.files)
        return hashlib.sha256("".join(lines).encode()).hexdigest()


def bundle_of(files: Mapping[str, tuple[bytes, int]], limit: int) -> Bundle:
    """The skill that ``files`` (path -> bytes and mode) make; a folder around all of them is taken off.

    Raises :class:`BadBundle` and :class:`BundleTooLarge`, with BadSkill for what is wrong with its SKILL.md.
    """
    if len(files) > FILES:
        raise BadBundle(f"There are {len(files):,} files and {FILES:,} are allowed. Leave out what is not needed.")
    names = sum(len(path.encode()) for path in files)
    if names > PATHS_BYTES:
        raise BadBundle(
            f"The files' paths have {names:,} bytes together and {PATHS_BYTES:,} are allowed. Shorten them."
        )
    size = sum(len(data) for data, _mode in files.values())
    if size > limit:
        raise too_large(size, limit)
    inner = _without_outer_folder(files)
    head = _skill_file(inner)
    data = inner[head][0]
    if len(data) > SKILL_FILE_BYTES:
        raise BadBundle(f"{SKILL_FILE} has {len(data):,} bytes and {SKILL_FILE_BYTES:,} are allowed.")
    skill = parse_skill_file(data, SKILL_FILE)
    ordered = [head, *sorted(path for path in inner if path != head)]
    return Bundle(skill, tuple(BundleFile(path, *inner[path]) for path in ordered))


def too_large(size: int, limit: int) -> BundleTooLarge:
    """The refusal of a bundle of more than ``limit`` bytes; nothing of it is kept."""
    return BundleTooLarge(f"The files have {size:,} bytes together and {limit:,} are allowed. Leave out what is large.")


def is_left_out(path: str) -> bool:
    """True for what file managers and version control leave in a folder."""
    return any(part in _LEFT_BY_OTHERS or part.startswith("._") for part in path.split("/"))


def mode_of(permissions: int) -> int:
    """Of a file's permissions only whether it is a program is kept."""
    return EXECUTABLE if permissions & 0o111 else PLAIN


class Paths:
    """The paths of a bundle, checked one by one: each can stand in a folder, and no two are one on any system."""

    def __init__(self) -> None:
        self._files: dict[str, str] = {}
        self._folders: set[str] = set()

    def add(self, raw: bytes) -> str:
        """The path as it is kept (in Unicode's composed form); raises BadBundle naming it."""
        # With something before it, because a skill may have a folder `workspace`.
        fault = name_fault(b"x/" + raw) if raw else "the name is empty"
        shown = shown_name(raw.decode(errors="backslashreplace"))
        if fault:
            raise BadBundle(f"The file `{shown}` cannot be taken: {fault}.")
        path = unicodedata.normalize("NFC", raw.decode())
        if path.count("/") >= FOLDERS_DEEP:
            raise BadBundle(f"The file `{shown}` lies more than {FOLDERS_DEEP} folders deep.")
        key = path.casefold()
        same = self._files.get(key)
        if same is not None:
            how = "twice" if same == path else f"beside `{shown_name(same)}`, which is the same name on some systems"
            raise BadBundle(f"The file `{shown}` stands there {how}. Keep one of them.")
        if key in self._folders or any(folder in self._files for folder in parents(key)):
            raise BadBundle(f"The file `{shown}` and a folder or file above or below it have one name. Rename one.")
        self._files[key] = path
        self._folders.update(parents(key))
        return path


def shown_name(path: str) -> str:
    """A path as a refusal shows it: on one line, not too long."""
    return printable(path[:_SHOWN_CHARACTERS])


def _without_outer_folder(files: Mapping[str, tuple[bytes, int]]) -> Mapping[str, tuple[bytes, int]]:
    while files and not any(_is_skill_file(path) for path in files):
        tops = {path.partition("/")[0] for path in files if "/" in path}
        if len(tops) != 1 or any("/" not in path for path in files):
            break
        (top,) = tops
        files = {path.removeprefix(f"{top}/"): content for path, content in files.items()}
    return files


def _skill_file(files: Iterable[str]) -> str:
    found = [path for path in files if _is_skill_file(path)]
    if found:
        return found[0]
    elsewhere = sorted(path for path in files if _is_skill_file(path.rpartition("/")[2]))
    if len(elsewhere) > 1:
        shown = ", ".join(f"`{shown_name(path)}`" for path in elsewhere[:5])
        raise BadBundle(f"There is no {SKILL_FILE} at the top, but several below: {shown}. Push each skill by itself.")
    below = f" It stands in `{shown_name(elsewhere[0])}`: pack that folder." if elsewhere else ""
    raise BadBundle(f"There is no {SKILL_FILE} at the top of the bundle.{below}")


def _is_skill_file(path: str) -> bool:
    return path.lower() == SKILL_FILE.lower()
