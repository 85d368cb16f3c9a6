"""TF-IDF equals the formula worked out the long way, whatever is skipped on the way; ties, bounds, odd inputs."""

from __future__ import annotations

import itertools
import math
import random
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.retrieval import tfidf
from workbench.retrieval.retriever import Doc, Retriever, ScoredDoc
from workbench.retrieval.tfidf import InMemoryRetriever
from workbench.retrieval.tokens import tokens


def reference(texts: list[str], query: str) -> list[float]:
    """Cosines with sublinear term frequency and smooth inverse document frequency, straight from the formula."""
    counts = [Counter(tokens(text)) for text in texts]
    holding = Counter(term for count in counts for term in count)

    def vector(count: Counter[str]) -> dict[str, float]:
        return {
            term: (1 + math.log(number)) * (1 + math.log((1 + len(texts)) / (1 + holding[term])))
            for term, number in count.items()
            if term in holding
        }

    asked = vector(Counter(tokens(query)))
    scores = []
    for count in counts:
        kept = vector(count)
        lengths = math.sqrt(sum(w * w for w in kept.values())) * math.sqrt(sum(w * w for w in asked.values()))
        scores.append(sum(w * asked.get(term, 0.0) for term, w in kept.items()) / lengths if lengths else 0.0)
    return scores


def retriever(texts: list[str]) -> InMemoryRetriever:
    return InMemoryRetriever([Doc(str(place), text) for place, text in enumerate(texts)])


words = st.sampled_from(["a", "a", "b", "b", "c", "d", "e", "ff"])
texts = st.lists(st.lists(words, max_size=9).map(" ".join), max_size=12)


@given(texts, st.lists(words, max_size=5).map(" ".join), st.integers(1, 15), st.sampled_from([0, 2, 256]))
def test_scores_and_order_are_those_of_the_formula(given_texts: list[str], query: str, k: int, short: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        # At 0 every term that can be skipped is skipped.
        patch.setattr(tfidf, "_SHORT", short)
        searched = retriever(given_texts)
        expected = reference(given_texts, query)
        assert searched.scores(query) == pytest.approx(expected, abs=1e-5)
        found = searched.search(query, k)
    assert len(found) == min(k, sum(score > 0 for score in expected))
    assert [doc.score for doc in found] == pytest.approx(sorted(expected, reverse=True)[: len(found)], abs=1e-5)
    for doc in found:
        assert doc.text == given_texts[int(doc.id)] and 0 < doc.score <= 1
        assert doc.score == pytest.approx(expected[int(doc.id)], abs=1e-5)


def test_what_is_skipped_at_size_changes_nothing() -> None:
    numbers = random.Random(3)
    vocabulary = [f"w{number}" for number in range(400)]
    weights = list(itertools.accumulate(1 / (rank + 1) for rank in range(400)))
    many = [" ".join(numbers.choices(vocabulary, cum_weights=weights, k=30)) for _ in range(2_000)]
    searched = retriever(many)
    for _ in range(25):
        query = " ".join(numbers.choices(vocabulary, cum_weights=weights, k=6))
        expected = sorted(searched.scores(query), reverse=True)[:5]
        assert [doc.score for doc in searched.search(query, 5)] == pytest.approx(expected, abs=1e-6)


def test_of_equals_the_one_given_earlier_comes_first() -> None:
    searched = InMemoryRetriever([{"id": name, "text": "twin words"} for name in ("z", "a", "m")])
    assert [doc.id for doc in searched.search("twin", 2)] == ["z", "a"]


def test_it_keeps_the_contract_and_gives_back_what_it_got() -> None:
    searched = InMemoryRetriever([{"id": "kb-1", "text": "Return policy: 30 days.", "meta": {"page": 2}}], id="kb")
    assert isinstance(searched, Retriever) and searched.id == "kb" and len(searched) == 1
    assert searched.search("policies") == [
        ScoredDoc("kb-1", "Return policy: 30 days.", pytest.approx(0.5), {"page": 2})
    ]


@pytest.mark.parametrize("query", ["", "  ", "\ud800", '"', "nothing like it"])
def test_a_query_that_shares_no_term_finds_nothing(query: str) -> None:
    assert retriever(["some text", ""]).search(query) == []
    assert retriever([]).search(query) == []
    assert retriever(["some text", ""]).scores(query) == [0.0, 0.0]


def test_four_are_found_by_default_and_one_at_least() -> None:
    searched = retriever(["same"] * 10)
    assert len(searched.search("same")) == 4
    assert len(searched.search("same", 0)) == 1


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("CAFE", "Un café noir"),
        ("京都", "東京都に住む"),
        ("猫", "黒猫がいる"),
        ("🎉", "party 🎉"),
        ("strasse", "Große Straße"),
    ],
)
def test_any_script_is_searched(query: str, found: str) -> None:
    searched = retriever(["Un café noir", "東京都に住む", "黒猫がいる", "party 🎉", "Große Straße", "other"])
    assert [doc.text for doc in searched.search(query)] == [found]
