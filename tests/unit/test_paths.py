"""Workspace paths: the rules, refusals that name the right path, and names found on disk."""

import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workbench.workspace.paths import (
    PATH_BYTES,
    SEGMENT_BYTES,
    InvalidPath,
    check_folder,
    check_path,
    name_fault,
    parents,
    printable,
    usable_name,
)


def refused(text, check=check_path, **options):
    with pytest.raises(InvalidPath) as refusal:
        check(text, **options)
    assert refusal.value.code == "invalid_path"
    refusal.value.message.encode()
    assert refusal.value.message.isprintable()
    return refusal.value


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a.txt", "a.txt"),
        ("a/../b", "b"),
        ("./a/./b", "a/b"),
        ("sub/../in.txt", "in.txt"),  # case 56, the control
        ("workspace/../a", "a"),
        ("notes/workspace/a", "notes/workspace/a"),
        ("workspaces/a", "workspaces/a"),
        ("workspace.md", "workspace.md"),
        ("a b/ü/日本.md", "a b/ü/日本.md"),
        ("...", "..."),
        ("..a/b..", "..a/b.."),
        ("~/a", "~/a"),
        ("C:/a", "C:/a"),
        ("👩\u200d👩\u200d👧.md", "👩\u200d👩\u200d👧.md"),
    ],
)
def test_a_usable_path_is_normalised(text, path):
    assert check_path(text) == path
    assert check_folder(text) == path


def test_case_59_a_percent_sign_is_just_a_character():
    assert check_path("a%20b.txt") == "a%20b.txt"
    assert check_path("%2e%2e/x") == "%2e%2e/x"
    assert check_path("%2Fetc%2Fpasswd%00") == "%2Fetc%2Fpasswd%00"


@pytest.mark.parametrize("text", ["../share-secret/loot", "..", "a/../..", "a/b/../../../c", "./..", "a/../../a"])
def test_case_55_nothing_outside_the_workspace_has_a_path(text):
    assert "leaves the workspace" in refused(text).message
    assert "leaves the workspace" in refused(text, check_folder).message


def test_case_56_parents_are_checked_after_dots_are_resolved():
    assert refused("sub/../../outside.txt").details["suggestion"] == "outside.txt"


@pytest.mark.parametrize(
    ("text", "suggestion"),
    [
        ("/w/share-secret/loot", "w/share-secret/loot"),
        ("//a", "a"),
        ("/workspace/deck.html", "deck.html"),
        ("/../etc/passwd", "etc/passwd"),
        ("dir\\f.txt", "dir/f.txt"),
        ("..\\x", "x"),
        ("C:\\a\\b", "C:/a/b"),
        ("a//b", "a/b"),
        ("a\nb", "ab"),
        ("a\x1b[31m", "a[31m"),
        ("a\x85b", "ab"),
        ("a\0.txt", "a.txt"),
        ("workspace/deck.html", "deck.html"),
        ("./workspace/deck.html", "deck.html"),
        ("workspace/workspace/deck.html", "deck.html"),
        ("out/replies/", "out/replies/notes.md"),
        ("a/b/..", "a/notes.md"),
        ("a/.", "a/notes.md"),
    ],
)
def test_a_refusal_names_the_right_path(text, suggestion):
    refusal = refused(text)
    assert refusal.details["suggestion"] == suggestion
    assert f"`{suggestion}`" in refusal.message
    assert check_path(suggestion) == suggestion


@pytest.mark.parametrize("text", ["out/replies/", ".", "", "./", "a/.."])
def test_case_62_a_folder_for_a_file_is_told_to_add_a_file_name(text):
    message = refused(text).message
    assert "folder" in message
    assert "Add a file name" in message


@pytest.mark.parametrize("text", ["workspace/", "/", "/workspace", "\0"])
def test_a_refusal_without_a_right_path_still_says_what_one_looks_like(text):
    refusal = refused(text)
    assert "notes/plan.md" in refusal.message
    assert "suggestion" not in refusal.details


@pytest.mark.parametrize("value", [None, 7, b"a", ["a"], {"path": "a"}, True])
def test_only_a_text_is_a_path(value):
    assert "must be a text" in refused(value).message


def test_a_refusal_names_the_argument():
    assert refused("../a", what="source").message.startswith("`source`")


@pytest.mark.parametrize("text", ["\ud800.txt", "a/\udcff", "\ud83d\ude00"])
def test_half_a_character_is_refused(text):
    assert "half a character" in refused(text).message


def test_lengths_count_bytes_after_composing():
    assert check_path("é" * 127 + "a") == "é" * 127 + "a"
    assert check_path("e\u0301" * 127 + "a") == "é" * 127 + "a"
    assert f"{SEGMENT_BYTES}" in refused("é" * 128).message
    assert len(check_path("/".join(["a" * 204] * 5))) == PATH_BYTES
    assert "1,025 bytes" in refused("/".join(["a" * 204] * 4 + ["a" * 205])).message


def test_a_huge_text_is_refused_without_being_repeated():
    refusal = refused("a/" * 1_000_000)
    assert len(refusal.message) < 300
    assert len(str(refusal.details)) < 300


def test_case_64_a_decomposed_name_is_the_composed_one():
    assert check_path("U\u0308bersicht.txt") == "Übersicht.txt"
    assert usable_name("U\u0308bersicht.txt".encode()) == "Übersicht.txt"


def test_the_root_is_a_folder_and_a_trailing_slash_is_fine_there():
    assert check_folder("") == check_folder(".") == check_folder("a/..") == check_folder("./") == ""
    assert check_folder("notes/") == "notes"
    assert check_folder("workspace") == "workspace"  # a file may have that name
    assert refused("workspace/", check_folder, what="folder").message.startswith("`folder`")


def test_parents_come_outermost_first_and_without_the_root():
    assert list(parents("a/b/c")) == ["a", "a/b"]
    assert list(parents("a")) == []


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"bad-\xff", "UTF-8"),  # case 67
        (b"new\nline", "control"),
        (b"esc\x1b[31m", "control"),
        (b"a\\b", "backslash"),  # case 65
        (b"", "relative"),
        (b"/a", "relative"),
        (b"a//b", "relative"),
        (b"..", "relative"),
        (b"a/./b", "relative"),
        (b"a/", "relative"),
        (b"workspace/a", "root"),
        (b"a" * 256, "255"),
        (b"/".join([b"a" * 205] * 5), "1,024"),
        (b"\xed\xa0\x80", "UTF-8"),
    ],
)
def test_case_67_a_name_no_rule_allows_is_left_out_with_a_reason(raw, reason):
    assert usable_name(raw) is None
    assert reason in name_fault(raw)


def test_case_67_names_are_shown_on_one_line_and_in_order():
    assert printable("a\nb\x1b[31m\u2028\u202e\udcff\t") == "a\\nb\\x1b[31m\\u2028\\u202e\\udcff\\t"
    assert printable("Übersicht 👩\u200d👧.md") == "Übersicht 👩\u200d👧.md"


hostile = st.text(st.sampled_from("ab./\\\0\n%~\u0308\u202e\ud800 workspaceU"), max_size=30) | st.text(max_size=30)


@settings(deadline=None)
@given(hostile)
def test_whatever_is_accepted_obeys_every_rule_and_is_stable(text):
    try:
        path = check_path(text)
    except InvalidPath as refusal:
        refusal.message.encode()
        assert "\n" not in refusal.message
        suggestion = refusal.details.get("suggestion")
        if suggestion is not None:
            assert check_path(suggestion)
        return
    assert path == unicodedata.normalize("NFC", path) == check_path(path) == check_folder(path)
    assert all(segment not in ("", ".", "..") for segment in path.split("/"))
    assert not path.startswith("workspace/")
    assert usable_name(path.encode()) == path


@settings(deadline=None)
@given(st.binary(max_size=20) | hostile.map(lambda text: text.encode(errors="replace")))
def test_whatever_a_scan_may_keep_can_be_asked_for(raw):
    name = usable_name(raw)
    assert (name is None) == (name_fault(raw) is not None)
    if name is not None:
        assert check_path(name) == name
