"""The persistent index: one file per collection in S3, made anew for every change and searched from the local disk.

A writer copies the generation that holds, changes the copy, stores it under a new name and swings the collection's
pointer; a crash between any two of its requests leaves the old index or the new one. Readers follow the pointer. What
stands in the index is a matter for documents' owners; who may see what it finds is asked elsewhere
(:mod:`workbench.knowledge.permission`).
"""

from __future__ import annotations

import base64
import shutil
import zlib
from collections.abc import Callable, Collection, Iterable, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from botocore.exceptions import ClientError

from workbench import objects
from workbench.errors import Conflict, TooLarge, ToolError
from workbench.logs import logger
from workbench.operations import Item
from workbench.retrieval import generations, index_file, ranking, rebuilding
from workbench.retrieval.generations import Lease, Overtaken, Pointer
from workbench.retrieval.index_file import IndexedPassage, IndexReader
from workbench.retrieval.rebuilding import Filled
from workbench.retrieval.retriever import DEFAULT_K, ScoredDoc
from workbench.runtime import Runtime

# A function's disk holds the copy that is changed beside the files that are kept.
MOST_FILE_BYTES = 160 * 1024 * 1024
_TRIES = 4
_CHUNK_BYTES = 1024 * 1024

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
    """What a search found, and how many passages were in its scopes; ``incomplete`` when documents may be missing
    from them, because an index was lost and is not whole again.
    """

    hits: list[Hit]
    passages: int
    incomplete: bool


def add(runtime: Runtime, collection: str, document_id: object, title: str, passages: Iterable[Passage]) -> None:
    """Index the passages of a document, in place of those that are indexed under its id; found from the return on.

    Five requests, or six when the index is not on this disk yet. Raises NotFound without such a collection, Conflict
    while others keep it busy, and TooLarge when the index would outgrow a function's disk. A failure changes nothing.
    """
    indexed = [(passage.number, passage.place, passage.text) for passage in passages]

    def change(path: Path) -> bool:
        index_file.add_document(path, str(document_id), title, indexed)
        _refuse_too_large(collection, path)
        return True

    _write(runtime, collection, change)


def remove(runtime: Runtime, collection: str, document_id: object) -> None:
    """Take a document out of the index; nothing of it is left in what S3 keeps. No error when it is not there.

    Requests and failures as for :func:`add`, but never TooLarge.
    """
    _write(runtime, collection, lambda path: index_file.remove_document(path, str(document_id)))


def refill(runtime: Runtime, collection: str) -> bool:
    """Make an index that is not whole anew and go on filling it for a while; False when more is left to be filled in.

    Requests and failures as for :func:`remove`, and one more for each document. What has no room stays out.
    """
    # Stored anew also when this disk still has the file that S3 has lost.
    return _write(runtime, collection, lambda _path: True) is not Filled.PARTLY


def is_whole(runtime: Runtime, collection: str, meta: Item) -> bool:
    """False when the index that the collection's item names is not there, or documents may be missing from it.

    One request, none when the item says it all: a collection without passages has no index, and lacks none.
    """
    pointer = generations.Pointer.of(meta)
    if pointer is None:
        return True
    if pointer.incomplete:
        return False
    try:
        key = _key(collection, pointer.generation)
        runtime.clients.s3.head_object(Bucket=runtime.settings.workspace_bucket, Key=key)
    except ClientError as error:
        if not objects.is_missing(error):
            raise
        # A writer may have made the next one meanwhile.
        return generations.current(runtime, [collection]).get(collection) != pointer
    return True


def drop(runtime: Runtime, collection: str, serial: str) -> None:
    """Remove every file of a collection whose META item is gone or going; three requests.

    Those of another one, which was made under the same id since, stay; ``serial`` is this one's.
    """
    ours = partial(generations.is_free_of_others, runtime, collection, serial)
    _sweep(runtime, collection, lambda _generation: True, ours)


def search(runtime: Runtime, scopes: Sequence[Scope], query: str, k: int = DEFAULT_K) -> list[Hit]:
    """The best ``k`` passages over all ``scopes``, best first; equals stand by collection, document and number.

    One request, and one more for each collection whose index is not on this disk yet. Whatever ``query`` says, it
    finds something or nothing. Raises ToolError ``throttled`` when the index changes again and again meanwhile.
    """
    return look(runtime, scopes, query, k).hits


def look(runtime: Runtime, scopes: Sequence[Scope], query: str, k: int = DEFAULT_K) -> Look:
    """:func:`search`, with how much there was to be found, and whether documents may be missing from it."""
    ordered = sorted(scopes, key=lambda scope: scope.collection)
    with ExitStack() as opened:
        searched = []
        readers, incomplete = _readers(runtime, [scope.collection for scope in ordered])
        for scope, reader in zip(ordered, readers, strict=True):
            if reader is not None:
                opened.enter_context(closing(reader))
                numbers = None if scope.documents is None else reader.numbers_of(map(str, scope.documents))
                searched.append(ranking.Searched(reader, numbers))
        found = ranking.rank(searched, query, k)
        passages = sum(file.reader.passages_of(file.documents) for file in searched)
    return Look([_hit(ranked.passage, ranked.score) for ranked in found], passages, incomplete)


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


def _readers(runtime: Runtime, collections: Sequence[str]) -> tuple[list[IndexReader | None], bool]:
    """An open index for each collection that has one, and whether anything may be missing from them."""
    opened: dict[str, IndexReader] = {}
    asked: dict[str, Pointer] = {}
    incomplete = False
    missing = list(dict.fromkeys(collections))
    for _ in range(_TRIES):
        pointers = generations.current(runtime, missing)
        # A file that is not there is one whose writer made the next meanwhile; if the pointer stays, it was lost.
        lost = {name for name, pointer in pointers.items() if asked.get(name) == pointer}
        incomplete |= bool(lost) or any(pointer.incomplete for pointer in pointers.values())
        asked = {name: pointer for name, pointer in pointers.items() if name not in lost}
        opening = [partial(_open, runtime, name, pointer.generation) for name, pointer in asked.items()]
        found = dict(zip(asked, runtime.clients.together(*opening), strict=True))
        opened |= {name: reader for name, reader in found.items() if reader is not None}
        missing = [name for name, reader in found.items() if reader is None]
        if not missing:
            return [opened.get(name) for name in collections], incomplete
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


def _write(runtime: Runtime, collection: str, change: Change) -> Filled:
    """Make the next generation."""
    for _ in range(_TRIES):
        lease = generations.acquire(runtime, collection)
        try:
            return _make(runtime, lease, change)
        except Overtaken:
            # A build that outlasted its lease; another writer's documents are in the index by now.
            continue
        except Exception:
            generations.release(runtime, lease)
            raise
    raise Conflict("Others kept indexing documents of this collection first. Send the request again in a few seconds.")


def _make(runtime: Runtime, lease: Lease, change: Change) -> Filled:
    """The next generation, from the one that holds; nothing when ``change`` finds nothing to change."""
    cache, base = runtime.indexes, lease.generation
    with cache.workspace() as folder:
        path = Path(folder) / "next"
        filled = Filled.WHOLE
        whole = _begin(runtime, lease, path)
        changed = change(path)
        if not whole:
            filled = rebuilding.refill(runtime, lease.collection, path, MOST_FILE_BYTES)
        elif not changed:
            generations.release(runtime, lease)
            return filled
        generation = lease.next_generation()
        key = _key(lease.collection, generation)
        _store(runtime, key, path)
        try:
            generations.publish(runtime, lease, generation, incomplete=filled is not Filled.WHOLE)
        except Overtaken:
            runtime.clients.s3.delete_object(Bucket=runtime.settings.workspace_bucket, Key=key)
            raise
        cache.take(key, path)
    if base is not None:
        cache.forget(_key(lease.collection, base))
    # Whatever an earlier writer left, by a crash too. A later one may be storing its own at this moment.
    _sweep(runtime, lease.collection, lambda found: found.split("-")[0] < generation.split("-")[0])
    return filled


def _refuse_too_large(collection: str, path: Path) -> None:
    size = path.stat().st_size
    if size > MOST_FILE_BYTES:
        raise TooLarge(
            f"With this document, the index of the collection would take {size:,} bytes, and {MOST_FILE_BYTES:,} are "
            "allowed. Nothing was changed. Put the document into another collection (name one in `collection`; a new "
            "name makes a new one), or remove some from this one first.",
            collection=collection,
            bytes=size,
            allowed=MOST_FILE_BYTES,
        )


def _begin(runtime: Runtime, lease: Lease, path: Path) -> bool:
    """The index that the next generation begins with, at ``path``; False when documents may be missing from it."""
    if lease.generation is None:
        index_file.create(path)
        return True
    try:
        runtime.indexes.use(_key(lease.collection, lease.generation), lambda kept: shutil.copyfile(kept, path))
    except FileNotFoundError:
        # Nobody but its next writer removes it, and that is us: a table that was set back to an earlier time names
        # what is not there any more.
        logger.error("an index is lost and is built anew", extra={"collection": lease.collection})
        index_file.create(path)
        return False
    return not lease.incomplete


def _store(runtime: Runtime, key: str, path: Path) -> None:
    checksum = 0
    with path.open("rb") as stream:
        while chunk := stream.read(_CHUNK_BYTES):
            checksum = zlib.crc32(chunk, checksum)
        stream.seek(0)
        # Without a checksum the client computes one as it sends, in a form that copies all that was read for each piece
        # when the file is asked for at once: 18 s for 150 MB.
        runtime.clients.s3.put_object(
            Bucket=runtime.settings.workspace_bucket,
            Key=key,
            Body=stream,
            ChecksumCRC32=base64.b64encode(checksum.to_bytes(4)).decode(),
        )


def _sweep(
    runtime: Runtime,
    collection: str,
    unwanted: Callable[[str], bool],
    allowed: Callable[[], bool] = lambda: True,
) -> None:
    prefix = f"indexes/{collection}/"
    bucket = runtime.settings.workspace_bucket
    for page in objects.pages(runtime.clients, bucket, prefix):
        keys = [key for key in page if unwanted(key.removeprefix(prefix))]
        if keys and allowed():
            objects.delete(runtime.clients, bucket, [{"Key": key} for key in keys])


def _key(collection: str, generation: str) -> str:
    return f"indexes/{collection}/{generation}.sqlite"
