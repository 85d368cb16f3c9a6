"""edit_file's engine: text edits of one file, all together or not at all, to the byte.

``apply_edits`` takes either form of edit, ``append`` adds at the end. Both are pure: bytes in, bytes out, a refusal
(see refusals.py) when the file or the edits do not allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import cast

from workbench.workspace.text.edit_find import FindEdit, find_hunks
from workbench.workspace.text.edit_lines import LineEdit, line_hunks
from workbench.workspace.text.freshness import Freshness
from workbench.workspace.text.hunks import Edited, Hunk, apply_hunks, new_text
from workbench.workspace.text.lines import Document, parse
from workbench.workspace.text.refusals import (
    EmptyText,
    FileTooLarge,
    MixedForms,
    NoEdits,
    Place,
    TooManyEdits,
    UnsafeEdit,
)
from workbench.workspace.text.seen import Sight

__all__ = ["EDITS", "FILE_BYTES", "Edited", "FindEdit", "LineEdit", "append", "apply_edits", "too_large"]

FILE_BYTES = 1024 * 1024
EDITS = 50


def apply_edits(
    path: str,
    data: bytes,
    edits: Sequence[FindEdit | LineEdit],
    sight: Sight | None,
    blob: str,
    earlier: Callable[[str], bytes | None],
    *,
    limit_bytes: int = FILE_BYTES,
) -> Edited:
    """Apply every edit to ``data``, whose SHA-256 is ``blob``; places and numbers mean the file before the call.

    ``sight`` is what the turn last saw of the file and ``earlier`` gives the bytes of the blob it saw then (None when
    they are gone). Only edits by line number depend on them: a ``find`` shows itself what is to be there.

    Raises the first refusal of: binary, too_large, no_edits, too_many_edits, mixed_forms; for finds empty_text,
    invalid_text and no_change, then edit by edit range_outside, no_match and not_unique, then ranges_overlap; for
    lines range_reversed, ranges_overlap, range_outside, anchor_is_last_line and anchor_moved, changed_since_read and
    not_read, invalid_text; at last too_large (of the result) and unsafe_edit.
    """
    document = _editable(path, data, limit_bytes)
    if not edits:
        raise NoEdits(path)
    if len(edits) > EDITS:
        raise TooManyEdits(path, len(edits), EDITS)
    freshness = Freshness(document, sight, blob, earlier)
    notes: list[str] = []
    if all(isinstance(edit, FindEdit) for edit in edits):
        hunks = find_hunks(path, document, cast("Sequence[FindEdit]", edits))
    elif all(isinstance(edit, LineEdit) for edit in edits):
        hunks, notes = line_hunks(path, document, cast("Sequence[LineEdit]", edits), freshness)
    else:
        raise MixedForms(path)
    edited = apply_hunks(path, document, hunks, limit_bytes)
    if edited.data == data:
        notes.append("The file already read so: nothing is different now.")
    return replace(edited, notes=notes)


def append(path: str, data: bytes, text: str, *, limit_bytes: int = FILE_BYTES) -> Edited:
    """Add ``text`` at the end, exactly as given. A note says so when it joined an unterminated last line."""
    document = _editable(path, data, limit_bytes)
    place = Place(path, 1, 1)
    if not text:
        raise EmptyText(place, "append")
    if (len(data) - len(document.bom)) % document.unit_bytes:
        raise UnsafeEdit(
            path, "it ends in half a character, and what follows would be read with it. Replace its last line."
        )
    new = new_text(document, text, place, "append")
    lines = len(document)
    joined = lines > 0 and not document.final_newline
    first = lines if joined else lines + 1
    last_line = document.line_bytes(lines) if joined else b""
    hunk = Hunk(first, lines, len(data), len(data), new, len(document.split(last_line + new)))
    edited = apply_hunks(path, document, [hunk], limit_bytes)
    notes = [f"The file had no final newline, so the text joined line {lines}."] if joined else []
    return replace(edited, notes=notes)


def too_large(path: str, size: int) -> FileTooLarge:
    """The refusal for a file that is too large to be edited, for those who know its size before its bytes."""
    return FileTooLarge(path, size, FILE_BYTES, after=False)


def _editable(path: str, data: bytes, limit_bytes: int) -> Document:
    document = parse(data, path)
    if len(data) > limit_bytes:
        raise FileTooLarge(path, len(data), limit_bytes, after=False)
    return document
