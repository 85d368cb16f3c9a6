"""Finding texts by words: retrievers of three kinds, and any of them as a tool. Each is loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.retrieval.index import IndexRetriever
    from workbench.retrieval.publishing import retrieval_tool
    from workbench.retrieval.rdf import BadGraph, Limits, RdfRetriever
    from workbench.retrieval.retriever import Doc, Retriever, ScoredDoc
    from workbench.retrieval.tfidf import InMemoryRetriever

__all__ = [
    "BadGraph",
    "Doc",
    "InMemoryRetriever",
    "IndexRetriever",
    "Limits",
    "RdfRetriever",
    "Retriever",
    "ScoredDoc",
    "retrieval_tool",
]

_HOMES = {
    "BadGraph": "rdf",
    "Doc": "retriever",
    "InMemoryRetriever": "tfidf",
    "IndexRetriever": "index",
    "Limits": "rdf",
    "RdfRetriever": "rdf",
    "Retriever": "retriever",
    "ScoredDoc": "retriever",
    "retrieval_tool": "publishing",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{home}"), name)
