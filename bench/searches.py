"""Searching 10,000 files for five texts at once, against ripgrep over the same files in a folder.

Ours is what the tool does with a warm cache: entries from the manifest, contents from the cached packs, the matches in
words. ripgrep is a whole command, line numbers included, its output read to the end; it uses every core.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from bench.measure import Row, in_turns
from bench.portal import Portal
from local.system import LocalSystem
from workbench.workspace.storage.head import read_head
from workbench.workspace.storage.store import WorkingCopy
from workbench.workspace.storage.writing import write
from workbench.workspace.views.listing import select_files
from workbench.workspace.views.search import Loader, SearchResult, search

FILES, BYTES = 10_000, 64 * 1024 * 1024
QUERIES = ["ConnectionRefused", "max_retries=", "lambda timeout", "workspace_busy", "TODO(anna)"]
# One file in a hundred holds a query.
HIT_EVERY = 100
RUNS = 15
CONVERSATION = "bench-search"
HOW_TO_GET_RIPGREP = "ripgrep is not installed: `apt-get install ripgrep` (Debian), then run this row again."


def against_ripgrep() -> Row:
    """The same matches in the same files, or it counts for nothing."""
    ripgrep = shutil.which("rg")
    if ripgrep is None:
        return Row(None, "rg -F -n", None, "2x", most=2.0, fault=HOW_TO_GET_RIPGREP)
    files = sample()
    settings = {"workspace_files": 2 * FILES, "workspace_bytes": 2 * BYTES}
    with tempfile.TemporaryDirectory() as name, LocalSystem().start(settings=settings, sandbox="off") as system:
        folder = Path(name)
        for path, data in files.items():
            (folder / path).parent.mkdir(parents=True, exist_ok=True)
            (folder / path).write_bytes(data)
        copy = _store(system, files)
        command = [ripgrep, "-F", "-n", *(part for query in QUERIES for part in ("-e", query)), name]
        ours, theirs = partial(_searched, copy), partial(_grepped, command)
        found, lines = ours(), theirs().splitlines()
        if not found.searched == FILES or not found.matching_files == len(lines) == FILES // HIT_EVERY:
            raise AssertionError(f"{found.matching_files} files here, {len(lines)} lines by ripgrep")
        measured, others = in_turns(ours, theirs, runs=RUNS)
    return Row(measured, "rg -F -n", others, "2x", most=2.0)


def sample() -> dict[str, bytes]:
    """Path -> text, in path order: lines of words that are as common as words are, and a query in some files."""
    numbers = random.Random(7)
    letters = "etaoinshrdlucmfwygpbvk"
    words = ["".join(numbers.choices(letters, k=numbers.randint(2, 11))) for _ in range(6_000)]
    weights = [1 / rank for rank in range(1, len(words) + 1)]
    text = "\n".join(" ".join(numbers.choices(words, weights, k=numbers.randint(4, 14))) for _ in range(40_000)) + "\n"
    size = BYTES // FILES
    files: dict[str, bytes] = {}
    for number in range(FILES):
        start = numbers.randrange(len(text) - size)
        data = text[start : start + size]
        if number % HIT_EVERY == 0:
            data += f"\na line with {QUERIES[number // HIT_EVERY % len(QUERIES)]} in it\n"
        files[f"src/part{number // 100:03d}/module{number:05d}.txt"] = data.encode()
    return files


def _store(system: LocalSystem, files: dict[str, bytes]) -> WorkingCopy:
    Portal(system.url, CONVERSATION, [])

    def stage(copy: WorkingCopy) -> None:
        for path, data in files.items():
            copy.write(path, data)

    write(system.runtime, CONVERSATION, "fill", stage)
    return WorkingCopy(system.runtime, read_head(system.runtime, CONVERSATION))


def _searched(copy: WorkingCopy) -> SearchResult:
    def found() -> Iterator[tuple[str, Loader]]:
        for entry in select_files(copy.entries()):
            yield entry.path, partial(copy.scan, entry)

    return search(found(), QUERIES)


def _grepped(command: list[str]) -> bytes:
    return subprocess.run(command, check=True, capture_output=True).stdout
