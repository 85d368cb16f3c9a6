"""The index file: any sequence of changes equals a rebuild, removed text is gone from the bytes, any query is safe."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.retrieval import index_file, ranking
from workbench.retrieval.index_file import IndexReader
from workbench.retrieval.ranking import Searched, rank


@dataclass(frozen=True)
class Piece:
    number: int
    text: str
    place: str | None = None


Documents = dict[str, tuple[str, list[str]]]

WORDS = ["alpha", "beta", "gamma", "Äpfel", "apfel", "東京都", "京都", "👍", "don't", "v1.2.3", "the"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)
names = st.sampled_from(["doc_a", "doc_b", "doc_c"])
changes = st.lists(
    st.one_of(st.tuples(names, st.none()), st.tuples(names, st.tuples(texts, st.lists(texts, max_size=4)))),
    max_size=8,
)


@contextmanager
def new_file() -> Iterator[Path]:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "index"
        index_file.create(path)
        yield path


def add(path: Path, document: str, title: str, passages: list[str]) -> None:
    index_file.add_document(path, document, title, [(n, f"page {n}", text) for n, text in enumerate(passages, 1)])


def results(
    path: Path, query: str, documents: list[str] | None = None, k: int = 20
) -> list[tuple[str, int, str, float]]:
    with closing(IndexReader(path)) as reader:
        numbers = None if documents is None else reader.numbers_of(documents)
        found = rank([Searched(reader, numbers)], query, k)
    return [(one.passage.document, one.passage.number, one.passage.text, round(one.score, 9)) for one in found]


@settings(deadline=None, max_examples=40)
@given(changes)
def test_any_sequence_of_changes_gives_what_a_rebuild_gives(
    sequence: list[tuple[str, tuple[str, list[str]] | None]],
) -> None:
    kept: Documents = {}
    with new_file() as changed, new_file() as rebuilt:
        for name, content in sequence:
            if content is None:
                assert index_file.remove_document(changed, name) == (kept.pop(name, None) is not None)
            else:
                add(changed, name, *content)
                kept.pop(name, None)
                kept[name] = content
        for name, content in kept.items():
            add(rebuilt, name, *content)
        with closing(sqlite3.connect(changed)) as connection:
            # FTS5's own check that its structures agree.
            connection.execute("INSERT INTO postings(postings) VALUES ('integrity-check')")
        for query in [*WORDS, "alpha beta", "gamma apfel the", "東京"]:
            assert results(changed, query) == results(rebuilt, query)
            assert results(changed, query, ["doc_a", "doc_c"]) == results(rebuilt, query, ["doc_a", "doc_c"])
        with closing(IndexReader(changed)) as one, closing(IndexReader(rebuilt)) as other:
            assert one.statistics(["alpha", "apfel"]) == other.statistics(["alpha", "apfel"])


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("filled") / "index"
    index_file.create(path)
    add(path, "doc_a", "A title", ["alpha beta", "NEAR and NOT", "東京都"])
    add(path, "doc_b", "Another", ["gamma AND delta", "alpha", ""])
    return path


@settings(deadline=None)
@given(st.text(alphabet=st.characters(codec=None, exclude_categories=[])))
@example('"')
@example('alpha" OR "x')
@example("NEAR(alpha beta, 3)")
@example("alpha*")
@example("^alpha")
@example("title:alpha")
@example("-alpha + (beta")
@example("{title body} : alpha")
@example("alpha\0beta")
@example("\ud800")
@example("'; DROP TABLE documents; --")
@example("a" * 100_000)
@example("é" * 1_000)
@example(" ".join(f"w{n}" for n in range(5_000)))
def test_any_query_finds_something_or_nothing(filled: Path, query: str) -> None:
    for _, _, _, score in results(filled, query):
        assert 0 < score < 1
    results(filled, query, ["doc_b"])


def test_words_of_the_query_language_are_words(filled: Path) -> None:
    assert [text for *_, text, _ in results(filled, "NEAR")] == ["NEAR and NOT"]
    assert {text for *_, text, _ in results(filled, "AND")} == {"NEAR and NOT", "gamma AND delta"}
    assert results(filled, "alpha*beta")[0][2] == "alpha beta"


@pytest.mark.parametrize("replaced", [True, False])
def test_a_removed_document_leaves_no_trace_in_the_file(replaced: bool) -> None:
    with new_file() as path:
        add(path, "doc_keep", "Keep", [f"harmless text {n}" for n in range(200)])
        add(path, "doc_secret", "Xylophontitle", ["the passphrase is quixotically zebrafish"] * 50)
        words = [b"ylophontitle", b"quixotic", b"zebrafish"]
        assert all(word in path.read_bytes() for word in words)
        if replaced:
            add(path, "doc_secret", "Other", ["nothing"])
        else:
            assert index_file.remove_document(path, "doc_secret")
            words.append(b"doc_secret")
        assert not any(word in path.read_bytes() for word in words)
        assert len(results(path, "harmless", k=300)) == 200


def test_a_file_of_another_format_is_filled_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Terms changed between two releases: what is in the file can no longer be taken out term by term."""
    with new_file() as path:
        add(path, "doc_a", "A", ["Alpha one", "Alpha two"])
        with closing(sqlite3.connect(path)) as connection, connection:
            connection.execute("INSERT INTO postings(postings) VALUES ('delete-all')")
            connection.execute("UPDATE facts SET format = 0")
        assert results(path, "alpha") == []
        add(path, "doc_b", "B", ["alpha three"])
        assert [text for _, _, text, _ in results(path, "alpha")] == ["Alpha one", "Alpha two", "alpha three"]
        with new_file() as fresh:
            add(fresh, "doc_a", "A", ["Alpha one", "Alpha two"])
            add(fresh, "doc_b", "B", ["alpha three"])
            assert results(fresh, "alpha three") == results(path, "alpha three")


def test_titles_places_and_texts_come_back_as_they_were() -> None:
    odd = ["tab\tand\r\nlines", "half \ud800 pair", "zero\0byte", "emoji 👩‍💻", ""]
    with new_file() as path:
        index_file.add_document(
            path, "doc_a", "T\ud800\0itle", [(7, None, odd[0]), *((9, "p\ud800", one) for one in odd[1:])]
        )
        with closing(IndexReader(path)) as reader:
            rows = [row for number in reader.numbers_of(["doc_a"]) for row in range(number << 20, (number << 20) + 5)]
            back = reader.passages(rows)
    assert [passage.text for passage in back] == odd
    assert [passage.number for passage in back] == [7, 9, 9, 9, 9]
    assert {passage.title for passage in back} == {"T?\0itle"} and back[0].place is None


def test_common_words_do_not_hide_what_only_they_find(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rare words give the candidates; when that cannot prove the answer, the common ones are asked as well."""
    with new_file() as path:
        filler = ["common usual words"] * 60
        add(
            path,
            "doc_a",
            "A",
            [*filler, "common usual words " * 5, "rare and then a lot of other things in a long text"],
        )
        complete = results(path, "rare common usual words", k=5)
        monkeypatch.setattr(ranking, "_POSTINGS", 1)
        assert results(path, "rare common usual words", k=5) == complete
        assert len(complete) == 5


def test_a_document_in_front_of_another_is_a_range_of_its_own() -> None:
    with new_file() as path:
        for name in ("doc_a", "doc_b", "doc_c"):
            add(path, name, "T", ["same", "same"])
        assert [found[:2] for found in results(path, "same", ["doc_b"])] == [("doc_b", 1), ("doc_b", 2)]
        assert [found[0] for found in results(path, "same", ["doc_a", "doc_c"])] == ["doc_a", "doc_a", "doc_c", "doc_c"]
        assert results(path, "same", []) == results(path, "same", ["doc_x"]) == []
