"""Which skills a text asks for: those that it names as ``$name``, then those whose words it shares. No AWS here.

A ``$name`` counts where a whole word stands: nothing that could be part of a word or of another ``$`` before it, and
behind it neither a letter, a digit or ``_``, nor a joint such as ``-`` that another letter or digit follows. So
``$reference`` is not in ``$references``, ``$reference-card`` or ``US$reference``, and it is in ``($reference).``
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.retrieval.tfidf import InMemoryRetriever
from workbench.retrieval.tokens import index_tokens, tokens

THRESHOLD = 0.05
# A skill that is named scores more than any that shares words.
MENTIONED = 1.0

_JOINTS = frozenset("-.:")
# What is written like a name is none of the text's words, whether or not it names a skill.
_NAMING = re.compile(r"\$[\w.:+&'-]+")
# In a handful of descriptions no word is rare, so that rarity alone cannot tell these from words that mean something.
# English, as nearly all descriptions are; in other languages they count for little, not for nothing.
_FUNCTION_WORDS = (
    "a an and any are as at be but by can could do does for from had has have how i if in into is it its make me my no "
    "not of on or our please so some than that the their them then there these they this to up us use using want was "
    "we what when where which who why will with would you your"
)
_SAY_NOTHING = frozenset(_FUNCTION_WORDS.split())


class Described(Protocol):
    """What is matched: a skill, a stored one or one in a folder."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Candidate:
    """A skill by what it is matched by."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Match:
    """A skill that fits; ``score`` is from 0 to 1."""

    name: str
    score: float
    mentioned: bool

    def as_dict(self) -> dict[str, Any]:
        return {"name": self.name, "score": round(self.score, 4), "mentioned": self.mentioned}


class Registered(Protocol):
    """A registry."""

    def list(self) -> Iterable[Described]: ...


def match_skills(registry: Registered | Iterable[Described], text: str, threshold: float = THRESHOLD) -> list[Match]:
    """The skills that ``text`` asks for: those it names, in its order, then those above ``threshold``, best first."""
    return [found for found in score_skills(registry, text) if found.mentioned or found.score > threshold]


def score_skills(registry: Registered | Iterable[Described], text: str) -> list[Match]:
    """Every skill with its score: those that ``text`` names first, in its order, then by TF-IDF similarity."""
    skills = list(registry.list() if hasattr(registry, "list") else registry)
    named = mentions(text, [skill.name for skill in skills])
    similar = _similar([f"{skill.name} {skill.description}" for skill in skills], text)
    found = [
        Match(skill.name, MENTIONED if skill.name in named else score, skill.name in named)
        for skill, score in zip(skills, similar, strict=True)
    ]
    return sorted(found, key=lambda one: (named.index(one.name) if one.mentioned else len(named), -one.score, one.name))


def _similar(skills: list[str], text: str) -> list[float]:
    """How much of ``text`` is about each of ``skills``, from 0 to 1: the cosine of their TF-IDF vectors.

    The retriever leaves words that no document holds out of a question's length. Here they count, or a text that
    shares one common word with a skill would ask for it.
    """
    words = Counter(word for word in tokens(_NAMING.sub(" ", text)) if word not in _SAY_NOTHING)
    known = Counter(word for skill in skills for word in set(index_tokens(skill)))
    weights = {
        word: (1 + math.log(count)) * (1 + math.log((1 + len(skills)) / (1 + known[word])))
        for word, count in words.items()
    }
    whole = math.hypot(*weights.values())
    share = math.hypot(*(weight for word, weight in weights.items() if known[word])) / whole if whole else 0.0
    retriever = InMemoryRetriever({"id": str(number), "text": skill} for number, skill in enumerate(skills))
    return [share * score for score in retriever.scores(" ".join(words.elements()))]


def mentions(text: str, names: Iterable[str]) -> list[str]:
    """Those of ``names`` that stand in ``text`` as ``$name``, in its order. The longest name that fits counts.

    Case makes no difference where no name is spelled as the text spells it.
    """
    exact = {name: name for name in names}
    folded = {name.casefold(): name for name in reversed(list(exact))}
    lengths = sorted({len(name) for name in exact}, reverse=True)
    text = unicodedata.normalize("NFC", text)
    found: dict[str, None] = {}
    at = text.find("$")
    while at >= 0:
        if at == 0 or not (_is_word(text[at - 1]) or text[at - 1] == "$"):
            for length in lengths:
                written = text[at + 1 : at + 1 + length]
                name = exact.get(written) or folded.get(written.casefold())
                if name is not None and _ends_at(text, at + 1 + length):
                    found[name] = None
                    break
        at = text.find("$", at + 1)
    return list(found)


def _ends_at(text: str, at: int) -> bool:
    """True when no word goes on at ``at``."""
    following = text[at : at + 2]
    if not following:
        return True
    return not (_is_word(following[0]) or (following[0] in _JOINTS and _is_word(following[1:])))


def _is_word(sign: str) -> bool:
    return sign == "_" or sign.isalnum() or (sign != "" and unicodedata.category(sign[0]).startswith("M"))
