"""What every retriever is: an id, and a search that returns scored documents. Pure; implementations live beside it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

DEFAULT_K = 4


@dataclass(frozen=True, slots=True)
class Doc:
    """A text to be found, under an ``id`` of its giver's choice. ``meta`` comes back as it was given."""

    id: str
    text: str
    meta: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ScoredDoc:
    """A text that was found. ``score`` is above 0, more is better; only scores of one search compare."""

    id: str
    text: str
    score: float
    meta: Mapping[str, Any] = field(default_factory=dict)


@runtime_checkable
class Retriever(Protocol):
    """The contract. A search never raises for what its query says: what finds nothing returns nothing."""

    @property
    def id(self) -> str:
        """Which retriever this is, in logs and traces."""

    def search(self, query: str, k: int = DEFAULT_K) -> list[ScoredDoc]:
        """The best ``k`` (at least 1) for ``query``, best first, and of equals the earlier; fewer when fewer match."""


def best(scores: Iterable[tuple[float, int]], k: int) -> list[tuple[float, int]]:
    """The ``k`` highest of ``(score, place)``, best first; of equal scores the lower place goes first."""
    return heapq.nsmallest(max(1, k), scores, key=_order)


def _order(scored: tuple[float, int]) -> tuple[float, int]:
    score, place = scored
    return -score, place
