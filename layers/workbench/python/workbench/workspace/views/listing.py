"""What a folder holds, as a text of one line an entry and as facts; and which files a path and a pattern select.

Works on entries alone: nothing here reads a file. An entry that makes no sense is left out and counted, and the others
are listed all the same.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from workbench.errors import ToolError
from workbench.workspace.paths import MOUNT_NAME, parents, printable
from workbench.workspace.text.visible import counted
from workbench.workspace.views.globs import Glob

# Below the output cap, so that a listing is never cut by anything but itself.
LIST_BUDGET_CHARACTERS = 12_000


class ListedEntry(Protocol):
    """What is known of a path without reading it; :class:`~workbench.workspace.storage.manifest.Entry` is one."""

    @property
    def path(self) -> str: ...
    @property
    def kind(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def lines(self) -> int | None: ...


E = TypeVar("E", bound=ListedEntry)


class NoSuchFolder(ToolError):
    """Nothing stands at the path that was to be listed or searched."""

    code = "not_found"

    def __init__(self, folder: str) -> None:
        hint = f" `{MOUNT_NAME}` is the workspace itself." if folder == MOUNT_NAME else ""
        super().__init__(
            f"There is no file or folder `{printable(folder)}`.{hint} Leave path out to mean the whole workspace.",
            path=folder,
        )


class NotAFolder(ToolError):
    """A file stands at the path that was to be listed."""

    code = "not_folder"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"`{printable(path)}` is a file, not a folder. Read it, or list the folder it is in.", path=path
        )


@dataclass(slots=True)
class Item:
    """One line of a listing. A folder counts all files below it; ``version`` is the last that changed the path."""

    path: str
    kind: str
    bytes: int
    lines: int | None = None
    files: int = 0
    version: int | None = None

    @property
    def key(self) -> str:
        """Sorts a folder right before what it holds; what ``after`` and ``next`` hold."""
        return f"{self.path}/" if self.kind == "folder" else self.path

    def structured(self) -> dict[str, Any]:
        """``{path, kind, bytes, lines?, files?, version?}``."""
        facts: dict[str, Any] = {"path": self.path, "kind": self.kind, "bytes": self.bytes}
        if self.lines is not None:
            facts["lines"] = self.lines
        if self.kind == "folder":
            facts["files"] = self.files
        if self.version is not None:
            facts["version"] = self.version
        return facts

    def render(self) -> str:
        """The entry on one line, whatever its name."""
        facts = [counted(self.files, "file")] if self.kind == "folder" else []
        facts.append(counted(self.bytes, "byte"))
        if self.lines is not None:
            facts.append(counted(self.lines, "line"))
        if self.version is not None:
            facts.append(f"version {self.version}")
        return f"{printable(self.key)} ({', '.join(facts)})"


@dataclass(frozen=True, slots=True)
class Listing:
    """``entries`` are those in ``text``; ``next`` is what ``after`` must be to go on, None at the end."""

    text: str
    entries: tuple[Item, ...]
    next: str | None = None

    def structured(self) -> dict[str, Any]:
        """``{entries: [{path, kind, bytes, lines?, …}], next?}``."""
        facts: dict[str, Any] = {"entries": [entry.structured() for entry in self.entries]}
        if self.next is not None:
            facts["next"] = self.next
        return facts


def list_entries(
    entries: Iterable[ListedEntry],
    folder: str = "",
    glob: Glob | None = None,
    depth: int | None = None,
    after: str | None = None,
    budget: int = LIST_BUDGET_CHARACTERS,
    *,
    version: Callable[[str], int | None] = lambda _: None,
) -> Listing:
    """The files and folders below ``folder`` (``""`` is the root), each folder before what it holds.

    ``entries`` may go beyond the folder and should include its own entry, if it has one. ``glob`` is matched against
    paths relative to the folder; ``depth`` 1 lists only what lies directly in it. What does not fit into ``budget``
    characters is reached with ``after``. ``version`` tells, where it is known, the last version that changed a path.
    Raises :class:`NoSuchFolder` and :class:`NotAFolder`.
    """
    tree = _Tree(folder)
    for entry in entries:
        tree.add(entry)
    if not tree.found and folder:
        raise NotAFolder(folder) if tree.is_file else NoSuchFolder(folder)
    wanted = sorted(
        (item for item in tree.items.values() if _selected(item.path, tree.prefix, glob, depth)),
        key=lambda item: item.key,
    )
    if after:
        wanted = [item for item in wanted if item.key > after and item.path != after]
    return _rendered(wanted, tree, glob, bool(after), budget, version)


def select_files(entries: Iterable[E], path: str = "", glob: Glob | None = None) -> Iterator[E]:
    """The files that a path (a folder, or one file) and a pattern relative to it select, in the order given.

    Raises :class:`NoSuchFolder` when nothing at all stands at ``path``.
    """
    prefix = f"{path}/" if path else ""
    found = not path
    for entry in entries:
        if entry.path == path:
            relative = path.rpartition("/")[2]
        elif entry.path.startswith(prefix):
            relative = entry.path[len(prefix) :]
        else:
            continue
        found = True
        if entry.kind == "file" and (glob is None or glob.matches(relative)):
            yield entry
    if not found:
        raise NoSuchFolder(path)


@dataclass(slots=True)
class _Tree:
    """Files and folders below one folder, with the folders that exist only because something lies in them."""

    folder: str
    items: dict[str, Item] = field(default_factory=dict)
    found: bool = False
    is_file: bool = False
    odd: int = 0
    _last: tuple[str, list[Item]] = ("", [])

    @property
    def prefix(self) -> str:
        return f"{self.folder}/" if self.folder else ""

    def add(self, entry: ListedEntry) -> None:
        try:
            path, kind, size, lines = entry.path, entry.kind, entry.bytes, entry.lines
            if path == self.folder:
                self.found, self.is_file = kind == "folder", kind == "file"
                return
            if not path.startswith(self.prefix):
                return
            item = Item(
                path, "folder" if kind == "folder" else "file", int(size), lines if lines is None else int(lines)
            )
        except (AttributeError, TypeError, ValueError):
            self.odd += 1
            return
        self.found = True
        if item.kind == "folder":
            self.items.setdefault(path, item)
        else:
            self.items[path] = item
        for above in self._above(path.rpartition("/")[0]):
            if item.kind == "file":
                above.bytes += item.bytes
                above.files += 1

    def _above(self, parent: str) -> list[Item]:
        """The items of a folder and of those it lies in, up to the listed one; entries of one folder come together."""
        if parent != self._last[0]:
            folders = [path for path in (*parents(parent), parent) if len(path) > len(self.folder)]
            self._last = parent, [self.items.setdefault(path, Item(path, "folder", 0)) for path in folders]
        return self._last[1]


def _selected(path: str, prefix: str, glob: Glob | None, depth: int | None) -> bool:
    relative = path[len(prefix) :]
    if depth is not None and relative.count("/") >= depth:
        return False
    return glob is None or glob.matches(relative)


def _rendered(
    items: Sequence[Item],
    tree: _Tree,
    glob: Glob | None,
    continued: bool,
    budget: int,
    version: Callable[[str], int | None],
) -> Listing:
    notes = [f"{counted(tree.odd, 'entry')} cannot be listed."] if tree.odd else []
    lines: list[str] = []
    # A closing note repeats the last name, so room for one is kept from the start.
    room = budget - sum(map(len, notes)) - _ROOM_FOR_NOTE
    for item in items:
        item.version = version(item.path)
        line = item.render()
        room -= len(line) + 1
        if room < len(printable(item.key)) and lines:
            break
        lines.append(line)
    shown, left = tuple(items[: len(lines)]), len(items) - len(lines)
    if not shown:
        notes.insert(0, _nothing(tree, glob, continued))
    following = shown[-1].key if left else None
    if following is not None:
        notes.insert(0, f"{left} more; to go on, list again with after: {printable(following)}")
    return Listing("\n".join([*lines, *(f"[{note}]" for note in notes)]), shown, following)


_ROOM_FOR_NOTE = 80


def _nothing(tree: _Tree, glob: Glob | None, continued: bool) -> str:
    where = f"`{printable(tree.folder)}`" if tree.folder else "the workspace"
    if continued:
        return f"Nothing follows in {where}."
    if not tree.items:
        return f"{where[0].upper()}{where[1:]} is empty."
    if glob is None:
        return f"Nothing in {where} is within that depth."
    hint = "" if "/" in glob.pattern or glob.pattern == "**" else f" To look in all folders, use `**/{glob.pattern}`."
    return f"Nothing in {where} matches `{printable(glob.pattern)}`.{hint}"
