"""What a command changed against what somebody else changed meanwhile, for any trees: no sandbox, all the rest real."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local.library.applying import writing
from local.library.commands import Options, _take_over
from local.library.directory import Directory
from local.library.route import JobRoute
from local.library.snapshot import Snapshot, Streams, take
from local.library.taking import Taken
from sandbox_container import layout, scan, tree
from sandbox_container.changes import Changes
from sandbox_container.job import Limits
from sandbox_container.packs import Packs, send_lines
from sandbox_container.route import pack_part
from workbench.clock import SystemClock
from workbench.errors import InvalidRequest
from workbench.runs.changes import Piece
from workbench.settings import Settings

Files = Mapping[str, bytes | None]  # None: a folder
OPTIONS = Options(30, 4_000_000, 12_000, settings=Settings.from_environment({}))

NAMES = st.sampled_from(["a", "b", "c"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
CONTENTS = st.sampled_from([b"", b"1", b"22", b"333\n"])


@st.composite
def trees(draw: Any) -> dict[str, bytes | None]:
    """Files and folders in which nothing lies below a file."""
    made: dict[str, bytes | None] = {}
    for path, content in draw(st.lists(st.tuples(PATHS, st.none() | CONTENTS), max_size=7)):
        above = [path[:at] for at, character in enumerate(path) if character == "/"]
        if any(made.get(folder, b"") is not None and folder in made for folder in above) or path in made:
            continue
        made |= dict.fromkeys(above)
        made[path] = content
    return made


def build(root: Path, files: Files) -> None:
    """The directory holds exactly these, with as little touched as a person would."""
    now = read(root)
    for path in sorted(now, reverse=True):
        if path in files and (files[path] is None) == (now[path] is None):
            continue
        target = root / path
        if target.is_dir():
            shutil.rmtree(target)
        else:
            target.unlink()
    for path in sorted(files):
        data = files[path]
        if data is None:
            (root / path).mkdir(exist_ok=True)
        else:
            (root / path).write_bytes(data)


def read(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes() for path in sorted(root.rglob("*"))
    }


class Rehearsal:
    """A directory, a copy that a program worked in, and the route between them."""

    def __init__(self, folder: Path, before: Files) -> None:
        self.root, self._copy = folder / "root", folder / "copy"
        for place in (self.root, self._copy):
            place.mkdir()
            build(place, before)
        self.directory = Directory(self.root, SystemClock())
        with writing(self.directory) as top:
            self.snapshot: Snapshot = take(top, Limits(*OPTIONS.limits().values()))
        self.streams = Streams.of(self.snapshot, b"true")
        job = {"limits": OPTIONS.limits()}
        self.route = JobRoute(job, self.streams, OPTIONS.settings.workspace_bytes)
        claimed = self.call(op="claim", sandbox="s", secret=self.route.secret)
        self.session = claimed["session"]

    def call(self, **body: Any) -> dict[str, Any]:
        status, answer = self.route.answer(body)
        assert status == 200, answer
        return answer

    def close(self) -> None:
        self.route.close()
        self.snapshot.data.close()

    def program(self, after: Files) -> dict[str, Any]:
        """The report of a program that made its copy ``after``, sent as the supervisor sends it."""
        build(self._copy, after)

        def send(stream: str, part: int, raw: bytes) -> None:
            self.call(op="output", session=self.session, stream=stream, part=part, **pack_part(raw))

        packs = Packs(lambda part, raw: send("packs", part, raw))
        changes = Changes(layout.parse_plan(self.streams.plan), packs)
        with tree.folder(str(self._copy)) as top:
            walk = scan.Scan(top, Limits(*OPTIONS.limits().values()), 1_000_000)
            for found in walk.found():
                changes.take(found)
        packs.flush()
        sent = send_lines(changes.lines(walk.left_out), lambda part, raw: send("changes", part, raw))
        return {"tree": "ok", "reason": None, "changeParts": sent}

    def take_over(self, report: Mapping[str, Any]) -> Taken:
        return _take_over(self.directory, self.snapshot, self.route, report, OPTIONS.settings)


@settings(max_examples=60, deadline=None)
@given(before=trees(), after=trees())
def test_with_nobody_else_at_work_the_directory_becomes_what_the_program_left(before: Files, after: Files) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rehearsal = Rehearsal(Path(folder), before)
        taken = rehearsal.take_over(rehearsal.program(after))
        rehearsal.close()
        assert taken.void is None and taken.conflicts == []
        assert read(rehearsal.root) == after
        files_before = {path for path, data in before.items() if data is not None}
        files_after = {path for path, data in after.items() if data is not None}
        assert {path for path in taken.created if after[path] is not None} == {
            path for path in files_after if path not in before
        }
        assert {path for path in taken.deleted if before[path] is not None} == {
            path for path in files_before if path not in after
        }


@settings(max_examples=120, deadline=None)
@given(before=trees(), after=trees(), meanwhile=trees())
def test_what_somebody_else_changed_stays_and_everything_else_lands(
    before: Files, after: Files, meanwhile: Files
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        rehearsal = Rehearsal(Path(folder), before)
        report = rehearsal.program(after)
        build(rehearsal.root, meanwhile)
        taken = rehearsal.take_over(report)
        rehearsal.close()
        now, named = read(rehearsal.root), {path for path, _ in taken.conflicts}
        assert taken.void is None
        for path in before.keys() | after.keys() | meanwhile.keys() | now.keys():
            old, theirs, ours, is_now = (_file(files, path) for files in (before, meanwhile, after, now))
            if ours in (old, theirs):
                # The program did not change it, or both did the same.
                assert is_now == theirs, path
            elif theirs == old:
                assert is_now == ours or (path in named and is_now == theirs), path
            else:
                assert is_now == theirs and path in named, path


def _file(files: Files, path: str) -> bytes | None:
    """The file's bytes; None when there is no file (a folder, or nothing)."""
    return files.get(path)


# ---------------------------------------------------------------- a sandbox that lies


@pytest.fixture
def rehearsal(tmp_path: Path) -> Any:
    made = Rehearsal(tmp_path, {"a.txt": b"old\n", "d": None, "d/b.txt": b"b\n"})
    yield made
    made.close()


@pytest.mark.parametrize(
    "lines",
    [
        b'{"path": "../out", "kind": "file", "mode": "0644", "bytes": 0, "sha256": "%s"}\n',
        b'{"path": "a.txt", "kind": "file", "mode": "0644", "bytes": 3, "sha256": "%s", "pieces": '
        b'[{"part": 0, "offset": 0, "length": 3}]}\n',
        b'{"path": "a.txt", "kind": "file", "mode": "0644", "bytes": 9, "sha256": "%s", "pieces": []}\n',
        b'{"path": "a.txt/below", "kind": "folder", "mode": "0755"}\n',
        b'{"path": "a.txt", "kind": "device", "mode": "0644"}\n',
        b'{"path": "x", "kind": "folder", "mode": "4755"}\n',
        b"not json\n",
        b'{"path": "cut',
    ],
)
def test_an_account_that_cannot_be_true_changes_nothing(rehearsal: Rehearsal, lines: bytes) -> None:
    before = read(rehearsal.root)
    digest = b"0" * 64
    body = {"op": "output", "session": rehearsal.session}
    rehearsal.call(**body, stream="packs", part=0, **pack_part(b"new"))
    rehearsal.call(**body, stream="changes", part=0, **pack_part(lines.replace(b"%s", digest)))
    taken = rehearsal.take_over({"tree": "ok", "reason": None, "changeParts": 1})
    assert read(rehearsal.root) == before and not (rehearsal.root.parent / "out").exists()
    assert taken.void is not None or taken.left_out


def test_the_route_serves_one_claim_and_no_stranger(rehearsal: Rehearsal) -> None:
    route, session = rehearsal.route, rehearsal.session
    assert route.answer({"op": "claim", "sandbox": "s", "secret": "guess"})[0] == 401
    assert route.answer({"op": "claim", "sandbox": "s", "secret": route.secret})[1] == {"status": "leave"}
    for op in ("input", "heartbeat", "output", "report"):
        assert route.answer({"op": op, "session": "guess"})[0] == 401
    for body in (
        {"op": "input", "session": session, "stream": "plan", "part": 1},
        {"op": "input", "session": session, "stream": "plan", "part": -1},
        {"op": "input", "session": session, "stream": "../plan", "part": 0},
        {"op": "output", "session": session, "stream": "packs", "part": 10**6, **pack_part(b"x")},
        {"op": "output", "session": session, "stream": "packs", "part": 0, "sha256": "0" * 64, "data": "eJwDAAAAAAE="},
        {"op": "report", "session": session, "report": {"outcome": "great"}},
        {"op": "none", "session": session},
    ):
        with pytest.raises(InvalidRequest):
            route.answer(body)
    assert route.report is None
    assert route.answer({"op": "heartbeat", "session": session}) == (200, {"do": "continue"})


def test_a_part_that_is_sent_again_does_no_harm(rehearsal: Rehearsal) -> None:
    body = {"op": "output", "session": rehearsal.session, "stream": "packs"}
    for part, raw in ((0, b"first"), (1, b"second"), (0, b"first")):
        rehearsal.call(**body, part=part, **pack_part(raw))
    assert rehearsal.route.pack_sizes == {0: 5, 1: 6}
    assert rehearsal.route.piece(Piece(part=1, offset=3, length=3)) == b"ond"


def test_every_part_of_the_data_is_where_the_plan_says(tmp_path: Path) -> None:
    """Files over several parts of the stream, and the program behind them."""
    contents = {"large": os.urandom(9_000_001), "small": b"s", "same-as-small": b"s", "empty": b""}
    rehearsal = Rehearsal(tmp_path, contents)
    assert rehearsal.streams.data_parts == 3
    stream = b"".join(rehearsal.streams.part("data", part) for part in range(3))
    for entry in layout.parse_plan(rehearsal.streams.plan):
        data = stream[entry.offset : entry.offset + entry.size]
        assert data == (b"true" if entry.root == "program" else contents[entry.path])
    assert len(stream) == 9_000_001 + 1 + len(b"true")
    rehearsal.close()
