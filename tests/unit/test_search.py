"""search_files: every match where it is, fair shares of one budget, nothing left out in silence."""

import json
import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from workbench.workspace.text.lines import parse
from workbench.workspace.views.excerpts import CONTEXT_LINE_CHARACTERS, WHOLE_LINE_CHARACTERS
from workbench.workspace.views.matching import LINES_PER_QUERY, InvalidQueries, Matcher
from workbench.workspace.views.search import SEARCH_BUDGET_CHARACTERS, search

FAMILY = "👩\u200d👩\u200d👧"


def find(files, queries, **options):
    if not isinstance(files, dict):
        files = {"a.txt": files}
    encoded = {path: data.encode() if isinstance(data, str) else data for path, data in files.items()}
    result = search([(path, lambda data=data: data) for path, data in encoded.items()], queries, **options)
    assert len(result.text) <= options.get("budget", SEARCH_BUDGET_CHARACTERS)
    assert json.loads(json.dumps(result.text)) == result.text
    result.text.encode()
    assert [match.line for match in result.matches] == [
        int(number) for number in re.findall(r"^(\d+):(?:\[[\d,]+\])?\t", result.text, re.MULTILINE)
    ]
    return result


def places(result):
    return [(match.path, match.line) for match in result.matches]


# ---------------------------------------------------------------- where matches are


def test_a_match_has_its_path_line_and_query():
    result = find({"a.txt": "one\ntwo\n", "b/c.txt": "two\n"}, ["two"])
    assert result.structured() == {
        "matches": [
            {"path": "a.txt", "line": 2, "queries": ["two"]},
            {"path": "b/c.txt", "line": 1, "queries": ["two"]},
        ],
        "skipped": 0,
        "truncated": False,
        "searched": 2,
        "total": 2,
    }
    assert "a.txt\n2:\ttwo\n\nb/c.txt\n1:\ttwo" in result.text


def test_case_4_lone_carriage_returns_end_lines():
    assert places(find("one\rtwo\rthree\r", "two")) == [("a.txt", 2)]


def test_case_7_neither_mark_nor_ending_is_in_the_text():
    result = find(b"\xef\xbb\xbfend\r\nnext\r\n", ["end"])
    assert places(result) == [("a.txt", 1)]
    assert "1:\tend" in result.text
    assert "\r" not in result.text
    assert "\ufeff" not in result.text


def test_case_7_the_mark_itself_is_not_found():
    assert places(find(b"\xef\xbb\xbfend \xef\xbb\xbf\n", ["\ufeffend"])) == []
    assert places(find(b"\xef\xbb\xbfend\n\xef\xbb\xbfend\n", ["\ufeffend"])) == [("a.txt", 2)]


def test_case_11_lines_are_numbered_as_reading_numbers_them():
    text = "one\n\f\ntwo \x0b\x1c\x85\u2028\nTARGET\n"
    assert places(find(text, ["TARGET"])) == [("a.txt", 4)]
    assert parse(text.encode()).text(4) == "TARGET"


def test_case_82_context_never_repeats_and_a_match_is_never_context():
    result = find("hit\n-\nhit\n-\nhit\n", ["hit"], context=2)
    assert result.text.split("\n\n")[1] == "a.txt\n1:\thit\n2-\t-\n3:\thit\n4-\t-\n5:\thit"
    assert result.shown == {"a.txt": ((1, 5),)}


def test_case_82_a_line_is_credited_to_every_query_it_holds():
    result = find("foobar\nbar\n", ["foo", "oba", "bar", "none"])
    assert [match.queries for match in result.matches] == [("foo", "oba", "bar"), ("bar",)]
    assert "1:[1,2,3]\tfoobar" in result.text
    assert "2:[3]\tbar" in result.text


def test_context_stays_within_the_file_and_counts_as_seen():
    result = find("a\nb\nhit\nd", ["hit"], context=3)
    assert result.shown == {"a.txt": ((1, 4),)}
    assert "1-\ta\n2-\tb\n3:\thit\n4-\td" in result.text


def test_stretches_apart_are_seen_apart():
    result = find("hit\n" + "x\n" * 20 + "hit\n", ["hit"], context=1)
    assert result.shown == {"a.txt": ((1, 2), (21, 22))}


def test_case_25_and_utf_16_files_are_searched_as_text():
    for encoding in ("utf-16-le", "utf-16-be"):
        result = find({"u.txt": "\ufeffnix\r\nhier: Ölfuß 🦊\r\n".encode(encoding)}, ["Ölfuß 🦊", "nix"])
        assert places(result) == [("u.txt", 1), ("u.txt", 2)]
        assert result.skipped == 0


def test_utf_16_halves_of_two_characters_are_no_match():
    # AA 00 41 BB holds 00 41, which is U+4100 in the other alignment.
    text = "\ufeff\u00aa\ubb41"
    assert places(find({"u": text.encode("utf-16-le")}, ["\u4100"])) == []
    assert places(find({"u": (text + "\u4100").encode("utf-16-le")}, ["\u4100"])) == [("u", 1)]


def test_a_utf_16_file_without_a_nul_byte_is_searched():
    assert places(find({"u": "\ufeff日本語".encode("utf-16-le")}, ["本"])) == [("u", 1)]


def test_invalid_bytes_around_a_match_do_not_hide_it():
    result = find(b"\xff\xfe\xe2\x80 needle \xe8\n".replace(b"\xff\xfe", b"\xfe\xfd"), ["needle"])
    assert places(result) == [("a.txt", 1)]


# ---------------------------------------------------------------- case


def test_case_83_positions_mean_the_original_text():
    padded = "İİİ warn: disk full" + " " * 3000
    for query in ("disk", "DISK"):
        result = find(padded, [query], ignore_case=True)
        assert places(result) == [("a.txt", 1)]
        assert "İİİ warn: disk full" in result.text
    assert places(find(padded, ["DISK"])) == []


@pytest.mark.parametrize(
    ("text", "query", "is_found"),
    [
        ("straße", "strasse", True),
        ("STRASSE", "straße", True),
        ("straße", "s", True),
        ("ß", "s", False),
        ("İ", "i", False),
        ("İ", "i\u0307", True),
        ("ﬁn", "FIN", True),
        ("ﬁn", "in", False),
        ("\u212a", "k", True),
        ("ΟΔΟΣ", "οδος", True),
        ("ΟΔΟΣ", "οδοσ", True),
        ("plain", "PLAIN", True),
        ("PLAIN", "plaın", False),
        ("É", "é", True),
    ],
)
def test_case_83_case_is_folded_as_unicode_says_and_matches_cover_whole_characters(text, query, is_found):
    assert bool(find(text, [query], ignore_case=True).matches) == is_found


def test_case_counts_by_default():
    assert places(find("Foo\nfoo\n", ["foo"])) == [("a.txt", 2)]
    assert places(find("Foo\nfoo\nxFOOx", ["foo"], ignore_case=True)) == [("a.txt", 1), ("a.txt", 2), ("a.txt", 3)]


def test_ignoring_case_works_in_utf_16():
    assert places(find({"u": "\ufeffÄ\nfuß\n".encode("utf-16-le")}, ["FUSS"], ignore_case=True)) == [("u", 2)]


# ---------------------------------------------------------------- long lines and budgets


@pytest.mark.parametrize("ignore_case", [False, True])
def test_case_19_every_match_on_a_long_line_is_visible(ignore_case):
    line = list("." * 10_000)
    for at in (10, 5000, 9990):
        line[at : at + 6] = f"HIT{at:04}"[:6]
    result = find("".join(line), ["HIT"], ignore_case=ignore_case)
    assert "HIT001" in result.text
    assert "HIT500" in result.text
    assert "HIT999" in result.text
    assert result.text.count("[… ") == 2
    assert result.shown == {}


def test_case_19_a_match_in_the_middle_is_centred_with_both_cuts_marked():
    result = find("a" * 5000 + "needle" + "b" * 5000, ["needle"])
    (line,) = [line for line in result.text.split("\n") if line.startswith("1:")]
    mark = r"\[… (\d+) of 10006 characters\]"
    left, right = re.fullmatch(rf"1:\t{mark} (?:a+)needle(?:b+) {mark}", line).groups()
    assert left == right
    assert len(line) < 600


def test_case_19_each_query_is_visible_however_many_matches_the_first_has():
    result = find("xx " * 5000 + "rare " + "yy " * 5000, ["xx", "yy", "rare"])
    (line,) = [line for line in result.text.split("\n") if line.startswith("1:")]
    assert all(word in line for word in ("xx", "yy", "rare"))


def test_case_19_a_long_query_is_shown_whole():
    query = "".join(chr(ord("a") + number % 23) for number in range(1000))
    assert query in find("-" * 5000 + query + "-" * 5000, [query]).text


def test_case_20_a_huge_line_and_many_files_share_the_budget():
    files = {"0.min.js": "needle" + "x" * 650_000}
    files |= {f"f{number:03}.txt": "a needle here\n" for number in range(200)}
    result = find(files, ["needle"])
    assert len(result.matches) == 201
    assert not result.truncated


def test_case_20_a_file_with_many_matches_starves_no_other():
    files = {"a.log": "needle and some more text on the line\n" * 50_000}
    files |= {f"f{number:03}.txt": "a needle here\n" for number in range(200)}
    result = find(files, ["needle"])
    assert {match.path for match in result.matches} == set(files)
    assert result.truncated
    assert result.next is None
    assert len(result.text) > SEARCH_BUDGET_CHARACTERS - 1000
    assert re.search(rf"a\.log \(\d+ of {LINES_PER_QUERY} or more matching lines\)", result.text)


def test_case_20_what_small_files_leave_goes_to_the_large_ones():
    few = find({"a": "needle\n" * 5, "z": "needle line\n" * 5000}, ["needle"])
    assert len(few.text) > SEARCH_BUDGET_CHARACTERS - 1000
    assert [match.path for match in few.matches].count("a") == 5
    two = find({"a": "needle line\n" * 5000, "z": "needle line\n" * 5000}, ["needle"])
    counts = [[match.path for match in two.matches].count(path) for path in "az"]
    assert abs(counts[0] - counts[1]) <= 1


def test_case_20_going_on_after_next_shows_every_file():
    files = {f"f{number:05}.txt": "a needle here\n" for number in range(3000)}
    seen, after = [], ""
    while after is not None:
        result = find({path: data for path, data in files.items() if path > after}, ["needle"])
        assert result.truncated == (result.next is not None)
        if result.next:
            assert f"after: {result.next}" in result.text
        seen += [match.path for match in result.matches]
        after = result.next
    assert seen == list(files)


def test_case_23_a_cut_context_line_says_so_and_is_not_seen():
    result = find("x" * 3000 + "\nhit\n", ["hit"], context=1)
    assert f"[… {3000 - CONTEXT_LINE_CHARACTERS} of 3000 characters]" in result.text
    assert result.shown == {"a.txt": ((2, 2),)}


@pytest.mark.parametrize("unit", ["🦊", FAMILY, "🇩🇪", "e\u0301"])
@pytest.mark.parametrize("shift", range(6))
def test_case_25_cuts_split_no_character(unit, shift):
    result = find("a" * shift + unit * 3000 + "needle" + "b" * shift + unit * 3000, ["needle"], context=1)
    (line,) = [line for line in result.text.split("\n") if line.startswith("1:")]
    inner = re.fullmatch(r"1:\t\[… \d+ of \d+ characters\] (.*)needleb*(.*) \[… \d+ of \d+ characters\]", line).groups()
    assert all(part.replace(unit, "") == "" for part in inner)


def test_a_line_just_short_enough_is_whole_and_seen():
    line = "x" * (WHOLE_LINE_CHARACTERS - 6) + "needle"
    assert find(line, ["needle"]).shown == {"a.txt": ((1, 1),)}
    assert find(line + "y", ["needle"]).shown == {}


# ---------------------------------------------------------------- binary files and time


def test_case_28_a_nul_late_in_a_file_is_never_a_silent_stop():
    text = "a hit\n" + "filler line\n" * 11_000 + "\0" + "more\n" * 10 + "a hit\n"
    result = find({"late.txt": text}, ["hit"])
    assert result.skipped == 1
    assert "late.txt" in result.text
    assert "not searched" in result.text
    assert "hold a query" in result.text


def test_case_29_a_binary_file_spoils_nothing_and_is_counted():
    result = find({"lib.o": b"\x7fELF\0\xff\xfe", "src.txt": "a hit\n"}, ["hit"])
    assert places(result) == [("src.txt", 1)]
    assert result.skipped == 1
    assert result.structured()["skipped"] == 1
    assert "1 binary file was not searched: lib.o." in result.text


def test_a_file_known_to_be_binary_is_not_loaded_for_its_bytes():
    result = search([("big.bin", lambda: None), ("a.txt", lambda: b"hit")], ["hit"])
    assert result.skipped == 1
    assert [match.path for match in result.matches] == ["a.txt"]


def test_many_binary_files_are_named_briefly():
    result = find({f"{number:03}\n.bin": b"\0" for number in range(100)}, ["hit"])
    assert "100 binary files were not searched" in result.text
    assert "and 97 more" in result.text
    assert "\n.bin" not in result.text


def test_nothing_found_says_what_was_searched():
    assert find({"a": "x", "b": "y"}, ["z"]).text == "Nothing found in 2 files."
    assert find({}, ["z"]).text == "Nothing found in 0 files."


def test_past_the_deadline_it_says_how_far_it_came_and_where_to_go_on():
    loaded = []

    def loader(path):
        return lambda: loaded.append(path) or b"hit"

    result = search([(f"f{at}", loader(f"f{at}")) for at in range(10)], ["hit"], deadline=lambda: len(loaded) >= 4)
    assert loaded == ["f0", "f1", "f2", "f3"]
    assert (result.searched, result.total, result.next, result.truncated) == (4, 10, "f3", True)
    assert "4 of 10 files" in result.text
    assert "after: f3" in result.text


def test_a_search_out_of_time_from_the_start_still_gets_somewhere():
    result = search([("a", lambda: b"x"), ("b", lambda: b"x")], ["y"], deadline=lambda: True)
    assert (result.searched, result.next) == (1, "a")


# ---------------------------------------------------------------- queries


@pytest.mark.parametrize(
    ("queries", "words"),
    [
        ([], "1 to 5"),
        (["a", "b", "c", "d", "e", "f"], "1 to 5"),
        ([""], "is empty"),
        (["a", ""], "Query 2"),
        ("", "is empty"),
        (["a\nb"], "spans lines"),
        (["a\rb"], "spans lines"),
        (["\ud83e"], "half a character"),
        (["x" * 1001], "1001 characters"),
        (None, "list of texts"),
        ([1], "list of texts"),
        (b"abc", "list of texts"),
    ],
)
def test_queries_that_cannot_be_searched_are_refused_with_the_rule(queries, words):
    with pytest.raises(InvalidQueries, match=re.escape(words)) as refusal:
        search([], queries)
    assert refusal.value.details["argument"] == "queries"
    refusal.value.message.encode()


def test_a_lone_query_is_a_list_of_one_and_a_repeated_one_counts_once():
    assert places(find("a b", "b")) == [("a.txt", 1)]
    assert find("a b", ["b", "b"]).matches[0].queries == ("b",)


def test_queries_are_text_and_no_patterns():
    assert places(find("axb\na.b\n(a|b)*\n\\n $1", ["a.b", "(a|b)*", "\\n $1"])) == [
        ("a.txt", 2),
        ("a.txt", 3),
        ("a.txt", 4),
    ]


def test_a_match_across_the_blocks_of_a_large_file_is_found():
    for at in range(128 * 1024 - 7, 128 * 1024 + 2):
        assert Matcher(["needle!"]).may_match(b"x" * at + b"needle!" + b"y" * 300_000)
    assert not Matcher(["needle!"]).may_match(b"needle." * 100_000)


def test_bytes_that_no_text_holds_are_no_match():
    matcher = Matcher(["one", "two"])
    assert not matcher.may_match(bytes(range(0xF0, 0x100)) * 4 + b"\xf8" * 10 + b"\xfb" * 200)
    assert matcher.may_match(b"\xf8" * 7 + b"two" + b"\xf8" * 5)


def test_a_file_of_nothing_but_matches_is_bounded():
    result = find("a" * 2_000_000, ["a", "aa", "aaa"])
    assert places(result) == [("a.txt", 1)]
    result = find("a\n" * 200_000, ["a"])
    assert result.truncated


# ---------------------------------------------------------------- against the naive reading

alphabet = st.text(st.sampled_from(f"aAbBiIsSßİıſﬁ\u0307{FAMILY}é\u2028\x0c "), max_size=8)
lines_of_text = st.lists(alphabet, max_size=12)
endings = st.sampled_from(["\n", "\r\n", "\r"])
wanted = st.lists(alphabet.filter(bool), min_size=1, max_size=5)
encodings = st.sampled_from(["utf-8", "utf-8-sig", "utf-16"])


def naive_holds(line, query, ignore_case):
    if not ignore_case:
        return query in line
    return any(
        line[start:end].casefold() == query.casefold()
        for start in range(len(line) + 1)
        for end in range(start + 1, len(line) + 1)
    )


@settings(max_examples=300, deadline=None)
@given(lines_of_text, endings, wanted, st.booleans(), encodings, st.integers(0, 3))
@example(["İ", "i"], "\n", ["i"], True, "utf-8", 0)
def test_what_is_found_is_what_the_naive_reading_finds(lines, ending, queries, ignore_case, encoding, context):
    data = ending.join(lines).encode(encoding)
    result = find({"f": data}, queries, ignore_case=ignore_case, context=context)
    queries = list(dict.fromkeys(queries))
    document = parse(data)
    expected = {}
    for number in range(1, len(document) + 1):
        held = tuple(query for query in queries if naive_holds(document.text(number), query, ignore_case))
        if held:
            expected[number] = held
    assert {match.line: match.queries for match in result.matches} == expected
    around = {near for hit in expected for near in range(hit - context, hit + context + 1)}
    shown = {number for first, last in result.shown.get("f", ()) for number in range(first, last + 1)}
    assert shown == around & set(range(1, len(document) + 1))


@settings(max_examples=200, deadline=None)
@given(alphabet, wanted, st.booleans())
def test_positions_hold_what_was_asked_for(line, queries, ignore_case):
    for start, end, index in Matcher(queries, ignore_case=ignore_case).positions(line, 3):
        part, query = line[start:end], queries[index]
        assert part == query or (ignore_case and part.casefold() == query.casefold())


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.text("abc", min_size=1, max_size=3),
        st.lists(st.sampled_from(["hit", "x", "hit " * 300, "y" * 700]), max_size=60),
        max_size=8,
    ),
    st.integers(3000, 9000),
    st.integers(0, 3),
)
def test_the_budget_holds_and_next_hides_nothing(files, budget, context):
    files = {path: "\n".join(lines) for path, lines in sorted(files.items())}
    result = find(files, ["hit"], budget=budget, context=context)
    matching = [path for path, text in files.items() if "hit" in text]
    shown = list(dict.fromkeys(match.path for match in result.matches))
    assert shown == matching[: len(shown)]
    assert result.next == (shown[-1] if 0 < len(shown) < len(matching) else None)
    assert shown or not matching
    total = sum(line.startswith("hit") for text in files.values() for line in text.split("\n"))
    assert result.truncated == (len(result.matches) < total)
