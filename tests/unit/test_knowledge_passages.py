"""Passages: nothing lost, none too long, in order, each with its place, always the same."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from workbench.knowledge.passages import (
    FULL_CHARACTERS,
    HEADER_CHARACTERS,
    MOST_CHARACTERS,
    Block,
    Passage,
    decode,
    encode,
    split,
)

TEXT = st.text(st.sampled_from("ab. ,;\n\té\u0301語。🎉\u200d"), max_size=4_000)
PARTS = st.sampled_from([None, "page 1", "page 2"])


def blocks_of(texts: list[tuple[str, str | None, int]]) -> list[Block]:
    return [Block(text, part=part, level=level) for text, part, level in texts]


def bare(text: str) -> str:
    return re.sub(r"\s+", "", text)


@given(st.lists(st.tuples(TEXT, PARTS, st.sampled_from([0, 0, 0, 1, 2])), max_size=12))
def test_passages_hold_all_of_the_text_in_order(texts: list[tuple[str, str | None, int]]) -> None:
    passages = split(blocks_of(texts))
    assert bare("".join(passage.text for passage in passages)) == bare("".join(text for text, _, _ in texts))
    assert [passage.number for passage in passages] == list(range(1, len(passages) + 1))
    assert all(0 < len(passage.text) <= MOST_CHARACTERS for passage in passages)
    assert passages == split(blocks_of(texts))


@given(
    st.lists(st.text(st.sampled_from("ab |1"), min_size=1, max_size=2_500), max_size=30), st.text("xy", max_size=600)
)
def test_rows_are_all_there_behind_their_header(rows: list[str], header: str) -> None:
    blocks = [Block(text, "sheet S", row=n, last_row=n, header=header, glue="\n") for n, text in enumerate(rows, 2)]
    passages = split(blocks)
    repeated = f"{header}\n" if header and len(header) <= HEADER_CHARACTERS else ""
    assert all(passage.text.startswith(repeated) and len(passage.text) <= MOST_CHARACTERS for passage in passages)
    texts = "".join(passage.text.removeprefix(repeated) for passage in passages)
    assert bare(texts) == bare("".join(row for row in rows if row.strip()))


@given(st.lists(st.text(st.sampled_from("ab \n"), max_size=900), max_size=20))
def test_paragraphs_of_a_long_text_fill_their_passages(texts: list[str]) -> None:
    """No two neighbours could have been one passage."""
    passages = split([Block(text) for text in texts])
    for one, other in itertools.pairwise(passages):
        assert len(one.text) + len("\n\n") + len(other.text) > FULL_CHARACTERS


def test_what_stays_together_and_where_a_new_passage_begins() -> None:
    long = "A sentence of words. " * 45
    passages = split(
        [
            Block("Report", level=1),
            Block("Short opening."),
            Block("Methods", level=2),
            Block(long.strip()),
            Block("Results", level=2),
            Block("They were good."),
        ]
    )
    assert [passage.text.split("\n")[0] for passage in passages] == ["Report", "Results"]
    assert [passage.place for passage in passages] == ["sections Report to Methods", "section Results"]


def test_a_heading_goes_with_the_text_below_it() -> None:
    filling, next_one = "x" * 1_100, "y" * 1_300
    passages = split([Block(filling), Block("Heading", level=2), Block(next_one)])
    assert [passage.text for passage in passages] == [filling, f"Heading\n\n{next_one}"]
    assert passages[1].place == "section Heading"
    (alone,) = split([Block("Heading", level=1), Block("z" * 1_400)])
    assert alone.text.startswith("Heading\n\nz")


def test_a_text_without_structure_is_parted_where_it_hurts_least() -> None:
    passages = split([Block("One sentence here. " * 200)])
    assert all(passage.text.rstrip().endswith(".") for passage in passages)
    words = split([Block("word " * 1_000)])
    assert all(re.fullmatch(r"(word ?)+", passage.text) for passage in words)
    unbroken = split([Block("e\u0301" * 2_000)])
    assert not any(passage.text.startswith("\u0301") for passage in unbroken)
    chinese = split([Block("这是一句话。" * 500)])
    assert all(passage.text.endswith("。") for passage in chinese)


def test_places() -> None:
    def place(*blocks: Block) -> str | None:
        (passage,) = split(blocks)
        return passage.place

    assert place(Block("x")) is None
    assert place(Block("x", part="page 3")) == "page 3"
    assert place(Block("x", line=4, last_line=6), Block("y", line=8, last_line=8)) == "lines 4-8"
    assert place(Block("x", line=4, last_line=4)) == "line 4"
    assert place(Block("a", row=2, last_row=2), Block("b", row=3, last_row=5)) == "rows 2-5"
    assert place(Block("a", "sheet Data", row=7, last_row=7)) == "sheet Data row 7"
    heading = Block("## Set  up ##", level=2, line=3, last_line=3)
    assert place(heading, Block("x", line=5, last_line=5)) == "section Set up, lines 3-5"


def test_short_sections_that_share_a_passage_are_all_in_its_place() -> None:
    def place(*texts: str) -> str | None:
        blocks = [Block(text, level=len(text) - len(text.lstrip("#"))) for text in texts]
        (passage,) = split(blocks)
        return passage.place

    assert place("# Guide", "one", "## Setup", "two", "## Removal", "three") == "sections Guide to Removal"
    assert place("# Guide", "## Setup", "one") == "section Guide", "one heading below another begins nothing new"
    assert place("# Guide", "## Setup", "one", "# Other", "## Deep", "two") == "sections Guide to Other"
    assert place("before all", "# Setup", "one") == "up to section Setup"
    assert place("# Same", "one", "# Same", "two") == "section Same"
    long = place(f"# {'a' * 200}", "one", f"# {'b' * 200}", "two")
    assert long == f"sections {'a' * 39}… to {'b' * 39}…"


def test_lines_are_counted_through_a_paragraph_that_is_cut() -> None:
    lines = [f"line {number} of the log" for number in range(1, 301)]
    passages = split([Block("\n".join(lines), line=1, last_line=300)])
    at = 1
    for passage in passages:
        first, last = at, at + passage.text.rstrip("\n").count("\n")
        assert passage.place == f"lines {first}-{last}"
        assert passage.text.startswith(f"line {first} of")
        at = last + 1
    assert at == 301


def test_what_is_stored_can_be_read_by_anybody() -> None:
    passages = [Passage(1, 'Ein "Zitat"\n🎉 שלום', "page 1"), Passage(2, "half \ud800", None)]
    data = encode("doc_c.d", "a.pdf", passages)
    assert decode(data) == [passages[0], Passage(2, "half ?", None)]
    assert data.startswith(b'{"document":"doc_c.d","name":"a.pdf","passages":[{"number":1,"place":"page 1","text":')
