"""What a sandbox proposes is believed in nothing: hostile lists change nothing, odd names alone are left out."""

from __future__ import annotations

import hashlib
import json
import unicodedata
from typing import Any

import pytest

from workbench.runs import changes
from workbench.runs.changes import EMPTY_SHA256, Untrusted, Wanted, read, weigh
from workbench.workspace.storage.manifest import Entry

PACKS = {0: 100, 1: 50}
DIGEST = hashlib.sha256(b"x" * 10).hexdigest()


def line(**fields: Any) -> bytes:
    return json.dumps(fields).encode() + b"\n"


def file(path: str, **fields: Any) -> bytes:
    made = {"path": path, "kind": "file", "mode": "0644", "bytes": 10, "sha256": DIGEST}
    made["pieces"] = [{"part": 0, "offset": 0, "length": 10}]
    return line(**(made | fields))


def folder(path: str, mode: str = "0755") -> bytes:
    return line(path=path, kind="folder", mode=mode)


def base(*paths: str) -> dict[str, Entry]:
    return {path: Entry(path, "file", DIGEST, f"blobs/{DIGEST}", 0, 10, 10, 1, 10) for path in paths}


def proposed(*lines: bytes) -> changes.Proposal:
    return read(b"".join(lines), 1_000, PACKS)


def test_an_honest_list_is_read() -> None:
    proposal = proposed(
        line(path="old.txt", deleted=True),
        folder("empty"),
        file("new.txt", mode="0755"),
        line(name="link", leftOut="a link"),
    )
    assert proposal.wanted["old.txt"] is None
    assert proposal.wanted["empty"] == Wanted("empty", "folder", 0o755)
    assert proposal.wanted["new.txt"] == Wanted("new.txt", "file", 0o755, 10, DIGEST, (changes.Piece(0, 0, 10),))
    assert proposal.left_out == [("link", "a link")]


@pytest.mark.parametrize(
    ("lines", "fault"),
    [
        ([b'{"path": "a"'], "middle of a line"),
        ([b"nonsense\n"], "not JSON"),
        ([b"[1, 2]\n"], "no object"),
        ([b"\xff\xfe\n"], "not JSON"),
        ([b"[" * 50_000 + b"\n"], "not JSON"),
        ([line(path="a" * changes.LINE_BYTES)], "too long"),
        ([b"{" + b'"a":1,' * 20_000 + b'"b":1}\n'], "too long"),
        ([line(kind="file")], "without path"),
        ([line(path=7, kind="file")], "without path"),
        ([line(path="")], "without path"),
        ([line(leftOut="a link")], "without name"),
        ([file("a"), file("a")], "twice"),
        ([file("a"), line(path="a", deleted=True)], "twice"),
        ([file("a", kind="link")], "kind"),
        ([file("a", kind=None)], "kind"),
        ([file("a", mode="4755")], "mode"),
        ([file("a", mode="777777")], "mode"),
        ([file("a", mode=420)], "mode"),
        ([file("a", bytes=-1)], "size or hash"),
        ([file("a", bytes=10.0)], "size or hash"),
        ([file("a", bytes=True)], "size or hash"),
        ([file("a", bytes=10**30)], "add up"),
        ([file("a", sha256="0" * 63)], "size or hash"),
        ([file("a", sha256="g" * 64)], "size or hash"),
        ([file("a", sha256="../../../etc/passwd")], "size or hash"),
        ([file("a", pieces="all")], "pieces"),
        ([file("a", pieces=[3])], "pieces"),
        ([file("a", pieces=[{"part": "0", "offset": 0, "length": 10}])], "pieces"),
        ([file("a", pieces=[{"part": True, "offset": 0, "length": 10}])], "pieces"),
        ([file("a", pieces=[{"part": 9, "offset": 0, "length": 10}])], "outside what was sent"),
        ([file("a", pieces=[{"part": 0, "offset": 95, "length": 10}])], "outside what was sent"),
        ([file("a", pieces=[{"part": 0, "offset": -5, "length": 10}])], "outside what was sent"),
        ([file("a", pieces=[{"part": 0, "offset": 5, "length": 0}])], "outside what was sent"),
        ([file("a", pieces=[{"part": 0, "offset": 0, "length": 9}])], "add up"),
        ([file("a", bytes=0, pieces=[])], "empty file"),
    ],
)
def test_a_list_that_cannot_be_true_is_refused_whole(lines: list[bytes], fault: str) -> None:
    with pytest.raises(Untrusted, match=fault):
        proposed(file("fine.txt"), *lines)


def test_an_absurd_number_of_lines_is_refused_before_they_are_read() -> None:
    with pytest.raises(Untrusted, match="more than 1,000 lines"):
        read(b"\n" * 1_001, 1_000, PACKS)


@pytest.mark.parametrize(
    "name",
    [
        "../outside",
        "/etc/passwd",
        "a/../b",
        "a//b",
        "a/./b",
        "..",
        "a\\b",
        "nul\0byte",
        "line\nbreak",
        "tab\there",
        "x" * 300,
        "/".join(["deep"] * 300),
        "workspace/a.txt",
        "half \ud800 character",
    ],
)
def test_a_name_that_no_rule_allows_is_left_out_and_the_rest_is_kept(name: str) -> None:
    proposal = proposed(file("fine.txt"), file(name), line(path="gone", deleted=True))
    assert set(proposal.wanted) == {"fine.txt", "gone"}
    ((shown, reason),) = proposal.left_out
    assert reason
    assert shown.isprintable()
    assert len(shown) <= 4 * changes.NAME_CHARACTERS


def test_a_folder_named_workspace_in_the_root_is_left_out() -> None:
    proposal = proposed(folder("workspace"), folder("kept"))
    assert set(proposal.wanted) == {"kept"}
    assert proposal.left_out[0][0] == "workspace"


def test_deleting_a_name_that_cannot_exist_is_nothing() -> None:
    assert proposed(line(path="../a", deleted=True)).left_out == []


def test_a_decomposed_name_becomes_the_composed_path() -> None:
    composed, decomposed = "é.txt", unicodedata.normalize("NFD", "é.txt")
    proposal = proposed(line(path=composed, deleted=True), file(decomposed))
    assert proposal.wanted[composed] is not None
    assert list(proposal.wanted) == [composed]


@pytest.mark.parametrize("composed_first", [True, False])
def test_of_two_names_that_compose_to_one_path_the_composed_one_stays(composed_first: bool) -> None:
    composed, decomposed = "é.txt", unicodedata.normalize("NFD", "é.txt")
    both = [file(composed, mode="0600"), file(decomposed, mode="0644")]
    proposal = proposed(*(both if composed_first else reversed(both)))
    wanted = proposal.wanted[composed]
    assert wanted is not None
    assert wanted.mode == 0o600
    assert proposal.left_out_count == 1


def test_what_is_left_out_is_counted_but_named_only_so_often_and_escaped() -> None:
    lines = [line(name=f"l\x1b[31m\n{n}", leftOut="a link") for n in range(500)]
    proposal = proposed(*lines)
    assert proposal.left_out_count == 500
    assert len(proposal.left_out) == changes.LEFT_OUT_NAMED
    assert proposal.left_out[0][0] == "l\\x1b[31m\\n0"


# ---------------------------------------------------------------- the tree that would follow


def test_totals_count_the_whole_tree() -> None:
    after = weigh(base("a", "b", "c"), proposed(line(path="a", deleted=True), file("d"), file("b")))
    assert (after.files, after.bytes) == (3, 30)
    assert set(after.changes) == {"a", "b", "d"}


def test_deleting_what_is_not_there_is_no_change() -> None:
    assert weigh(base("a"), proposed(line(path="b", deleted=True))).changes == {}


@pytest.mark.parametrize(
    "lines",
    [
        [file("a/b")],
        [file("new"), file("new/below")],
        [file("x/y/z"), file("x/y")],
        [file("x/y/z"), file("x")],
    ],
)
def test_no_file_may_lie_below_a_file(lines: list[bytes]) -> None:
    with pytest.raises(Untrusted, match="which is a file"):
        weigh(base("a"), proposed(*lines))


def test_a_file_may_not_replace_a_folder_that_still_holds_files() -> None:
    with pytest.raises(Untrusted, match="puts d/kept below d"):
        weigh(base("d/kept"), proposed(file("d")))


def test_a_file_may_become_a_folder_and_a_folder_a_file() -> None:
    after = weigh(
        base("a", "d/x"),
        proposed(line(path="a", deleted=True), file("a/below"), line(path="d/x", deleted=True), file("d")),
    )
    assert {path for path, wanted in after.changes.items() if wanted} == {"a/below", "d"}


def test_a_file_that_became_a_filled_folder_is_no_file_any_more() -> None:
    after = weigh(base("a"), proposed(folder("a"), file("a/below")))
    wanted = after.changes["a"]
    assert wanted is not None
    assert wanted.kind == "folder"


def test_only_empty_folders_get_an_entry() -> None:
    after = weigh({}, proposed(folder("a"), folder("a/b"), file("a/b/c"), folder("empty")))
    assert set(after.changes) == {"a/b/c", "empty"}
    assert after.folders == 1


def test_new_spill_files_are_given_up_first_and_older_ones_are_not() -> None:
    proposal = proposed(file(".spill-1.txt"), file(".spill-2.txt"), file("report.md"))
    after = weigh(base(".spill-1.txt"), proposal, without_spills=True)
    assert set(after.changes) == {".spill-1.txt", "report.md"}


def test_the_empty_file_needs_no_bytes() -> None:
    proposal = proposed(file("e", bytes=0, sha256=EMPTY_SHA256, pieces=[]))
    assert proposal.wanted["e"] == Wanted("e", "file", 0o644, 0, EMPTY_SHA256)
