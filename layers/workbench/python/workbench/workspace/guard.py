"""The whole-file guard: a long file is edited, not written again from memory, and not deleted to get around that.

A document rewritten to change one value loses the parts that nobody asked about. The guard never leaves a dead end:
what cannot be edited by the tools may be replaced, or is changed by code.
"""

from __future__ import annotations

from collections.abc import Callable

from workbench.errors import ToolError
from workbench.workspace.desk import Offers, code_tool
from workbench.workspace.paths import printable
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.text.lines import parse
from workbench.workspace.text.visible import counted

REPLACED_WHOLE_CHARACTERS = 4_000
EDITED_FILE_BYTES = 1024 * 1024
# What read_file may add to a line when it shows it: its number and what is said of the range.
BESIDE_A_LINE_CHARACTERS = 600


class LongFileExists(ToolError):
    """Replacing a long file whole is refused; edit_file is the way, or code where editing cannot work."""

    code = "exists_long"

    def __init__(self, entry: Entry, *, editable: bool, offers: Offers) -> None:
        way = (
            "Change the lines that need it with edit_file. To replace all of it, read every line first, then make "
            f"one edit from startLine 1 to endLine {entry.lines}."
            if editable and offers("edit_file")
            else _way_out(editable=editable, offers=offers)
        )
        lines = counted(entry.lines or 0, "line")
        super().__init__(
            f"`{printable(entry.path)}` exists and has {entry.characters:,} characters in {lines}. "
            f"A file of more than {REPLACED_WHOLE_CHARACTERS:,} characters is not replaced whole. "
            f"Nothing was written. {way}",
            path=entry.path,
            characters=entry.characters,
            lines=entry.lines,
        )


class DeleteGuarded(ToolError):
    """Deleting what this turn tried to replace whole is the same rewrite one call later."""

    code = "delete_guarded"

    def __init__(self, entry: Entry, *, editable: bool, offers: Offers) -> None:
        super().__init__(
            f"`{printable(entry.path)}` is not deleted: this turn tried to replace it whole, and deleting it first "
            "would lose the parts that nobody asked about. Nothing was deleted. "
            f"{_way_out(editable=editable, offers=offers)}",
            path=entry.path,
        )


def _way_out(*, editable: bool, offers: Offers) -> str:
    if editable and offers("edit_file"):
        return "Change it with edit_file instead."
    code = code_tool(offers)
    if editable and code:
        return f"Change it with {code} instead."
    if code:
        return f"It is too large, or its lines are too long, to be read and edited in parts: change it with {code}."
    return "Write to another path instead."


def is_long(entry: Entry) -> bool:
    """True for a text file that may not be replaced whole. Binary files may: there is no line of theirs to edit."""
    return entry.characters is not None and entry.characters > REPLACED_WHOLE_CHARACTERS


def may_be_edited(entry: Entry, read: Callable[[Entry], bytes], read_budget: int) -> bool:
    """True when read_file can show every line of the file, so that one edit from first to last is possible."""
    if entry.bytes > EDITED_FILE_BYTES:
        return False
    document = parse(read(entry))
    longest = max(map(len, document.lines(1, len(document))), default=0)
    return longest + BESIDE_A_LINE_CHARACTERS <= read_budget
