"""What read_file shows: numbered lines under one budget, and what it says of everything it leaves out."""

import json
import re

import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.errors import ToolError
from workbench.workspace.text.lines import parse
from workbench.workspace.views.cuts import cut_after, cut_before
from workbench.workspace.views.reading import (
    READ_BUDGET_CHARACTERS,
    READ_LINE_CAP,
    InvalidRange,
    ReadRequest,
    line_number,
    render,
    share_budget,
)

FAMILY = "👩\u200d👩\u200d👧"


def read(data, start=None, end=None, path="a.txt", **options):
    data = data.encode() if isinstance(data, str) else data
    (page,) = share_budget([ReadRequest(path, start, end)], {path: data}.__getitem__, **options)
    return page


def read_many(files, **options):
    files = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    return share_budget([ReadRequest(path) for path in files], files.__getitem__, **options)


def offers(*names):
    return lambda tool: tool in names


def shown_lines(page):
    return [line.split("\t", 1)[1] for line in page.text.split("\n")] if page.text else []


# ---------------------------------------------------------------- lines


def test_lines_are_numbered_with_a_tab():
    page = read("one\ntwo\n")
    assert render([page]) == "1\tone\n2\ttwo"
    assert page.structured() == {"path": "a.txt", "startLine": 1, "endLine": 2, "totalLines": 2}
    assert page.seen == (1, 2)


def test_case_4_lone_carriage_returns_end_lines():
    assert read("one\rtwo\rthree\r").text == "1\tone\n2\ttwo\n3\tthree"


def test_case_5_the_byte_order_mark_is_no_part_of_line_1():
    assert read(b"\xef\xbb\xbfconst a = 1;\n").text == "1\tconst a = 1;"


def test_utf_16_is_read_as_text():
    assert read("\ufeffüne\r\ndeux 🦊".encode("utf-16-le")).text == "1\tüne\n2\tdeux 🦊"
    assert read("\ufeffüne\r\ndeux 🦊".encode("utf-16-be")).text == "1\tüne\n2\tdeux 🦊"


def test_case_11_only_line_endings_end_lines():
    text = "one\n\f\ntwo\nTARGET \x0b\x1c\x85\u2028\n"
    assert read(text, 4, 4).text == "4\tTARGET \x0b\x1c\x85\u2028"


def test_case_13_a_start_past_the_end_says_how_many_lines_there_are():
    page = read("a\nb\n", 1200)
    assert "has 2 lines" in render([page])
    assert page.structured() == {"path": "a.txt", "startLine": 1200, "endLine": 1199, "totalLines": 2}
    assert page.seen is None


def test_case_13_a_range_past_the_end_shows_no_phantom_line():
    assert shown_lines(read("a\nb\n", 1, 5)) == ["a", "b"]
    assert shown_lines(read("a\nb\n", 2, 2)) == ["b"]


def test_case_14_a_stale_offset_never_says_empty():
    said = render([read("1\n2\n3\n4\n5\n", 100)])
    assert "5 lines" in said
    assert "empty" not in said


@pytest.mark.parametrize("data", [b"", b"\xef\xbb\xbf"])
@pytest.mark.parametrize("start", [None, 1, 7])
def test_an_empty_file_is_said_to_be_empty(data, start):
    page = read(data, start)
    assert "is empty" in render([page])
    assert page.structured() == {"path": "a.txt", "startLine": 0, "endLine": 0, "totalLines": 0}
    assert page.seen is None


def test_a_file_of_one_empty_line_is_not_empty():
    page = read("\n")
    assert page.text == "1\t"
    assert page.seen == (1, 1)
    assert page.notes == ()


@pytest.mark.parametrize("start", [1.5, 0, -1, float("nan"), float("inf"), "0", "two", "2; rm", "", "²", True, [1]])
def test_case_16_a_start_that_is_no_line_is_refused_with_the_rule(start):
    with pytest.raises(InvalidRange) as refusal:
        ReadRequest("a.txt", start)
    assert refusal.value.details["argument"] == "startLine"
    assert "whole number" in refusal.value.message or "count from 1" in refusal.value.message


def test_case_16_a_reversed_range_is_refused_with_the_rule():
    with pytest.raises(InvalidRange, match=r"`endLine` is 2: .*begins with, here 3"):
        ReadRequest("a.txt", 3, 2)
    with pytest.raises(InvalidRange, match="count from 1"):
        ReadRequest("a.txt", None, 0)


def test_case_17_digits_are_a_number():
    request = ReadRequest("a.txt", "2", "3")  # type: ignore[arg-type]
    assert (request.start_line, request.end_line) == (2, 3)
    assert line_number(2.0, "startLine") == 2
    with pytest.raises(InvalidRange, match="`endLine`"):
        ReadRequest("a.txt", 1, "two")  # type: ignore[arg-type]


# ---------------------------------------------------------------- caps


def test_the_line_cap_says_to_read_on():
    page = read("x\n" * 5000)
    assert (page.start_line, page.end_line, page.next_line, page.cap) == (1, READ_LINE_CAP, 2001, "lines")
    assert "Read on from line 2001" in render([page])


def test_the_character_cap_says_to_narrow_the_range():
    page = read(("x" * 99 + "\n") * 5000)
    assert page.cap == "characters"
    assert page.next_line == page.end_line + 1
    assert "narrower range" in render([page])
    assert len(render([page])) <= READ_BUDGET_CHARACTERS
    assert len(render([page])) > READ_BUDGET_CHARACTERS - 300


def test_a_range_read_to_its_end_is_not_cut():
    page = read("x\n" * 50, 10, 20)
    assert page.cap is page.next_line is None
    assert "Lines 10-20 of 50." in render([page])


def test_a_range_of_exactly_the_line_cap_is_not_cut():
    page = read("x\n" * 5000, 1, READ_LINE_CAP)
    assert page.cap is page.next_line is None


def test_case_22_a_single_long_line_is_shown_in_part_and_never_advised_again():
    page = read("abc" * 220_000, offers=offers("search_files", "run_code"))
    said = render([page])
    assert len(said) <= READ_BUDGET_CHARACTERS
    assert page.next_line is None
    assert page.seen is None
    assert "660000 characters" in said
    assert "search_files" in said
    assert "run_code" in said
    assert "line 1 " not in said.partition("]")[0].replace("Line 1 of 1", "")


def test_case_22_following_next_line_always_reaches_new_text_and_the_end():
    lines = ["a" * 10, "b" * 50_000, "c" * 10, "d" * 23_000, "e" * 23_000, "f" * 70_000]
    data, seen, start = "\n".join(lines), [], 1
    while start:
        page = read(data, start)
        assert page.start_line == start
        assert page.next_line is None or page.next_line > page.end_line
        seen += range(page.start_line, page.end_line + 1)
        start = page.next_line
    assert seen == [1, 2, 3, 4, 5, 6]


def test_case_23_a_cut_line_tells_its_full_length():
    page = read("x" * 3000 + "\ny\n", budget=2000)
    assert page.partial
    assert "3000 characters" in render([page])
    assert page.next_line == 2


def test_only_offered_tools_are_named():
    assert "run_code" not in render([read("x" * 50_000, offers=offers("search_files"))])
    said = render([read("x" * 50_000)])
    assert "search_files" not in said
    assert "cannot be shown" in said


# ---------------------------------------------------------------- several paths


def test_several_paths_have_headings_and_share_the_budget():
    pages = read_many({f"{name}.txt": f"{name}\n" * 20_000 for name in "abc"})
    said = render(pages)
    assert [page.path for page in pages] == ["a.txt", "b.txt", "c.txt"]
    assert all(f"== {page.path} ==\n1\t" in said for page in pages)
    assert len(said) <= READ_BUDGET_CHARACTERS
    sizes = [len(page.text) for page in pages]
    assert max(sizes) - min(sizes) < 400


def test_what_one_path_leaves_goes_to_the_next():
    long = "x" * 99 + "\n"
    alone = read(long * 5000).end_line
    pages = read_many({"short.txt": "a\n", "long.txt": long * 5000})
    assert pages[0].seen == (1, 1)
    assert pages[1].end_line > alone - 5


def test_a_path_that_cannot_be_read_spoils_no_other():
    def load(path):
        if path == "gone.txt":
            raise ToolError("There is no gone.txt.", code="not_found")
        return b"here\n"

    pages = share_budget([ReadRequest("gone.txt"), ReadRequest("a.txt")], load)
    assert pages[0].structured()["error"]["code"] == "not_found"
    assert pages[0].seen is None
    assert "There is no gone.txt." in render(pages)
    assert pages[1].text == "1\there"
    with pytest.raises(ToolError, match=r"There is no gone\.txt\."):
        share_budget([ReadRequest("gone.txt")], load)


def test_a_binary_file_is_refused_by_the_shared_verdict():
    with pytest.raises(ToolError) as refusal:
        read(b"text\0" + b"x" * 100)
    assert refusal.value.code == "binary"


def test_a_line_too_long_for_its_share_is_to_be_read_by_itself():
    pages = read_many({"a.txt": "x" * 20_000 + "\nend\n", "b.txt": "y\n" * 20_000})
    assert pages[0].partial
    assert pages[0].next_line == 2
    assert "read this path by itself from line 1" in render(pages)
    assert read("x" * 20_000 + "\nend\n", 1).seen == (1, 2)


def test_an_odd_name_stays_on_its_heading_line():
    assert "== a\\u2028b ==\n" in render(read_many({"a\u2028b": "x", "c": "y"}))


# ---------------------------------------------------------------- cuts and encodings


@pytest.mark.parametrize("unit", ["🦊", FAMILY, "🇩🇪", "e\u0301", "ü", "각"])
@pytest.mark.parametrize("shift", range(8))
def test_case_25_a_cut_splits_no_character(unit, shift):
    data = "a" * shift + unit * 20_000
    page = read(data)
    shown = page.text.removeprefix("1\t")
    assert data.startswith(shown)
    assert (len(shown) - shift) % len(unit) == 0
    assert "\N{REPLACEMENT CHARACTER}" not in page.text
    assert json.loads(json.dumps(render([page])).encode()) == render([page])
    render([page]).encode()


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_case_25_a_cut_in_utf_16_splits_no_pair(encoding):
    page = read(("\ufeff" + "🦊" * 40_000).encode(encoding))
    assert set(page.text.removeprefix("1\t")) == {"🦊"}


def test_a_cluster_without_end_is_still_cut():
    text = "e" + "\u0301" * 1000
    assert 0 < cut_before(text, 500) <= 500
    assert 500 <= cut_after(text, 500) <= 600


@settings(deadline=None)
@given(st.text(st.sampled_from(f"ab\u0301🦊🇩{FAMILY}"), max_size=40), st.integers(-2, 45))
def test_cuts_lie_on_cluster_boundaries(text, at):
    boundaries = [0, *(match.end() for match in regex.finditer(r"\X", text))]
    at_in = max(0, min(at, len(text)))
    assert cut_before(text, at) == max(place for place in boundaries if place <= at_in)
    assert cut_after(text, at) == min(place for place in boundaries if place >= at_in)


@pytest.mark.parametrize("bad", [b"\xe8s", b"\xd6\xd0", b"\xa9", b"\xe2\x80"])
def test_case_26_invalid_bytes_are_shown_replaced_and_said_so(bad):
    said = render([read(b"n = 1\n# tr" + bad)])
    assert "2\t# tr\N{REPLACEMENT CHARACTER}" in said
    assert "not valid UTF-8" in said


def test_a_genuine_replacement_character_is_no_invalid_byte():
    assert read("a \N{REPLACEMENT CHARACTER}\n").notes == ()


def test_invalid_bytes_outside_of_the_shown_lines_are_not_spoken_of():
    assert "not valid" not in render([read(b"fine\n\xff\n", 1, 1)])


@pytest.mark.parametrize(
    ("path", "data", "name"),
    [
        ("logo.png", "<svg/>", "PNG"),
        ("shot.png", '{"error":1}', "PNG"),
        ("a.jpg", "<html>", "JPEG"),
        ("b.png", "", "PNG"),
    ],
)
def test_case_85_text_named_like_a_picture_is_shown_as_text_and_said_so(path, data, name):
    page = read(data, path=path)
    assert f"claims a {name} picture" in render([page])
    assert shown_lines(page) == ([data] if data else [])


def test_svg_is_text():
    assert read("<svg/>", path="logo.svg").notes == ()


# ---------------------------------------------------------------- properties

texts = st.lists(
    st.text(st.sampled_from(f"ab\t🦊{FAMILY}é"), max_size=12) | st.integers(1, 900).map(lambda size: "x" * size),
    max_size=40,
)
files = st.lists(st.tuples(texts, st.sampled_from(["\n", "\r\n", "\r"])), min_size=1, max_size=10)


@settings(max_examples=200, deadline=None)
@given(files, st.integers(0, 20))
def test_the_budget_is_never_exceeded_and_everything_shown_is_true(contents, cap):
    budget, cap = 600 * len(contents), cap + 1
    data = {f"{number}.txt": ending.join(lines).encode() for number, (lines, ending) in enumerate(contents)}
    pages = share_budget([ReadRequest(path) for path in data], data.__getitem__, budget, cap)
    assert len(render(pages)) <= budget
    for page in pages:
        document = parse(data[page.path])
        shown = [re.fullmatch(r"(\d+)\t(.*)", line, re.DOTALL).groups() for line in page.text.split("\n") if page.text]
        assert [int(number) for number, _ in shown] == list(range(max(1, page.start_line), page.end_line + 1))
        for number, text in shown:
            whole = document.text(int(number))
            assert whole.startswith(text) if page.partial else whole == text
        assert len(shown) <= cap
        assert (page.cap is None) == (page.end_line == page.total_lines and not page.partial)
        assert page.next_line in (None, page.end_line + 1)
        assert page.next_line or page.end_line == page.total_lines
