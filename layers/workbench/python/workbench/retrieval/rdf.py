"""Keyword search in an RDF graph: its triples, and those that follow from its classes and properties, as lines of text.

The graph comes from text that is given, in Turtle, N-Triples or JSON-LD; nothing is fetched, so a JSON-LD context must
stand in the text. What follows is RDFS's subclasses and subproperties (rules rdfs5, 7, 9 and 11 of RDF Semantics 1.1).
rdflib is loaded when the first graph is read.
"""

from __future__ import annotations

import json
import re
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import unquote

from workbench.retrieval.retriever import DEFAULT_K, Doc, ScoredDoc
from workbench.retrieval.tfidf import InMemoryRetriever
from workbench.retrieval.tokens import tokens

if TYPE_CHECKING:
    from rdflib.store import Store

Format = Literal["turtle", "nt", "json-ld"]
Triple = tuple[Any, Any, Any]

# Relative addresses need something to be relative to; `.invalid` is nobody's (RFC 2606).
_BASE = "http://graph.invalid/"
_RDFS = "http://www.w3.org/2000/01/rdf-schema#"
_TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
_SUBCLASS, _SUBPROPERTY, _LABEL = f"{_RDFS}subClassOf", f"{_RDFS}subPropertyOf", f"{_RDFS}label"
_LABELS = ("http://www.w3.org/2004/02/skos/core#prefLabel", _LABEL)
_SHOWN_CHARACTERS = 300
_WORD_BOUNDARY = re.compile(r"[_\-]+|(?<=[a-z0-9])(?=[A-Z])")


class BadGraph(ValueError):
    """Text that is no graph, or one that is past the limits; says what is wrong and what to do."""


@dataclass(frozen=True, slots=True)
class Limits:
    """``triples`` counts what is given and what follows from it; ``seconds`` are for reading and for following."""

    characters: int = 2_000_000
    triples: int = 50_000
    seconds: float = 10.0


class RdfRetriever:
    """Finds triples by words. A :class:`ScoredDoc`'s id is the triple in N-Triples, its text the triple in words;
    ``meta`` has ``subject``, ``predicate`` and ``object`` as N-Triples and ``inferred``.
    """

    def __init__(
        self,
        text: str,
        format: Format = "turtle",
        *,
        id: str = "rdf",
        limits: Limits | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """Read ``text``. Raises :class:`BadGraph`."""
        self.id = id
        budget = _Budget(limits or Limits(), monotonic)
        given = _without_random_names(_read(text, format, budget))
        inferred = _closure(given, budget)
        names = _Names([*given, *inferred])
        self._triples = [*given, *inferred]
        self._given = len(given)
        # Ids and meta are made for what is found only: a long literal may stand in many triples that follow.
        self._lines = InMemoryRetriever(
            Doc(str(place), " ".join(map(names.of, triple))) for place, triple in enumerate(self._triples)
        )

    def __len__(self) -> int:
        """How many triples can be found."""
        return len(self._triples)

    def search(self, query: str, k: int = DEFAULT_K) -> list[ScoredDoc]:
        """The best ``k`` triples, best first; of equals those given before those that follow, in the text's order."""
        return [self._scored(int(found.id), found) for found in self._lines.search(query, k)]

    def _scored(self, place: int, found: ScoredDoc) -> ScoredDoc:
        subject, predicate, object_ = map(_written, self._triples[place])
        meta = {"subject": subject, "predicate": predicate, "object": object_, "inferred": place >= self._given}
        return ScoredDoc(f"{subject} {predicate} {object_} .", found.text, found.score, meta)


class _Budget:
    """What reading and following may still take."""

    def __init__(self, limits: Limits, monotonic: Callable[[], float]) -> None:
        self.limits = limits
        self._monotonic = monotonic
        self._until = monotonic() + limits.seconds
        self._triples = 0

    def take(self) -> None:
        """Count one more triple; raises BadGraph past the limits."""
        self._triples += 1
        self.allow(self._triples)

    def allow(self, triples: int) -> None:
        """Raise BadGraph when so many triples are too many, or when the time is over."""
        if triples > self.limits.triples:
            raise BadGraph(
                f"The graph has more than {self.limits.triples:,} triples, counting those that follow from it. Give a "
                "part of it."
            )
        if self._monotonic() > self._until:
            raise BadGraph(f"Reading the graph takes more than {self.limits.seconds:g} seconds. Give a part of it.")


# ---------------------------------------------------------------- reading


def _read(text: str, format: str, budget: _Budget) -> list[Triple]:
    """The triples of ``text`` in its order, each once."""
    if len(text) > budget.limits.characters:
        raise BadGraph(
            f"The graph is {len(text):,} characters long, and {budget.limits.characters:,} are allowed. Give a part of "
            "it."
        )
    if format not in ("turtle", "nt", "json-ld"):
        raise BadGraph(f"`{format}` is no format that is read here; turtle, nt and json-ld are.")
    rdflib = _rdflib()
    read: dict[Triple, None] = {}
    try:
        data = _checked_json(text) if format == "json-ld" else text
        graph = rdflib.Graph(store=_recording_store(read, budget))
        graph.parse(data=data, format=format, publicID=_BASE)
    except BadGraph:
        raise
    except RecursionError:
        raise BadGraph("The graph is nested too deeply to be read.") from None
    except Exception as error:
        # rdflib's parsers raise whatever a malformed text makes them stumble over.
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise BadGraph(f"The text cannot be read as {format}: {reason[:200]}") from error
    return list(read)


def _rdflib() -> Any:
    import logging

    import rdflib

    # Literals stay as they are written: the other way, "1e99999999"^^xsd:decimal is written out digit by digit.
    rdflib.NORMALIZE_LITERALS = False
    # A literal that does not fit its type is shown all the same; the log is no place for what graphs hold.
    logging.getLogger("rdflib.term").disabled = True
    return rdflib


def _recording_store(read: dict[Triple, None], budget: _Budget) -> Store:
    from rdflib.plugins.stores.memory import Memory

    class Recording(Memory):
        """Keeps the order in which triples come, whatever graph of a dataset they are in, and stops at the limits."""

        def add(self, triple: Any, context: Any, quoted: bool = False) -> None:
            if triple not in read:
                budget.take()
                read[triple] = None
            super().add(triple, context, quoted)

    return Recording()


def _checked_json(text: str) -> str:
    """``text`` without a byte-order mark, once it is certain that no context in it would have to be fetched."""
    whole = json.loads(text.removeprefix("\ufeff"))
    waiting = [whole]
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict):
            contexts = value.get("@context")
            for context in contexts if isinstance(contexts, list) else [contexts]:
                if isinstance(context, str):
                    raise BadGraph(
                        f"The graph takes its context from `{context[:200]}`, and nothing is fetched here. Write the "
                        "context out in place of its address."
                    )
            if "@import" in value:
                raise BadGraph("The graph imports a context (`@import`), and nothing is fetched here. Write it out.")
            waiting += value.values()
    # As it was understood here, so that a key that stands twice cannot mean one thing here and another there.
    return json.dumps(whole)


def _without_random_names(triples: Iterable[Triple]) -> list[Triple]:
    """The triples with blank nodes numbered as they come: their names are made up anew at every reading."""
    from rdflib import BNode

    numbers: dict[Any, Any] = {}

    def named(node: Any) -> Any:
        if not isinstance(node, BNode):
            return node
        return numbers.setdefault(node, BNode(f"b{len(numbers) + 1}"))

    return [(named(subject), predicate, named(object_)) for subject, predicate, object_ in triples]


# ---------------------------------------------------------------- what follows


def _closure(given: list[Triple], budget: _Budget) -> list[Triple]:
    """The triples that follow from ``given`` and do not stand there."""
    from rdflib import URIRef

    types, subclass, subproperty = URIRef(_TYPE), URIRef(_SUBCLASS), URIRef(_SUBPROPERTY)
    known = dict.fromkeys(given)
    # A subproperty of these very properties makes new classes and properties follow: on until nothing new does.
    while True:
        before = len(known)
        above = {kind: _above(known, kind, budget) for kind in (subproperty, subclass)}
        for subject, predicate, object_ in list(known):
            budget.allow(len(known))
            following: list[Triple] = [(subject, wider, object_) for wider in above[subproperty].get(predicate, ())]
            if predicate == types:
                following += [(subject, types, wider) for wider in above[subclass].get(object_, ())]
            elif predicate in above:
                following += [(subject, predicate, wider) for wider in above[predicate].get(object_, ())]
            for triple in following:
                if triple not in known:
                    budget.take()
                    known[triple] = None
        if len(known) == before:
            return list(known)[len(dict.fromkeys(given)) :]


def _above(triples: Iterable[Triple], relation: Any, budget: _Budget) -> Mapping[Any, list[Any]]:
    """For each class (or property) all that are wider, nearest first; one that is wider than itself is left out."""
    direct: defaultdict[Any, list[Any]] = defaultdict(list)
    for subject, predicate, object_ in triples:
        if predicate == relation and subject != object_:
            direct[subject].append(object_)
    found: dict[Any, list[Any]] = {}
    pairs = 0
    for start in list(direct):
        reached = dict.fromkeys(direct[start])
        waiting = list(reached)
        for node in waiting:
            new = [wider for wider in direct.get(node, ()) if wider not in reached and wider != start]
            reached.update(dict.fromkeys(new))
            waiting += new
            # Each of them is a triple that follows.
            budget.allow(pairs + len(reached))
        found[start] = list(reached)
        pairs += len(reached)
    return found


# ---------------------------------------------------------------- words


class _Names:
    """What nodes are called: by their label where the graph gives one, and by the end of their address."""

    def __init__(self, triples: Iterable[Triple]) -> None:
        self._labels: dict[Any, str] = {}
        self._named: dict[Any, str] = {}
        for kind in _LABELS:
            for subject, predicate, object_ in triples:
                if str(predicate) == kind:
                    self._labels.setdefault(subject, str(object_))

    def of(self, node: Any) -> str:
        name = self._named.get(node)
        if name is None:
            name = self._named[node] = self._name(node)
        return name

    def _name(self, node: Any) -> str:
        from rdflib import BNode, Literal

        if isinstance(node, Literal):
            return str(node)[:_SHOWN_CHARACTERS]
        label = self._labels.get(node, "")[:_SHOWN_CHARACTERS]
        if isinstance(node, BNode):
            return label or f"_:{node}"
        local = _local_name(str(node))
        if not label or tokens(label) == tokens(local):
            return label or local
        return f"{label} ({local})"


def _local_name(address: str) -> str:
    end = re.split(r"[#/:]", address.rstrip("#/:"))[-1]
    return _WORD_BOUNDARY.sub(" ", unquote(end)).strip()[:_SHOWN_CHARACTERS] or address[:_SHOWN_CHARACTERS]


def _written(node: Any) -> str:
    """The node in N-Triples; an address that is none, and that rdflib would refuse to write, as it stands."""
    from rdflib import URIRef

    return f"<{node}>" if isinstance(node, URIRef) else str(node.n3())
