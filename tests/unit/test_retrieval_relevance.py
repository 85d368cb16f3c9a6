"""Ranking on questions whose right answer is evident, in many languages, among passages that share words with it.

No package that can be installed ships a relevance set that needs no network, so these are cases of our own: an
organisation's handbook with neighbouring rules, and for noise the language reference that comes with Python.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from pydoc_data.topics import topics

import pytest

from workbench.retrieval import index_file
from workbench.retrieval.index_file import IndexReader
from workbench.retrieval.ranking import Searched, rank
from workbench.retrieval.retriever import Doc
from workbench.retrieval.tfidf import InMemoryRetriever

Search = Callable[[str], list[str]]

CASES = json.loads((Path(__file__).parent / "fixtures" / "relevance.json").read_text("utf-8"))


def noise() -> dict[str, str]:
    """Paragraphs of the language reference: English prose that shares many words with the handbook."""
    found = {}
    for name, text in topics.items():
        long = [paragraph for paragraph in text.split("\n\n") if len(paragraph) > 300]
        found |= {f"{name}-{number}": paragraph for number, paragraph in enumerate(long[:5])}
    return found


@pytest.fixture(scope="module", params=["in memory", "index"])
def search(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Search]:
    texts = CASES["passages"] | noise()
    assert len(texts) > 200
    if request.param == "in memory":
        memory = InMemoryRetriever(Doc(name, text) for name, text in texts.items())
        yield lambda query: [found.id for found in memory.search(query, 10)]
        return
    path: Path = tmp_path_factory.mktemp("relevance") / "index"
    index_file.create(path)
    for name, text in texts.items():
        index_file.add_document(path, name, "", [(1, None, text)])
    with closing(IndexReader(path)) as reader:
        yield lambda query: [found.passage.document for found in rank([Searched(reader, None)], query, 10)]


def test_evident_answers_come_first(search: Search) -> None:
    places: dict[str, int | None] = {}
    for query, wanted in CASES["questions"]:
        found = search(query)
        places[query] = found.index(wanted) + 1 if wanted in found else None
    missed = {query: place for query, place in places.items() if place != 1}
    reciprocal = sum(1 / place for place in places.values() if place) / len(places)
    recall = sum(place is not None and place <= 3 for place in places.values()) / len(places)
    assert recall >= 0.95 and reciprocal >= 0.95, (round(recall, 3), round(reciprocal, 3), missed)
