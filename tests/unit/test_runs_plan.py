"""The plan and the data stream: every file's bytes are where the plan says, however parts fall."""

from __future__ import annotations

import hashlib
import json

from hypothesis import given
from hypothesis import strategies as st

from workbench.runs import plan
from workbench.runs.plan import PART_BYTES, Mount, Plan, Source, build, from_entries
from workbench.workspace.storage.manifest import Entry

MIB = 1024 * 1024


def entry(path: str, key: str, offset: int, length: int) -> Entry:
    return Entry(path, "file", hashlib.sha256(path.encode()).hexdigest(), key, offset, length, length)


def lines(made: Plan) -> list[dict[str, object]]:
    return [json.loads(line) for line in made.lines.splitlines()]


def test_neighbours_in_a_pack_are_read_back_in_one_request() -> None:
    made = build(
        from_entries(
            [entry("b", "packs/p", 10, 5), entry("a", "packs/p", 0, 10), entry("c", "packs/p", 15, 1)],
        )
    )
    assert made.sources == (Source("conversation", "packs/p", 0, 16),)
    assert [(line["path"], line["offset"]) for line in lines(made)] == [("a", 0), ("b", 10), ("c", 15)]


def test_a_gap_in_a_pack_is_not_sent() -> None:
    made = build(from_entries([entry("a", "packs/p", 0, 10), entry("c", "packs/p", 20, 5)]))
    assert made.sources == (Source("conversation", "packs/p", 0, 10), Source("conversation", "packs/p", 20, 5))
    assert made.data_bytes == 15


def test_a_file_may_span_parts_and_each_part_says_where_its_bytes_come_from() -> None:
    made = build(from_entries([entry("big", "blobs/x", 0, 9 * MIB), entry("small", "blobs/y", 0, 3)]))
    assert made.data_parts == 3
    assert made.part(0) == [Source("conversation", "blobs/x", 0, 4 * MIB)]
    assert made.part(1) == [Source("conversation", "blobs/x", 4 * MIB, 4 * MIB)]
    assert made.part(2) == [
        Source("conversation", "blobs/x", 8 * MIB, 1 * MIB),
        Source("conversation", "blobs/y", 0, 3),
    ]


def test_parts_that_do_not_exist_are_refused() -> None:
    made = build(from_entries([entry("a", "blobs/x", 0, 1)]))
    for part in (-1, 1):
        for read in (made.part, made.plan_part):
            try:
                read(part)
            except IndexError:
                continue
            raise AssertionError(part)


def test_folders_empty_files_inputs_and_the_program_are_all_laid_out() -> None:
    made = build(
        [
            *from_entries([Entry("empty", "folder", mode=0o755), entry("nothing", "blobs/e", 0, 0)]),
            Mount("inputs", "artifacts/art_1.md", 0o444, "00", Source("artifacts", "artifacts/art_1/1", 0, 7)),
            Mount("program", "main.py", 0o444, "11", Source("workspace", "tmp/p", 0, 5)),
        ]
    )
    by_path = {line["path"]: line for line in lines(made)}
    assert by_path["empty"]["kind"] == "folder"
    assert (by_path["nothing"]["kind"], by_path["nothing"]["bytes"]) == ("file", 0)
    assert by_path["main.py"]["root"] == "program"
    assert by_path["artifacts/art_1.md"]["root"] == "inputs"
    assert made.data_bytes == 12


def test_a_plan_survives_being_stored() -> None:
    made = build(from_entries([entry("ä b", "packs/p", 3, 5)]))
    assert Plan.decode(made.encode()) == made


def test_a_large_plan_has_several_parts_that_join_to_the_whole() -> None:
    made = build(from_entries(entry(f"folder/{'x' * 180}{n}", f"blobs/{n}", 0, 0) for n in range(15_000)))
    assert made.plan_parts == 2
    assert b"".join(made.plan_part(part) for part in range(made.plan_parts)) == made.lines


@given(st.lists(st.tuples(st.sampled_from("pqr"), st.integers(0, 5 * PART_BYTES), st.integers(0, 2 * PART_BYTES))))
def test_every_byte_of_every_file_is_in_the_stream_at_its_offset(places: list[tuple[str, int, int]]) -> None:
    made = build(from_entries(entry(f"f{n}", key, at, size) for n, (key, at, size) in enumerate(places)))
    # The stream as ranges of (key, position), rebuilt from the parts.
    ranges = [source for part in range(made.data_parts) for source in made.part(part)]
    assert all(sum(source.length for source in made.part(part)) == PART_BYTES for part in range(made.data_parts - 1))
    for line in lines(made):
        key, at, size = places[int(str(line["path"])[1:])]
        assert line["bytes"] == size
        if size:
            assert _at(ranges, int(str(line["offset"]))) == (key, at)
            assert _at(ranges, int(str(line["offset"])) + size - 1) == (key, at + size - 1)


def _at(ranges: list[Source], position: int) -> tuple[str, int]:
    for source in ranges:
        if position < source.length:
            return source.key, source.offset + position
        position -= source.length
    raise AssertionError("beyond the stream")


def test_parts_are_counted_exactly() -> None:
    assert [plan.parts_of(size) for size in (0, 1, PART_BYTES, PART_BYTES + 1)] == [0, 1, 1, 2]
