"""Laying out a workspace for a run and reading it back, against ``tar x`` and ``tar c`` of the same 2,000 files.

Ours does what the supervisor does between its route and the program: check the plan, write every file and verify its
SHA-256; then walk the tree, hash every file and find out what changed (here: nothing, as in most of a tree after most
runs). tar extracts an archive and writes one of the extracted tree.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import os
import random
import subprocess
import tempfile
from pathlib import Path

from bench.measure import Row, in_turns
from sandbox_container import tree
from sandbox_container.changes import Changes
from sandbox_container.job import Limits
from sandbox_container.layout import WORKSPACE, DataStream, Layout, Owner, parse_plan
from sandbox_container.packs import PACK_BYTES, Packs
from sandbox_container.route import PART_BYTES
from sandbox_container.scan import Scan

FILES, BYTES = 2_000, 20 * 1024 * 1024
RUNS = 7
MIB = 1024 * 1024
LIMITS = Limits(512 * MIB, 512 * MIB, 64, 32 * MIB, 256, 4 * MIB, 12_000, FILES, 100 * MIB)
PROGRAM = b"pass"


def against_tar() -> Row:
    """A new folder for each run; what was laid out is removed at the end."""
    files = sample()
    with tempfile.TemporaryDirectory() as name:
        mounted, archived = _Mounted(Path(name), files), _Archived(Path(name), files)
        ours, theirs = in_turns(mounted.run, archived.run, runs=RUNS)
    return Row(ours, "tar x, then tar c", theirs, "3x", most=3.0)


def sample() -> dict[str, bytes]:
    """Path -> bytes: 2,000 files of 10 KiB in 100 folders."""
    numbers = random.Random(5)
    return {
        f"folder{number // 20:03d}/file{number:04d}.bin": numbers.randbytes(BYTES // FILES) for number in range(FILES)
    }


class _Mounted:
    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self._folder, self._numbers = folder, itertools.count()
        lines, data = [_line("program", "program", PROGRAM, 0)], bytearray(PROGRAM)
        for path, content in files.items():
            lines.append(_line(WORKSPACE, path, content, len(data)))
            data += content
        self._plan = b"".join(lines)
        self._parts = [bytes(data[start : start + PART_BYTES]) for start in range(0, len(data), PART_BYTES)]

    def run(self) -> None:
        root = self._folder / f"mounted{next(self._numbers)}"
        root.mkdir()
        plan = parse_plan(self._plan)
        data = DataStream(self._parts.__getitem__, len(self._parts))
        Layout(str(root), Owner(os.getuid(), os.getgid())).write(plan, data, "program.py")
        sent: list[bytes] = []
        packs = Packs(lambda _, raw: sent.append(raw))
        changes = Changes(plan, packs)
        with tree.folder(str(root / WORKSPACE)) as top:
            walk = Scan(top, LIMITS, PACK_BYTES)
            for found in walk.found():
                changes.take(found)
        packs.flush()
        if walk.files != FILES or sent:
            raise AssertionError(f"{walk.files} files came back, {len(sent)} packs of changes")


class _Archived:
    def __init__(self, folder: Path, files: dict[str, bytes]) -> None:
        self._folder, self._numbers = folder, itertools.count()
        source = folder / "source"
        for path, content in files.items():
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes(content)
        subprocess.run(["tar", "cf", folder / "source.tar", "-C", source, "."], check=True)

    def run(self) -> None:
        root = self._folder / f"archived{next(self._numbers)}"
        root.mkdir()
        subprocess.run(["tar", "xf", self._folder / "source.tar", "-C", root], check=True)
        # To a file, because tar reads nothing when it sees that it writes to /dev/null.
        subprocess.run(["tar", "cf", f"{root}.tar", "-C", root, "."], check=True)


def _line(root: str, path: str, content: bytes, offset: int) -> bytes:
    facts = {"root": root, "path": path, "kind": "file", "mode": "0644", "bytes": len(content), "offset": offset}
    return json.dumps(facts | {"sha256": hashlib.sha256(content).hexdigest()}).encode() + b"\n"
