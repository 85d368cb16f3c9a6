"""The line model against a plain reference: every encoding, ending, mixture and damage, at every block boundary."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.edit_reference import BOMS, ENDINGS, dominant, files, joined, mark_of, naive_lines, patient
from workbench.errors import ToolError
from workbench.workspace.text import lines
from workbench.workspace.text.lines import is_text, measure, parse


@pytest.fixture(scope="module", params=[1, 2, 3, 16 * 1024], autouse=True)
def block_units(request):
    """Small blocks put a boundary between any two units of a small file."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(lines, "_BLOCK_UNITS", request.param)
        yield


def as_naive(data):
    bom, encoding = mark_of(data)
    return naive_lines(data[len(bom) :], encoding)


@given(files())
@patient
def test_lines_are_what_a_walk_over_the_units_finds(data):
    document, expected = parse(data), as_naive(data)
    assert len(document) == len(expected)
    assert [(document.line_bytes(n), document.ending(n)) for n in range(1, len(document) + 1)] == expected
    assert document.data == document.bom + joined(expected)


@given(files())
@patient
def test_texts_are_the_decoded_lines_one_by_one_and_in_bulk(data):
    document = parse(data)
    expected = [text.decode(document.encoding, "replace") for text, _ in as_naive(data)]
    assert [document.text(n) for n in range(1, len(document) + 1)] == expected
    assert document.lines(1, len(document)) == expected
    for first in range(1, len(document) + 1):
        assert document.lines(first, len(document)) == expected[first - 1 :]
        assert document.lines(1, first) == expected[:first]
    assert document.lines(1, 0) == []


@given(files(), st.data())
@patient
def test_any_line_is_found_first_whatever_was_asked_before(data, draw):
    expected = as_naive(data)
    if expected:
        number = draw.draw(st.integers(1, len(expected)))
        assert parse(data).line_bytes(number) == expected[number - 1][0]
    beyond = parse(data)
    assert [beyond.has_line(n) for n in (-1, 0, len(expected), len(expected) + 1)] == [
        False,
        False,
        bool(expected),
        False,
    ]
    for number in (0, -1, len(expected) + 1):
        with pytest.raises(IndexError):
            beyond.span(number)


@given(files())
@patient
def test_every_byte_belongs_to_the_line_that_spans_it(data):
    document = parse(data)
    for number in range(1, len(document) + 1):
        start, _, after = document.span(number)
        assert {document.line_at(offset) for offset in range(start, after)} == {number}
    assert document.line_at(len(data)) == len(document)
    assert document.line_at(0) == min(1, len(document))


@given(files())
@patient
def test_endings_are_counted_and_the_commonest_is_dominant(data):
    document, expected = parse(data), as_naive(data)
    found = [ending.decode(document.encoding) for _, ending in expected if ending]
    assert document.endings == {ending: found.count(ending) for ending in ENDINGS if ending in found}
    assert document.dominant_ending.encode(document.encoding) == dominant(expected, document.encoding)
    assert document.final_newline is bool(expected and expected[-1][1])


@given(files())
@patient
def test_measure_counts_lines_and_decoded_characters(data):
    bom, encoding = mark_of(data)
    assert measure(data) == (len(as_naive(data)), len(data[len(bom) :].decode(encoding, "replace")))


@given(files())
@patient
def test_invalid_bytes_are_noticed(data):
    bom, encoding = mark_of(data)
    try:
        data[len(bom) :].decode(encoding)
        valid = True
    except UnicodeDecodeError:
        valid = False
    assert parse(data).has_invalid is not valid


@given(files())
@patient
def test_parts_split_like_the_file(data):
    document = parse(data)
    pieces = document.split(data[len(document.bom) :])
    assert pieces == [text + ending for text, ending in as_naive(data)]
    assert [document.ends_line(piece) for piece in pieces] == [bool(ending) for _, ending in as_naive(data)]
    assert document.breaks_in(data[len(document.bom) :]) == sum(bool(ending) for _, ending in as_naive(data))


@pytest.mark.parametrize("character", "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029")
def test_what_other_tools_take_for_a_line_end_is_an_ordinary_character(character):
    document = parse(f"a{character}b\nc".encode())
    assert document.lines(1, 2) == [f"a{character}b", "c"]


def test_a_form_feed_alone_is_a_line_of_its_own():
    """Case 11."""
    assert parse(b"one\n\f\ntwo\nTARGET\n").lines(1, 4) == ["one", "\f", "two", "TARGET"]


@pytest.mark.parametrize(
    ("data", "count"),
    [
        (b"", 0),
        (b"\n", 1),
        (b"a", 1),
        (b"a\n", 1),
        (b"a\n\n", 2),
        (b"\r\n", 1),
        (b"\r", 1),
        (b"\n\r", 2),
        (b"\r\r\n", 2),
    ],
)
def test_lines_count_as_an_editor_counts_them(data, count):
    """Case 13: a closing newline makes no phantom line."""
    assert len(parse(data)) == count


@pytest.mark.parametrize("bom", BOMS.values())
def test_a_mark_alone_is_an_empty_text(bom):
    assert (len(parse(bom)), parse(bom).final_newline, measure(bom)) == (0, False, (0, 0))


def test_a_mark_is_no_part_of_line_1():
    """Cases 5 and 7."""
    document = parse(b"\xef\xbb\xbfend\r\nnext\r\n")
    assert (document.text(1), document.span(1), document.ending(1)) == ("end", (3, 6, 8), b"\r\n")


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", True),
        (b"plain\n", True),
        (b"caf\xe9\n", True),
        (b"a\0b", False),
        (b"a\n" * 100_000 + b"\0", False),
        (b"\xef\xbb\xbfa\0b", True),
        ("a\n".encode("utf-16"), True),
        (b"\xfe\xff\0a\0\n", True),
        ("a\n".encode("utf-16-le"), False),
        ("a\n".encode("utf-32"), False),
        (b"\0\0\xfe\xff\0\0\0a", False),
        (b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", False),
    ],
)
def test_one_verdict_on_text_and_binary(data, text):
    assert is_text(data) is text
    assert (measure(data) is not None) is text
    if text:
        assert parse(data).data == data
    else:
        with pytest.raises(ToolError) as refused:
            parse(data, "x.bin")
        assert refused.value.code == "binary"
        assert "x.bin" in refused.value.message


def test_utf_16_breaks_are_whole_units():
    """The bytes 0A 00 or 0D 00 0A 00 across two characters are no line break."""
    for encoding in ("utf-16-le", "utf-16-be"):
        text = "\u0d00\u0a00\u000d\u0a0d\u0d0a😀\r\n\u0a0a\n"
        document = parse(BOMS[encoding] + text.encode(encoding))
        assert document.lines(1, len(document)) == ["\u0d00\u0a00", "\u0a0d\u0d0a😀", "\u0a0a"]


def test_a_large_file_is_measured_in_parts_without_splitting_a_character(monkeypatch):
    monkeypatch.setattr(lines, "_BLOCK_UNITS", 16 * 1024)
    data = ("é😀" * 7 + "\r\n").encode() * 40_000
    assert measure(data) == (40_000, 16 * 40_000)
    assert measure(BOMS["utf-16-le"] + data.decode().encode("utf-16-le")) == (40_000, 16 * 40_000)
