"""The RDF retriever: what a graph says and what follows is found by words; nothing is fetched, nothing is unbounded."""

from __future__ import annotations

import itertools
import json
import socket
from typing import Any

import pytest

from workbench.retrieval.rdf import BadGraph, Limits, RdfRetriever
from workbench.retrieval.retriever import Retriever

# rdflib's own reader of JSON-LD uses what rdflib calls deprecated.
pytestmark = pytest.mark.filterwarnings("ignore:ConjunctiveGraph is deprecated")

PREFIXES = """
@prefix ex: <http://example.org/zoo#> .
@prefix rdf: <http://www.w3.org/1999/02/22-rdf-syntax-ns#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix skos: <http://www.w3.org/2004/02/skos/core#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
ZOO = (
    PREFIXES
    + """
ex:Dog rdfs:subClassOf ex:Mammal . ex:Mammal rdfs:subClassOf ex:Animal .
ex:hasKeeper rdfs:subPropertyOf ex:knowsPerson .
ex:Rex a ex:Dog ; rdfs:label "Rex der Hund"@de ; ex:hasKeeper ex:Anna ; ex:note "Likes café visits" .
"""
)


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("something was to be fetched")

    monkeypatch.setattr(socket, "create_connection", refuse)
    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr("urllib.request.urlopen", refuse)


def texts(graph: RdfRetriever, query: str, k: int = 10) -> list[str]:
    return [found.text for found in graph.search(query, k)]


def test_triples_are_lines_of_words_and_what_follows_is_marked() -> None:
    graph = RdfRetriever(ZOO, id="zoo")
    assert isinstance(graph, Retriever) and graph.id == "zoo"
    (first, *_) = graph.search("mammal rex")
    assert first.text == "Rex der Hund (Rex) type Mammal"
    zoo, of_type = "http://example.org/zoo#", "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
    assert first.id == f"<{zoo}Rex> {of_type} <{zoo}Mammal> ."
    assert first.meta["inferred"] is True and first.meta["object"] == "<http://example.org/zoo#Mammal>"
    (given, *_) = graph.search("keeper")
    assert given.text == "Rex der Hund (Rex) has Keeper Anna" and given.meta["inferred"] is False
    assert texts(graph, "knows person Anna", 1) == ["Rex der Hund (Rex) knows Person Anna"]
    assert texts(graph, "CAFE", 1) == ["Rex der Hund (Rex) note Likes café visits"]
    assert texts(graph, "elephant") == []


def test_exactly_what_the_rules_say_follows() -> None:
    graph = RdfRetriever(ZOO)
    inferred = {
        found.text for found in graph.search("rex dog animal mammal person knows", 100) if found.meta["inferred"]
    }
    assert inferred == {
        "Dog sub Class Of Animal",
        "Rex der Hund (Rex) type Mammal",
        "Rex der Hund (Rex) type Animal",
        "Rex der Hund (Rex) knows Person Anna",
    }
    # Seven are given, four follow.
    assert len(graph) == 11


def test_properties_that_stand_for_the_schema_are_followed_too() -> None:
    graph = RdfRetriever(
        PREFIXES + "ex:kindOf rdfs:subPropertyOf rdfs:subClassOf . ex:Cat ex:kindOf ex:Animal . ex:Tom a ex:Cat ."
    )
    assert "Tom type Animal" in texts(graph, "tom animal")


def test_a_circle_of_classes_ends() -> None:
    graph = RdfRetriever(
        PREFIXES + "ex:A rdfs:subClassOf ex:B . ex:B rdfs:subClassOf ex:C . ex:C rdfs:subClassOf ex:A . ex:x a ex:A ."
    )
    assert {text for text in texts(graph, "x") if "type" in text} == {"x type A", "x type B", "x type C"}


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("turtle", '<http://e.org/Rex> <http://e.org/eats> "cake" .'),
        ("nt", '<http://e.org/Rex> <http://e.org/eats> "cake" .\n'),
        ("json-ld", json.dumps({"@id": "http://e.org/Rex", "http://e.org/eats": "cake"})),
        ("json-ld", "\ufeff" + json.dumps({"@context": {"@vocab": "http://e.org/"}, "@id": "Rex", "eats": "cake"})),
        ("json-ld", json.dumps({"@id": "http://e.org/g", "@graph": [{"@id": "Rex", "http://e.org/eats": "cake"}]})),
    ],
)
def test_formats(format: Any, text: str) -> None:
    assert texts(RdfRetriever(text, format), "cake") == ["Rex eats cake"]


@pytest.mark.parametrize(
    "context",
    [
        "http://evil.example/context.jsonld",
        ["http://evil.example/context.jsonld", {"a": "http://e.org/a"}],
        {"@import": "http://evil.example/context.jsonld"},
        {"a": {"@id": "http://e.org/a", "@context": "http://evil.example/context.jsonld"}},
        "file:///etc/passwd",
        "../secrets.json",
    ],
)
def test_a_context_elsewhere_is_refused_and_not_fetched(context: Any) -> None:
    for whole in ({"@context": context, "@id": "x"}, [{"@graph": [{"@context": context, "@id": "x"}]}]):
        with pytest.raises(BadGraph, match="nothing is fetched here"):
            RdfRetriever(json.dumps(whole), "json-ld")


def test_imports_in_a_graph_are_triples_and_no_orders() -> None:
    graph = RdfRetriever("<http://e.org/o> <http://www.w3.org/2002/07/owl#imports> <http://evil.example/more.ttl> .")
    assert texts(graph, "imports") == ["o imports more.ttl"]


@pytest.mark.parametrize(
    ("format", "text"),
    [
        ("turtle", "this is no graph"),
        ("turtle", "<http://a> <http://b> ."),
        ("turtle", "<http://a> <http://b> " + "(" * 5_000 + ")" * 5_000 + " ."),
        ("nt", "<a> <b> <c>"),
        ("json-ld", "{"),
        ("json-ld", "[" * 200_000 + "]" * 200_000),
        ("xml", "<rdf/>"),
        ("n3", "{ ?x a ?y } => { ?x a ?x } ."),
    ],
)
def test_what_is_no_graph_is_refused_in_words(format: Any, text: str) -> None:
    with pytest.raises(BadGraph, match=r"read as|read here|nested too deeply"):
        RdfRetriever(text, format)


def test_an_empty_graph_finds_nothing() -> None:
    assert texts(RdfRetriever(""), "anything") == [] == texts(RdfRetriever("[]", "json-ld"), "anything")


def test_limits_bound_what_is_given_what_follows_and_the_time() -> None:
    many = PREFIXES + "\n".join(f"ex:s{number} ex:p ex:o ." for number in range(50))
    with pytest.raises(BadGraph, match="more than 40 triples"):
        RdfRetriever(many, limits=Limits(triples=40))
    with pytest.raises(BadGraph, match="100 are allowed"):
        RdfRetriever(many, limits=Limits(characters=100))
    ticking = itertools.count()
    with pytest.raises(BadGraph, match="takes more than 10 seconds"):
        RdfRetriever(many, monotonic=lambda: float(next(ticking)))


def test_what_follows_from_little_may_be_too_much() -> None:
    """A chain of 10,000 classes has fifty million pairs; they are not worked out to be counted."""
    chain = PREFIXES + "\n".join(f"ex:c{number} rdfs:subClassOf ex:c{number + 1} ." for number in range(10_000))
    looks = itertools.count()
    with pytest.raises(BadGraph, match="counting those that follow"):
        RdfRetriever(chain, monotonic=lambda: next(looks) * 1e-9)
    # The clock is looked at once for each triple, given or found to follow.
    assert next(looks) < 10_000 + 2 * Limits().triples


def test_numbers_are_not_written_out() -> None:
    """As rdflib would for its canonical form: this one has a hundred million digits."""
    graph = RdfRetriever(PREFIXES + 'ex:a ex:size "1e99999999"^^xsd:decimal, "007"^^xsd:integer, "x"^^xsd:integer .')
    assert sorted(texts(graph, "size")) == ["a size 007", "a size 1e99999999", "a size x"]


def test_a_long_literal_is_cut_in_lines_and_whole_in_the_id() -> None:
    (found,) = RdfRetriever(PREFIXES + f'ex:a ex:p "{"word " * 1_000}" .').search("word")
    assert len(found.text) < 400 and len(found.id) > 4_000


def test_blank_nodes_have_the_same_names_at_every_reading() -> None:
    text = PREFIXES + 'ex:a ex:address [ ex:city "Bern" ; ex:street [ ex:name "Gasse" ] ] .'
    one, other = (RdfRetriever(text) for _ in range(2))
    assert [found.id for found in one.search("city street address", 9)] == [
        found.id for found in other.search("city street address", 9)
    ]
    assert texts(one, "Bern") == ["_:b1 city Bern"]


def test_an_address_that_is_none_is_shown_as_it_stands() -> None:
    graph = RdfRetriever(PREFIXES + "<http://e.org/a%20b> ex:p <not an address> .")
    (found,) = graph.search("p")
    assert found.text.startswith("a b p") and "not an address" in found.meta["object"]
