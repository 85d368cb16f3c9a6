"""Pages and the page table: any history of changes reads like a plain dict, and costs what it should."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.workspace.storage import manifest as m
from workbench.workspace.storage.manifest import Entry, Manifest, PageTable


def entry(path: str, content: str = "", **more: object) -> Entry:
    digest = hashlib.sha256(f"{path}{content}".encode()).hexdigest()
    return Entry(path, "file", digest, m.blob_key(digest), 0, 7, 7, 1, 6, **more)


class Pages(dict[str, bytes]):
    """Stored pages, counting loads."""

    loads = 0

    def load(self, digest: str) -> bytes:
        self.loads += 1
        return self[digest]


def grow(pages: Pages, version: Manifest, changes: dict[str, Entry | None]) -> tuple[Manifest, m.Applied]:
    applied = m.apply(version, changes)
    pages.update(applied.pages)
    return Manifest(applied.table, pages.load), applied


segments = st.text(st.characters(exclude_categories=("Cc", "Cs"), exclude_characters="/\\"), min_size=1, max_size=4)
paths = st.one_of(
    st.builds("{}/{}".format, segments, segments),
    segments,
    st.builds("f{:04d}.txt".format, st.integers(0, 3000)),
)
change_sets = st.lists(
    st.dictionaries(paths, st.one_of(st.none(), st.sampled_from("abc")), min_size=1, max_size=80), max_size=12
)


@settings(max_examples=60, deadline=None)
@given(change_sets)
def test_any_history_reads_like_a_dict(history: list[dict[str, str | None]]) -> None:
    pages, model = Pages(), {}
    version = Manifest(PageTable(), pages.load)
    for changes in history:
        before = dict(model)
        made = {path: None if content is None else entry(path, content) for path, content in changes.items()}
        version, applied = grow(pages, version, made)
        for path, new in made.items():
            model.pop(path, None)
            if new is not None:
                model[path] = new
        assert list(version.entries()) == [model[path] for path in sorted(model, key=str.encode)]
        assert applied.files == len(model) - len(before)
        assert set(applied.created) == model.keys() - before.keys()
        assert set(applied.deleted) == before.keys() - model.keys()
        assert set(applied.modified) == {p for p in model.keys() & before.keys() if model[p] != before[p]}
        assert PageTable.decode(version.table.encode()) == version.table
        for path in changes:
            assert version.entry(path) == model.get(path)


@given(st.sets(paths, max_size=60), segments)
def test_a_folder_lists_exactly_what_lies_below_it(names: set[str], folder: str) -> None:
    pages = Pages()
    version, _ = grow(pages, Manifest(PageTable(), pages.load), {name: entry(name) for name in names})
    below = [name for name in sorted(names, key=str.encode) if name.startswith(folder + "/")]
    assert [found.path for found in version.entries(folder)] == below
    assert version.has_below(folder) == bool(below)
    for after in names:
        rest = [name for name in sorted(names, key=str.encode) if name.encode() > after.encode()]
        assert [found.path for found in version.entries(after=after)] == rest


def test_entries_survive_encoding() -> None:
    for one in (
        entry("a b/ü.txt"),
        Entry("img.png", "file", "ab" * 32, m.pack_key("cd" * 32), 4096, 10, 10, None, None, 0o755),
        Entry("empty", "folder", mode=0o700),
    ):
        assert m.decode(m.encode(one)) == one


@pytest.mark.parametrize("files", [50, 50_000])
def test_one_change_loads_and_makes_one_page_however_large_the_workspace(files: int) -> None:
    pages = Pages()
    names = [f"folder{number // 100:04d}/file{number:05d}.txt" for number in range(files)]
    version, _ = grow(pages, Manifest(PageTable(), pages.load), {name: entry(name) for name in names})
    pages.loads = 0
    version, applied = grow(pages, version, {names[files // 2]: entry(names[files // 2], "new")})
    assert (pages.loads, len(applied.pages), applied.modified) == (1, 1, [names[files // 2]])
    assert len(version.table.encode()) < 4_000
    assert all(ref.count <= m.PAGE_ENTRIES for ref in version.table.refs)


def test_pages_that_shrank_are_joined() -> None:
    pages = Pages()
    names = [f"file{number:05d}" for number in range(5_000)]
    version, _ = grow(pages, Manifest(PageTable(), pages.load), {name: entry(name) for name in names})
    version, _ = grow(pages, version, dict.fromkeys(names[100:]))
    assert [ref.count for ref in version.table.refs] == [100]


def test_differences_skip_what_both_versions_share() -> None:
    pages = Pages()
    names = [f"file{number:05d}" for number in range(4_000)]
    old, _ = grow(pages, Manifest(PageTable(), pages.load), {name: entry(name) for name in names})
    new, _ = grow(
        pages, old, {"file00001": None, "file00002": entry("file00002", "x"), "file00002b": entry("file00002b")}
    )
    pages.loads = 0
    found = [(path, before is not None, after is not None) for path, before, after in m.differences(old, new)]
    assert found == [("file00001", True, False), ("file00002", True, True), ("file00002b", False, True)]
    assert pages.loads == 2
