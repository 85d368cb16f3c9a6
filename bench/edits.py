"""Editing one line of a 1 MiB file: the pure engine, with the file read before and written after as its peers do.

Every way gets a file whose lines end in two different manners, with a byte-order mark and no final newline, as files
from the field have them. Afterwards its bytes are compared with what the edit asked for; the table says which way
changed bytes that nobody named.
"""

from __future__ import annotations

import hashlib
import itertools
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from bench.measure import Row, in_turns
from workbench.workspace.text.edit import FindEdit, apply_edits

FILE_BYTES = 1024 * 1024
NAMED_LINE = 11_000
RUNS = 25

Edit = Callable[[Path, str, str], None]


def against_deepagents() -> Row:
    """``FilesystemBackend.edit`` on the same file."""
    from deepagents.backends import FilesystemBackend

    def edit(path: Path, old: str, new: str) -> None:
        result = FilesystemBackend(root_dir=path.parent, virtual_mode=True).edit(f"/{path.name}", old, new)
        if result.error:
            raise AssertionError(result.error)

    return _row(edit, "deepagents edit")


def against_read_replace_write() -> Row:
    """What file servers for the Model Context Protocol commonly do; see :func:`read_replace_write`."""
    return _row(read_replace_write, "read, replace, write")


def edit_in_place(path: Path, old: str, new: str) -> None:
    """Ours: bytes in, engine, bytes out. The blob's name is known from the manifest, so it is not hashed here."""
    data = path.read_bytes()
    path.write_bytes(apply_edits(path.name, data, [FindEdit(old, new)], None, "", lambda _: None).data)


def read_replace_write(path: Path, old: str, new: str) -> None:
    """The naive way: decode the file, make all endings alike, look for the text, replace it once, write all of it.

    Such servers also compute a diff for their answer; that is left out here, in their favour.
    """
    content = path.read_text(encoding="utf-8").replace("\r\n", "\n")
    if old not in content:
        raise ValueError("the text is not in the file")
    path.write_text(content.replace(old, new, 1), encoding="utf-8", newline="")


def sample() -> bytes:
    """A little over 1 MiB less what a further edit could add: numbered lines, one in three with a CRLF ending."""
    lines = bytearray("\N{ZERO WIDTH NO-BREAK SPACE}".encode())
    for number in itertools.count():
        line = f"{number:06d} the value of an entry, as it is kept in this file: {number * 7919 % 10_007}".encode()
        if len(lines) + len(line) + 1_000 > FILE_BYTES:
            return bytes(lines).rstrip(b"\r\n")
        lines += line + (b"\r\n" if number % 3 == 0 else b"\n")
    raise AssertionError("unreachable")


def is_exact(edit: Edit, folder: Path) -> bool:
    """Whether ``edit`` changes the line it is given and no other byte."""
    before, path = sample(), folder / "exact.txt"
    path.write_bytes(before)
    old, new = _change(0)
    edit(path, old, new)
    return path.read_bytes() == before.replace(old.encode(), new.encode())


def _change(number: int) -> tuple[str, str]:
    """The texts of edit ``number``: each finds what the one before it wrote."""
    names = ["the value of an entry", "the new value of the entry"]
    old, new = names[number % 2], names[(number + 1) % 2]
    return f"{NAMED_LINE:06d} {old},", f"{NAMED_LINE:06d} {new},"


def _row(theirs: Edit, peer: str) -> Row:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        works = [partial(_Editor(folder, edit).edit) for edit in (edit_in_place, theirs)]
        ours, others = in_turns(*works, runs=RUNS)
        exact = is_exact(theirs, folder)
        fault = None if is_exact(edit_in_place, folder) else "bytes changed that the edit did not name"
    return Row(ours, f"{peer} ({'' if exact else 'not '}byte-exact)", others, "faster", most=1.0, fault=fault)


class _Editor:
    """One way, editing a file of its own to and fro."""

    def __init__(self, folder: Path, edit: Edit) -> None:
        self._path = folder / f"{hashlib.sha256(repr(edit).encode()).hexdigest()[:8]}.txt"
        self._path.write_bytes(sample())
        self._way, self._numbers = edit, itertools.count()

    def edit(self) -> None:
        self._way(self._path, *_change(next(self._numbers)))
