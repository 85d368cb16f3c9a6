"""list_files: every entry on one line with what is known of it, bounded, and never failing because of one of them."""

import re
from dataclasses import dataclass

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.workspace.storage.manifest import Entry
from workbench.workspace.views.globs import compile_glob
from workbench.workspace.views.listing import (
    LIST_BUDGET_CHARACTERS,
    NoSuchFolder,
    NotAFolder,
    list_entries,
    select_files,
)

FILES = [
    Entry("a.txt", bytes=12, lines=3),
    Entry("docs", "folder"),
    Entry("docs/a.md", bytes=1500, lines=1),
    Entry("docs/deep/b.md", bytes=20, lines=2),
    Entry("docs/deep/pic.png", bytes=3000),
    Entry("docs-old/c.md", bytes=1, lines=1),
    Entry("empty", "folder"),
]


def paths(listing):
    return [item.path for item in listing.entries]


def test_every_entry_has_its_size_and_what_is_known_of_it():
    listing = list_entries(FILES)
    assert listing.text.split("\n") == [
        "a.txt (12 bytes, 3 lines)",
        "docs-old/ (1 file, 1 byte)",
        "docs-old/c.md (1 byte, 1 line)",
        "docs/ (3 files, 4,520 bytes)",
        "docs/a.md (1,500 bytes, 1 line)",
        "docs/deep/ (2 files, 3,020 bytes)",
        "docs/deep/b.md (20 bytes, 2 lines)",
        "docs/deep/pic.png (3,000 bytes)",
        "empty/ (0 files, 0 bytes)",
    ]
    assert listing.next is None


def test_the_facts_are_the_same_for_programs():
    facts = list_entries(FILES, "docs/deep").structured()
    assert facts == {
        "entries": [
            {"path": "docs/deep/b.md", "kind": "file", "bytes": 20, "lines": 2},
            {"path": "docs/deep/pic.png", "kind": "file", "bytes": 3000},
        ]
    }
    folder = list_entries(FILES, depth=1).structured()["entries"][1]
    assert folder == {"path": "docs-old", "kind": "folder", "bytes": 1, "files": 1}


def test_depth_counts_from_the_folder_that_is_listed():
    assert paths(list_entries(FILES, depth=1)) == ["a.txt", "docs-old", "docs", "empty"]
    assert paths(list_entries(FILES, "docs", depth=1)) == ["docs/a.md", "docs/deep"]
    assert "docs/ (3 files, 4,520 bytes)" in list_entries(FILES, depth=1).text


def test_a_folder_is_not_mistaken_for_one_with_a_longer_name():
    assert paths(list_entries(FILES, "docs")) == ["docs/a.md", "docs/deep", "docs/deep/b.md", "docs/deep/pic.png"]


def test_a_pattern_is_relative_to_the_folder():
    assert paths(list_entries(FILES, glob=compile_glob("**/*.md"))) == ["docs-old/c.md", "docs/a.md", "docs/deep/b.md"]
    assert paths(list_entries(FILES, "docs", compile_glob("*.md"))) == ["docs/a.md"]
    assert paths(list_entries(FILES, "docs", compile_glob("**/*.md"), depth=1)) == ["docs/a.md"]


def test_a_pattern_that_fits_nothing_is_told_how_to_look_deeper():
    listing = list_entries(FILES, glob=compile_glob("*.png"))
    assert listing.entries == ()
    assert "`**/*.png`" in listing.text


def test_an_empty_workspace_and_an_empty_folder_are_said_to_be_empty():
    assert list_entries([]).text == "[The workspace is empty.]"
    assert list_entries(FILES, "empty").text == "[`empty` is empty.]"


def test_a_folder_that_is_none_is_refused():
    with pytest.raises(NotAFolder) as refusal:
        list_entries(FILES, "a.txt")
    assert refusal.value.code == "not_folder"
    with pytest.raises(NoSuchFolder) as refusal:
        list_entries(FILES, "doc")
    assert refusal.value.code == "not_found"
    with pytest.raises(NoSuchFolder, match="the workspace itself"):
        list_entries(FILES, "workspace")


def test_a_path_and_a_pattern_select_files_for_a_search():
    def selected(path="", pattern=None):
        return [entry.path for entry in select_files(FILES, path, compile_glob(pattern) if pattern else None)]

    assert selected() == [entry.path for entry in FILES if entry.kind == "file"]
    assert selected("docs") == ["docs/a.md", "docs/deep/b.md", "docs/deep/pic.png"]
    assert selected("docs", "*.md") == ["docs/a.md"]
    assert selected("docs/a.md") == ["docs/a.md"]
    assert selected("docs/a.md", "*.txt") == []
    assert selected("empty") == []
    with pytest.raises(NoSuchFolder):
        selected("doc")


def test_the_last_version_is_told_where_it_is_known():
    listing = list_entries(FILES, "docs", version={"docs/a.md": 7, "docs/deep": 3}.get)
    assert "docs/a.md (1,500 bytes, 1 line, version 7)" in listing.text
    assert listing.structured()["entries"][1]["version"] == 3
    assert "version" not in listing.structured()["entries"][2]


def test_going_on_after_next_lists_everything_once():
    files = [Entry(f"folder-{number % 7}/file {number:04}.txt", bytes=number, lines=1) for number in range(3000)]
    listed, after = [], None
    while True:
        listing = list_entries(files, after=after)
        assert len(listing.text) <= LIST_BUDGET_CHARACTERS
        listed += paths(listing)
        if listing.next is None:
            break
        assert f"after: {listing.next}]" in listing.text
        after = listing.next
    assert len(listed) == len(set(listed)) == 3007
    assert "Nothing follows" in list_entries(files, after="zzz").text


def test_going_on_works_after_the_last_name_was_deleted():
    listing = list_entries(FILES, after="docs/b-was-here")
    assert paths(listing) == ["docs/deep", "docs/deep/b.md", "docs/deep/pic.png", "empty"]


def test_going_on_takes_a_folder_with_or_without_its_slash():
    assert paths(list_entries(FILES, after="docs/"))[0] == "docs/a.md"
    assert paths(list_entries(FILES, "docs", after="docs/deep/"))[0] == "docs/deep/b.md"


@dataclass
class Odd:
    path: object
    kind: object = "file"
    bytes: object = 1
    lines: object = None


@pytest.mark.parametrize("odd", [Odd(None), Odd(7), Odd("x", bytes=None), Odd("x", lines="many"), object()])
def test_case_68_one_odd_entry_fails_nothing_and_is_counted(odd):
    listing = list_entries([Entry("a.txt", bytes=1), odd, Entry("b.txt", bytes=1)])
    assert paths(listing) == ["a.txt", "b.txt"]
    assert "[1 entry cannot be listed.]" in listing.text


@pytest.mark.parametrize("name", ["new\nline", "esc\x1b[31m", "\u2028", "\u202egnp.exe", "\udcff", "tab\t"])
def test_case_67_an_odd_name_stays_on_its_line(name):
    listing = list_entries([Entry("a", bytes=1), Entry(name, bytes=2), Entry("z", bytes=3)])
    assert len(listing.text.splitlines()) == 3
    assert listing.text.isprintable() or "\n" in listing.text
    assert all(line.isprintable() for line in listing.text.split("\n"))
    listing.text.encode()
    assert name in paths(listing)


names = st.lists(st.text("ab-.", min_size=1, max_size=3), min_size=1, max_size=4).map("/".join)


@settings(max_examples=150, deadline=None)
@given(st.sets(names, max_size=30), st.sampled_from(["", "a", "a/b"]), st.integers(250, 700))
def test_pages_of_any_tree_add_up_to_the_whole_and_keep_the_budget(files, folder, budget):
    # A path that is a file and a folder at once cannot exist.
    files = {path for path in files if not any(other.startswith(f"{path}/") for other in files)}
    entries = [Entry(path, bytes=1, lines=1) for path in sorted(files)]
    below = {path for path in files if not folder or path.startswith(f"{folder}/")}
    folders = {
        "/".join(path.split("/")[:depth])
        for path in below
        for depth in range(len(folder.split("/")) + 1 if folder else 1, path.count("/") + 1)
    }
    listed, after = [], None
    while below:
        listing = list_entries(entries, folder, after=after, budget=budget)
        assert len(listing.text) <= budget
        listed += paths(listing)
        after = listing.next
        if after is None:
            break
    assert sorted(listed) == sorted(below | folders)
    assert all(re.search(rf"^{re.escape(path)}/? \(", list_entries(entries, folder).text, re.M) for path in below)
