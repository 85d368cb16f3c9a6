"""The part of a passage that answers a question: the stretch with most of its words, cut between words. Pure."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from workbench.retrieval.tokens import tokens
from workbench.workspace.views.cuts import cut_after, cut_before

EXCERPT_CHARACTERS = 1_000
# What stands before the first hit, so that it is read in its sentence; and how far a cut looks for the end of a word.
_LEAD_CHARACTERS, _WORD_CHARACTERS = 120, 24
# A text without blanks is looked through in pieces, which overlap by as much as a hit may need.
_PIECE_CHARACTERS, _OVERLAP_CHARACTERS = 32, 4
_CHUNK = re.compile(r"\S+")


@dataclass(frozen=True, slots=True)
class _Hit:
    start: int
    end: int
    terms: frozenset[str]


def excerpt(text: str, query: str, most: int = EXCERPT_CHARACTERS) -> str:
    """Up to about ``most`` characters of ``text`` around most of ``query``'s terms; ``…`` stands where it was cut."""
    if len(text) <= most:
        return text
    hits = _hits(text, frozenset(tokens(query)))
    first = max(0, _densest(hits, most - _LEAD_CHARACTERS) - _LEAD_CHARACTERS)
    first = min(first, len(text) - most)
    start, end = _word_start(text, first), _word_end(text, first + most)
    return ("…" if start else "") + text[start:end].strip() + ("…" if end < len(text) else "")


def _hits(text: str, wanted: Collection[str]) -> list[_Hit]:
    found = []
    for chunk in _CHUNK.finditer(text):
        for start in range(chunk.start(), chunk.end(), _PIECE_CHARACTERS):
            end = min(chunk.end(), start + _PIECE_CHARACTERS + _OVERLAP_CHARACTERS)
            terms = frozenset(tokens(text[start:end])).intersection(wanted)
            if terms:
                found.append(_Hit(start, end, terms))
    return found


def _densest(hits: list[_Hit], room: int) -> int:
    """Where the stretch of ``room`` characters begins that holds most different terms, and of equals most hits."""
    best, place, first = (0, 0), 0, 0
    inside: Counter[str] = Counter()
    for number, hit in enumerate(hits):
        inside.update(hit.terms)
        while hits[first].start < hit.end - room:
            inside -= Counter(hits[first].terms)
            first += 1
        worth = len(inside), number - first
        if worth > best:
            best, place = worth, hits[first].start
    return place


def _word_start(text: str, at: int) -> int:
    if at <= 0:
        return 0
    blank = re.search(r"\s", text[at : at + _WORD_CHARACTERS])
    return at + blank.end() if blank else cut_before(text, at)


def _word_end(text: str, at: int) -> int:
    if at >= len(text):
        return len(text)
    blanks = list(re.finditer(r"\s", text[max(0, at - _WORD_CHARACTERS) : at]))
    return max(0, at - _WORD_CHARACTERS) + blanks[-1].start() if blanks else cut_after(text, at)
