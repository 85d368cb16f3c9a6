"""The whole-file guard: a long file is edited, not written again from memory; and it never leaves a dead end."""

from __future__ import annotations

import re
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text

LONG = "".join(f"line {number}\n" for number in range(1, 600))
LINES = LONG.count("\n")


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    talk = Talk.open(api, unique)
    talk.put("long.txt", LONG.encode())
    return talk


def test_four_thousand_characters_may_be_replaced_and_one_more_may_not(talk: Talk) -> None:
    talk.put("edge.txt", ("é" * 4_000).encode())
    talk.ok("write_file", path="edge.txt", content="é" * 4_001)
    said = talk.refused("exists_long", "write_file", path="edge.txt", content="short")
    assert "edit_file" in said and "4,001 characters" in said and "4,000" in said
    assert talk.bytes_of("edge.txt") == ("é" * 4_001).encode()


def test_a_refused_replacement_guards_the_file_for_the_rest_of_the_turn(talk: Talk) -> None:
    """Deleting it is the same rewrite one call later: refused alone, in its folder, and after other calls."""
    talk.put("docs/long.txt", LONG.encode())
    talk.put("docs/other.txt", b"x")
    talk.refused("exists_long", "write_file", path="docs/long.txt", content="short")
    talk.ok("list_files")
    talk.ok("read_file", path="docs/long.txt")
    talk.ok("edit_file", path="docs/long.txt", edits=[{"find": "line 7\n", "replace": "seven\n"}])
    said = talk.refused("delete_guarded", "delete_file", path="docs/long.txt")
    assert "edit_file" in said
    talk.refused("delete_guarded", "delete_file", path="docs", recursive=True)
    assert talk.bytes_of("docs/other.txt") == b"x"
    # Nothing in this turn tried to write the other long file, and nothing at all in another turn.
    talk.ok("delete_file", path="long.txt")
    talk.again().ok("delete_file", path="docs", recursive=True)
    assert talk.files() == {}


def test_the_guard_holds_only_over_a_file_still_long(talk: Talk) -> None:
    talk.refused("exists_long", "write_file", path="long.txt", content="short")
    talk.refused("delete_guarded", "delete_file", path="long.txt")
    talk.put("long.txt", b"short now\n")
    talk.ok("delete_file", path="long.txt")
    # Made anew by this turn, nothing of it is what nobody asked about.
    talk.ok("write_file", path="long.txt", content=LONG)
    talk.ok("delete_file", path="long.txt")


def test_every_long_file_of_a_refused_batch_is_guarded(talk: Talk) -> None:
    """A failed write that names the path guards it, whichever file of the batch it failed for."""
    talk.put("second.txt", LONG.encode())
    files = [{"path": path, "content": "x"} for path in ("new.txt", "long.txt", "second.txt")]
    talk.refused("exists_long", "write_file", files=files)
    talk.refused("delete_guarded", "delete_file", path="long.txt")
    talk.refused("delete_guarded", "delete_file", path="second.txt")
    assert talk.bytes_of("new.txt") is None
    # A text that is too large to be written names the file all the same.
    talk.put("third.txt", LONG.encode())
    talk.refused("exists_long", "write_file", path="third.txt", content="x" * (1024 * 1024 + 1))
    talk.refused("delete_guarded", "delete_file", path="third.txt")


def test_a_refused_call_that_is_repeated_guards_too(talk: Talk) -> None:
    """The flag is part of the call's one transaction, so a stored answer and its guard never disagree."""
    first = talk.call("write_file", call="again", path="long.txt", content="short")
    assert talk.call("write_file", call="again", path="long.txt", content="short") == first
    talk.refused("delete_guarded", "delete_file", path="long.txt")


def test_one_edit_over_every_line_replaces_outright_once_all_is_seen(talk: Talk) -> None:
    """From line 1 through the last, which requires having seen every line of the current bytes in this turn."""
    said = talk.refused("exists_long", "write_file", path="long.txt", content="new\n")
    (last,) = re.findall(r"endLine (\d+)", said)
    whole = {"startLine": 1, "endLine": int(last), "content": "new"}
    assert int(last) == LINES
    talk.refused("not_read", "edit_file", path="long.txt", edits=[{**whole, "anchor": "line 1"}])
    talk.ok("read_file", path="long.txt", endLine=LINES - 1)
    talk.refused("not_read", "edit_file", path="long.txt", edits=[whole])
    talk.ok("read_file", path="long.txt", startLine=LINES)
    # Another turn's change in the middle makes it stale.
    talk.again().ok("edit_file", path="long.txt", edits=[{"find": "line 300\n", "replace": "LINE 300\n"}])
    talk.refused("changed_since_read", "edit_file", path="long.txt", edits=[whole])
    talk.ok("read_file", path="long.txt")
    talk.ok("edit_file", path="long.txt", edits=[whole])
    assert talk.bytes_of("long.txt") == b"new\n"


def test_a_binary_file_may_be_replaced(talk: Talk) -> None:
    talk.put("b.bin", b"\0" * 10_000)
    talk.ok("write_file", path="b.bin", content="text now")
    assert talk.bytes_of("b.bin") == b"text now"
    talk.put("wide.txt", ("\ufeff" + "w" * 5_000).encode("utf-16-le"))
    talk.refused("exists_long", "write_file", path="wide.txt", content="x")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("one line too long to be shown", b"x" * 30_000 + b"\nshort\n"),
        ("just too long to be shown with its number", b"a\n" + b"x" * 23_999 + b"\n"),
        ("just short enough", b"a\n" + b"x" * 23_000 + b"\n"),
        ("too large to be edited", b"line\n" * 250_000),
        ("many bytes, few characters", ("ü" * 12_500 + "\n").encode()),
        ("one line", b"y" * 4_001),
    ],
)
def test_the_advice_of_the_guard_can_be_followed(talk: Talk, name: str, data: bytes) -> None:
    """Where the refusal names edit_file, every line can be read and then replaced; elsewhere it names run_code."""
    talk.put("f.txt", data)
    said = talk.refused("exists_long", "write_file", path="f.txt", content="x")
    again = talk.refused("delete_guarded", "delete_file", path="f.txt")
    if "edit_file" not in said:
        assert "run_code" in said and "run_code" in again and "edit_file" not in again
        return
    assert "edit_file" in again
    (last,) = re.findall(r"endLine (\d+)", said)
    following: int | None = 1
    while following is not None:
        page = talk.ok("read_file", path="f.txt", startLine=following)["structured"]["files"][0]
        following = page.get("nextLine")
    talk.ok("edit_file", path="f.txt", edits=[{"startLine": 1, "endLine": int(last), "content": "replaced"}])
    assert (talk.bytes_of("f.txt") or b"").rstrip(b"\n") == b"replaced"


@pytest.mark.parametrize(
    ("tools", "named"),
    [
        (["write_file", "delete_file"], set()),
        (["write_file", "delete_file", "edit_file"], {"edit_file"}),
        (["write_file", "delete_file", "run_code"], {"run_code"}),
        (["write_file", "delete_file", "run_code", "edit_file"], {"edit_file"}),
    ],
)
def test_the_guard_names_only_tools_of_the_turn(talk: Talk, tools: list[str], named: set[str]) -> None:
    """And what it says of the file is true: a file that may be edited is not called too large."""
    few = talk.again(tools)
    for code, tool, more in (("exists_long", "write_file", {"content": "x"}), ("delete_guarded", "delete_file", {})):
        said = few.refused(code, tool, path="long.txt", **more)
        assert {name for name in ("edit_file", "run_code", "read_file") if name in said} == named
        assert "too large" not in said and "too long" not in said
        assert named or "another path" in said


def test_what_a_turn_flagged_survives_the_function(talk: Talk, system: LocalSystem) -> None:
    """The flag lies with the turn, not in memory."""
    talk.refused("exists_long", "write_file", path="long.txt", content="x")
    changed.cold(system)
    talk.refused("delete_guarded", "delete_file", path="long.txt")


# ---------------------------------------------------------------- delete_file


def test_deleting_says_what_is_gone(talk: Talk) -> None:
    talk.put("d/a.txt", b"1234")
    talk.put("d/e/b.txt", b"56")
    assert "2 entries" in talk.refused("is_folder", "delete_file", path="d")
    answer = talk.ok("delete_file", path="d/", recursive=True)
    assert answer["structured"]["deleted"] == ["d/a.txt", "d/e/b.txt"]
    assert "2 files" in text(answer) and "6 bytes" in text(answer)
    assert talk.ok("delete_file", path="long.txt", recursive=True)["structured"]["deleted"] == ["long.txt"]
    assert talk.files() == {}


@pytest.mark.parametrize("root", ["", ".", "./", "a/..", "a/../."])
def test_the_root_is_not_deleted(talk: Talk, root: str) -> None:
    talk.refused("invalid_path", "delete_file", path=root, recursive=True)
    assert list(talk.files()) == ["long.txt"]


def test_what_is_not_there_is_not_deleted_and_near_names_are_told(talk: Talk) -> None:
    assert "`long.txt`" in talk.refused("not_found", "delete_file", path="Long.txt")
    assert talk.refused("not_found", "delete_file", path="long.txt/below", recursive=True)
    assert talk.refused("invalid_path", "delete_file", path="long.txt/")


def test_the_receipt_tells_what_a_turn_left(talk: Talk) -> None:
    """A file that the turn wrote and deleted, alone or with its folder, is not in the receipt."""
    for path in ("d/a.txt", "d/b.txt", "c.txt", "kept.txt"):
        talk.ok("write_file", path=path, content="x")
    talk.ok("delete_file", path="c.txt")
    talk.ok("delete_file", path="d", recursive=True)
    receipt = talk.api("GET", f"/v1/turns/{talk.turn}/receipt").json["receipt"]
    assert [file["path"] for file in receipt["files"]] == ["kept.txt"]
