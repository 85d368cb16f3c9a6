"""Section J of the reported faults, and the rest of what search_files promises."""

from __future__ import annotations

from typing import Any

import pytest

from tests.local.talk import Talk, text


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def test_overlapping_context_shows_each_line_once(talk: Talk) -> None:
    """Case 82: three hits, two lines between them, five lines in all."""
    talk.put("f.txt", b"hit\n-\nhit\n-\nhit\n")
    found = talk.ok("search_files", queries=["hit"], context=2)
    shown = [line for line in text(found).split("\n") if "\t" in line]
    assert shown == ["1:\thit", "2-\t-", "3:\thit", "4-\t-", "5:\thit"]
    assert [match["line"] for match in found["structured"]["matches"]] == [1, 3, 5]
    for context in (0, 1, 3):
        found = talk.ok("search_files", queries=["hit"], context=context)
        numbers = [line.split("\t")[0].strip(":-") for line in text(found).split("\n") if "\t" in line]
        assert len(numbers) == len(set(numbers))


def test_a_line_is_credited_to_every_query_it_holds(talk: Talk) -> None:
    """Case 82: overlapping hits on one line are one line."""
    talk.put("f.txt", b"a hit and a miss\nmiss\n")
    found = talk.ok("search_files", queries=["hit", "hit and", "miss", "it a"])
    assert found["structured"]["matches"] == [
        {"path": "f.txt", "line": 1, "queries": ["hit", "hit and", "miss", "it a"]},
        {"path": "f.txt", "line": 2, "queries": ["miss"]},
    ]


def test_case_folding_keeps_places_in_the_original(talk: Talk) -> None:
    """Case 83: the excerpt shows the hit whole, wherever folding changes lengths; the default is exact."""
    talk.put("f.txt", ("İİİ warn: disk full" + " İ" * 1_500 + "\n").encode())
    for query, ignore, found in (("disk", False, 1), ("DISK", False, 0), ("DISK", True, 1)):
        answer = talk.ok("search_files", queries=[query], ignoreCase=ignore)
        assert len(answer["structured"]["matches"]) == found
        assert ("disk" in text(answer)) == bool(found) or "DISK" in text(answer)
    talk.put("g.txt", "straße\nSTRASSE\nΣίσυφος\n".encode())
    lines = [m["line"] for m in talk.ok("search_files", queries=["strasse"], ignoreCase=True)["structured"]["matches"]]
    assert lines == [1, 2]
    assert talk.ok("search_files", queries=["ΣΊΣΥΦΟΣ"], ignoreCase=True)["structured"]["matches"][0]["line"] == 3
    assert talk.ok("search_files", queries=["strasse"])["structured"]["matches"] == []


@pytest.mark.parametrize("queries", [[], [""], ["a", ""], list("abcdef"), ["x" * 1_001], [7], None, ["\ud800"]])
def test_queries_that_are_none_are_refused(talk: Talk, queries: Any) -> None:
    talk.put("f.txt", b"abcdef\n")
    answer = talk.send("search_files", {} if queries is None else {"queries": queries}).json
    assert answer["outcome"] == "invalid_args" and "queries" in answer["error"]["message"]


def test_queries_are_text_and_not_patterns(talk: Talk) -> None:
    talk.put("f.txt", b"a.b\naxb\n[a-z]+\n(a+)+$\n\\d\n")
    for query, line in (("a.b", 1), ("[a-z]+", 3), ("(a+)+$", 4), ("\\d", 5)):
        assert [m["line"] for m in talk.ok("search_files", queries=[query])["structured"]["matches"]] == [line]
    assert "Nothing found" in text(talk.ok("search_files", queries=[".*"]))


def test_a_query_never_spans_what_is_two_lines(talk: Talk) -> None:
    talk.put("f.txt", b"one\r\ntwo\rthree\nfour\n")
    for query, line in (("two", 2), ("three", 3), ("four", 4)):
        assert [m["line"] for m in talk.ok("search_files", queries=[query])["structured"]["matches"]] == [line]


def test_where_to_search(talk: Talk) -> None:
    for path in ("a.md", "src/a.md", "src/b.txt", "src/deep/c.md"):
        talk.put(path, b"needle\n")

    def found(**more: Any) -> list[str]:
        return [m["path"] for m in talk.ok("search_files", queries=["needle"], **more)["structured"]["matches"]]

    assert found() == ["a.md", "src/a.md", "src/b.txt", "src/deep/c.md"]
    assert found(path="src") == ["src/a.md", "src/b.txt", "src/deep/c.md"]
    assert found(path="src/b.txt") == ["src/b.txt"]
    assert found(glob="**/*.md") == ["a.md", "src/a.md", "src/deep/c.md"]
    assert found(path="src", glob="*.md") == ["src/a.md"]
    talk.refused("not_found", "search_files", queries=["needle"], path="none")
    assert talk.call("search_files", queries=["x"], context=4)["outcome"] == "invalid_args"


def test_structured_and_text_agree(talk: Talk) -> None:
    """Every match that is reported is in the text, and the other way round."""
    for number in range(5):
        talk.put(f"f{number}.txt", b"".join(b"needle %d\n" % line for line in range(1, 900)))
    found = talk.ok("search_files", queries=["needle"])
    facts = found["structured"]
    assert facts["truncated"] is True
    shown, path = [], ""
    for line in text(found).split("\n"):
        if line.startswith("f") and "\t" not in line:
            path = line.split(" ")[0]
        elif "\t" in line:
            shown.append((path, int(line.split(":")[0])))
    assert shown == [(match["path"], match["line"]) for match in facts["matches"]]
    assert {match["path"] for match in facts["matches"]} == {f"f{number}.txt" for number in range(5)}
