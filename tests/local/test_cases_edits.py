"""Section E of the reported faults: what an edit matches, what it refuses, and what it leaves alone."""

from __future__ import annotations

import ast
from typing import Any

import pytest

from tests.local.talk import Talk, text


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def refused(talk: Talk, code: str, data: bytes, *edits: dict[str, Any]) -> dict[str, Any]:
    """The error of an edit call that must be refused with ``code`` and leave the file as it is."""
    talk.put("f.txt", data)
    answer = talk.call("edit_file", path="f.txt", edits=list(edits))
    assert answer["error"] is not None, answer["content"]
    assert answer["error"]["code"] == code, answer["error"]
    assert text(answer) == answer["error"]["message"]
    assert talk.bytes_of("f.txt") == data
    error: dict[str, Any] = answer["error"]
    return error


def test_an_empty_find_is_refused(talk: Talk) -> None:
    """Case 31: with and without a line, and on a missing file."""
    for edit in ({"find": "", "replace": "Q"}, {"find": "", "replace": "Q", "line": 1}):
        talk.put("f.txt", b"xyz")
        answer = talk.call("edit_file", path="f.txt", edits=[edit])
        assert answer["outcome"] == "invalid_args" and "find" in answer["error"]["message"]
        assert talk.bytes_of("f.txt") == b"xyz"
    assert talk.call("edit_file", path="none.txt", edits=[{"find": "", "replace": "Q"}])["error"]
    assert talk.bytes_of("none.txt") is None


def test_blanks_are_matched_as_they_are(talk: Talk) -> None:
    """Case 32: a blank matches a blank and nothing else."""
    data = b"p\tq\nr\ts\n"
    refused(talk, "no_match", data, {"find": " ", "replace": "X"})
    refused(talk, "no_match", data, {"find": "\N{NO-BREAK SPACE}", "replace": "X"})
    assert refused(talk, "not_unique", data, {"find": "\n", "replace": "X"})["details"]["lines"] == [1, 2]


def test_overlapping_places_count(talk: Talk) -> None:
    """Case 34."""
    error = refused(talk, "not_unique", b"k: v\nk: v\nk: v\n", {"find": "k: v\nk: v", "replace": "x"})
    assert error["details"]["lines"] == [1, 2] and "1 and 2" in error["message"]
    assert refused(talk, "not_unique", b"aaa", {"find": "aa", "replace": "b"})["details"]["lines"] == [1]
    refused(talk, "not_unique", b"aaa", {"find": "aa", "replace": "b", "line": 1})
    talk.put("f.txt", b"k: v\nk: v\nk: v\n")
    answer = talk.ok("edit_file", path="f.txt", edits=[{"find": "k: v\nk: v", "replace": "a\nb", "line": 2}])
    assert talk.bytes_of("f.txt") == b"k: v\na\nb\n"
    assert answer["structured"]["changed"] == [{"startLine": 2, "endLine": 3}]


def test_places_of_several_lines_are_listed(talk: Talk) -> None:
    """Case 35."""
    error = refused(talk, "not_unique", b"a\nb\nz\na\nb\n", {"find": "a\nb", "replace": "x"})
    assert error["details"]["lines"] == [1, 4] and "1 and 4" in error["message"]


def test_what_matches_nothing_is_told_where_its_first_line_stands(talk: Talk) -> None:
    """An excerpt that matches nothing: the line numbers where its first line does stand."""
    error = refused(talk, "no_match", b"a\nb\nc\na\nd\n", {"find": "a\nx", "replace": "y"})
    assert error["details"]["lines"] == [1, 4]


@pytest.mark.parametrize(
    ("find", "replace", "after"),
    [
        ("'", "\u2019", b"don\xe2\x80\x99t\n"),
        ("n't", "n\u00a0t", b"don\xc2\xa0t\n"),
        ("'", "\u2011", b"don\xe2\x80\x91t\n"),
    ],
)
def test_look_alikes_are_different_characters(talk: Talk, find: str, replace: str, after: bytes) -> None:
    """Case 37: by edit and by write."""
    talk.put("f.txt", b"don't\n")
    talk.ok("edit_file", path="f.txt", edits=[{"find": find, "replace": replace}])
    assert talk.bytes_of("f.txt") == after
    talk.ok("write_file", path="g.txt", content=after.decode())
    assert talk.bytes_of("g.txt") == after


def test_a_near_miss_is_a_hint_and_never_a_match(talk: Talk) -> None:
    """Case 38, and the same for blanks, case and dashes."""
    data = "Say \u201cone thing\u201d and \u201cthe other\u201d.\nnext line\n".encode()
    error = refused(talk, "no_match", data, {"find": '"one thing"', "replace": '"1"'})
    assert "Line 1 differs only in quotes" in error["message"] and "\u201cone thing\u201d" in error["message"]
    for find in ("Next line", "next  line", "next\tline"):
        assert "Line 2 " in refused(talk, "no_match", data, {"find": find, "replace": "x"})["message"]


def test_trailing_blanks_are_not_forgiven(talk: Talk) -> None:
    """Case 40: refused with a hint; edited with the right text the program still parses."""
    data = b"if a:\n    if b:\n        run(1)\n"
    error = refused(
        talk, "no_match", data, {"find": "    if b:  \n        run(1)  ", "replace": "    if b:\n        run(2)"}
    )
    assert "2" in error["message"]
    talk.ok(
        "edit_file", path="f.txt", edits=[{"find": "    if b:\n        run(1)", "replace": "    if b:\n        run(2)"}]
    )
    assert talk.bytes_of("f.txt") == b"if a:\n    if b:\n        run(2)\n"
    ast.parse(talk.bytes_of("f.txt") or b"")


def test_tabs_stay_and_a_lost_indentation_comes_back(talk: Talk) -> None:
    """Case 41, and exactly when a line gets its indentation back."""
    talk.put("f.txt", b"all:\n\techo hi\nclean:\n\trm x\n")
    talk.ok("edit_file", path="f.txt", edits=[{"find": "hi", "replace": "bye"}])
    assert talk.bytes_of("f.txt") == b"all:\n\techo bye\nclean:\n\trm x\n"
    answer = talk.ok("edit_file", path="f.txt", edits=[{"startLine": 2, "content": "echo yo", "anchor": "\techo bye"}])
    assert talk.bytes_of("f.txt") == b"all:\n\techo yo\nclean:\n\trm x\n"
    assert "indentation" in " ".join(answer["structured"]["notes"])
    for content, after in (
        ("  two", b"a:\n  two\nb\n"),
        ("", b"a:\nb\n"),
        ("one", b"a:\none\nb\n"),
        ("x\ny", b"a:\nx\ny\nb\n"),
    ):
        talk.put("g.txt", b"a:\n    one\nb\n")
        talk.ok("edit_file", path="g.txt", edits=[{"startLine": 2, "anchor": "    one", "content": content}])
        assert talk.bytes_of("g.txt") == after


def test_numbers_mean_the_file_before_the_call(talk: Talk) -> None:
    """Case 43: in any order of the edits."""
    edits = [{"startLine": 1, "endLine": 10, "content": "A"}, {"startLine": 20, "endLine": 30, "content": "B"}]
    for order in (edits, edits[::-1]):
        talk.put("f.txt", "".join(f"L{number}\n" for number in range(1, 31)).encode())
        talk.ok("read_file", path="f.txt")
        answer = talk.ok("edit_file", path="f.txt", edits=order)
        middle = "".join(f"L{number}\n" for number in range(11, 20))
        assert talk.bytes_of("f.txt") == f"A\n{middle}B\n".encode()
        assert answer["structured"]["changed"] == [{"startLine": 1, "endLine": 1}, {"startLine": 11, "endLine": 11}]


def test_edits_of_a_call_apply_together_or_not_at_all(talk: Talk) -> None:
    """Case 44: the refusal names the edit; both forms in one call are refused."""
    error = refused(talk, "no_match", b"a\nb\n", {"find": "a", "replace": "A"}, {"find": "zzz", "replace": "Z"})
    assert "dit 2" in error["message"] and error["details"]["edit"] == 2
    talk.ok("read_file", path="f.txt")
    error = refused(
        talk, "range_outside", b"a\nb\n", {"startLine": 1, "content": "A"}, {"startLine": 9, "content": "Z"}
    )
    assert "dit 2" in error["message"] and "2 lines" in error["message"]
    talk.put("f.txt", b"a\nb\n")
    mixed = talk.call(
        "edit_file", path="f.txt", edits=[{"find": "a", "replace": "A"}, {"startLine": 2, "content": "B"}]
    )
    assert mixed["outcome"] == "invalid_args" and talk.bytes_of("f.txt") == b"a\nb\n"


def test_the_number_column_never_lands_in_a_file(talk: Talk) -> None:
    """Case 47: a find that carries read_file's numbers is told so; a file that really holds them edits exactly."""
    error = refused(talk, "no_match", b"foo\nbar\n", {"find": "1\tfoo\n2\tbar", "replace": "1\tFOO\n2\tbar"})
    assert "number" in error["message"]
    talk.put("f.txt", b"1\tfoo\n2\tbar\n")
    talk.ok("edit_file", path="f.txt", edits=[{"find": "1\tfoo", "replace": "1\tFOO"}])
    assert talk.bytes_of("f.txt") == b"1\tFOO\n2\tbar\n"


def test_refusals_by_line_come_in_their_order(talk: Talk) -> None:
    """Overlap before anchors, the number of lines, the anchor of the last line, where the text stands now."""
    data = b"one\ntwo\nthree\nfour\n"
    overlap = ({"startLine": 1, "endLine": 2, "anchor": "no", "content": ""}, {"startLine": 2, "content": "x"})
    error = refused(talk, "ranges_overlap", data, *overlap)
    assert "1" in error["message"] and "2" in error["message"]
    assert "4 lines" in refused(talk, "range_outside", data, {"startLine": 9, "anchor": "no", "content": ""})["message"]
    last = {"startLine": 2, "endLine": 3, "anchor": "three", "content": "x"}
    assert "two" in refused(talk, "anchor_is_last_line", data, last)["message"]
    moved = refused(talk, "anchor_moved", data, {"startLine": 1, "endLine": 2, "anchor": "four", "content": "x"})
    assert moved["details"]["found"] == [4] and "one" in moved["message"]
    end = refused(talk, "anchor_moved", data, {"startLine": 1, "endLine": 2, "endAnchor": "four", "content": "x"})
    assert end["details"]["found"] == [4]
    refused(talk, "invalid_args", data, {"startLine": 3, "endLine": 2, "content": "x"})


def test_touching_ranges_and_ends_of_white_space_are_fine(talk: Talk) -> None:
    talk.put("f.txt", b"one  \ntwo\nthree\n")
    talk.ok("read_file", path="f.txt")
    edits = [
        {"startLine": 1, "anchor": "one", "content": "1"},
        {"startLine": 2, "endLine": 3, "anchor": "two ", "endAnchor": "three\t", "content": "2\n3"},
    ]
    talk.ok("edit_file", path="f.txt", edits=edits)
    assert talk.bytes_of("f.txt") == b"1\n2\n3\n"


def test_a_moved_line_is_found_by_its_anchor_only_when_it_is_the_only_one(talk: Talk) -> None:
    """Reconciliation: single-line edits only, said in the answer, never past the end."""
    talk.put("f.txt", b"a\nb\nc\n")
    answer = talk.ok("edit_file", path="f.txt", edits=[{"startLine": 1, "anchor": "c", "content": "C"}])
    assert talk.bytes_of("f.txt") == b"a\nb\nC\n"
    assert "line 3" in text(answer) and answer["structured"]["changed"] == [{"startLine": 3, "endLine": 3}]
    refused(talk, "range_outside", b"a\nb\n", {"startLine": 3, "anchor": "a", "content": "x"})
    refused(talk, "anchor_moved", b"a\nb\na\n", {"startLine": 2, "anchor": "a", "content": "x"})


def test_the_answer_ends_with_the_lines_as_they_now_read(talk: Talk) -> None:
    """White space escaped, long lines cut, at most three of many, how many lines moved, the version, the mode kept."""
    talk.put("f.txt", b"a\nb\nc\n")
    answer = talk.ok("edit_file", path="f.txt", edits=[{"find": "b", "replace": "\tx \ny\nz\n4\n" + "w" * 300}])
    said = text(answer)
    assert '"\\tx "' in said and '"y"' in said and '"z"' in said and '"4"' not in said
    assert "4" in said and f"version {answer['structured']['version']}" in said
    long = text(talk.ok("edit_file", path="f.txt", edits=[{"find": "a\n", "replace": "v" * 300 + "\n"}]))
    assert "v" * 200 in long and "v" * 201 not in long


def test_an_artifacts_id_is_no_file(talk: Talk) -> None:
    """edit_file over a stored artifact: there is no text to match, and the way to change it is named."""
    assert "run_code" in talk.refused("unsupported_type", "edit_file", path="art_9fQ", append="x")
    for other in ("run_code", "export_artifact"):
        few = talk.again(["edit_file", other])
        said = few.refused("unsupported_type", "edit_file", path=f"art_{len(other)}", append="x")
        assert ("run_code" in said, "export_artifact" in said) == (other == "run_code", False)
    talk.put("art_9fQ", b"a file of that name\n")
    talk.ok("edit_file", path="art_9fQ", append="x\n")


def test_limits_of_an_edit(talk: Talk) -> None:
    """At most 1 MiB and 50 edits; binary files are refused."""
    talk.put("big.txt", b"x" * (1024 * 1024 + 1))
    assert "run_code" in talk.refused("too_large", "edit_file", path="big.txt", append="x")
    talk.put("full.txt", b"x" * (1024 * 1024))
    talk.refused("too_large", "edit_file", path="full.txt", append="x")
    edits = [{"find": str(number), "replace": ""} for number in range(51)]
    assert talk.call("edit_file", path="full.txt", edits=edits)["outcome"] == "invalid_args"
    talk.put("b.bin", b"\0x")
    assert "run_code" in talk.refused("binary", "edit_file", path="b.bin", append="x")
    few = talk.again(["edit_file"])
    assert "run_code" not in few.refused("binary", "edit_file", path="b.bin", append="x")
