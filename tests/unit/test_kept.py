"""What a history takes and which of its objects are named, against counting everything anew."""

from __future__ import annotations

import hashlib
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from workbench.workspace.storage.history import to_drop
from workbench.workspace.storage.kept import Kept
from workbench.workspace.storage.manifest import Entry, Manifest, PageTable, apply, blob_key, page_key

# A version writes some of few paths with some of few contents; now and then its list of paths is an object of its own.
writes = st.dictionaries(st.sampled_from("abcdef"), st.sampled_from([None, 0, 1, 2, 3]), min_size=1, max_size=4)
histories = st.lists(st.tuples(writes, st.sampled_from([None, "t1", "t2"]), st.booleans()), min_size=1, max_size=12)


def build(history: list[Any]) -> tuple[list[dict[str, Any]], dict[str, bytes], dict[str, int]]:
    """(V# items, pages by digest, sizes of stored objects by key)."""
    pages: dict[str, bytes] = {}
    stored: dict[str, int] = {"c/blobs/left-by-a-crash": 77}
    items = []
    version = Manifest(PageTable(), pages.__getitem__)
    for number, (changes, turn, listed) in enumerate(history, 1):
        entries: dict[str, Entry | None] = {}
        for path, content in changes.items():
            digest = hashlib.sha256(str(content).encode()).hexdigest()
            # Content 3 lies in a pack together with something else.
            place = "packs/pack" if content == 3 else blob_key(digest)
            entries[path] = None if content is None else Entry(path, "file", digest, place, content, 5, 5)
            if content is not None:
                stored[f"c/{place}"] = 1_000 + content
        applied = apply(version, entries)
        pages.update(applied.pages)
        stored |= {f"c/{page_key(digest)}": len(page) for digest, page in applied.pages.items()}
        version = Manifest(applied.table, pages.__getitem__)
        item = {"version": number, "turn": turn, "pages": applied.table.encode()}
        if listed:
            item["pathsKey"] = f"c/paths/{number // 2}"
            stored[item["pathsKey"]] = 13
        items.append(item)
    return items, pages, stored


def named(items: list[dict[str, Any]], pages: dict[str, bytes]) -> set[str]:
    keys = set()
    for item in items:
        table = PageTable.decode(item["pages"])
        keys |= {f"c/{page_key(ref.sha256)}" for ref in table.refs} | {item.get("pathsKey", "")}
        keys |= {f"c/{entry.key}" for entry in Manifest(table, pages.__getitem__).entries()}
    return keys - {""}


@given(histories, st.integers(1, 12), st.integers(0, 9_000))
def test_dropping_keeps_every_count_right(history: list[Any], most_versions: int, most_bytes: int) -> None:
    items, pages, stored = build(history)
    kept = Kept("c/", stored)
    for digest in kept.pages_to_read(items):
        kept.read(digest, pages[digest])
    assert kept.pages_to_read(items) == []
    for item in items:
        kept.add(item)
    assert kept.bytes == sum(stored[key] for key in named(items, pages))

    dropped = to_drop(items, kept, most_versions, most_bytes)
    left = [item for item in items if item not in dropped]
    assert kept.bytes == sum(stored[key] for key in named(left, pages))
    assert set(kept.unnamed()) == stored.keys() - named(left, pages)

    protected = {items[-1]["version"]}
    for turn in ("t1", "t2"):
        numbers = [item["version"] for item in items if item["turn"] == turn]
        protected |= {*numbers[:1], *numbers[-1:]}
    assert protected <= {item["version"] for item in left}
    droppable = [item for item in left if item["version"] not in protected]
    fits = len(left) <= most_versions and kept.bytes <= most_bytes
    assert fits or not droppable
    # Only the oldest went, and none too many.
    if dropped:
        assert all(item["version"] > dropped[-1]["version"] for item in droppable)
        before = [*left, dropped[-1]]
        assert len(before) > most_versions or sum(stored[key] for key in named(before, pages)) > most_bytes
