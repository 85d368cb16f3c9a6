"""The edit engine against a plain reference, on files of every encoding, ending, mixture and damage."""

import re
from itertools import accumulate

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from tests.unit.edit_reference import (
    contents,
    file_tokens,
    files,
    line_of,
    mark_of,
    naive_find,
    naive_line_edits,
    naive_lines,
    naive_replace,
    patient,
    text_tokens,
    texts,
    thorough,
)
from workbench.errors import ToolError
from workbench.workspace.text.edit import FindEdit, LineEdit, append, apply_edits
from workbench.workspace.text.lines import parse
from workbench.workspace.text.seen import Sight, shift

ALL_SEEN = Sight("now", ((1, 1_000),))


def edited(data, edits, sight=ALL_SEEN):
    return apply_edits("f.txt", data, edits, sight, "now", lambda blob: None)


def line_texts(data):
    document = parse(data)
    return document.lines(1, len(document))


@st.composite
def line_edits(draw, data, most=4):
    """Edits of disjoint ranges of a file with lines, in any order, some of them touching."""
    count = len(parse(data))
    edges = sorted(draw(st.lists(st.integers(1, count), min_size=2, max_size=2 * most)))
    ranges = [(first, last) for first, last in zip(edges[::2], edges[1::2], strict=False)]
    disjoint = [one for one, before in zip(ranges, [(0, 0), *ranges], strict=False) if one[0] > before[1]]
    edits = [LineEdit(first, last, None, None, draw(contents)) for first, last in disjoint]
    return draw(st.permutations(edits))


@given(st.data())
@thorough
def test_line_edits_do_what_the_plain_reference_does(data):
    file = data.draw(files(min_lines=1))
    assume(line_texts(file))
    edits = data.draw(line_edits(file))
    assume(not any("\ufffd" in edit.content for edit in edits))
    expected = naive_line_edits(file, edits)
    if expected is None:
        with pytest.raises(ToolError) as refused:
            edited(file, edits)
        assert refused.value.code == "unsafe_edit"
        return
    result = edited(file, edits)
    assert result.data == expected
    assert result.moved == len(line_texts(expected)) - len(line_texts(file))
    check_report(file, result)


def check_report(file, result):
    """changed, spans and shown tell the truth about the new bytes, and nothing else differs."""
    before, now = line_texts(file), line_texts(result.data)
    old_at = new_at = 1
    for span in result.spans:
        assert span.old_first - old_at == span.new_first - new_at
        assert before[old_at - 1 : span.old_first - 1] == now[new_at - 1 : span.new_first - 1]
        old_at, new_at = span.old_last + 1, span.new_last + 1
    assert before[old_at - 1 :] == now[new_at - 1 :]
    if now:
        assert result.changed == [(span.new_first, span.new_last) for span in result.spans]
    elif len(result.data) == len(mark_of(result.data)[0]):
        assert result.changed == [(0, 0)]
    numbers = [int(found[1]) for line in result.shown if (found := re.match(r"line (\d+) now: ", line))]
    wanted = [n for first, last in result.changed for n in range(max(1, first), min(last, first + 2) + 1)]
    assert numbers == wanted


@given(st.data())
@thorough
def test_a_find_changes_the_one_place_where_its_text_stands(data):
    file = data.draw(files(min_lines=1))
    tokens = file_tokens(file)
    assume(tokens)
    encoding = mark_of(file)[1]
    at = data.draw(st.integers(0, len(tokens) - 1))
    raw = b"".join(tokens[at : at + data.draw(st.integers(1, 6))])
    find = data.draw(st.one_of(st.just(raw.decode(encoding, "ignore")), texts))
    replace = data.draw(contents)
    assume(find and find != replace)
    found = naive_find(file, find)
    if len(found) != 1:
        with pytest.raises(ToolError) as refused:
            edited(file, [FindEdit(find, replace)])
        assert refused.value.code == ("not_unique" if found else "no_match")
        if found:
            assert refused.value.details["lines"] == list(dict.fromkeys(line_of(file, at) for at in found))[:20]
    for line in {line_of(file, at) for at in found}:
        on_line = [at for at in found if line_of(file, at) == line]
        expected = naive_replace(file, find, on_line[0], replace)
        if len(on_line) > 1 or expected is None:
            with pytest.raises(ToolError) as refused:
                edited(file, [FindEdit(find, replace, line)])
            assert refused.value.code == ("not_unique" if len(on_line) > 1 else "unsafe_edit")
        else:
            result = edited(file, [FindEdit(find, replace, line)])
            assert result.data == expected
            assert result.moved == len(line_texts(expected)) - len(line_texts(file))
            check_report(file, result)


@given(st.data())
@thorough
def test_several_finds_are_one_after_the_other_from_the_end(data):
    """All edits mean the file before the call: applied from the last to the first, none can shift another."""
    lines = data.draw(st.lists(st.sampled_from(["x", "y", ""]), min_size=3, max_size=7))
    words = [f"<{number}>" for number in range(len(lines))]
    file = "".join(f"{line}{word}{line}\n" for line, word in zip(lines, words, strict=True)).encode()
    chosen = data.draw(st.lists(st.sampled_from(range(len(words))), min_size=2, max_size=4, unique=True))
    edits = []
    for number in chosen:
        # The find may take in the ending before or after it, so that lines join.
        before, after = data.draw(st.sampled_from([("", ""), ("\n", ""), ("", "\n")]))
        find = before + lines[number] * bool(before) + words[number] + lines[number] * bool(after) + after
        if find.encode() in file:
            edits.append(FindEdit(find, data.draw(st.sampled_from(["", "new", "\n", "1\n2", "z\n"]))))
    assume(edits)
    spots = sorted((file.index(edit.find.encode()), edit) for edit in edits)
    ends = [at + len(edit.find) for at, edit in spots]
    if any(start < end for (start, _), end in zip(spots[1:], ends, strict=False)):
        with pytest.raises(ToolError) as refused:
            edited(file, edits)
        assert refused.value.code == "ranges_overlap"
        return
    expected = file
    for at, edit in reversed(spots):
        expected = expected[:at] + edit.replace.encode() + expected[at + len(edit.find) :]
    result = edited(file, edits)
    assert result.data == expected
    assert edited(file, edits[::-1]).data == expected
    check_report(file, result)


@given(files(), contents)
@patient
def test_append_adds_exactly_what_it_is_given(file, text):
    assume(text)
    bom, encoding = mark_of(file)
    expected = file + text.encode(encoding)
    before = naive_lines(file[len(bom) :], encoding)
    halved = encoding != "utf-8" and len(file) % 2
    melts = file_tokens(expected) != file_tokens(file) + [
        token for token in file_tokens(bom + text.encode(encoding)) if token
    ]
    if halved or melts:
        with pytest.raises(ToolError) as refused:
            append("f.txt", file, text)
        assert refused.value.code == "unsafe_edit"
        return
    result = append("f.txt", file, text)
    assert result.data == expected
    assert bool(result.notes) is bool(before and not before[-1][1])
    check_report(file, result)


@given(st.data())
@patient
def test_lines_seen_after_an_edit_are_the_old_ones_where_they_now_stand_and_the_new_ones(data):
    file = data.draw(files(min_lines=1))
    count = len(line_texts(file))
    assume(count)
    edits = data.draw(line_edits(file, most=3))
    seen = {n for n in range(1, count + 1) if data.draw(st.booleans())}
    seen |= {n for edit in edits for n in range(edit.start_line, edit.last + 1)}
    sight = Sight("now", tuple((first, first) for first in sorted(seen)))
    sight = Sight("now").and_also(sight.ranges)
    try:
        result = edited(file, edits, sight)
    except ToolError:
        assume(False)
    tags = list(range(1, count + 1))
    for edit in sorted(edits, key=lambda edit: -edit.start_line):
        new = len(naive_lines(edit.content.encode(), "utf-8"))
        tags[edit.start_line - 1 : edit.last] = ["new"] * new
    expected = {n for n, tag in enumerate(tags, 1) if tag == "new" or tag in seen}
    assert {n for first, last in shift(sight.ranges, result.spans) for n in range(first, last + 1)} == expected


@given(files(min_lines=1), st.data())
@patient
def test_bytes_before_and_after_the_edited_line_are_the_same_whatever_they_are(file, data):
    document = parse(file)
    assume(len(document))
    number = data.draw(st.integers(1, len(document)))
    start, end, _ = document.span(number)
    result = edited(file, [LineEdit(number, None, None, None, "\tnew text")])
    assert result.data == file[:start] + "\tnew text".encode(document.encoding) + file[end:]


@given(st.lists(texts, min_size=1, max_size=6), st.data())
@patient
def test_finds_in_files_with_one_ending_are_plain_replacement(lines, data):
    """The same edit on the same text with LF, CRLF and CR gives the same text with LF, CRLF and CR."""
    text = "".join(f"{line}\n" for line in lines)
    starts = list(accumulate((len(line) + 1 for line in lines), initial=0))
    at = data.draw(st.sampled_from(starts[:-1]))
    find = text[at : at + data.draw(st.integers(1, 5))]
    replace = data.draw(st.sampled_from(["", "q", "q\n", "q\nr", "\r\nq", "q\rr\n"]))
    assume(text_tokens(find, "utf-8") != text_tokens(replace, "utf-8"))
    results = []
    for ending in ("\n", "\r\n", "\r"):
        try:
            result = edited(text.replace("\n", ending).encode(), [FindEdit(find, replace)])
            results.append((result.data.decode().replace(ending, "\n"), result.changed, result.moved))
            assert "\n" not in result.data.decode().replace(ending, "")
        except ToolError as refusal:
            results.append((refusal.code, refusal.details.get("lines")))
    assert results[0] == results[1] == results[2]
