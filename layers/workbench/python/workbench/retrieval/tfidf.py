"""TF-IDF in memory over given documents: cosine of the angle between question and document. Pure standard library.

Term frequency counts as ``1 + ln(tf)`` and rarity as ``1 + ln((1 + N) / (1 + df))``, as scikit-learn calls
``sublinear_tf`` and ``smooth_idf``. Terms are those of :mod:`workbench.retrieval.tokens`. For each term, the documents
that hold it stand with weights that are normalised already, four bytes each: a search adds up products.
"""

from __future__ import annotations

import heapq
import math
from array import array
from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import repeat
from operator import mul
from typing import Any

from workbench.retrieval.retriever import DEFAULT_K, Doc, ScoredDoc, best
from workbench.retrieval.tokens import index_tokens, tokens

# A term in fewer documents is simply added up; looking for a way around it would take longer.
_SHORT = 256


@dataclass(slots=True)
class _Term:
    """The documents that hold a term, by place in order, and what it weighs in each; ``peak`` is the heaviest."""

    places: array[int]
    weights: array[float]
    idf: float
    peak: float = 0.0

    @classmethod
    def of(cls, places: array[int], documents: int) -> _Term:
        """From the places of all occurrences in ``documents`` documents; not scaled to their lengths yet."""
        distinct = len(set(places))
        idf = 1 + math.log((1 + documents) / (1 + distinct))
        if distinct == len(places):
            return cls(places[:], array("f", [idf]) * distinct, idf)
        counts = Counter(places)
        return cls(array("I", counts), array("f", [(1 + math.log(count)) * idf for count in counts.values()]), idf)

    def scale(self, scales: list[float]) -> None:
        self.weights = array("f", map(mul, self.weights, map(scales.__getitem__, self.places)))
        self.peak = max(self.weights)

    def weight(self, place: int) -> float:
        """The weight in one document, 0 when it does not hold the term."""
        at = bisect_left(self.places, place)
        return self.weights[at] if at < len(self.places) and self.places[at] == place else 0.0


class InMemoryRetriever:
    """Searches documents that are given once. They are kept as they are given; adding one means another retriever."""

    def __init__(self, docs: Iterable[Doc | Mapping[str, Any]], *, id: str = "memory") -> None:
        """``docs`` are :class:`Doc`s or mappings with ``id``, ``text`` and perhaps ``meta``. Raises KeyError."""
        self.id = id
        self._docs = [doc if isinstance(doc, Doc) else _doc(doc) for doc in docs]
        self._terms = _index([doc.text for doc in self._docs])

    def __len__(self) -> int:
        return len(self._docs)

    def search(self, query: str, k: int = DEFAULT_K) -> list[ScoredDoc]:
        """The best ``k`` documents, best first; of equal scores, the one given earlier. Scores are above 0, up to 1."""
        k = max(1, k)
        totals = self._best(self._wanted(query), k)
        threshold = _threshold(totals, k)
        found = best([(score, place) for place, score in totals.items() if score >= threshold], k)
        docs = [(self._docs[place], min(1.0, score)) for score, place in found]
        return [ScoredDoc(doc.id, doc.text, score, doc.meta) for doc, score in docs]

    def scores(self, query: str) -> list[float]:
        """The score of every document, in the order in which they were given; 0 for those that share no term."""
        totals = [0.0] * len(self._docs)
        for factor, term in self._wanted(query):
            for place, weight in zip(term.places, term.weights, strict=True):
                totals[place] += weight * factor
        return [min(1.0, total) for total in totals]

    def _wanted(self, query: str) -> list[tuple[float, _Term]]:
        """The question's terms that any document holds and their normalised weights, those first that can add most."""
        counts = Counter(term for term in tokens(query) if term in self._terms)
        weighed = [((1 + math.log(count)) * self._terms[term].idf, self._terms[term]) for term, count in counts.items()]
        length = math.sqrt(sum(weight * weight for weight, _ in weighed))
        wanted = [(weight / length, term) for weight, term in weighed]
        return sorted(wanted, key=lambda one: -one[0] * one[1].peak)

    def _best(self, wanted: list[tuple[float, _Term]], k: int) -> dict[int, float]:
        """The scores of documents among which the best ``k`` are.

        Once the rest of the terms cannot lift a new document over the best so far (their peaks do not add up to it),
        only documents that can still get there are looked up in them: common words cost next to nothing then.
        """
        totals: dict[int, float] = {}
        peaks = [factor * term.peak for factor, term in wanted]
        for number, (factor, term) in enumerate(wanted):
            if len(term.places) > _SHORT and len(totals) >= k:
                rest = sum(peaks[number:])
                threshold = _threshold(totals, k)
                if rest < threshold:
                    return self._finished(totals, wanted[number:], rest, threshold)
            if totals:
                get = totals.get
                for place, weight in zip(term.places, term.weights, strict=True):
                    totals[place] = get(place, 0.0) + weight * factor
            else:
                totals = dict(zip(term.places, map(mul, term.weights, repeat(factor)), strict=True))
        return totals

    def _finished(
        self, totals: dict[int, float], wanted: list[tuple[float, _Term]], rest: float, threshold: float
    ) -> dict[int, float]:
        contenders = {place: total for place, total in totals.items() if total + rest >= threshold}
        for factor, term in wanted:
            for place in contenders:
                contenders[place] += factor * term.weight(place)
        return contenders


def _threshold(totals: Mapping[int, float], k: int) -> float:
    """The ``k``-th highest of the totals; 0 when there are fewer."""
    return heapq.nlargest(k, totals.values())[-1] if len(totals) >= k else 0.0


def _doc(given: Mapping[str, Any]) -> Doc:
    return Doc(given["id"], given["text"], given.get("meta") or {})


def _index(texts: list[str]) -> dict[str, _Term]:
    # A document's place stands in a word's list as often as the word in the document: the least that can be kept of it.
    holding: defaultdict[str, array[int]] = defaultdict(lambda: array("I"))
    for place, text in enumerate(texts):
        for word in index_tokens(text):
            holding[word].append(place)
    terms: dict[str, _Term] = {}
    squares = [0.0] * len(texts)
    while holding:
        word, places = holding.popitem()
        term = terms[word] = _Term.of(places, len(texts))
        for place, weight in zip(term.places, term.weights, strict=True):
            squares[place] += weight * weight
    # A text without terms stands in no list.
    scales = [1 / math.sqrt(square) if square else 0.0 for square in squares]
    for term in terms.values():
        term.scale(scales)
    return terms
