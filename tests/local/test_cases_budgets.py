"""Sections C and D of the reported faults: long lines, budgets and cuts; odd encodings and binary files."""

from __future__ import annotations

import json
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text

BUDGET = 24_000
FOX, FAMILY = "\N{FOX FACE}", "\N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}"


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def test_every_reported_hit_of_a_long_line_is_visible(talk: Talk) -> None:
    """Case 19: at both edges and in the middle, for one query and for several."""
    line = list("." * 10_000)
    for at, word in ((10, "needle"), (5_000, "Nadel"), (9_990, "aiguille")):
        line[at : at + len(word)] = word
    talk.put("long.txt", "".join(line)[:10_000].encode() + b"\n")
    for queries in (["needle"], ["Nadel"], ["aiguille"], ["needle", "Nadel", "aiguille"]):
        found = talk.ok("search_files", queries=queries)
        (match,) = found["structured"]["matches"]
        assert match["queries"] == queries
        for query in queries:
            assert query in text(found)
        assert "…" in text(found) or "..." in text(found)
        assert len(text(found)) < 3_000


def test_one_huge_line_does_not_starve_the_other_files(talk: Talk, system: LocalSystem) -> None:
    """Case 20: everything within one budget, the rest reachable, and said so."""
    talk.put("a-minified.js", b"x" * 400_000 + b"needle" + b"y" * 250_000)
    changed.store_many(
        system,
        talk.conversation,
        {f"small/{number:03}.txt": f"line with needle {number}\n".encode() for number in range(200)},
    )
    seen: set[str] = set()
    after = None
    for _ in range(40):
        found = talk.ok("search_files", queries=["needle"], **({"after": after} if after else {}))
        assert len(text(found)) <= BUDGET
        facts = found["structured"]
        seen |= {match["path"] for match in facts["matches"]}
        assert all(match["path"] in text(found) for match in facts["matches"])
        after = facts.get("next")
        if after is None:
            break
        assert facts["truncated"] and after in text(found)
    assert len(seen) == 201
    read = talk.ok("read_file", path="a-minified.js")
    assert len(text(read)) <= BUDGET
    assert "650006" in text(read).replace(",", "")


def test_a_cut_never_advises_what_shows_nothing_new(talk: Talk) -> None:
    """Case 22: following the answers literally reaches every line, and never past the end."""
    lines = [f"{number} " + "w" * (number % 7) * 900 for number in range(1, 61)]
    lines[30] = "X" * 30_000
    talk.put("f.txt", "\n".join(lines).encode())
    following: int | None = 1
    shown: list[int] = []
    while following is not None:
        answer = talk.ok("read_file", path="f.txt", startLine=following)
        assert len(text(answer)) <= BUDGET
        (page,) = answer["structured"]["files"]
        shown += range(page["startLine"], page["endLine"] + 1)
        cut = page.get("nextLine")
        assert cut is None or (following < cut <= 60 and page["cap"] == "characters" and str(cut) in text(answer))
        if 31 in range(page["startLine"], page["endLine"] + 1):
            assert "30000 characters" in text(answer).replace(",", "")
            assert "search_files" in text(answer) and "run_code" in text(answer)
        following = cut
    assert shown == list(range(1, 61))
    end = talk.ok("read_file", path="f.txt", startLine=31, endLine=31)["structured"]["files"][0]
    assert "nextLine" not in end


def test_which_cap_hit_is_said(talk: Talk) -> None:
    """The line cap of a path, the shared characters of a call, and what one path leaves going to the next."""
    talk.put("many.txt", b"x\n" * 5_000)
    (page,) = talk.ok("read_file", path="many.txt")["structured"]["files"]
    assert (page["endLine"], page["nextLine"], page["cap"]) == (2_000, 2_001, "lines")
    talk.put("wide.txt", b"y" * 500 + b"\n" + b"z" * 500 + b"\n" * 200 + (b"w" * 700 + b"\n") * 60)
    pages = talk.ok("read_file", paths=["wide.txt", "small.txt", "wide.txt"])["structured"]["files"]
    assert [page.get("cap") for page in pages] == ["characters", None, "characters"]
    assert pages[1]["error"]["code"] == "not_found"
    assert pages[2]["endLine"] > pages[0]["endLine"]


def test_a_line_over_a_cap_says_so_and_its_length(talk: Talk) -> None:
    """Case 23: a line under the budget is shown whole; what is cut is said, with the full length."""
    talk.put("f.txt", b"a" * 3_000 + b"\nneedle" + b"b" * 3_000 + b"\n")
    assert "a" * 3_000 in text(talk.ok("read_file", path="f.txt"))
    found = text(talk.ok("search_files", queries=["needle"]))
    assert "b" * 2_000 not in found
    assert "of 3006 characters" in found


@pytest.mark.parametrize("emoji", [FOX, FAMILY])
def test_no_cut_splits_a_character(talk: Talk, emoji: str) -> None:
    """Case 25: wherever the budget ends, answers are valid UTF-8 and JSON and show nothing that the file lacks."""
    for pad in range(0, 8, 3):
        talk.put("f.txt", ("p" * pad + emoji * 20_000).encode())
        talk.put("g.txt", ("q" * pad + (emoji * 40 + "hit" + emoji * 400)).encode())
        for raw in (
            talk.send("read_file", {"path": "f.txt"}),
            talk.send("read_file", {"paths": ["f.txt", "g.txt", "f.txt"]}),
            talk.send("search_files", {"queries": ["hit"], "context": 3}),
        ):
            answer = json.loads(raw.body.decode("utf-8", "strict"))
            said = text(answer)
            assert "\N{REPLACEMENT CHARACTER}" not in said
            # No emoji is left in parts: take whole ones out and no joiner remains.
            assert "\u200d" not in said.replace(emoji, "")
            assert len(answer["line"]) <= 300 + len(" ... [clipped]")


def test_the_line_form_is_one_line(talk: Talk) -> None:
    """Every answer has a line of at most 300 characters, and then says that it was clipped."""
    talk.put("f.txt", "a\u2028b\x85c\n\n\td\n".encode() + b"long " * 200)
    for answer in (
        talk.ok("read_file", path="f.txt"),
        talk.ok("list_files"),
        talk.call("read_file", path="none"),
        talk.ok("search_files", queries=["long"]),
    ):
        line = answer["line"]
        assert line.splitlines() == [line]
        assert len(line) <= 300 or (line.endswith(" ... [clipped]") and len(line) == 300 + len(" ... [clipped]"))
    assert talk.ok("read_file", path="f.txt")["line"].endswith(" ... [clipped]")


def test_reads_and_searches_are_never_previewed(talk: Talk, system: LocalSystem) -> None:
    """The exact tools keep their text above the output cap; a listing stays below it by itself."""
    talk.put("f.txt", b"some words to read\n" * 1_500)
    for answer in (talk.ok("read_file", path="f.txt"), talk.ok("search_files", queries=["words"])):
        assert len(text(answer)) > 16_000
        assert answer["truncated"] is False
        assert "left out here" not in text(answer)
    files = {f"{'n' * 200}/{number:04}": b"" for number in range(300)}
    changed.store_many(system, talk.conversation, files)
    listed = talk.ok("list_files")
    assert listed["truncated"] is False and listed["structured"]["next"]


# ---------------------------------------------------------------- encodings and binary


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"n = 1\n# tr\xe8s\n", b"n = 2\n# tr\xe8s\n"),
        (b"n = 1\n\xd6\xd0\n", b"n = 2\n\xd6\xd0\n"),
        (b"\xa9 n = 1", b"\xa9 n = 2"),
        (b"n = 1\n\xe2\x80", b"n = 2\n\xe2\x80"),
        (b"\xed\xa0\x80 n = 1\xff\n", b"\xed\xa0\x80 n = 2\xff\n"),
        (
            "\ufeffn = 1\n".encode("utf-16-le") + b"\x00\xd8x\x00",
            "\ufeffn = 2\n".encode("utf-16-le") + b"\x00\xd8x\x00",
        ),
    ],
)
def test_bytes_that_are_no_text_survive_every_edit_of_something_else(talk: Talk, before: bytes, after: bytes) -> None:
    """Case 26: by text and by line; reading shows a replacement character and says why."""
    talk.put("f.txt", before)
    shown = text(talk.ok("read_file", path="f.txt"))
    assert "\N{REPLACEMENT CHARACTER}" in shown and "not valid" in shown
    talk.ok("edit_file", path="f.txt", edits=[{"find": "n = 1", "replace": "n = 2"}])
    assert talk.bytes_of("f.txt") == after
    talk.ok("edit_file", path="f.txt", edits=[{"find": "n = 2", "replace": "n = 1"}])
    talk.ok("edit_file", path="f.txt", append="\nend\n")
    assert (talk.bytes_of("f.txt") or b"").startswith(before)


def test_what_reading_shows_for_bad_bytes_is_never_written_back(talk: Talk) -> None:
    """Case 26: a replacement character copied from read_file would destroy the byte it stands for."""
    before = b"# tr\xe8s 1\nn = 1\n"
    talk.put("f.txt", before)
    talk.ok("read_file", path="f.txt")
    edit = {"startLine": 1, "anchor": "# tr\N{REPLACEMENT CHARACTER}s 1", "content": "# tr\N{REPLACEMENT CHARACTER}s 2"}
    assert talk.call("edit_file", path="f.txt", edits=[edit])["error"]
    assert talk.bytes_of("f.txt") == before


def test_a_nul_late_in_a_file_is_no_silent_stop(talk: Talk) -> None:
    """Case 28: by the one verdict of every tool the file is binary, and searching says so."""
    talk.put("f.txt", b"needle first\n" + b"x" * 133_000 + b"\0" + b"y\n" * 100 + b"needle last\n")
    found = talk.ok("search_files", queries=["needle"])
    assert found["structured"]["matches"] == [] and found["structured"]["skipped"] == 1
    assert "f.txt" in text(found) and "binary" in text(found)
    assert talk.refused("binary", "edit_file", path="f.txt", append="x")
    assert "binary" in text(talk.ok("read_file", path="f.txt"))
    (entry,) = talk.ok("list_files")["structured"]["entries"]
    assert "lines" not in entry


def test_a_binary_file_does_not_spoil_a_search(talk: Talk) -> None:
    """Case 29."""
    talk.put("lib.o", b"\x7fELF\0\xff\xfe\xfaneedle\0")
    talk.put("src.txt", b"needle\n")
    found = talk.ok("search_files", queries=["needle"])
    assert [match["path"] for match in found["structured"]["matches"]] == ["src.txt"]
    assert found["structured"]["skipped"] == 1 and "lib.o" in text(found)


def test_a_search_past_its_deadline_says_how_far_it_got(talk: Talk, system: LocalSystem, monkeypatch: Any) -> None:
    """Past 20 s a search tells how many of how many files it searched, and goes on behind the last one."""
    files = {f"{number}.txt": b"needle\n" for number in range(6)}
    changed.store_many(system, talk.conversation, files)
    monkeypatch.setattr("workbench.workspace.finding.SEARCH_SECONDS", -1)
    paths: list[str] = []
    after = None
    for _ in range(6):
        found = talk.ok("search_files", queries=["needle"], **({"after": after} if after else {}))
        facts = found["structured"]
        paths += [match["path"] for match in facts["matches"]]
        after = facts.get("next")
        if after:
            assert facts["searched"] == 1 and facts["total"] == 6 - int(after[0])
            assert f"1 of {facts['total']}" in text(found)
    assert paths == [f"{number}.txt" for number in range(6)] and after is None


def test_cached_or_not_the_answers_are_the_same(talk: Talk, system: LocalSystem) -> None:
    changed.store_many(
        system, talk.conversation, {f"{number:02}.txt": f"content {number}\n".encode() for number in range(20)}
    )
    warm = text(talk.ok("read_file", paths=[f"{number:02}.txt" for number in range(10)]))
    changed.cold(system)
    assert text(talk.ok("read_file", paths=[f"{number:02}.txt" for number in range(10)])) == warm
    changed.cold(system)
    assert len(talk.ok("search_files", queries=["content"])["structured"]["matches"]) == 20
