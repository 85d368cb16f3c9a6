"""The whole-file guard: a long file is edited, not written again from memory, and not deleted to get around that.

A document rewritten to change one value loses the parts that nobody asked about. The guard never leaves a dead end:
what cannot be edited by the tools may be replaced, or is changed by code.
"""

from __future__ import annotations

from workbench.errors import ToolError
from workbench.workspace.manifest import Entry

REPLACED_WHOLE_CHARACTERS = 4_000
EDITED_FILE_BYTES = 1024 * 1024


class LongFileExists(ToolError):
    """Replacing a long file whole is refused; edit_file is the way, or code where editing cannot work."""

    code = "exists_long"

    def __init__(self, entry: Entry, *, editable: bool, offers_edit: bool, offers_code: bool) -> None:
        size = f"`{entry.path}` exists and has {entry.characters:,} characters in {entry.lines:,} lines"
        rule = (
            f"A file of more than {REPLACED_WHOLE_CHARACTERS:,} characters is not replaced whole. Nothing was written."
        )
        if editable and offers_edit:
            way = (
                "Change the lines that need it with edit_file. To replace all of it, read every line first, then make "
                f"one edit from startLine 1 to endLine {entry.lines}."
            )
        elif offers_code:
            way = "It is too large, or its lines are too long, to read and edit in parts: change it with run_code."
        else:
            way = "Write to another path."
        super().__init__(f"{size}. {rule} {way}", path=entry.path, characters=entry.characters, lines=entry.lines)


class DeleteGuarded(ToolError):
    """Deleting what this turn tried to replace whole is the same rewrite one call later."""

    code = "delete_guarded"

    def __init__(self, entry: Entry, *, offers_edit: bool) -> None:
        way = "Change it with edit_file instead." if offers_edit else "Write to another path instead."
        super().__init__(
            f"`{entry.path}` is not deleted: this turn tried to replace it whole, and deleting it first would lose the "
            f"parts that nobody asked about. Nothing was deleted. {way}",
            path=entry.path,
        )


def is_long(entry: Entry) -> bool:
    """True for a text file that may not be replaced whole. Binary files may: there is no line of theirs to edit."""
    return entry.characters is not None and entry.characters > REPLACED_WHOLE_CHARACTERS


def may_be_edited(entry: Entry, longest_line: int, read_budget: int) -> bool:
    """True when read_file can show every line of the file, so that one edit from first to last is possible."""
    return entry.bytes <= EDITED_FILE_BYTES and longest_line < read_budget
