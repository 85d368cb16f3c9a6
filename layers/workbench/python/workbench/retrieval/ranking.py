"""Which passages answer a question best, over any number of collections at once: BM25 with figures summed over all.

Each file ranks candidates by its own figures, fast and in C. Scores of two files do not compare, since a word may be
rare in one and common in the other; so the candidates of all are scored again here, by what holds for all of them
together. Pure but for the files it reads.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.retrieval.index_file import TITLE_WEIGHT, IndexedPassage, IndexReader, Statistics
from workbench.retrieval.retriever import best
from workbench.retrieval.tokens import index_tokens, tokens

# BM25's saturation and length normalisation, at the values that Robertson and Zaragoza (2009) call reasonable.
K1, B = 1.2, 0.75
# A question's rarest terms decide; more of them cost time and change nothing. Of a whole page, the beginning counts.
MOST_TERMS, _LOOKED_AT = 32, 256
# Candidates for one wanted passage, and at least; and the postings that candidates may come from before a proof is
# asked that the rest could not have changed the answer.
_CANDIDATES_EACH, _CANDIDATES = 8, 64
_POSTINGS = 20_000


@dataclass(frozen=True, slots=True)
class Searched:
    """A file to search, and the numbers of which documents; None is all of them."""

    reader: IndexReader
    documents: Sequence[int] | None


@dataclass(frozen=True, slots=True)
class Ranked:
    """A passage and its score: above 0, below 1, the share of what a passage could reach at most for the question."""

    passage: IndexedPassage
    score: float


def rank(searched: Sequence[Searched], query: str, k: int) -> list[Ranked]:
    """The best ``k`` passages for ``query``, best first; of equals, those of the earlier file and the earlier row."""
    wanted = list(dict.fromkeys(tokens(query)))[:_LOOKED_AT]
    figures = _Figures.summed([file.reader.statistics(wanted) for file in searched], wanted)
    if not figures.weights:
        return []
    # Rare terms say most and have few postings. The common ones join when the rare ones cannot prove the answer.
    some = figures.rarest(_POSTINGS)
    found = _ranked(searched, some, figures, k)
    left_out = sum(figures.most(term) for term in figures.weights if term not in some)
    if left_out and (len(found) < k or found[k - 1].score * figures.highest < left_out):
        found = _ranked(searched, list(figures.weights), figures, k)
    return found


@dataclass(frozen=True, slots=True)
class _Figures:
    """Figures over all files: the terms' weights, rarest first, passages that hold them, and the mean length."""

    weights: Mapping[str, float]
    holding: Mapping[str, int]
    length: float
    highest: float

    @classmethod
    def summed(cls, statistics: Sequence[Statistics], wanted: Sequence[str]) -> _Figures:
        passages = sum(file.passages for file in statistics)
        length = sum(file.terms for file in statistics) / max(1, passages)
        holding: Counter[str] = Counter()
        for file in statistics:
            holding.update(file.holding)
        rare = sorted(holding, key=lambda term: (holding[term], term))[:MOST_TERMS]
        weights = {term: _weight(passages, holding[term]) for term in rare}
        # A term that no passage holds counts against every one of them.
        absent = min(len(wanted), MOST_TERMS) - len(rare)
        highest = (sum(weights.values()) + absent * _weight(passages, 0)) * (K1 + 1)
        return cls(weights, holding, max(1.0, length), highest)

    def most(self, term: str) -> float:
        """What ``term`` adds to a score at most."""
        return self.weights[term] * (K1 + 1)

    def rarest(self, postings: int) -> list[str]:
        """The rarest terms with at most so many ``postings``, but one at least."""
        chosen: list[str] = []
        for term in self.weights:
            postings -= self.holding[term]
            if chosen and postings < 0:
                break
            chosen.append(term)
        return chosen

    def score(self, passage: IndexedPassage) -> float:
        body = index_tokens(passage.text)
        counts: dict[str, float] = dict(Counter(body))
        for term in tokens(passage.title):
            counts[term] = counts.get(term, 0.0) + TITLE_WEIGHT
        damping = K1 * (1 - B + B * len(body) / self.length)
        total = 0.0
        for term, weight in self.weights.items():
            count = counts.get(term)
            if count:
                total += weight * count * (K1 + 1) / (count + damping)
        return total / self.highest


def _weight(passages: int, holding: int) -> float:
    return math.log(1 + (passages - holding + 0.5) / (holding + 0.5))


def _ranked(
    searched: Sequence[Searched],
    terms: Sequence[str],
    figures: _Figures,
    k: int,
) -> list[Ranked]:
    passages: list[IndexedPassage] = []
    for file in searched:
        rows = file.reader.candidates(terms, file.documents, max(_CANDIDATES, k * _CANDIDATES_EACH))
        passages += file.reader.passages(rows) if rows else []
    scores = [figures.score(passage) for passage in passages]
    chosen = best(((score, place) for place, score in enumerate(scores) if score > 0), k)
    return [Ranked(passages[place], score) for score, place in chosen]
