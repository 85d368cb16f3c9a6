"""Edits by exact text: nothing is matched loosely, nothing else changes, and a refusal says what is there instead."""

import pytest

from workbench.errors import ToolError
from workbench.workspace.text.edit import FindEdit, LineEdit, append, apply_edits
from workbench.workspace.text.seen import Sight


def edit(data, *pairs):
    return apply_edits("f.txt", data, [FindEdit(*pair) for pair in pairs], None, "now", lambda blob: None)


def refusal(data, *pairs):
    with pytest.raises(ToolError) as refused:
        edit(data, *pairs)
    assert refused.value.message.endswith("Nothing was changed.")
    return refused.value


# ---------------------------------------------------------------- endings, marks, final newline


def test_every_line_of_a_mixed_file_keeps_its_own_ending():
    """Case 1."""
    assert edit(b"a\r\nb\nc\r\n", ("c", "C")).data == b"a\r\nb\nC\r\n"
    assert edit(b"a\r\nb\nc\r\n", ("b", "B")).data == b"a\r\nB\nc\r\n"
    assert edit(b"a\rb\nc\r\n", ("a", "A"), ("c", "C")).data == b"A\rb\nC\r\n"


def test_line_breaks_in_new_text_become_those_of_the_file():
    """Case 2."""
    assert edit(b"x\r\ny\r\nz\r\n", ("y\n", "Y\n")).data == b"x\r\nY\r\nz\r\n"
    assert edit(b"x\r\ny\r\nz\r\n", ("y\n", "Y1\nY2\n")).data == b"x\r\nY1\r\nY2\r\nz\r\n"
    assert edit(b"x\r\ny\r\nz\r\n", ("y\r\n", "Y1\rY2\r\n")).data == b"x\r\nY1\r\nY2\r\nz\r\n"
    assert edit(b"x\ny\nz\n", ("y\r\n", "Y1\r\nY2\r\n")).data == b"x\nY1\nY2\nz\n"
    assert edit(b"x\ry\rz\r", ("y", "1\n2")).data == b"x\r1\r2\rz\r"


def test_the_dominant_ending_wins_and_ties_go_to_line_feed_then_to_crlf():
    assert edit(b"a\r\nb\r\nc\nd", ("d", "1\n2")).data == b"a\r\nb\r\nc\n1\r\n2"
    assert edit(b"a\r\nb\nd", ("d", "1\n2")).data == b"a\r\nb\n1\n2"
    assert edit(b"a\r\nb\rd", ("d", "1\n2")).data == b"a\r\nb\r1\r\n2"
    assert edit(b"d", ("d", "1\r\n2")).data == b"1\n2"


def test_a_line_break_in_find_matches_any_ending():
    for ending in (b"\n", b"\r\n", b"\r"):
        for written in ("b\nc", "b\r\nc", "b\rc"):
            result = edit(b"a\n" + b"b" + ending + b"c\n", (written, "x"))
            assert result.data == b"a\nx\n"
            assert (result.changed, result.moved) == ([(2, 2)], -1)


def test_a_match_never_splits_a_carriage_return_from_its_line_feed():
    assert refusal(b"a\r\nb\r\n", ("a\n\nb", "x")).code == "no_match"
    assert refusal(b"a\r\nb", ("\r\n\n", "x")).code == "no_match"
    assert edit(b"a\r\nb", ("\n", "")).data == b"ab"
    assert edit(b"a\r\nb", ("\r", "")).data == b"ab"
    assert edit(b"a\r\n\nb", ("\nb", "!")).data == b"a\r\n!"
    assert refusal(b"a\r\r\nb", ("\n", "x")).details["lines"] == [1, 2]


def test_an_edit_by_which_two_endings_would_melt_is_refused():
    """The guard: line 1 of the old file ends in a carriage return, which would take the line feed of line 2."""
    refused = refusal(b"a\rb\nc", ("b", ""))
    assert refused.code == "unsafe_edit"
    assert refused.details["startLine"] == 2
    assert edit(b"a\rb\nc", ("b\n", "")).data == b"a\rc"
    # Also where the one ending is new, and where two edits meet.
    assert refusal(b"\rx\n\r", ("\rx", "\n")).code == "unsafe_edit"
    assert refusal(b"a\rb\rcd\n", ("c", "\n"), ("d", "")).code == "unsafe_edit"


def test_the_byte_order_mark_is_invisible_and_kept():
    """Case 5."""
    result = edit(b"\xef\xbb\xbfconst a = 1;\n", ("const a = 1;\n", "const a = 2;\n"))
    assert result.data == b"\xef\xbb\xbfconst a = 2;\n"
    assert result.shown == ['line 1 now: "const a = 2;"']
    assert refusal(b"\xef\xbb\xbfa\n", ("\ufeffa", "b")).code == "no_match"


def test_a_final_newline_is_neither_added_nor_taken():
    """Case 8."""
    assert edit(b"a\nb", ("a", "A")).data == b"A\nb"
    assert edit(b"a\nb", ("b", "B")).data == b"a\nB"
    assert edit(b"a\nb\n", ("b", "B")).data == b"a\nB\n"


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_stays_utf_16_and_is_matched_on_whole_units(encoding):
    bom = "\ufeff".encode(encoding)
    text = "eins\r\nzw😀ei\r\n\u0a0d\u0d0a\n"
    result = edit(bom + text.encode(encoding), ("w😀e", "w🦊\ne"), ("\u0a0d", "x"))
    assert result.data == bom + "eins\r\nzw🦊\r\nei\r\nx\u0d0a\n".encode(encoding)
    assert result.changed == [(2, 3), (4, 4)]
    # The bytes of U+0041 U+4200 hold those of U+4141 and others between their units.
    assert refusal(bom + "\u4100\u0041".encode(encoding), ("\u0000", "x")).code == "no_match"


def test_the_second_half_of_one_unit_and_the_first_of_the_next_are_no_character():
    """The file holds U+D83D U+DE00, and so between them the bytes D8 00 of U+00D8."""
    assert refusal(bytes.fromhex("fffe3dd800de"), ("\u00d8", "x")).code == "no_match"


# ---------------------------------------------------------------- matching and safety


def test_an_empty_find_is_refused():
    """Case 31."""
    for line in (None, 1, 2):
        refused = refusal(b"xyz", ("", "Q", line))
        assert refused.code == "empty_text"
        assert "find" in refused.message


@pytest.mark.parametrize(
    ("find", "code"), [(" ", "no_match"), ("\u00a0", "no_match"), ("  ", "no_match"), ("\n", "not_unique")]
)
def test_blanks_are_matched_exactly(find, code):
    """Case 32."""
    assert refusal(b"p\tq\nr\ts\n", (find, "X")).code == code


def test_overlapping_occurrences_count():
    """Case 34."""
    refused = refusal(b"k: v\n" * 3, ("k: v\nk: v", "x"))
    assert (refused.code, refused.details["lines"]) == ("not_unique", [1, 2])
    assert "lines 1 and 2" in refused.message
    assert refusal(b"aaa", ("aa", "x")).code == "not_unique"
    assert edit(b"k: v\n" * 3, ("k: v\nk: v", "x", 2)).data == b"k: v\nx\n"
    assert edit(b"k: v\r\n" * 3, ("k: v\nk: v", "x", 2)).data == b"k: v\r\nx\r\n"


def test_all_lines_of_a_repeated_text_are_listed():
    """Case 35."""
    refused = refusal(b"a\nb\nz\na\nb\n", ("a\nb", "x"))
    assert refused.details["lines"] == [1, 4]
    assert "lines 1 and 4" in refused.message


def test_two_occurrences_on_the_named_line_are_still_not_unique():
    refused = refusal(b"x x\nx\n", ("x", "y", 1))
    assert refused.code == "not_unique"
    assert "line 1" in refused.message
    assert edit(b"x x\nx\n", ("x", "y", 2)).data == b"x x\ny\n"


def test_a_wrong_line_says_on_which_ones_the_text_starts():
    refused = refusal(b"a\nx\nb\nx\n", ("x", "y", 3))
    assert (refused.code, refused.details["lines"]) == ("no_match", [2, 4])
    assert refusal(b"a\nx\nb\nx\n", ("x", "y", 5)).code == "range_outside"
    assert refusal(b"a\nx\nb\nx\n", ("x", "y", 0)).code == "range_outside"


def test_thousands_of_occurrences_make_a_short_refusal():
    refused = refusal(b"a" * 500_000, ("aa", "b"))
    assert refused.code == "not_unique"
    assert len(refused.message) < 500


def test_quotes_dashes_and_blanks_are_real_changes():
    """Case 37."""
    assert edit(b"don't\n", ("'", "\u2019")).data == b"don\xe2\x80\x99t\n"
    assert edit(b"a b-c\n", (" ", "\u00a0"), ("-", "\u2011")).data == b"a\xc2\xa0b\xe2\x80\x91c\n"


def test_equal_texts_are_refused_as_no_change():
    assert refusal(b"a\n", ("a", "a")).code == "no_change"


def test_one_bad_edit_refuses_all_and_is_named():
    """Case 44."""
    refused = refusal(b"a\nb\n", ("a", "A"), ("zzz", "Z"))
    assert (refused.code, refused.details["edit"]) == ("no_match", 2)
    assert "Edit 2" in refused.message


def test_edits_mean_the_file_before_the_call():
    assert edit(b"a b\n", ("a", "b"), ("b", "a")).data == b"b a\n"
    assert edit(b"a b\n", ("b", "a"), ("a", "b")).data == b"b a\n"
    refused = refusal(b"one\n", ("one", "two"), ("two", "three"))
    assert (refused.code, refused.details["edit"]) == ("no_match", 2)
    assert "another edit" in refused.message


def test_overlapping_edits_are_refused_and_touching_ones_are_fine():
    refused = refusal(b"abc\n", ("ab", "x"), ("bc", "y"))
    assert (refused.code, refused.details["edits"]) == ("ranges_overlap", [1, 2])
    assert refusal(b"abc\n", ("b", "x"), ("abc", "y")).code == "ranges_overlap"
    assert refusal(b"abc\n", ("b", "x"), ("b", "y")).code == "ranges_overlap"
    result = edit(b"abc\n", ("c", "3"), ("ab", "12"))
    assert (result.data, result.changed) == (b"123\n", [(1, 1)])


def test_edits_on_one_line_and_of_lines_that_join_are_told_together():
    result = edit(b"a 1 b\nc\nd\ne\n", ("a", "A\nA"), ("b\n", "B"), ("c", "C"), ("e", "E"))
    assert result.data == b"A\nA 1 BC\nd\nE\n"
    assert (result.changed, result.moved) == ([(1, 2), (4, 4)], 0)
    assert result.shown == ['line 1 now: "A"', 'line 2 now: "A 1 BC"', 'line 4 now: "E"']


def test_a_deleted_line_is_told_as_one():
    result = edit(b"a\nb\nc\n", ("b\n", ""))
    assert (result.data, result.changed, result.moved, result.shown) == (b"a\nc\n", [(2, 1)], -1, ["line 2 deleted"])
    assert edit(b"a\n", ("a\n", "")).changed == [(0, 0)]
    assert edit(b"\xef\xbb\xbfa\n", ("a\n", "")).data == b"\xef\xbb\xbf"


# ---------------------------------------------------------------- hints


def test_a_near_miss_is_named_and_shown_and_not_edited():
    """Case 38."""
    refused = refusal("He said “yes” and “no”.\n".encode(), ('"yes"', "x"))
    assert (refused.details["differsIn"], refused.details["lines"]) == (["quotes"], [1])
    assert "Line 1 differs only in quotes" in refused.message
    assert "“yes”" in refused.message


def test_blanks_at_line_ends_are_named_and_indentation_is_left_alone():
    """Case 40."""
    code = b"if a:\n    if b:\n        run(1)\n"
    refused = refusal(code, ("    if b:\n        run(1)  \n", "    if b:\n        run(2)  \n"))
    assert refused.details["differsIn"] == ["blanks at line ends"]
    assert "Line 3 differs only in blanks at line ends" in refused.message


@pytest.mark.parametrize(
    ("there", "find", "kinds"),
    [
        ("a – b", "a - b", ["dashes"]),
        ("\tif x:", "    if x:", ["indentation"]),
        ("a  b", "a b", ["blanks"]),
        ("a\u00a0b", "a b", ["blanks"]),
        ("Total", "total", ["upper and lower case"]),
        ("to\u200btal", "total", ["invisible characters"]),
        ("u\u0308ber", "über", ["the Unicode form of its accents"]),
        ("x “Y”  z", 'x "y" z', ["quotes", "blanks", "upper and lower case"]),
        ("a\tb", "a\\tb", ["escapes (write real line breaks, tabs and quotes)"]),
        ("last", "last\n", ["the line breaks at its ends"]),
    ],
)
def test_what_a_near_miss_differs_in(there, find, kinds):
    refused = refusal(f"first\n{there}".encode(), (find, "new"))
    assert (refused.code, refused.details["differsIn"], refused.details["lines"]) == ("no_match", kinds, [2])


def test_several_near_misses_are_all_listed():
    refused = refusal("“a”\nb\n“a”\n".encode(), ('"a"', "x"))
    assert refused.details["lines"] == [1, 3]
    assert "Lines 1 and 3 differ only in quotes" in refused.message


def test_an_excerpt_that_stands_nowhere_says_where_its_first_line_does_and_where_they_part():
    refused = refusal(
        b"def f():\n    return 1\n\ndef f():\n    return 2\n    pass\n", ("def f():\n    return 2\n    stop\n", "x")
    )
    assert refused.details["firstLine"] == [1, 4]
    assert refused.details["differsAt"] == 6
    assert "lines 1 and 4" in refused.message
    assert '"    pass"' in refused.message
    assert '"    stop"' in refused.message
    assert "ends after line 2" in refusal(b"a\nb", ("a\nb\nc", "x")).message


def test_text_that_is_not_there_at_all_gets_no_hint():
    refused = refusal(b"alpha\nbeta\n", ("gamma", "x"))
    assert "differsIn" not in refused.details
    assert "exactly" in refused.message
    assert refusal(b"", ("gamma", "x")).code == "no_match"
    assert "differsIn" not in refusal(b"alpha\nbeta\n", (" \n", "x")).details


def test_a_pasted_number_column_is_named():
    """Case 47."""
    refused = refusal(b"foo\nbar\n", ("1\tfoo\n2\tbar", "1\tFOO\n2\tbar"))
    assert refused.details["differsIn"] == ["number column"]
    assert "number column" in refused.message
    assert refused.details["lines"] == [1]
    assert edit(b"1\tfoo\n", ("1\tfoo", "1\tFOO")).data == b"1\tFOO\n"


# ---------------------------------------------------------------- bytes that are no text


@pytest.mark.parametrize(
    "damage",
    [b"\xe8", b"\xd6\xd0", b"\xa9", b"\xe2\x80", b"\xff\xfe", b"\xed\xa0\x80", b"\xc0\xaf", b"\xf5\x80\x80\x80"],
)
def test_invalid_bytes_survive_every_edit_of_something_else(damage):
    """Case 26."""
    for data in (
        b"n = 1\n# tr" + damage + b"s\n",
        b"# tr" + damage + b"s\nn = 1\n",
        b"n = 1\n#" + damage,
        b"n = 1 " + damage,
    ):
        result = edit(data, ("n = 1", "n = 2"))
        assert result.data == data.replace(b"n = 1", b"n = 2")


def test_a_replacement_character_in_find_is_explained():
    refused = refusal(b"a\ntr\xe8s\n", ("tr\ufffds", "x"))
    assert (refused.details["differsIn"], refused.details["lines"]) == (["invalid bytes"], [2])
    assert edit("tr\ufffds\n".encode(), ("tr\ufffds", "x")).data == b"x\n"


@pytest.mark.parametrize("position", ["find", "replace"])
def test_half_a_surrogate_pair_is_refused(position):
    texts = {"find": "a", "replace": "b", position: "x\ud83d"}
    refused = refusal(b"a\n", (texts["find"], texts["replace"]))
    assert (refused.code, refused.details["parameter"], refused.details["position"]) == ("invalid_text", position, 1)


def test_text_is_written_as_sent():
    """Cases 49 and 50: no escape, entity or group reference is interpreted."""
    for text in (r"a\n\t\title{x}", "&amp; &#39;", r"\1 \g<0> $1 $& %s {0}", "#define X \\\n  y"):
        assert edit(b"here\n", ("here", text)).data == text.encode() + b"\n"
        assert append("f.txt", b"here\n", text).data == b"here\n" + text.encode()


def test_a_nul_that_would_make_the_file_binary_is_refused():
    assert refusal(b"a\n", ("a", "b\0")).code == "invalid_text"
    with pytest.raises(ToolError, match="NUL"):
        append("f.txt", b"a\n", "b\0")
    assert edit(b"\xef\xbb\xbfa\n", ("a", "b\0")).data == b"\xef\xbb\xbfb\0\n"


def test_an_edit_after_which_the_file_would_begin_like_another_encoding_is_refused():
    refused = refusal(b"x\xff\xfea\n", ("x", ""))
    assert refused.code == "unsafe_edit"


# ---------------------------------------------------------------- the call


def test_binary_files_are_refused():
    assert refusal(b"a\0b", ("a", "b")).code == "binary"


def test_files_over_a_mebibyte_before_or_after_are_refused():
    limit = 1024 * 1024
    full = b"x" * (limit - 1) + b"\n"
    assert refusal(full + b"\n", ("x", "y")).code == "too_large"
    ends = b"x" * (limit - 2) + b"y\n"
    assert edit(ends, ("y", "z")).data == b"x" * (limit - 2) + b"z\n"
    refused = refusal(ends, ("y", "zz"))
    assert (refused.code, refused.details["bytes"], refused.details["limit"]) == ("too_large", limit + 1, limit)
    assert refused.advice == "fix_arguments"
    assert refusal(full + b"\n", ("x", "y")).advice == "do_something_else"
    with pytest.raises(ToolError, match="1,048,577"):
        append("f.txt", full, "x")


def test_none_too_many_and_mixed_edits_are_refused():
    def code(edits):
        with pytest.raises(ToolError) as refused:
            apply_edits("f.txt", b"a\n", edits, None, "now", lambda blob: None)
        return refused.value.code

    assert code([]) == "no_edits"
    assert code([FindEdit("a", "b")] * 51) == "too_many_edits"
    assert code([FindEdit("a", "b"), LineEdit(1, None, "a", None, "b")]) == "mixed_forms"


def test_a_find_needs_no_sight_and_asks_for_no_earlier_blob():
    def fetched(blob):
        raise AssertionError("an edit by text fetches nothing")

    result = apply_edits("f.txt", b"a\nb\n", [FindEdit("b", "B\nC")], Sight("before", ((1, 2),)), "now", fetched)
    assert result.data == b"a\nB\nC\n"


# ---------------------------------------------------------------- append


def test_append_says_when_the_text_joined_the_last_line():
    result = append("f.txt", b"a\nb", "c\n")
    assert (result.data, result.changed, result.moved) == (b"a\nbc\n", [(2, 2)], 0)
    assert "joined line 2" in result.notes[0]
    result = append("f.txt", b"a\n", "b\r\nc")
    assert (result.data, result.changed, result.moved, result.notes) == (b"a\nb\r\nc", [(2, 3)], 2, [])


def test_append_to_an_empty_file_and_in_utf_16():
    assert append("f.txt", b"", "a\n").changed == [(1, 1)]
    assert append("f.txt", b"\xff\xfe", "é\n").data == b"\xff\xfe" + "é\n".encode("utf-16-le")
    with pytest.raises(ToolError) as refused:
        append("f.txt", b"\xff\xfea\0b", "c")
    assert refused.value.code == "unsafe_edit"


def test_append_never_completes_the_ending_of_the_last_line():
    with pytest.raises(ToolError) as refused:
        append("f.txt", b"a\r", "\nb")
    assert refused.value.code == "unsafe_edit"
    with pytest.raises(ToolError) as refused:
        append("f.txt", b"a\n", "")
    assert refused.value.code == "empty_text"
