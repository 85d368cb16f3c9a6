"""What a turn is told of the documents that it may use. No AWS here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from workbench.knowledge import names
from workbench.knowledge.model import Document
from workbench.workspace.text.visible import counted


@dataclass(frozen=True)
class Bindings:
    """``serials`` is what the turn's record keeps: each id with its collection's serial.

    ``total`` counts all documents that the turn may use, of which the first are ``listed``.
    """

    serials: dict[str, str]
    listed: tuple[Document, ...]
    total: int


NONE = Bindings({}, (), 0)


def lines(bindings: Bindings, offered: Collection[str]) -> list[str]:
    """The part of a turn's instructions about documents; names only tools that the turn was ``offered``."""
    if not bindings.total:
        return ["Documents you may use: none."]
    ways = []
    if "search_docs" in offered:
        ways.append("search_docs finds passages in them")
    if "run_code" in offered:
        ways.append("run_code takes their ids as `files` (the file as uploaded) or `passages` (its text in order)")
    how = f" {'; '.join(ways)}." if ways else ""
    told = [f"Documents you may use, by id, with names that their owners chose.{how}"]
    told += [f"- {document.id}: {names.quoted(document.name)} ({_extent(document)})" for document in bindings.listed]
    more = bindings.total - len(bindings.listed)
    if more:
        found = " search_docs reaches them too." if "search_docs" in offered else ""
        told.append(f"- and {more:,} more.{found}")
    return told


def _extent(document: Document) -> str:
    """Its pages, slides, sheets and rows as far as it has them, otherwise how many passages."""
    counts = [f"{count:,} {unit if count != 1 else unit[:-1]}" for unit, count in document.extent.items()]
    if not document.extent:
        counts = [counted(document.passages, "passage")]
    if not document.passages:
        counts.append("no text")
    return ", ".join([document.format, *counts])
