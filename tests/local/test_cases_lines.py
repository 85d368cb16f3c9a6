"""Sections A and B of the reported faults: endings, byte-order marks, final newlines, what a line is, ranges."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.talk import Talk, text


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def replaced(talk: Talk, before: bytes, find: str, replace: str, **more: Any) -> bytes | None:
    """The file's bytes after one edit by text."""
    talk.put("f.txt", before)
    talk.ok("edit_file", path="f.txt", edits=[{"find": find, "replace": replace, **more}])
    return talk.bytes_of("f.txt")


def numbered(talk: Talk, path: str, **more: Any) -> list[tuple[int, str]]:
    """The lines that read_file shows, notes left out."""
    shown = text(talk.ok("read_file", path=path, **more)).split("\n")
    pairs = [line.split("\t", 1) for line in shown if "\t" in line and line.split("\t")[0].isdigit()]
    return [(int(number), line) for number, line in pairs]


@pytest.mark.parametrize(
    ("before", "find", "replace", "after"),
    [
        # Case 1: every line keeps the ending it had, whatever the others have.
        (b"a\r\nb\nc\r\n", "c", "C", b"a\r\nb\nC\r\n"),
        (b"a\r\nb\nc\r\n", "b", "B", b"a\r\nB\nc\r\n"),
        (b"a\rb\nc\r\nd", "c", "C", b"a\rb\nC\r\nd"),
        # Case 2: a replacement that ends with a newline takes the file's ending and leaves no extra line.
        (b"x\r\ny\r\nz\r\n", "y\n", "Y\n", b"x\r\nY\r\nz\r\n"),
        (b"x\r\ny\r\nz\r\n", "y\n", "Y1\nY2\n", b"x\r\nY1\r\nY2\r\nz\r\n"),
        (b"x\r\ny\r\nz\r\n", "y\r\n", "Y1\r\nY2\n", b"x\r\nY1\r\nY2\r\nz\r\n"),
        (b"x\ry\rz\r", "y\n", "Y1\nY2\n", b"x\rY1\rY2\rz\r"),
        (b"x\ny\nz\n", "y\r\n", "Y1\r\nY2\r\n", b"x\nY1\nY2\nz\n"),
        # Case 5: the mark is no part of line 1, and stays.
        (b"\xef\xbb\xbfconst a = 1;\n", "const a = 1;", "const a = 2;", b"\xef\xbb\xbfconst a = 2;\n"),
        ("\ufeffa\nb\n".encode("utf-16-le"), "a\n", "A\n", "\ufeffA\nb\n".encode("utf-16-le")),
        ("\ufeffé\r\nb".encode("utf-16-be"), "b", "ü\nc", "\ufeffé\r\nü\r\nc".encode("utf-16-be")),
        # Case 8: a file without a final newline keeps having none.
        (b"a\nb", "a", "A", b"A\nb"),
        (b"a\nb", "b", "B", b"a\nB"),
        # Case 10: text behind an unterminated line stays apart from it.
        (b"a\nb", "b", "b\nc", b"a\nb\nc"),
    ],
)
def test_edits_by_text_touch_no_other_byte(talk: Talk, before: bytes, find: str, replace: str, after: bytes) -> None:
    """Cases 1, 2, 5, 8, 10."""
    assert replaced(talk, before, find, replace) == after


@pytest.mark.parametrize(
    ("before", "start", "end", "content", "after"),
    [
        (b"a\nb", 1, 1, "A", b"A\nb"),
        (b"a\nb", 2, 2, "B", b"a\nB"),
        (b"a\nb", 2, 2, "b\nc", b"a\nb\nc"),
        (b"a\nb", 2, 2, "b\nc\n", b"a\nb\nc"),
        (b"a\nb\n", 2, 2, "B", b"a\nB\n"),
        (b"a\r\nb\nc\r\n", 2, 2, "B", b"a\r\nB\nc\r\n"),
        (b"a\r\nb\r\nc\r\n", 1, 2, "1\n2\n3", b"1\r\n2\r\n3\r\nc\r\n"),
        (b"one\rtwo\rthree\r", 2, 2, "TWO", b"one\rTWO\rthree\r"),
        (b"a\nb", 2, 2, "", b"a"),
        (b"a\nb\n", 1, 1, "", b"b\n"),
        (b"\xef\xbb\xbfa\nb\n", 1, 1, "A", b"\xef\xbb\xbfA\nb\n"),
        (b"a\n\nb\n", 2, 2, "x", b"a\nx\nb\n"),
    ],
)
def test_edits_by_line_touch_no_other_byte(
    talk: Talk, before: bytes, start: int, end: int, content: str, after: bytes
) -> None:
    """Cases 1, 4, 5, 8, 10: the same by number."""
    talk.put("f.txt", before)
    talk.ok("read_file", path="f.txt")
    answer = talk.ok("edit_file", path="f.txt", edits=[{"startLine": start, "endLine": end, "content": content}])
    assert talk.bytes_of("f.txt") == after
    (changed,) = answer["structured"]["changed"]
    assert changed["startLine"] == start


def test_a_file_with_only_returns_has_lines_like_any_other(talk: Talk) -> None:
    """Case 4."""
    talk.put("f.txt", b"one\rtwo\rthree\r")
    assert numbered(talk, "f.txt") == [(1, "one"), (2, "two"), (3, "three")]
    (match,) = talk.ok("search_files", queries=["two"])["structured"]["matches"]
    assert match == {"path": "f.txt", "line": 2, "queries": ["two"]}
    talk.ok("edit_file", path="f.txt", edits=[{"startLine": 2, "anchor": "two", "content": "TWO"}])
    assert talk.bytes_of("f.txt") == b"one\rTWO\rthree\r"


def test_a_mark_is_never_seen_and_never_lost(talk: Talk) -> None:
    """Cases 5 and 7: reading, searching and editing a marked file, whatever its encoding."""
    for name, data in {
        "utf8": b"\xef\xbb\xbfend\r\nnext\r\n",
        "le": "\ufeffend\r\nnext\r\n".encode("utf-16-le"),
        "be": "\ufeffend\r\nnext\r\n".encode("utf-16-be"),
    }.items():
        talk.put(name, data)
        assert numbered(talk, name) == [(1, "end"), (2, "next")]
        found = talk.ok("search_files", queries=["end"], path=name)
        assert [(one["line"], one["queries"]) for one in found["structured"]["matches"]] == [(1, ["end"])]
        assert "1:\tend\n" in f"{text(found)}\n"
        assert "\ufeff" not in text(found) and "\r" not in text(found)
        talk.ok("edit_file", path=name, edits=[{"startLine": 1, "anchor": "end", "content": "END"}])
        talk.ok("edit_file", path=name, append="last\n")
        kept = talk.bytes_of(name)
        assert kept is not None
        assert kept == data.replace(*(word.encode(_codec(name)) for word in ("end", "END"))) + "last\n".encode(
            _codec(name)
        )


def _codec(name: str) -> str:
    return {"utf8": "utf-8", "le": "utf-16-le", "be": "utf-16-be"}[name]


def test_appending_says_when_it_joined_an_unterminated_line(talk: Talk) -> None:
    """Case 10, for append: the bytes are those given, and the answer tells what became of the last line."""
    talk.put("f.txt", b"a\nb")
    answer = talk.ok("edit_file", path="f.txt", append="c\n")
    assert talk.bytes_of("f.txt") == b"a\nbc\n"
    assert "joined" in " ".join(answer["structured"]["notes"]) and "joined" in text(answer)
    again = talk.ok("edit_file", path="f.txt", append="d")
    assert again["structured"]["notes"] == []
    assert talk.bytes_of("f.txt") == b"a\nbc\nd"
    assert talk.refused("not_found", "edit_file", path="none.txt", append="x")


@pytest.mark.parametrize("odd", ["\f", "\v", "\x1c", "\x1d", "\x1e", "\x85", "\u2028", "\u2029"])
def test_only_newlines_and_returns_end_a_line(talk: Talk, odd: str) -> None:
    """Case 11: search, read and edit mean the same line, and the odd character stays where it is."""
    data = f"one\n{odd}\ntwo{odd}too\nTARGET\n".encode()
    talk.put("f.txt", data)
    (match,) = talk.ok("search_files", queries=["TARGET"])["structured"]["matches"]
    assert match["line"] == 4
    shown = text(talk.ok("read_file", path="f.txt", startLine=4, endLine=4))
    assert shown.startswith("4\tTARGET\n")
    talk.ok("edit_file", path="f.txt", edits=[{"startLine": 4, "anchor": "TARGET", "content": "HIT"}])
    assert talk.bytes_of("f.txt") == data.replace(b"TARGET", b"HIT")
    listed = talk.ok("list_files")["structured"]["entries"]
    assert listed[0]["lines"] == 4


def test_a_closing_newline_starts_no_line(talk: Talk) -> None:
    """Case 13."""
    talk.put("f.txt", b"a\nb\n")
    past = talk.ok("read_file", path="f.txt", startLine=1200)
    assert "2 lines" in text(past) and "empty" not in text(past)
    assert past["structured"]["files"] == [{"path": "f.txt", "startLine": 1200, "endLine": 1199, "totalLines": 2}]
    assert numbered(talk, "f.txt", startLine=1, endLine=5) == [(1, "a"), (2, "b")]
    assert numbered(talk, "f.txt", startLine=2, endLine=2) == [(2, "b")]
    assert "3\t" not in text(talk.ok("read_file", path="f.txt", startLine=2, endLine=3))
    assert "2 lines" in talk.refused(
        "range_outside", "edit_file", path="f.txt", edits=[{"startLine": 3, "content": "c"}]
    )
    talk.put("newline", b"\n")
    talk.put("empty", b"")
    assert numbered(talk, "newline") == [(1, "")]
    assert "empty" in text(talk.ok("read_file", path="empty"))
    assert talk.ok("read_file", path="empty")["structured"]["files"] == [
        {"path": "empty", "startLine": 0, "endLine": 0, "totalLines": 0}
    ]


def test_a_stale_offset_is_not_taken_for_an_empty_file(talk: Talk) -> None:
    """Case 14."""
    talk.put("f.txt", b"1\n2\n3\n4\n5\n")
    said = text(talk.ok("read_file", path="f.txt", startLine=100))
    assert "5 lines" in said and "empty" not in said.lower()


@pytest.mark.parametrize(
    "arguments",
    [
        {"startLine": 1.5},
        {"startLine": 0},
        {"startLine": -1},
        {"endLine": 0},
        {"startLine": 4, "endLine": 3},
        {"startLine": "two"},
        {"startLine": "2; rm"},
        {"startLine": ""},
        {"startLine": "1.5"},
        {"startLine": [1]},
        {"startLine": True},
        {"endLine": "-3"},
        {"startLine": 10**30, "endLine": 5},
    ],
)
@pytest.mark.parametrize("listed", [False, True])
def test_a_range_that_is_none_is_refused_with_the_rule(talk: Talk, arguments: dict[str, Any], listed: bool) -> None:
    """Cases 16 and 17: also within paths; no text of the file is returned."""
    talk.put("f.txt", b"SECRET ONE\nSECRET TWO\nSECRET THREE\n")
    asked = {"paths": [{"path": "f.txt", **arguments}]} if listed else {"path": "f.txt", **arguments}
    answer = talk.call("read_file", **asked)
    assert (answer["outcome"], answer["error"]["code"]) == ("invalid_args", "invalid_args")
    assert any(name in answer["error"]["message"] for name in arguments)
    assert "SECRET" not in str(answer)


def test_not_a_number_is_refused_before_anything_is_read(talk: Talk) -> None:
    """Case 16: NaN is no JSON, in the body or in arguments sent as text."""
    talk.put("f.txt", b"SECRET\n")
    answer = talk.send("read_file", '{"path": "f.txt", "startLine": NaN}').json
    assert answer["outcome"] == "invalid_args" and "SECRET" not in str(answer)


def test_numbers_sent_as_text_are_converted_and_told(talk: Talk) -> None:
    """Case 17."""
    talk.put("f.txt", b"1\n2\n3\n4\n")
    answer = talk.ok("read_file", path="f.txt", startLine="2", endLine="3")
    assert text(answer).startswith("2\t2\n3\t3")
    assert answer["conversions"] == [
        {"argument": "startLine", "from": "2", "to": 2},
        {"argument": "endLine", "from": "3", "to": 3},
    ]
    assert text(talk.ok("read_file", path="f.txt", startLine=2.0, endLine=3)).startswith("2\t2\n3\t3")
