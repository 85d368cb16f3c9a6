"""Reading 2,000 numbered lines in the middle of a 10 MiB file, from its bytes on disk to the text a model gets."""

from __future__ import annotations

import tempfile
from pathlib import Path

from bench.measure import Row, in_turns
from workbench.workspace.views.reading import ReadRequest, render, share_budget

FILE_BYTES = 10 * 1024 * 1024
FIRST, LINES = 60_001, 2_000
# Room for all of them: what is compared is the same 2,000 lines, not where a budget cuts.
BUDGET_CHARACTERS = 1_000_000


def against_deepagents() -> Row:
    """The backend's ``read`` and the numbering that its middleware puts on what the backend returns."""
    from deepagents.backends import FilesystemBackend
    from deepagents.backends.utils import format_content_with_line_numbers

    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "long.txt"
        path.write_bytes(sample())
        backend = FilesystemBackend(root_dir=name, virtual_mode=True)

        def ours() -> str:
            request = ReadRequest("long.txt", FIRST, FIRST + LINES - 1)
            return render(share_budget([request], lambda _: path.read_bytes(), BUDGET_CHARACTERS, LINES))

        def theirs() -> str:
            data = backend.read("/long.txt", offset=FIRST - 1, limit=LINES).file_data
            return format_content_with_line_numbers(data["content"], FIRST)

        for text in (ours(), theirs()):
            rows = text.splitlines()
            if not (
                f"{FIRST - 1:07d} a line" in rows[0] and any(f"{FIRST + LINES - 2:07d} a line" in row for row in rows)
            ):
                raise AssertionError(f"not the lines that were asked for: {rows[0]} … {rows[-1]}")
        measured, others = in_turns(ours, theirs)
    return Row(measured, "deepagents read", others, "faster", most=1.0)


def sample() -> bytes:
    """10 MiB of numbered lines of some 90 characters."""
    line = "{:07d} a line of a long file, of which a reader sees only a stretch in the middle, numbered\n"
    return "".join(map(line.format, range(FILE_BYTES // len(line.format(0))))).encode()
