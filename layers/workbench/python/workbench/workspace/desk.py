"""What the file tools ask of their caller: a tree, what was seen of it, limits, and which other tools there are.

A :class:`~workbench.tools.turn.Turn` is a desk over a stored workspace; the library (``local/library``) has one over a
plain directory. Nothing here knows where files are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol

from workbench.clock import Clock
from workbench.errors import ToolError
from workbench.settings import Settings
from workbench.workspace.paths import parents
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.text.seen import Seen

Offers = Callable[[str], bool]

# The tool that runs programs is called differently here and there.
_CODE_TOOLS = ("run_code", "execute")


class Tree(Protocol):
    """Files by path, with the caller's own changes staged over them. Nothing is kept before somebody commits."""

    def entry(self, path: str) -> Entry | None:
        """What stands at ``path``, or None."""

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Everything below ``folder`` in path order."""

    def is_folder(self, path: str) -> bool:
        """True when ``path`` is a folder."""

    def read(self, entry: Entry) -> bytes:
        """The bytes of a file."""

    def blob(self, digest: str, place: str = "") -> bytes | None:
        """Bytes that a file had before, by their SHA-256; None when they are gone."""

    def write(self, path: str, data: bytes) -> Entry:
        """Stage a file; its mode stays. Raises ToolError where a folder or a file is in the way."""

    def delete(self, path: str) -> None:
        """Stage the removal of one entry."""


class Desk(Protocol):
    """One call's view of who calls and of what they work on."""

    @property
    def workspace(self) -> Tree: ...
    @property
    def seen(self) -> Seen: ...
    @property
    def settings(self) -> Settings: ...
    @property
    def clock(self) -> Clock: ...

    @property
    def vision(self) -> bool:
        """True when the model can look at pictures."""

    @property
    def next_version(self) -> int | None:
        """The version that this call's changes will be; None where no versions are kept."""

    def offers(self, tool: str) -> bool:
        """True when the model may call ``tool``: an answer names no other."""

    def stored_text(self, ref: str, pointer: str | None) -> str:
        """The text of an earlier result, or the part of it that a JSON pointer names."""


def code_tool(offers: Offers) -> str | None:
    """The tool that runs programs, where one is offered."""
    return next(filter(offers, _CODE_TOOLS), None)


def version_words(desk: Desk) -> list[str]:
    """The closing sentence of an answer that changed something; none where no versions are kept."""
    return [] if desk.next_version is None else [f"The workspace is now at version {desk.next_version}."]


def refuse_in_the_way(tree: Tree, path: str, old: Entry | None) -> None:
    """Raise ToolError when a file at ``path``, where ``old`` stands now, would have to replace or lie below another."""
    if (old is not None and old.kind == "folder") or (old is None and tree.is_folder(path)):
        raise ToolError(
            f"`{path}` is a folder. Add a file name, such as `{path}/notes.md`.", code="is_folder", path=path
        )
    for folder in parents(path):
        above = tree.entry(folder)
        if above is not None and above.kind == "file":
            raise ToolError(
                f"`{folder}` is a file, so `{path}` cannot lie below it. Choose another folder, or delete "
                f"`{folder}` first.",
                code="not_folder",
                path=folder,
            )


def limit_exceeded(what: str, used: int, asked: int, allowed: int) -> ToolError:
    """The refusal for a write past a limit: used, allowed and asked, counted over the whole batch."""
    return ToolError(
        f"This write does not fit: the workspace holds {used:,} of {allowed:,} {what}, and this call would add "
        f"{asked:,}. Nothing was written. Delete files that are no longer needed, or write less.",
        code="limit_exceeded",
        what=what,
        used=used,
        allowed=allowed,
        asked=asked,
    )
