"""The contract of file tools for models: each test is a fault that people reported, told as what must hold instead.

The numbers are those of the collection of faults. A test holds for any backend of
:class:`tests.contract.protocol.FileBackend`; where a fault leaves a choice, refusing without a change is right too.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.contract.protocol import FileBackend

SECONDS = 60.0


def refused(work: Callable[..., Any], *arguments: Any) -> str:
    """The words of a call that must be refused."""
    with pytest.raises(Exception) as caught:
        work(*arguments)
    return str(caught.value)


def edited_or_refused(backend: FileBackend, before: bytes, find: str, replace: str, after: bytes) -> None:
    """The edit gives exactly ``after``, or it is refused and the file is as it was."""
    backend.put("f.txt", before)
    try:
        backend.edit_file("f.txt", find, replace)
    except Exception:
        assert backend.get("f.txt") == before
    else:
        assert backend.get("f.txt") == after


def in_time(work: Callable[[], object]) -> None:
    """A call that must come back, whatever it says."""

    def quietly() -> None:
        with contextlib.suppress(Exception):
            work()

    thread = threading.Thread(target=quietly, daemon=True)
    thread.start()
    thread.join(SECONDS)
    assert not thread.is_alive(), "the call hangs"


# ---------------------------------------------------------------- bytes that nobody named


@pytest.mark.parametrize(
    ("before", "find", "replace", "after"),
    [
        (b"a\r\nb\nc\r\n", "c", "C", b"a\r\nb\nC\r\n"),
        (b"x\r\ny\r\nz\r\n", "y", "Y", b"x\r\nY\r\nz\r\n"),
        (b"one\rtwo\rthree\r", "two", "TWO", b"one\rTWO\rthree\r"),
        (b"a\nb", "a", "A", b"A\nb"),
        (b"a\nb", "b", "B", b"a\nB"),
        (b"all:\n\techo hi\n", "hi", "bye", b"all:\n\techo bye\n"),
        (b"say \xe2\x80\x9cone\xe2\x80\x9d two\n", "two", "2", b"say \xe2\x80\x9cone\xe2\x80\x9d 2\n"),
        (b"one\n\x0c\ntwo\x0bthree\xc2\x85four\n", "two", "2", b"one\n\x0c\n2\x0bthree\xc2\x85four\n"),
    ],
)
def test_an_edit_touches_nothing_else(
    backend: FileBackend, before: bytes, find: str, replace: str, after: bytes
) -> None:
    """Cases 1, 4, 8, 38, 41."""
    backend.put("f.txt", before)
    backend.edit_file("f.txt", find, replace)
    assert backend.get("f.txt") == after


@pytest.mark.parametrize(
    ("find", "replace", "after"),
    [("y\n", "Y\n", b"x\r\nY\r\nz\r\n"), ("y\n", "Y1\nY2\n", b"x\r\nY1\r\nY2\r\nz\r\n")],
)
def test_new_lines_take_the_files_endings(backend: FileBackend, find: str, replace: str, after: bytes) -> None:
    """Case 2."""
    edited_or_refused(backend, b"x\r\ny\r\nz\r\n", find, replace, after)


def test_a_byte_order_mark_is_in_nobodys_way(backend: FileBackend) -> None:
    """Cases 5 and 7."""
    backend.put("f.ts", b"\xef\xbb\xbfconst a = 1;\nend\n")
    backend.edit_file("f.ts", "const a = 1;", "const a = 2;")
    assert backend.get("f.ts") == b"\xef\xbb\xbfconst a = 2;\nend\n"
    assert "\ufeff" not in backend.read_file("f.ts")
    assert "\ufeff" not in backend.grep("const")[1]


@pytest.mark.parametrize("odd", [b"tr\xe8s", b"\xd6\xd0", b"\xa9", b"end \xe2\x80"])
def test_bytes_that_are_no_text_survive(backend: FileBackend, odd: bytes) -> None:
    """Case 26."""
    edited_or_refused(backend, b"n = 1\n# " + odd + b"\n", "n = 1", "n = 2", b"n = 2\n# " + odd + b"\n")


@pytest.mark.parametrize(
    "content",
    [
        "print('a\\nb')\n",
        "\\title{x}\n",
        "#define A \\\n",
        "a &amp; b &lt;c&gt; &#39;\n",
        '{"a":1}',
        "null",
        "a\r\nb\r\n",
        "\ttab\n",
    ],
)
def test_content_is_written_as_sent(backend: FileBackend, content: str) -> None:
    """Cases 49, 50 and 53."""
    backend.write_file("x.json", content)
    assert backend.get("x.json") == content.encode()


@pytest.mark.parametrize("replace", ["\u2019", "\u00a0", "\u2011"])
def test_look_alikes_are_different_characters(backend: FileBackend, replace: str) -> None:
    """Case 37."""
    backend.put("f.txt", b"don't\n")
    backend.edit_file("f.txt", "'", replace)
    assert backend.get("f.txt") == f"don{replace}t\n".encode()


def test_an_edit_keeps_the_files_mode(on_disk: FileBackend) -> None:
    assert on_disk.root is not None
    on_disk.put("run.sh", b"echo 1\n")
    (on_disk.root / "run.sh").chmod(0o755)
    on_disk.edit_file("run.sh", "1", "2")
    assert (on_disk.root / "run.sh").stat().st_mode & 0o777 == 0o755


# ---------------------------------------------------------------- what an edit means


@pytest.mark.parametrize(
    ("before", "find"),
    [
        (b"xyz", ""),
        (b"p\tq\nr\ts\n", " "),
        (b"p\tq\nr\ts\n", "\u00a0"),
        (b"k: v\nk: v\nk: v\n", "k: v\nk: v"),
        (b"aaa", "aa"),
        (b"a\nb\nz\na\nb\n", "a\nb"),
        (b"Say \xe2\x80\x9cone\xe2\x80\x9d\n", "Say 'one'"),
        (b"Foo\n", "foo"),
        (b"a\nb\n", "zzz"),
    ],
)
def test_what_does_not_stand_there_exactly_once_changes_nothing(backend: FileBackend, before: bytes, find: str) -> None:
    """Cases 31, 32, 34, 35 and 38."""
    backend.put("f.txt", before)
    refused(backend.edit_file, "f.txt", find, "Q")
    assert backend.get("f.txt") == before


def test_an_ambiguous_find_says_where_it_stands(backend: FileBackend) -> None:
    """Case 35."""
    backend.put("f.txt", b"a\nb\nz\na\nb\n")
    said = refused(backend.edit_file, "f.txt", "a\nb", "x")
    assert "1" in said and "4" in said


def test_a_file_that_is_not_there_is_not_made_by_an_edit(backend: FileBackend) -> None:
    refused(backend.edit_file, "none.txt", "a", "b")
    assert backend.get("none.txt") is None


def test_two_edits_at_once_both_stand_or_one_is_refused(backend: FileBackend) -> None:
    """Case 79."""
    for round_number in range(4):
        before = "".join(f"line {number}\n" for number in range(1, 201))
        backend.put("f.txt", before.encode())
        done: list[int] = []

        def edit(line: int, done: list[int] = done) -> None:
            backend.edit_file("f.txt", f"line {line}\n", f"done {line}\n")
            done.append(line)

        threads = [threading.Thread(target=lambda line=line: _quietly(edit, line)) for line in (40, 80, 120, 160)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        after = (backend.get("f.txt") or b"").decode()
        assert after.count("\n") == 200 and done, round_number
        assert {int(line.split()[1]) for line in after.splitlines() if line.startswith("done")} == set(done)


def _quietly(work: Callable[[int], None], line: int) -> None:
    with contextlib.suppress(Exception):
        work(line)


# ---------------------------------------------------------------- lines and searches agree


@pytest.mark.parametrize("odd", ["\f", "\v", "\x1c", "\x85", "\u2028"])
def test_the_line_a_search_names_is_the_line_that_is_read(backend: FileBackend, odd: str) -> None:
    """Case 11."""
    backend.put("f.txt", f"one\n{odd}\ntwo\nTARGET\nlast\n".encode())
    ((_, line),), _ = backend.grep("TARGET")
    shown = backend.read_file("f.txt", line, line)
    assert "TARGET" in shown and "two" not in shown and "last" not in shown


def test_a_stale_offset_says_how_long_the_file_is(backend: FileBackend) -> None:
    """Cases 13 and 14."""
    backend.put("f.txt", b"a\nb\nc\nd\ne\n")
    try:
        said = backend.read_file("f.txt", 100)
    except Exception as refusal:
        said = str(refusal)
    assert "5" in said and "empty" not in said.lower()


def test_a_search_is_literal(backend: FileBackend) -> None:
    backend.put("f.txt", b"a.b\naxb\n(c[\n")
    assert backend.grep("a.b")[0] == [("f.txt", 1)]
    assert backend.grep("(c[")[0] == [("f.txt", 3)]


def test_a_binary_file_does_not_spoil_a_search(backend: FileBackend) -> None:
    """Case 29."""
    backend.put("lib.o", b"\0\xff\xfe needle \x80")
    backend.put("src.txt", b"needle\n")
    assert ("src.txt", 1) in backend.grep("needle")[0]


def test_what_is_shown_is_bounded_and_holds_what_is_reported(backend: FileBackend) -> None:
    """Cases 19, 20 and 22."""
    backend.put("min.js", b"x" * 325_000 + b"needle" + b"y" * 325_000)
    backend.put("z.txt", b"needle\n")
    matches, said = backend.grep("needle")
    assert ("z.txt", 1) in matches and len(said) < 60_000
    if ("min.js", 1) in matches:
        assert said.count("needle") >= len(matches)
    backend.put("long.txt", b"words and words\n" * 40_000)
    assert len(backend.read_file("long.txt")) < 120_000


def test_patterns_find_files_in_every_folder(backend: FileBackend) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt"):
        backend.put(path, b"")
    assert sorted(backend.glob("**/*.py")) == ["a.py", "src/b.py", "src/deep/c.py"]
    assert sorted(backend.glob("src/*")) in (["src/b.py", "src/d.txt"], ["src/b.py", "src/d.txt", "src/deep"])


# ---------------------------------------------------------------- paths


# Nothing of the machine: a backend that fails these writes where it is told to.
@pytest.mark.parametrize(
    "path", ["../secret.txt", "sub/../../secret.txt", "{absolute}", "../root-2/secret.txt", "a\0b"]
)
def test_nothing_outside_is_read_or_written(backend: FileBackend, path: str, tmp_path: Path) -> None:
    """Cases 55 and 56."""
    path = path.replace("{absolute}", str(tmp_path / "secret.txt"))
    (tmp_path / "root-2").mkdir()
    for secret in (tmp_path / "secret.txt", tmp_path / "root-2/secret.txt"):
        secret.write_text("loot\n")
    backend.put("sub/in.txt", b"x")
    for work in (
        lambda: backend.read_file(path),
        lambda: backend.write_file(path, "overwritten"),
        lambda: backend.edit_file(path, "loot", "x"),
    ):
        # An absolute path may also be taken to begin at the root.
        try:
            said = work()
        except Exception as refusal:
            said = str(refusal)
        assert "loot" not in said.replace(path, "")
    assert (tmp_path / "secret.txt").read_text() == (tmp_path / "root-2/secret.txt").read_text() == "loot\n"
    assert sorted(entry.name for entry in tmp_path.iterdir() if entry.name != "root") == ["root-2", "secret.txt"]


def test_dots_that_stay_inside_are_fine_or_refused(backend: FileBackend) -> None:
    """Case 56, the control."""
    backend.put("sub/a.txt", b"inside\n")
    backend.put("in.txt", b"here\n")
    with contextlib.suppress(Exception):
        assert "here" in backend.read_file("sub/../in.txt")


def test_a_percent_sign_is_just_a_character(backend: FileBackend) -> None:
    """Case 59."""
    backend.put("a b.txt", b"blank\n")
    backend.write_file("a%20b.txt", "percent\n")
    assert backend.get("a b.txt") == b"blank\n" and backend.get("a%20b.txt") == b"percent\n"
    refused(backend.read_file, "%2e%2e/x")


def test_nothing_is_stored_below_a_file_nor_in_place_of_a_folder(backend: FileBackend) -> None:
    """Cases 61 and 62."""
    backend.put("j", b"file\n")
    backend.put("folder/x", b"x\n")
    for path in ("j/2026/a.md", "folder", "folder/", ".", ""):
        refused(backend.write_file, path, "new")
    assert backend.get("j") == b"file\n" and backend.get("folder/x") == b"x\n"


def test_one_of_two_spellings_of_a_name_never_stands_for_the_other_file(on_disk: FileBackend) -> None:
    """Case 64."""
    decomposed, composed = "U\u0308bersicht.txt", "\u00dcbersicht.txt"
    on_disk.put(decomposed, b"decomposed\n")
    try:
        assert "decomposed" in on_disk.read_file(composed)
    except AssertionError:
        raise
    except Exception as refusal:
        assert "bersicht" in str(refusal)
    on_disk.put(composed, b"really composed\n")
    assert "really" in on_disk.read_file(composed)


def test_a_link_leads_nowhere_outside(on_disk: FileBackend, tmp_path: Path) -> None:
    """Cases 58 and 76."""
    assert on_disk.root is not None
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside/loot").write_text("loot words\n")
    (on_disk.root / "file").symlink_to(tmp_path / "outside/loot")
    (on_disk.root / "folder").symlink_to(tmp_path / "outside")
    (on_disk.root / "loop").symlink_to("loop")
    for work in (
        lambda: on_disk.read_file("file"),
        lambda: on_disk.read_file("folder/loot"),
        lambda: on_disk.write_file("folder/new", "x"),
        lambda: on_disk.write_file("file", "x"),
        lambda: on_disk.read_file("loop"),
    ):
        said = refused(work)
        assert "loot words" not in said
    assert on_disk.grep("loot words")[0] == []
    assert "file" not in on_disk.glob("**/*") and "folder/loot" not in on_disk.glob("**/*")
    assert {path.name: path.read_text() for path in (tmp_path / "outside").iterdir()} == {"loot": "loot words\n"}


def test_odd_names_do_not_spoil_a_listing(on_disk: FileBackend) -> None:
    """Cases 65, 67 and 68."""
    assert on_disk.root is not None
    on_disk.put("fine.txt", b"needle\n")
    for name in (b"bad-\xff", b"new\nline", b"red\x1b[31m"):
        Path(os.fsdecode(os.fsencode(on_disk.root) + b"/" + name)).write_text("x")
    (on_disk.root / "broken").symlink_to("nowhere")
    said = on_disk.ls()
    assert "fine.txt" in said and "\x1b" not in said
    said.encode()
    assert ("fine.txt", 1) in on_disk.grep("needle")[0]


def test_a_pipe_holds_nobody_up(on_disk: FileBackend) -> None:
    """Case 70."""
    assert on_disk.root is not None
    on_disk.put("a.txt", b"needle\n")
    os.mkfifo(on_disk.root / "pipe")
    for work in (
        lambda: on_disk.read_file("pipe"),
        lambda: on_disk.write_file("pipe", "x"),
        lambda: on_disk.edit_file("pipe", "a", "b"),
        lambda: on_disk.grep("needle"),
    ):
        in_time(work)
    assert ("a.txt", 1) in on_disk.grep("needle")[0]
