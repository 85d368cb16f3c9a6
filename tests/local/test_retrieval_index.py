"""The persistent index through S3 and the table: found at once, gone at once; two writers, crashes, stale readers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.unit.test_retrieval_index_file import Piece
from workbench import objects
from workbench.clients import counting
from workbench.clock import ManualClock
from workbench.errors import Conflict, NotFound, TooLarge
from workbench.keys import collection_key
from workbench.retrieval import generations, index
from workbench.retrieval.index import IndexRetriever
from workbench.retrieval.index_cache import IndexCache
from workbench.retrieval.retriever import Retriever
from workbench.runtime import Runtime

SERIAL = "serial-1"


@dataclass(frozen=True)
class Scope:
    collection: str
    documents: frozenset[str] | None = None


@pytest.fixture
def collection(system: LocalSystem, unique: str) -> str:
    make(system.runtime, unique)
    return unique


def make(runtime: Runtime, collection: str) -> None:
    pk, sk = collection_key(collection)
    runtime.table.put({"PK": pk, "SK": sk, "owner": "anna", "serial": SERIAL})


def pieces(*texts: str) -> list[Piece]:
    return [Piece(number, text, f"page {number}") for number, text in enumerate(texts, 1)]


def cold(runtime: Runtime) -> None:
    """Forget the files on disk, as a function does that starts anew."""
    settings = runtime.settings
    runtime.indexes = IndexCache(
        runtime.clients, settings.workspace_bucket, settings.cache_directory, settings.cache_bytes
    )


def found(runtime: Runtime, query: str, *collections: str, k: int = 10) -> list[str]:
    return [hit.document for hit in index.search(runtime, [Scope(name) for name in collections], query, k)]


def stored(runtime: Runtime, collection: str) -> list[str]:
    bucket, prefix = runtime.settings.workspace_bucket, f"indexes/{collection}/"
    return [
        key.removeprefix(prefix).removesuffix(".sqlite")
        for page in objects.pages(runtime.clients, bucket, prefix)
        for key in page
    ]


def pointer(runtime: Runtime, collection: str) -> str | None:
    held = generations.current(runtime, [collection]).get(collection)
    return held.generation if held else None


def test_an_added_document_is_found_with_its_place_and_a_removed_one_is_not(
    system: LocalSystem, collection: str
) -> None:
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "Travel policy", pieces("Flights are booked early.", "Trains are fine."))
    index.add(runtime, collection, "doc_b", "Menu", pieces("Soup of the day"))
    (hit,) = index.search(runtime, [Scope(collection)], "book a flight", 4)
    assert (hit.document, hit.title, hit.number, hit.place) == ("doc_a", "Travel policy", 1, "page 1")
    assert hit.text == "Flights are booked early." and 0 < hit.score < 1
    assert found(runtime, "travel", collection) == ["doc_a", "doc_a"]
    index.remove(runtime, collection, "doc_a")
    assert found(runtime, "flight travel train", collection) == []
    assert found(runtime, "soup", collection) == ["doc_b"]


def test_a_document_that_is_added_again_takes_its_own_place(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "Notes", pieces("apples", "pears"))
    index.add(runtime, collection, "doc_a", "Notes", pieces("cherries"))
    assert found(runtime, "apples pears", collection) == []
    assert found(runtime, "cherries", collection) == ["doc_a"]


def test_nothing_is_found_where_nothing_is_indexed(system: LocalSystem, collection: str) -> None:
    assert found(system.runtime, "anything", collection) == []
    assert found(system.runtime, "anything") == []
    assert found(system.runtime, "anything", "no-such-collection") == []
    index.remove(system.runtime, collection, "doc_never")
    assert pointer(system.runtime, collection) is None and stored(system.runtime, collection) == []


def test_only_the_documents_in_scope_are_found(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    for name in "abcd":
        index.add(runtime, collection, f"doc_{name}", name.upper(), pieces("the same words", "and others"))
    some = frozenset({"doc_b", "doc_d", "doc_of_another_collection"})
    hits = index.search(runtime, [Scope(collection, some)], "same words", 10)
    assert [hit.document for hit in hits] == ["doc_b", "doc_d"]
    assert index.search(runtime, [Scope(collection, frozenset())], "same words", 10) == []
    (only,) = index.search(runtime, [Scope(collection, frozenset({"doc_c"}))], "same words", 10)
    assert only.document == "doc_c"


def test_scores_compare_over_collections(system: LocalSystem, unique: str) -> None:
    """`report` is in every text of one collection and rare in the other; the figures are those of both together."""
    runtime, reports, letters = system.runtime, f"{unique}-1", f"{unique}-2"
    for name in (reports, letters):
        make(runtime, name)
    texts = [f"report of week {week} about sales" for week in range(20)]
    index.add(runtime, reports, "doc_r", "Weeks", pieces(*texts, "report about penguins"))
    index.add(runtime, letters, "doc_l", "Letters", pieces("a report that nobody read", "dear aunt", "dear uncle"))
    best = index.search(runtime, [Scope(letters), Scope(reports)], "penguins report", 3)
    assert best[0].text == "report about penguins"
    alike = index.search(runtime, [Scope(letters), Scope(reports)], "report", 30)
    scores = {hit.document: hit.score for hit in reversed(alike)}
    # A rare word would count for more in a collection of its own figures.
    assert scores["doc_l"] < 1.5 * scores["doc_r"]


def test_equal_scores_stand_in_a_fixed_order(system: LocalSystem, unique: str) -> None:
    runtime, names = system.runtime, [f"{unique}-{number}" for number in range(3)]
    for name in names:
        make(runtime, name)
        index.add(runtime, name, f"doc_{name}", "T", pieces("twin", "twin"))
    hits = index.search(runtime, [Scope(name) for name in reversed(names)], "twin", 10)
    assert [(hit.document, hit.number) for hit in hits] == [(f"doc_{name}", n) for name in names for n in (1, 2)]


def test_it_is_a_retriever(system: LocalSystem, collection: str) -> None:
    index.add(system.runtime, collection, "doc_a", "Zoo", pieces("lions", "tigers and lions"))
    retriever = IndexRetriever(system.runtime, [Scope(collection)])
    assert isinstance(retriever, Retriever)
    (first, _) = retriever.search("lions")
    assert first.id == "doc_a#1" and first.text == "lions"
    assert first.meta == {"document": "doc_a", "title": "Zoo", "number": 1, "place": "page 1"}


# ---------------------------------------------------------------- requests


def test_requests_of_each_operation(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "A", pieces("one"))
    with counting() as adding:
        index.add(runtime, collection, "doc_b", "B", pieces("two"))
    with counting() as searching:
        found(runtime, "two", collection)
    assert adding.operations == [
        "dynamodb:UpdateItem",
        "s3:PutObject",
        "dynamodb:UpdateItem",
        "s3:ListObjectsV2",
        "s3:DeleteObjects",
    ]
    assert searching.operations == ["dynamodb:BatchGetItem"]
    cold(runtime)
    with counting() as searching:
        found(runtime, "two", collection)
    assert searching.operations == ["dynamodb:BatchGetItem", "s3:GetObject"]


def test_one_generation_is_kept(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    for name in "abc":
        index.add(runtime, collection, f"doc_{name}", "T", pieces(name))
    assert stored(runtime, collection) == [pointer(runtime, collection)]
    index.drop(runtime, collection, SERIAL)
    assert stored(runtime, collection) == []


def test_a_large_index_is_stored_as_it_is(system: LocalSystem, collection: str) -> None:
    """In pieces with checksums between them, a client that asks for all at once copies it once for each piece."""
    runtime, forms = system.runtime, []

    def look(request: Any, **_more: Any) -> None:
        if collection in request.url:
            forms.append(request.headers.get("Content-Encoding"))

    events = runtime.clients.s3.meta.events
    events.register("before-send.s3.PutObject", look)
    index.add(runtime, collection, "doc_a", "A", pieces("one"))
    events.unregister("before-send.s3.PutObject", look)
    assert forms == [None]


def test_a_drop_leaves_what_another_collection_of_that_id_has_stored(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "A", pieces("kept"))
    index.drop(runtime, collection, "serial-of-an-earlier-one")
    cold(runtime)
    assert found(runtime, "kept", collection) == ["doc_a"]


# ---------------------------------------------------------------- crashes and races


@pytest.fixture
def from_request(system: LocalSystem) -> Iterator[Callable[[int, Callable[[], None]], None]]:
    """``from_request(n, act)``: before the n-th AWS request from now on, ``act`` is called once."""

    def arm(number: int, act: Callable[[], None]) -> None:
        seen = [0]

        def hook(_service: str, _operation: str) -> None:
            seen[0] += 1
            if seen[0] == number:
                act()

        system.runtime.clients.hook = hook

    yield arm
    system.runtime.clients.hook = None


@pytest.mark.parametrize("change", ["add", "replace", "remove"])
def test_a_crash_between_any_two_requests_leaves_the_old_index_or_the_new(
    system: LocalSystem, unique: str, change: str
) -> None:
    runtime = system.runtime
    changes: dict[str, Callable[[str], None]] = {
        "add": lambda name: index.add(runtime, name, "doc_b", "B", pieces("new words")),
        "replace": lambda name: index.add(runtime, name, "doc_a", "A", pieces("new words")),
        "remove": lambda name: index.remove(runtime, name, "doc_a"),
    }
    after = {"add": ["doc_a", "doc_b"], "replace": ["doc_a"], "remove": []}
    for number in range(1, 20):
        name = f"{unique}-{number}"
        make(runtime, name)
        index.add(runtime, name, "doc_a", "A", pieces("old words"))
        cold(runtime)
        with changed.crashing(runtime.clients, number - 1) as crash:
            changes[change](name)
        cold(runtime)
        texts = [hit.text for hit in index.search(runtime, [Scope(name)], "old new words", 5)]
        old, new = ["old words"], {"add": ["new words", "old words"], "replace": ["new words"], "remove": []}[change]
        assert sorted(texts) in (old, new)
        if not crash.happened:
            assert sorted(texts) == new
            break
        # The next writer gets in once the lease is over, builds on what holds, and leaves nothing behind.
        clock = ManualClock(runtime.clock.now() + 2 * generations.LEASE_SECONDS)
        later = Runtime(runtime.settings, runtime.clients, clock)
        later.indexes = runtime.indexes
        index.add(later, name, "doc_c", "C", pieces("words after all"))
        assert stored(runtime, name) == [pointer(runtime, name)]
        assert set(found(runtime, "words", name)) == {"doc_c", *(after[change] if sorted(texts) == new else ["doc_a"])}
    else:
        pytest.fail("the operation never came to its end")


def test_two_writers_at_once_both_end_up_in_the_index(
    system: LocalSystem, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Whoever holds the lease may stand still for a while, and four wait for it; but nobody so long that it runs out.
    monkeypatch.setattr(generations, "WAIT_SECONDS", 120.0)
    failures: list[BaseException] = []

    def add(name: str) -> None:
        try:
            index.add(system.runtime, collection, f"doc_{name}", name, pieces(f"common {name}"))
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=add, args=(name,)) for name in "abcde"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    assert sorted(found(system.runtime, "common", collection)) == [f"doc_{name}" for name in "abcde"]
    assert stored(system.runtime, collection) == [pointer(system.runtime, collection)]


def test_a_writer_that_lost_its_lease_publishes_nothing_and_tries_again(
    system: LocalSystem, collection: str, from_request: Any
) -> None:
    """Its lease runs out while it stores its file; another adds a document; both documents are there in the end."""
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "A", pieces("shared a"))
    late = Runtime(runtime.settings, runtime.clients, ManualClock(runtime.clock.now() + 3_600))

    def overtake() -> None:
        index.add(late, collection, "doc_b", "B", pieces("shared b"))

    from_request(2, overtake)
    index.add(runtime, collection, "doc_c", "C", pieces("shared c"))
    assert sorted(found(runtime, "shared", collection)) == ["doc_a", "doc_b", "doc_c"]
    assert stored(runtime, collection) == [pointer(runtime, collection)]


def test_a_reader_whose_generation_was_removed_follows_the_pointer(
    system: LocalSystem, collection: str, from_request: Any
) -> None:
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "A", pieces("shared a"))
    cold(runtime)
    from_request(2, lambda: index.add(runtime, collection, "doc_b", "B", pieces("shared b")))
    assert sorted(found(runtime, "shared", collection)) == ["doc_a", "doc_b"]


def test_a_busy_collection_says_since_when_and_what_to_do(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    held = generations.acquire(runtime, collection)
    # Waiting takes no time here, and the lease outlasts it.
    impatient = Runtime(runtime.settings, runtime.clients, ManualClock(runtime.clock.now()))
    with pytest.raises(Conflict, match=r"being indexed since .*Z\. Nothing was changed\. Send the request again"):
        index.add(impatient, collection, "doc_a", "A", pieces("one"))
    generations.release(runtime, held)
    index.add(runtime, collection, "doc_a", "A", pieces("one"))


def test_an_answer_that_was_lost_is_no_reason_to_do_anything_twice(system: LocalSystem, collection: str) -> None:
    """The update arrives, its answer does not, and the client sends it again: it finds its own work."""
    runtime = system.runtime
    mine = generations.acquire(runtime, collection)
    generation = mine.next_generation()
    generations.publish(runtime, mine, generation)
    generations.acquire(runtime, collection)
    generations.publish(runtime, mine, generation)
    with pytest.raises(generations.Overtaken):
        generations.publish(runtime, mine, mine.next_generation())


def test_a_collection_that_is_not_there_or_went_meanwhile(
    system: LocalSystem, collection: str, from_request: Any
) -> None:
    runtime = system.runtime
    with pytest.raises(NotFound):
        index.add(runtime, "no-such-collection", "doc_a", "A", pieces("one"))
    from_request(2, lambda: runtime.table.delete(collection_key(collection)))
    with pytest.raises(NotFound):
        index.add(runtime, collection, "doc_a", "A", pieces("one"))
    assert stored(runtime, collection) == []


def test_a_writer_whose_collection_was_removed_and_made_anew_publishes_nothing_there(
    system: LocalSystem, collection: str
) -> None:
    """Both are the first writers of their collections, so that they have the same fence."""
    runtime = system.runtime
    late = generations.acquire(runtime, collection)
    runtime.table.delete(collection_key(collection))
    make(runtime, collection)
    index.add(runtime, collection, "doc_new", "New", pieces("fresh"))
    with pytest.raises(generations.Overtaken):
        generations.publish(runtime, late, late.next_generation())
    assert found(runtime, "fresh", collection) == ["doc_new"]


def test_an_index_that_outgrows_a_function_is_refused_and_changes_nothing(
    system: LocalSystem, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = system.runtime
    index.add(runtime, collection, "doc_a", "A", pieces("kept"))
    monkeypatch.setattr(index, "MOST_FILE_BYTES", 60_000)
    with pytest.raises(TooLarge, match="another collection") as refused:
        index.add(runtime, collection, "doc_b", "B", pieces(*(f"kept {n} {n * 7919}" for n in range(3_000))))
    assert refused.value.details["allowed"] == 60_000
    assert found(runtime, "kept", collection) == ["doc_a"]
    index.add(runtime, collection, "doc_c", "C", pieces("kept too"))


# ---------------------------------------------------------------- the cache


def test_the_cache_is_bounded_and_never_takes_away_what_is_being_read(
    system: LocalSystem, unique: str, tmp_path: Any
) -> None:
    runtime, names = system.runtime, [f"{unique}-{number}" for number in range(4)]
    for name in names:
        make(runtime, name)
        index.add(runtime, name, f"doc_{name}", "T", pieces("shared words"))
    runtime.indexes = IndexCache(runtime.clients, runtime.settings.workspace_bucket, str(tmp_path), 1)
    # Each file pushes out the one before it, while all four are read together.
    assert len(found(runtime, "shared", *names)) == 4
    assert len(list(tmp_path.glob("*/*.sqlite"))) == 1
    cold(runtime)
