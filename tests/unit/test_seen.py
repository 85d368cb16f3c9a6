"""What a turn has seen: ranges that merge and move, and an item that stays small whatever is seen."""

import json
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.edit_reference import patient
from workbench.workspace.text.seen import FLAGS_KEPT, PATHS_KEPT, RANGES_PER_PATH, Seen, Sight, Span, merge, shift

ranges = st.lists(st.tuples(st.integers(1, 30), st.integers(0, 8)).map(lambda one: (one[0], one[0] + one[1] - 1)))


def numbers(ranges):
    return {number for first, last in ranges for number in range(first, last + 1)}


@given(ranges)
@patient
def test_merged_ranges_hold_the_same_lines_sorted_and_apart(some):
    merged = merge(some)
    assert numbers(merged) == numbers(some)
    assert all(one[1] + 1 < other[0] for one, other in pairwise(merged))


@given(ranges, st.integers(1, 30), st.integers(0, 8))
@patient
def test_a_sight_covers_what_was_seen_whole(some, first, length):
    last = first + length
    assert Sight("blob").and_also(some).covers(first, last) is (set(range(first, last + 1)) <= numbers(some))


@st.composite
def spans(draw):
    """What an edit did: ascending replacements, deletions and insertions."""
    made, old, moved = [], 1, 0
    for gap, removed, added in draw(
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3), st.integers(0, 3)), max_size=10)
    ):
        first = old + gap
        made.append(Span(first, first + removed - 1, first + moved, first + moved + added - 1))
        old, moved = first + removed, moved + added - removed
    return made


@given(ranges, spans())
@patient
def test_ranges_move_as_their_lines_do_and_edited_lines_are_seen(some, made):
    seen, tags = numbers(some), list(range(1, 101))
    for span in reversed(made):
        tags[span.old_first - 1 : span.old_last] = ["new"] * (span.new_last - span.new_first + 1)
    expected = {number for number, tag in enumerate(tags, 1) if tag == "new" or tag in seen}
    assert numbers(shift(some, made)) == expected


def test_lines_of_the_same_blob_add_up_and_another_blob_starts_anew():
    seen = Seen()
    seen.saw("a.txt", "one", [(1, 3)], 10)
    seen.saw("a.txt", "one", [(4, 4), (9, 9)], 11)
    assert seen.sight("a.txt") == Sight("one", ((1, 4), (9, 9)))
    seen.saw("a.txt", "two", [(2, 2)], 12)
    assert seen.sight("a.txt") == Sight("two", ((2, 2),))
    seen.forget("a.txt")
    assert seen.sight("a.txt") is None


def stored(seen):
    """Through the item and back, with DynamoDB's kind of numbers."""
    return json.loads(json.dumps(seen.as_item()), parse_int=Decimal)


def test_an_item_comes_back_as_it_was():
    seen = Seen()
    seen.saw("dir/a.txt", "one", [(1, 3), (7, 9)], 10.9)
    seen.set_flag("long.txt", "sha")
    seen.set_flag("longer.txt", 5_000)
    again = Seen.from_item(stored(seen))
    assert again.as_item() == seen.as_item()
    assert again.as_item()["paths"]["dir/a.txt"] == {"blob": "one", "ranges": [[1, 3], [7, 9]], "at": 10}
    assert (again.flag("long.txt"), again.flag("longer.txt"), again.flag("a")) == ("sha", 5_000, None)
    assert again.changes() == ({}, [])
    assert type(again.sight("dir/a.txt").ranges[0][0]) is int


def test_the_first_changes_of_a_turn_make_the_maps_and_later_ones_go_into_them():
    """DynamoDB refuses to set a key in a map that is not there."""
    seen = Seen.from_item({})
    assert seen.changes() == ({}, [])
    seen.saw("a", "one", [(1, 1)], 1)
    assert seen.changes() == ({"paths": {"a": {"blob": "one", "ranges": [[1, 1]], "at": 1}}, "flags": {}}, [])
    seen = Seen.from_item(stored(seen))
    seen.saw("b.c", "two", [], 2)
    seen.forget("a")
    seen.set_flag("b.c", 7)
    changed, removed = seen.changes()
    assert changed == {("paths", "b.c"): {"blob": "two", "ranges": [], "at": 2}, ("flags", "b.c"): 7}
    assert removed == [("paths", "a")]
    assert seen.changed_paths() == ["b.c", "a"]
    seen.clear_flag("b.c")
    assert ("flags", "b.c") in seen.changes()[1]


def test_a_call_that_saw_very_many_files_writes_the_maps_whole():
    """An update expression may have 4 KB."""
    seen = Seen.from_item({"paths": {}, "flags": {}})
    for number in range(101):
        seen.saw(f"{number}", "blob", [(1, 1)], number)
    changed, removed = seen.changes()
    assert (set(changed), removed) == ({"paths", "flags"}, [])


def test_the_newest_paths_are_kept():
    seen = Seen()
    for number in range(PATHS_KEPT):
        seen.saw(f"{number}", "blob", [(1, 1)], number)
    seen = Seen.from_item(stored(seen))
    seen.saw("0", "blob", [(2, 2)], 9_000)
    for number in range(2):
        seen.saw(f"new{number}", "blob", [(1, 1)], 9_001)
    changed, removed = seen.changes()
    assert set(removed) == {("paths", "1"), ("paths", "2")}
    assert set(changed) == {("paths", "0"), ("paths", "new0"), ("paths", "new1")}
    assert len(seen.as_item()["paths"]) == PATHS_KEPT


def test_scattered_hits_keep_the_new_ones_and_the_longest():
    seen = Seen()
    seen.saw("a", "blob", [(1, 50)], 1)
    for start in range(100, 10_000, 10):
        seen.saw("a", "blob", [(start, start)], 2)
    sight = seen.sight("a")
    assert len(sight.ranges) == RANGES_PER_PATH
    assert sight.covers(1, 50)
    assert sight.covers(9_990, 9_990)


@pytest.mark.parametrize("length", [1, 1_024])
def test_an_item_stays_far_below_what_dynamodb_takes(length):
    seen = Seen()
    for number in range(2_000):
        path = f"{number:04}".ljust(length, "x")
        seen.saw(path, "0" * 64, [(line, line) for line in range(100_000, 100_200, 2)], number)
        seen.set_flag(path, "0" * 64)
    item = seen.as_item()
    assert len(json.dumps(item)) < 380_000
    assert len(item["paths"]) > 100
    assert len(item["flags"]) == FLAGS_KEPT
    assert f"{1_999:04}".ljust(length, "x") in item["paths"]
