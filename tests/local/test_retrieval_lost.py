"""An index whose file is gone from S3: every search says so, and whoever writes next fills it from the documents."""

from __future__ import annotations

from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.talk import Talk, text
from tests.local.uploaded import upload
from workbench import objects
from workbench.keys import collection_key
from workbench.retrieval import index, rebuilding
from workbench.retrieval.index_cache import IndexCache

GAPS = "Some documents could not be searched"


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long the machine stands still, the time for a refill is over only where a test says so."""
    monkeypatch.setattr(rebuilding, "REFILL_SECONDS", 60.0)


@pytest.fixture
def documents(api: Any, unique: str, system: LocalSystem) -> list[str]:
    """The ids of three documents of a collection that has lost its index, seen by functions that start anew."""
    made = [upload(api, f"tapir number{n}".encode(), owner=unique, collection=unique)["id"] for n in range(3)]
    lose(system, unique)
    return made


def lose(system: LocalSystem, collection: str) -> None:
    runtime = system.runtime
    settings = runtime.settings
    for page in objects.pages(runtime.clients, settings.workspace_bucket, f"indexes/{collection}/"):
        objects.delete(runtime.clients, settings.workspace_bucket, [{"Key": key} for key in page])
    runtime.indexes = IndexCache(
        runtime.clients, settings.workspace_bucket, settings.cache_directory, settings.cache_bytes
    )


@pytest.fixture
def look(api: Any, unique: str) -> Any:
    """What a search of the owner finds now, and its words."""
    talk = Talk.open(api, unique, caller={"user": unique, "department": "research"})

    def searched() -> tuple[set[str], str]:
        answer = talk.ok("search_docs", query="tapir", k=5)
        return {passage["document"] for passage in answer["structured"]["passages"]}, text(answer)

    return searched


def test_a_search_says_that_an_index_is_lost_and_the_next_upload_brings_it_back(
    api: Any, unique: str, documents: list[str], look: Any
) -> None:
    found, words = look()
    assert found == set() and GAPS in words
    more = upload(api, b"tapir again", owner=unique, collection=unique)["id"]
    found, words = look()
    assert found == {*documents, more} and GAPS not in words


def test_what_is_in_other_collections_is_found_meanwhile(
    api: Any, unique: str, documents: list[str], look: Any
) -> None:
    elsewhere = upload(api, b"tapir elsewhere", owner=unique)["id"]
    found, words = look()
    assert found == {elsewhere} and GAPS in words


def test_a_removal_brings_the_rest_back(api: Any, unique: str, documents: list[str], look: Any) -> None:
    assert api("DELETE", f"/v1/documents/{documents[1]}").status == 200
    found, words = look()
    assert found == {documents[0], documents[2]} and GAPS not in words


def test_what_takes_longer_goes_on_with_the_next_write(
    api: Any, unique: str, documents: list[str], look: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as short:
        short.setattr(rebuilding, "REFILL_SECONDS", 0.0)
        first = upload(api, b"tapir first", owner=unique, collection=unique)["id"]
        found, words = look()
    assert found == {first} and GAPS in words
    second = upload(api, b"tapir second", owner=unique, collection=unique)["id"]
    found, words = look()
    assert found == {*documents, first, second} and GAPS not in words


def test_what_has_no_room_does_not_keep_a_removal_from_its_end(
    api: Any, unique: str, look: Any, system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rare words take several times their own bytes, which shows only when they are in."""
    rare = [" ".join(f"{n}{k}{n * k * 7919:x}" for k in range(3_000)).encode() for n in range(1, 4)]
    removed, *rest = [upload(api, b"tapir " + words, owner=unique, collection=unique)["id"] for words in rare]
    lose(system, unique)
    monkeypatch.setattr(index, "MOST_FILE_BYTES", 3 * len(rare[0]))
    assert api("DELETE", f"/v1/documents/{removed}").status == 200
    assert api("GET", f"/v1/documents/{removed}").status == 404
    found, words = look()
    assert found == {rest[0]} and GAPS in words
    monkeypatch.undo()
    assert api("DELETE", f"/v1/documents/{rest[0]}").status == 200
    found, words = look()
    assert found == {rest[1]} and GAPS not in words


def test_an_index_without_room_for_more_is_left_as_it_is(
    unique: str, documents: list[str], system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "MOST_FILE_BYTES", 1)
    assert index.refill(system.runtime, unique), "trying again at once would bring nothing"
    meta = system.runtime.table.get(collection_key(unique))
    assert meta is not None and not index.is_whole(system.runtime, unique, meta)


def test_whether_an_index_is_whole_is_known(
    unique: str, system: LocalSystem, api: Any, documents: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = system.runtime

    def is_whole() -> bool:
        meta = runtime.table.get(collection_key(unique))
        assert meta is not None
        return index.is_whole(runtime, unique, meta)

    assert not is_whole()
    with monkeypatch.context() as short:
        short.setattr(rebuilding, "REFILL_SECONDS", 0.0)
        assert not index.refill(runtime, unique) and not is_whole()
    assert index.refill(runtime, unique) and is_whole()
    assert index.is_whole(runtime, f"{unique}-empty", {}), "a collection without passages has none"
