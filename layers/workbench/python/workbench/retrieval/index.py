"""The persistent index: one file per collection in S3, made anew for every change and searched from the local disk.

A writer copies the generation that holds, changes the copy, stores it under a new name and swings the collection's
pointer; a crash between any two of its requests leaves the old index or the new one. Readers follow the pointer. What
stands in the index is a matter for documents' owners; who may see what it finds is asked elsewhere
(:mod:`workbench.knowledge.permission`).
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from workbench import objects
from workbench.errors import Conflict, TooLarge, ToolError
from workbench.retrieval import generations, index_file, ranking
from workbench.retrieval.generations import Lease, Overtaken
from workbench.retrieval.index_file import IndexedPassage, IndexReader
from workbench.retrieval.retriever import DEFAULT_K, ScoredDoc
from workbench.runtime import Runtime

# A function's disk holds the copy that is changed beside the files that are kept.
MOST_FILE_BYTES = 160 * 1024 * 1024
_TRIES = 4

# Changes the file at the path; False when there was nothing to change.
Change = Callable[[Path], bool]


class Passage(Protocol):
    """What of a passage is indexed: the document's own number of it, its text, and where it stands (``page 3``)."""

    @property
    def number(self) -> int: ...

    @property
    def text(self) -> str: ...

    @property
    def place(self) -> str | None: ...


class Scope(Protocol):
    """What to search: a collection, and which of its documents; None is all of them."""

    @property
    def collection(self) -> str: ...

    @property
    def documents(self) -> Collection[object] | None: ...


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that was found. ``score`` is above 0 and below 1; scores compare over collections and documents."""

    document: str
    title: str
    number: int
    place: str | None
    text: str
    score: float


@dataclass(frozen=True, slots=True)
class Look:
    """What a search found, and how many passages were in its scopes."""

    hits: list[Hit]
    passages: int


def add(runtime: Runtime, collection: str, document_id: object, title: str, passages: Iterable[Passage]) -> None:
    """Index the passages of a document, in place of those that are indexed under its id; found from the return on.

    Five requests, or six when the index is not on this disk yet. Raises NotFound without such a collection, Conflict
    while others keep it busy, and TooLarge when the index would outgrow a function's disk. A failure changes nothing.
    """
    indexed = [(passage.number, passage.place, passage.text) for passage in passages]

    def change(path: Path) -> bool:
        index_file.add_document(path, str(document_id), title, indexed)
        return True

    _write(runtime, collection, change)


def remove(runtime: Runtime, collection: str, document_id: object) -> None:
    """Take a document out of the index; nothing of it is left in what S3 keeps. No error when it is not there.

    Requests and failures as for :func:`add`.
    """
    _write(runtime, collection, lambda path: index_file.remove_document(path, str(document_id)))


def drop(runtime: Runtime, collection: str) -> None:
    """Remove every file of a collection whose META item is gone or going; two requests."""
    _sweep(runtime, collection, lambda _generation: True)


def search(runtime: Runtime, scopes: Sequence[Scope], query: str, k: int = DEFAULT_K) -> list[Hit]:
    """The best ``k`` passages over all ``scopes``, best first; equals stand by collection, document and number.

    One request, and one more for each collection whose index is not on this disk yet. Whatever ``query`` says, it
    finds something or nothing. Raises ToolError ``throttled`` when the index changes again and again meanwhile.
    """
    return look(runtime, scopes, query, k).hits


def look(runtime: Runtime, scopes: Sequence[Scope], query: str, k: int = DEFAULT_K) -> Look:
    """:func:`search`, with the number of passages that were there to be found."""
    ordered = sorted(scopes, key=lambda scope: scope.collection)
    with ExitStack() as opened:
        searched = []
        for scope, reader in zip(ordered, _readers(runtime, [scope.collection for scope in ordered]), strict=True):
            if reader is not None:
                opened.enter_context(closing(reader))
                numbers = None if scope.documents is None else reader.numbers_of(map(str, scope.documents))
                searched.append(ranking.Searched(reader, numbers))
        found = ranking.rank(searched, query, k)
        passages = sum(file.reader.passages_of(file.documents) for file in searched)
    return Look([_hit(ranked.passage, ranked.score) for ranked in found], passages)


@dataclass(frozen=True)
class IndexRetriever:
    """The persistent index of some collections as a :class:`~workbench.retrieval.retriever.Retriever`."""

    runtime: Runtime
    scopes: Sequence[Scope]
    id: str = "index"

    def search(self, query: str, k: int = DEFAULT_K) -> list[ScoredDoc]:
        """As :func:`search`; an id is the document's and the passage's number, ``meta`` the rest of a :class:`Hit`."""
        return [
            ScoredDoc(
                f"{hit.document}#{hit.number}",
                hit.text,
                hit.score,
                {"document": hit.document, "title": hit.title, "number": hit.number, "place": hit.place},
            )
            for hit in search(self.runtime, self.scopes, query, k)
        ]


# ---------------------------------------------------------------- reading


def _hit(passage: IndexedPassage, score: float) -> Hit:
    return Hit(passage.document, passage.title, passage.number, passage.place, passage.text, score)


def _readers(runtime: Runtime, collections: Sequence[str]) -> list[IndexReader | None]:
    """An open index for each collection that has one."""
    opened: dict[str, IndexReader] = {}
    missing = list(dict.fromkeys(collections))
    for _ in range(_TRIES):
        pointers = generations.current(runtime, missing)
        opening = [partial(_open, runtime, name, generation) for name, generation in pointers.items()]
        found = dict(zip(pointers, runtime.clients.together(*opening), strict=True))
        opened |= {name: reader for name, reader in found.items() if reader is not None}
        # Its writer removed that generation meanwhile; the pointer leads to the next one.
        missing = [name for name, reader in found.items() if reader is None]
        if not missing:
            return [opened.get(name) for name in collections]
    for reader in opened.values():
        reader.close()
    raise ToolError(
        "The documents' index is changing faster than it can be read. Send the same call again.", code="throttled"
    )


def _open(runtime: Runtime, collection: str, generation: str) -> IndexReader | None:
    try:
        return runtime.indexes.use(_key(collection, generation), IndexReader)
    except FileNotFoundError:
        return None


# ---------------------------------------------------------------- writing


def _write(runtime: Runtime, collection: str, change: Change) -> None:
    for _ in range(_TRIES):
        lease = generations.acquire(runtime, collection)
        try:
            _make(runtime, lease, change)
        except Overtaken:
            # A build that outlasted its lease; another writer's documents are in the index by now.
            continue
        except Exception:
            generations.release(runtime, lease)
            raise
        return
    raise Conflict("Others kept indexing documents of this collection first. Send the request again in a few seconds.")


def _make(runtime: Runtime, lease: Lease, change: Change) -> None:
    """The next generation, from the one that holds; nothing when ``change`` finds nothing to change."""
    cache, base = runtime.indexes, lease.generation
    with cache.workspace() as folder:
        path = Path(folder) / "next"
        if base is None:
            index_file.create(path)
        else:
            cache.use(_key(lease.collection, base), lambda kept: shutil.copyfile(kept, path))
        if not change(path):
            generations.release(runtime, lease)
            return
        size = path.stat().st_size
        if size > MOST_FILE_BYTES:
            raise TooLarge(
                f"With this document, the index of the collection would take {size:,} bytes, and {MOST_FILE_BYTES:,} "
                "are allowed. Nothing was changed. Put the document into another collection, or remove some from this "
                "one first.",
                collection=lease.collection,
                bytes=size,
                allowed=MOST_FILE_BYTES,
            )
        generation = lease.next_generation()
        key = _key(lease.collection, generation)
        with path.open("rb") as stream:
            runtime.clients.s3.put_object(Bucket=runtime.settings.workspace_bucket, Key=key, Body=stream)
        try:
            generations.publish(runtime, lease, generation)
        except Overtaken:
            runtime.clients.s3.delete_object(Bucket=runtime.settings.workspace_bucket, Key=key)
            raise
        cache.take(key, path)
    if base is not None:
        cache.forget(_key(lease.collection, base))
    # Whatever an earlier writer left, by a crash too. A later one may be storing its own at this moment.
    _sweep(runtime, lease.collection, lambda found: found.split("-")[0] < generation.split("-")[0])


def _sweep(runtime: Runtime, collection: str, unwanted: Callable[[str], bool]) -> None:
    prefix = f"indexes/{collection}/"
    bucket = runtime.settings.workspace_bucket
    for page in objects.pages(runtime.clients, bucket, prefix):
        keys = [key for key in page if unwanted(key.removeprefix(prefix))]
        if keys:
            objects.delete(runtime.clients, bucket, [{"Key": key} for key in keys])


def _key(collection: str, generation: str) -> str:
    return f"indexes/{collection}/{generation}.sqlite"
