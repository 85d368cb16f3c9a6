"""Edits by line number: what the numbers mean, what has to vouch for them, and the two slips that are forgiven."""

import pytest

from workbench.errors import ToolError
from workbench.workspace.text.edit import FindEdit, LineEdit, apply_edits
from workbench.workspace.text.freshness import Freshness
from workbench.workspace.text.lines import parse
from workbench.workspace.text.seen import Sight, merge, shift

ABCDE = b"a\nb\nc\nd\ne\n"
EVERYTHING = Sight("now", ((1, 1_000),))


def lines(first, last=None, content="", anchor=None, end_anchor=None):
    return LineEdit(first, last, anchor, end_anchor, content)


def edit(data, *edits, sight=EVERYTHING, earlier=None):
    return apply_edits("f.txt", data, edits, sight, "now", {"before": earlier}.get)


def refusal(data, *edits, **seen):
    with pytest.raises(ToolError) as refused:
        edit(data, *edits, **seen)
    assert refused.value.message.endswith("Nothing was changed.")
    return refused.value


# ---------------------------------------------------------------- what is replaced


@pytest.mark.parametrize(
    ("data", "number", "content", "expected"),
    [
        (b"a\nb", 1, "A", b"A\nb"),  # case 8
        (b"a\nb", 2, "B", b"a\nB"),
        (b"a\nb", 2, "b\nc", b"a\nb\nc"),  # case 10
        (b"one\rtwo\rthree\r", 2, "TWO", b"one\rTWO\rthree\r"),  # case 4
        (b"one\n\f\ntwo\nTARGET\n", 4, "hit", b"one\n\f\ntwo\nhit\n"),  # case 11
        (b"a\r\nb\nc\r\n", 2, "B", b"a\r\nB\nc\r\n"),
        (b"a\r\nb\nc\r\n", 2, "B\nC", b"a\r\nB\r\nC\nc\r\n"),
        (b"\xef\xbb\xbfa\r\nb", 1, "A", b"\xef\xbb\xbfA\r\nb"),
        (b"a\n\xe8\nc\n", 1, "A", b"A\n\xe8\nc\n"),
        (b"a\n\xe8\nc\n", 2, "e", b"a\ne\nc\n"),
        (b"a\nb\nc\n", 2, "", b"a\nc\n"),
        (b"a\nb\nc\n", 3, "", b"a\nb\n"),
        (b"a\nb\nc\n", 2, "\n", b"a\n\nc\n"),
    ],
)
def test_a_line_is_replaced_and_every_other_byte_stays(data, number, content, expected):
    assert edit(data, lines(number, content=content)).data == expected


@pytest.mark.parametrize("written", ["B\n", "B\r\n", "B\r", "B"])
def test_a_line_break_at_the_end_of_content_makes_no_extra_line(written):
    for data in (b"a\nb\nc\n", b"a\r\nb\r\nc\r\n", b"a\rb\rc", b"a\nb"):
        assert edit(data, lines(2, content=written)).data == data.replace(b"b", b"B")


def test_content_is_split_by_the_rule_for_files():
    result = edit(b"a\r\nb\r\n", lines(1, content="1\u2028\x0b\x852\n3\n\n"))
    assert result.data == "1\u2028\x0b\x852\r\n3\r\n\r\nb\r\n".encode()
    assert result.changed == [(1, 3)]


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_lines_are_edited_as_utf_16(encoding):
    bom = "\ufeff".encode(encoding)
    result = edit(bom + "a\r\n\u0a0d😀\r\nc".encode(encoding), lines(2, content="é🦊\nx"))
    assert result.data == bom + "a\r\né🦊\r\nx\r\nc".encode(encoding)


def test_numbers_mean_the_file_before_the_call_in_either_order():
    """Case 43."""
    data = "".join(f"L{number}\n" for number in range(1, 31)).encode()
    edits = [lines(1, 10, "A"), lines(20, 30, "B")]
    expected = b"A\n" + b"".join(b"L%d\n" % number for number in range(11, 20)) + b"B\n"
    for order in (edits, edits[::-1]):
        result = edit(data, *order)
        assert result.data == expected
        assert result.changed == [(1, 1), (11, 11)]
        assert result.moved == -19
        assert result.shown == ['line 1 now: "A"', 'line 11 now: "B"']


def test_the_whole_file_may_be_replaced_by_one_who_saw_it_all():
    assert edit(ABCDE, lines(1, 5, "new\n"), sight=Sight("now", ((1, 5),))).data == b"new\n"
    assert refusal(ABCDE, lines(1, 5, "new\n"), sight=Sight("now", ((1, 3), (5, 5)))).code == "not_read"
    assert edit(ABCDE, lines(1, 5)).changed == [(0, 0)]


# ---------------------------------------------------------------- no final newline


@pytest.mark.parametrize(
    ("data", "edits", "expected"),
    [
        (b"a\nb", [(2,)], b"a"),
        (b"a\nb", [(1,), (2,)], b""),
        (b"a\nb\nc", [(2,), (3,)], b"a"),
        (b"a\r\nb\r\nc", [(2, 3)], b"a"),
        (b"a\nb\nc", [(2, 2, "B"), (3,)], b"a\nB"),
        (b"a\nb\nc", [(2, 2, "1\n2"), (3,)], b"a\n1\n2"),
        (b"\xef\xbb\xbfa\nb", [(2,)], b"\xef\xbb\xbfa"),
        (b"b", [(1,)], b""),
    ],
)
def test_a_file_without_a_final_newline_keeps_having_none(data, edits, expected):
    result = edit(data, *(lines(*one) for one in edits))
    assert result.data == expected
    assert not result.notes


def test_a_last_line_that_is_empty_needs_an_ending_and_has_one():
    """Without an ending it would be no line, and the numbers told would be wrong."""
    result = edit(b"a\r\nb", lines(2, content="\n"))
    assert (result.data, result.changed) == (b"a\r\n\r\n", [(2, 2)])
    assert "line break" in result.notes[0]
    assert edit(b"a\n\nb", lines(3)).data == b"a\n\n"
    assert edit(b"a\nb\nc", lines(2, content="\n"), lines(3)).data == b"a\n\n"
    assert edit(b"a\nb\nc", lines(2, content="B\n\n"), lines(3)).data == b"a\nB\n\n"


# ---------------------------------------------------------------- ranges


def test_overlap_is_refused_before_any_anchor_is_looked_at():
    refused = refusal(ABCDE, lines(2, 4, "x", anchor="wrong"), lines(4, content="y"))
    assert (refused.code, refused.details["edits"]) == ("ranges_overlap", [1, 2])
    assert refusal(ABCDE, lines(4, 9, "x"), lines(9, content="y")).code == "ranges_overlap"
    assert refusal(ABCDE, lines(1, 5, "x"), lines(3, content="y"), lines(2, content="z")).code == "ranges_overlap"


def test_touching_ranges_are_fine():
    result = edit(ABCDE, lines(3, 4, "2"), lines(1, 2, "1"), lines(5, 5, "3"))
    assert (result.data, result.changed) == (b"1\n2\n3\n", [(1, 1), (2, 2), (3, 3)])


@pytest.mark.parametrize(("first", "last"), [(6, None), (3, 6), (0, None), (-1, 2), (10**9, None)])
def test_a_number_outside_the_file_says_how_many_lines_there_are(first, last):
    refused = refusal(ABCDE, lines(first, last, "x", anchor="a"))
    assert (refused.code, refused.details["lines"]) == ("range_outside", 5)
    assert "5 lines" in refused.message


def test_a_number_past_the_end_is_an_error_even_if_the_anchor_stands_on_one_line():
    assert refusal(ABCDE, lines(6, content="x", anchor="c")).code == "range_outside"


def test_an_empty_file_has_no_line_1():
    refused = refusal(b"", lines(1, content="x"))
    assert (refused.code, refused.details["lines"]) == ("range_outside", 0)
    assert "empty" in refused.message
    assert refusal(b"\xef\xbb\xbf", lines(1, content="x")).code == "range_outside"


def test_reversed_ranges_are_refused():
    assert refusal(ABCDE, lines(3, 2, "x")).code == "range_reversed"


# ---------------------------------------------------------------- anchors


def test_an_anchor_is_the_whole_line_with_white_space_at_its_end_aside():
    unseen = {"sight": None}
    for there, anchor in ((b"  b \t", "  b"), (b"  b", "  b  "), (b"  b", "  b\n"), (b"", "   ")):
        assert edit(b"a\n" + there + b"\nc\n", lines(2, content="  x", anchor=anchor), **unseen).data == b"a\n  x\nc\n"
    for anchor in ("b", "  b c", "  B", " b"):
        assert refusal(b"a\n  b\nc\n", lines(2, content="x", anchor=anchor), **unseen).code == "anchor_moved"


def test_an_anchor_of_a_damaged_line_is_what_reading_shows():
    assert edit(b"a\ntr\xe8s\n", lines(2, content="x", anchor="tr\ufffds"), sight=None).data == b"a\nx\n"


def test_the_anchor_of_line_1_has_no_byte_order_mark():
    assert edit(b"\xef\xbb\xbfa\n", lines(1, content="x", anchor="a"), sight=None).data == b"\xef\xbb\xbfx\n"


def test_an_empty_anchor_counts_as_none():
    assert edit(ABCDE, lines(2, content="x", anchor="", end_anchor="")).data == b"a\nx\nc\nd\ne\n"
    assert refusal(ABCDE, lines(2, content="x", anchor=""), sight=None).code == "not_read"


def test_a_line_that_moved_is_found_by_its_anchor_and_told():
    result = edit(ABCDE, lines(2, content="x", anchor="d"), sight=None)
    assert (result.data, result.changed) == (b"a\nb\nc\nx\ne\n", [(4, 4)])
    assert "line 2" in result.notes[0]
    assert "line 4" in result.notes[0]


def test_an_anchor_on_no_line_or_on_several_changes_nothing():
    refused = refusal(b"a\nb\na\nb\nc\n", lines(5, content="x", anchor="b"))
    assert (refused.code, refused.details["found"], refused.details["now"]) == ("anchor_moved", [2, 4], "c")
    assert "lines 2 and 4" in refused.message
    assert '"c"' in refused.message
    assert refusal(ABCDE, lines(2, content="x", anchor="zzz")).details["found"] == []


@pytest.mark.parametrize("content", ["  replicas: 5", "replicas: 5", "  replicas: 5\n"])
def test_an_edit_sent_twice_does_not_move_to_the_next_line_that_reads_as_the_first_did(content):
    data = b"web:\n  replicas: 2\nworker:\n  replicas: 2\n"
    again = lines(4, content=content, anchor="  replicas: 2")
    once = edit(data, again)
    assert once.data == b"web:\n  replicas: 2\nworker:\n  replicas: 5\n"
    refused = refusal(once.data, again)
    assert refused.code == "anchor_moved"
    assert "  replicas: 5" in refused.message and "line 2" in refused.message


def test_an_anchor_never_moves_a_longer_range():
    refused = refusal(ABCDE, lines(2, 3, "x", anchor="d"))
    assert (refused.code, refused.details["found"]) == ("anchor_moved", [4])


def test_a_found_line_may_not_be_one_that_another_edit_names():
    refused = refusal(ABCDE, lines(2, content="x", anchor="d"), lines(4, content="y"))
    assert refused.code == "ranges_overlap"


def test_the_text_of_the_last_line_given_as_anchor_is_said_as_that():
    refused = refusal(ABCDE, lines(2, 4, "x", anchor="d"))
    assert refused.code == "anchor_is_last_line"
    assert "line 2" in refused.message
    assert '"b"' in refused.message
    assert edit(b"x\ny\nx\n", lines(1, 3, "z", anchor="x")).data == b"z\n"


def test_end_anchors_are_checked_as_well():
    assert edit(ABCDE, lines(2, 4, "x", anchor="b", end_anchor="d ")).data == b"a\nx\ne\n"
    refused = refusal(ABCDE, lines(2, 4, "x", anchor="b", end_anchor="c"))
    assert (refused.code, refused.details["parameter"], refused.details["line"]) == ("anchor_moved", "endAnchor", 4)
    assert edit(ABCDE, lines(2, content="x", end_anchor="b"), sight=None).data == b"a\nx\nc\nd\ne\n"
    assert refusal(ABCDE, lines(2, content="x", anchor="b", end_anchor="c"), sight=None).code == "anchor_moved"


def test_where_the_anchor_stands_goes_before_how_it_differs():
    refused = refusal(b"ab\nb\nc\nb\n", lines(1, content="x", anchor="b"))
    assert (refused.details["found"], "whole line" in refused.message) == ([2, 4], False)


@pytest.mark.parametrize(
    ("anchor", "hint"),
    [
        ("say 'x'", "quotes"),
        ("    say “x”", "indentation"),
        ("say", "whole line"),
        ("1\tsay “x”", "number column"),
        ("say “x”\nnext", "one line only"),
    ],
)
def test_an_anchor_that_comes_near_is_explained(anchor, hint):
    refused = refusal("say “x”\nnext\n".encode(), lines(1, content="x", anchor=anchor))
    assert refused.code == "anchor_moved"
    assert hint in refused.message


# ---------------------------------------------------------------- freshness


def test_a_single_line_needs_a_matching_anchor_or_to_have_been_seen():
    assert edit(ABCDE, lines(2, content="x"), sight=Sight("now", ((2, 2),))).data == b"a\nx\nc\nd\ne\n"
    assert edit(ABCDE, lines(2, content="x", anchor="b"), sight=None).data == b"a\nx\nc\nd\ne\n"
    refused = refusal(ABCDE, lines(2, content="x"), sight=Sight("now", ((3, 5),)))
    assert refused.code == "not_read"
    assert refused.message.startswith("Line 2 of f.txt was not read in this turn.")
    assert "2\tb\nCheck it against your edit" in refused.message
    assert refused.details["shown"] == [[2, 2]]


def test_a_longer_range_must_have_been_seen_whatever_its_anchors_say():
    for sight in (None, Sight("now", ((2, 3), (5, 5)))):
        refused = refusal(ABCDE, lines(2, 4, "x", anchor="b", end_anchor="d"), sight=sight)
        assert refused.code == "not_read"
        assert "2\tb\n3\tc\n4\td" in refused.message
    assert edit(ABCDE, lines(2, 4, "x"), sight=Sight("now", ((2, 4),))).data == b"a\nx\ne\n"


def test_a_change_inside_the_range_by_somebody_else_is_noticed():
    """Case 46: only lines between the anchors changed."""
    before = Sight("before", ((1, 6),))
    refused = refusal(b"1\n2\nnew\n4\n5\n6\n", lines(2, 5, "x", "2", "5"), sight=before, earlier=b"1\n2\n3\n4\n5\n6\n")
    assert (refused.code, refused.details["shown"]) == ("changed_since_read", [[2, 5]])
    assert "3\tnew" in refused.message


def test_a_change_elsewhere_is_no_obstacle():
    before = Sight("before", ((1, 6),))
    result = edit(b"1\n2\nnew\n4\n5\n6\n", lines(4, 5, "x"), sight=before, earlier=b"1\n2\n3\n4\n5\n6\n")
    assert result.data == b"1\n2\nnew\nx\n6\n"
    # What still reads as it did when it was seen counts as seen; the changed line does not.
    earlier = {"before": b"1\n2\n3\n4\n5\n6\n"}.get
    seen = Freshness(parse(b"1\n2\nnew\n4\n5\n6\n"), before, "now", earlier).carried_over()
    assert merge(seen) == ((1, 2), (4, 6))
    assert shift(seen, result.spans) == ((1, 2), (4, 5))


@pytest.mark.parametrize("earlier", [None, b"binary\0", b"1\n2\n", "1\n2\n3\n4\n".encode("utf-16"), b"2\n3\n4\n5\n"])
def test_what_cannot_be_compared_or_has_moved_counts_as_changed(earlier):
    before = Sight("before", ((1, 4),))
    assert refusal(b"1\n2\n3\n4\n", lines(3, 4, "x"), sight=before, earlier=earlier).code == "changed_since_read"
    assert refusal(b"1\n2\n3\n4\n", lines(3, content="x"), sight=before, earlier=earlier).code == "changed_since_read"
    anchored = lines(3, content="x", anchor="3")
    assert edit(b"1\n2\n3\n4\n", anchored, sight=before, earlier=earlier).data == b"1\n2\nx\n4\n"


def test_the_same_bytes_in_another_encoding_are_other_text():
    before = Sight("before", ((1, 1),))
    assert (
        refusal(b"\xff\xfeab", lines(1, content="x"), sight=before, earlier=b"\xfe\xffab").code == "changed_since_read"
    )


def test_lines_that_were_not_seen_are_not_read_even_if_they_did_not_change():
    before = Sight("before", ((1, 2),))
    assert refusal(ABCDE, lines(2, 3, "x"), sight=before, earlier=ABCDE).code == "not_read"


def test_text_added_after_an_unterminated_line_did_not_change_it():
    before = Sight("before", ((1, 2),))
    assert edit(b"a\nb\nc\n", lines(1, 2, "x"), sight=before, earlier=b"a\nb").data == b"x\nc\n"


def test_after_an_edit_its_own_lines_and_what_moved_count_as_seen():
    first = edit(ABCDE, lines(2, 3, "1\n2\n3"), sight=Sight("now", ((2, 4),)))
    seen = shift([(2, 4)], first.spans)
    assert seen == ((2, 5),)
    second = edit(first.data, lines(4, 5, "x"), sight=Sight("now", seen))
    assert second.data == b"a\n1\n2\nx\ne\n"


def test_a_long_range_is_shown_in_part_and_only_that_part_counts():
    data = b"".join(b"line %d\n" % number for number in range(1, 1_001))
    refused = refusal(data, lines(1, 1_000, "x"), sight=None)
    assert refused.details["shown"] == [[1, 40]]
    assert "lines 1-1000 in full" in refused.message
    assert len(refused.message) < 5_000
    refused = refusal(b"x" * 100_000 + b"\n", lines(1, content="x"), sight=None)
    assert refused.details["shown"] == []


def test_earlier_bytes_are_fetched_once_and_only_when_needed():
    fetched = []

    def earlier(blob):
        fetched.append(blob)
        return ABCDE

    edits = [lines(1, 2, "x"), lines(4, 5, "y")]
    apply_edits("f.txt", ABCDE, edits, Sight("before", ((1, 5),)), "now", earlier)
    assert fetched == ["before"]
    apply_edits("f.txt", ABCDE, edits, Sight("now", ((1, 5),)), "now", earlier)
    apply_edits("f.txt", ABCDE, [lines(1, content="x", anchor="a")], Sight("before", ((1, 5),)), "now", earlier)
    assert fetched == ["before"]


def test_refusals_come_in_the_documented_order_across_edits():
    stale, moved, outside = lines(1, 2, "x"), lines(3, 4, "y", anchor="zzz"), lines(9, content="z")
    assert refusal(ABCDE, stale, moved, outside, sight=None).code == "range_outside"
    assert refusal(ABCDE, stale, moved, sight=None).code == "anchor_moved"
    assert refusal(ABCDE, stale, sight=None).code == "not_read"
    refused = refusal(ABCDE, stale, moved, sight=None)
    assert refused.details["edit"] == 2
    assert refused.message.startswith("Edit 2 of 2")


# ---------------------------------------------------------------- indentation


def test_a_line_that_lost_its_indentation_keeps_it():
    """Case 41."""
    makefile = b"all:\n\techo hi\nclean:\n\trm x\n"
    result = edit(makefile, lines(2, content="echo yo"))
    assert result.data == b"all:\n\techo yo\nclean:\n\trm x\n"
    assert "indentation (1 tab)" in result.notes[0]
    assert result.shown == ['line 2 now: "\\techo yo"']
    assert edit(makefile, FindEdit("hi", "bye")).data == b"all:\n\techo bye\nclean:\n\trm x\n"


@pytest.mark.parametrize(
    ("old", "content", "expected"),
    [
        ("    return 1", "return 10", "    return 10"),
        ("    return 1", "return 10\n", "    return 10"),
        (" \t x", "y", " \t y"),
        ("   ", "y", "   y"),
        ("    return 1", "return 1", "return 1"),  # a dedent, and nothing else
        ("    return 1", "return 1  ", "return 1  "),
        ("    return 1  ", "    return 1", "    return 1"),
        ("    return 1", "  return 10", "  return 10"),
        ("    return 1", "\treturn 10", "\treturn 10"),
        ("return 1", "return 10", "return 10"),
        ("    return 1", "\n", ""),
        ("    return 1", "if x:\n    return 10", "if x:\n    return 10"),
        ("\u00a0x", "y", "y"),
    ],
)
def test_indentation_is_kept_on_that_exact_condition_only(old, content, expected):
    result = edit(f"a\n{old}\nb\n".encode(), lines(2, content=content))
    assert result.data == f"a\n{expected}\nb\n".encode()
    assert bool(result.notes) is (expected != content.rstrip("\n"))


def test_several_lines_replaced_by_one_keep_no_indentation():
    assert edit(b"    a\n    b\n", lines(1, 2, "c")).data == b"c\n"


# ---------------------------------------------------------------- what is written and told


def test_a_replacement_character_never_overwrites_invalid_bytes():
    """Case 26: content copied from what reading shows would destroy them."""
    refused = refusal(b"# tr\xe8s\n", lines(1, content="# tr\ufffds bien"))
    assert (refused.code, refused.details["parameter"]) == ("invalid_text", "content")
    assert edit(b"# tr\xe8s\n", lines(1, content="# très")).data == "# très\n".encode()
    assert edit("# tr\ufffds\n".encode(), lines(1, content="# tr\ufffds!")).data == "# tr\ufffds!\n".encode()


@pytest.mark.parametrize("content", ["x\ud83d", "\udc00", "nul \0"])
def test_content_that_the_file_cannot_hold_is_refused(content):
    assert refusal(ABCDE, lines(1, content=content)).code == "invalid_text"


def test_shown_lines_are_escaped_cut_and_at_most_three():
    result = edit(b"a\n", lines(1, content="\tx\u00a0y \\ \u200b\x07\n" + "z" * 500 + "\n3\n4\n5"))
    assert result.shown == [
        'line 1 now: "\\tx\\u00a0y \\\\ \\u200b\\x07"',
        f'line 2 now: "{"z" * 200}…" (cut: 500 characters in all)',
        'line 3 now: "3"',
        "… and 2 more to line 5",
    ]
    family = "👩\u200d👩\u200d👧"
    (shown,) = edit(b"a\n", lines(1, content="x" * 198 + family)).shown
    assert shown.startswith(f'line 1 now: "{"x" * 198}…"')


def test_an_edit_that_changes_nothing_says_so():
    result = edit(ABCDE, lines(2, content="b"))
    assert result.data == ABCDE
    assert "already" in result.notes[0]


def test_a_deletion_is_told_in_the_new_numbering():
    result = edit(ABCDE, lines(2, 3), lines(5, content="E"))
    assert (result.data, result.changed, result.moved) == (b"a\nd\nE\n", [(2, 1), (3, 3)], -2)
    assert result.shown == ["lines 2-3 deleted", 'line 3 now: "E"']


def test_lines_whose_endings_would_melt_are_not_deleted_between_them():
    refused = refusal(b"a\rb\n\nc\n", lines(2))
    assert refused.code == "unsafe_edit"
    assert edit(b"a\rb\n\nc\n", lines(1, 3, "a\n")).data == b"a\nc\n"
