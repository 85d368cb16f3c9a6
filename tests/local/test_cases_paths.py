"""Section G of the reported faults: paths and names, by every tool that takes one and by the raw routes."""

from __future__ import annotations

import unicodedata
from typing import Any
from urllib.parse import quote

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text

COMPOSED, DECOMPOSED = "\u00dcbersicht.txt", "U\u0308bersicht.txt"


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def every_tool(path: str) -> list[tuple[str, dict[str, Any]]]:
    return [
        ("read_file", {"path": path}),
        ("write_file", {"path": path, "content": "x"}),
        ("write_file", {"files": [{"path": "fine.txt", "content": "x"}, {"path": path, "content": "x"}]}),
        ("edit_file", {"path": path, "append": "x"}),
        ("delete_file", {"path": path, "recursive": True}),
        ("list_files", {"path": path}),
        ("search_files", {"path": path, "queries": ["x"]}),
    ]


@pytest.mark.parametrize(
    "path",
    [
        "../share-secret/loot",
        "/w/share-secret/loot",
        "/etc/passwd",
        "sub/../../outside.txt",
        "a/b/../../../c",
        "..",
        "dir\\f.txt",
        "..\\x",
        "C:\\x",
        "a\0b",
        "a\nb",
        "a\x1b[31mb",
        "a\x7fb",
        "a\x85b",
        "a//b",
        "workspace/deck.html",
        "./workspace/deck.html",
        "x/../workspace/deck.html",
        "n" * 256,
        "é" * 128,
        "/".join(["n" * 200] * 6),
        "x" * 100_000,
    ],
)
def test_what_is_no_path_is_refused_by_every_tool(talk: Talk, path: str) -> None:
    """Cases 55, 56, 65: nothing is created, nothing outside is told, and the refusal says what to do instead."""
    talk.put("sub/in.txt", b"x")
    for tool, arguments in every_tool(path):
        answer = talk.call(tool, **arguments)
        assert answer["error"]["code"] == "invalid_path", (tool, answer)
        assert len(answer["error"]["message"]) < 600 and answer["error"]["message"].isprintable()
    put = talk.api("PUT", f"/v1/conversations/{talk.conversation}/file?path={quote(path)}", b"x")
    assert put.status in (400, 413), put.body
    assert list(talk.files()) == ["sub/in.txt"]


def test_the_workspaces_own_folder_name_is_refused_naming_the_file(talk: Talk) -> None:
    talk.put("deck.html", b"x")
    for tool, arguments in every_tool("workspace/deck.html"):
        answer = talk.call(tool, **arguments)
        assert "`deck.html`" in answer["error"]["message"]
        assert answer["error"]["details"]["suggestion"] == "deck.html"
    talk.put("deep/workspace/deck.html", b"only the root's is special")
    assert talk.ok("read_file", path="deep/workspace/deck.html")


def test_dots_are_resolved_before_anything_is_looked_up(talk: Talk) -> None:
    """Case 56, the control: with and without the folder that is stepped through."""
    talk.ok("write_file", path="sub/../in.txt", content="x")
    talk.ok("write_file", path="./a/./b/../c.txt", content="y")
    assert talk.files() == {"in.txt": b"x", "a/c.txt": b"y"}
    assert text(talk.ok("read_file", path="no/such/../../in.txt")).startswith("1\tx")


def test_a_percent_sign_is_just_a_character(talk: Talk) -> None:
    """Case 59."""
    for path in ("a%20b.txt", "a b.txt", "%2e%2e/x", "100%"):
        talk.ok("write_file", path=path, content=path)
    talk.ok("delete_file", path="a%20b.txt")
    assert talk.files() == {path: path.encode() for path in ("%2e%2e/x", "100%", "a b.txt")}
    talk.refused("not_found", "read_file", path="%2e%2e/y")
    assert talk.bytes_of("a b.txt") == b"a b.txt"


def test_nothing_lies_below_a_file_and_no_file_stands_for_a_folder(talk: Talk) -> None:
    """Cases 61 and 62: also within one batch, in either order, and by the raw route."""
    talk.put("j", b"a file")
    talk.put("folder/f", b"x")
    assert "`j`" in talk.refused("not_folder", "write_file", path="j/2026/a.md", content="x")
    assert "notes.md" in talk.refused("is_folder", "write_file", path="folder", content="x")
    for batch in (["k", "k/x"], ["k/x", "k"], ["k/x/y", "k/x"], ["new", "j/x"]):
        answer = talk.call("write_file", files=[{"path": path, "content": "x"} for path in batch])
        assert answer["error"]["code"] in ("not_folder", "is_folder")
    for path in ("j/x", "folder"):
        assert talk.api("PUT", f"/v1/conversations/{talk.conversation}/file?path={path}", b"").status == 400
    assert talk.files() == {"j": b"a file", "folder/f": b"x"}
    # What a call deletes makes room in the next one.
    talk.ok("delete_file", path="j")
    talk.ok("write_file", path="j/x", content="x")


def test_what_is_not_there_is_told_with_what_is(api: Any, unique: str) -> None:
    """Where no name comes near, the way to all of them: but only a way that this turn has."""
    talk = Talk.open(api, unique)
    assert talk.refused("not_found", "read_file", path="plan.md").endswith("The workspace holds no files yet.")
    talk.put("folder/report.csv", b"x")
    assert talk.refused("not_found", "read_file", path="report.csv").endswith("Did you mean `folder/report.csv`?")
    for tool, more in (("read_file", {}), ("edit_file", {"append": "x"}), ("delete_file", {})):
        said = talk.refused("not_found", tool, path="plan.md", **more)
        assert said == "There is no file `plan.md`. list_files shows what is there."
    only = talk.again(["read_file"])
    assert only.refused("not_found", "read_file", path="plan.md") == "There is no file `plan.md`."
    folder = api("GET", f"/v1/conversations/{unique}/file?path=folder")
    assert folder.status == 404 and "`folder` is a folder" in folder.json["error"]["message"]


def test_one_of_a_thing_is_told_as_one(talk: Talk) -> None:
    assert "(1 byte, 1 line)" in text(talk.ok("write_file", path="d/f", content="x"))
    assert "(2 bytes)" in text(talk.ok("edit_file", path="d/f", append="y"))
    assert "with 1 entry." in talk.refused("is_folder", "delete_file", path="d")
    assert "1 file, 2 bytes." in text(talk.ok("delete_file", path="d", recursive=True))


@pytest.mark.parametrize("path", ["out/replies/", ".", "", "./", "folder/", "folder/.", "a/.."])
def test_a_folder_where_a_file_is_meant_says_to_add_a_name(talk: Talk, path: str) -> None:
    """Case 62."""
    talk.put("folder/f", b"x")
    said = talk.refused("invalid_path", "write_file", path=path, content="x")
    assert "file name" in said and "older" in said
    assert list(talk.files()) == ["folder/f"]


def test_composed_and_decomposed_names_are_one(talk: Talk) -> None:
    """Case 64: whichever form is asked for, and there is never a second file."""
    talk.ok("write_file", path=DECOMPOSED, content="one")
    assert list(talk.files()) == [unicodedata.normalize("NFC", COMPOSED)]
    for path in (COMPOSED, DECOMPOSED):
        assert "one" in text(talk.ok("read_file", path=path))
        assert talk.ok("search_files", queries=["one"], path=path)["structured"]["matches"][0]["path"] == COMPOSED
    talk.ok("write_file", path=COMPOSED, content="two")
    answer = talk.call("write_file", files=[{"path": path, "content": "x"} for path in (COMPOSED, DECOMPOSED)])
    assert answer["outcome"] == "invalid_args"
    assert talk.files() == {COMPOSED: b"two"}
    talk.ok("delete_file", path=DECOMPOSED)
    assert talk.files() == {}


def test_names_that_differ_only_in_case_are_different_files(talk: Talk) -> None:
    for path in ("README.md", "readme.md", "Straße", "STRASSE"):
        talk.ok("write_file", path=path, content=path)
    assert talk.files() == {path: path.encode() for path in ("README.md", "STRASSE", "Straße", "readme.md")}
    assert "`README.md`" in talk.refused("not_found", "read_file", path="ReadMe.md")


ODD = [
    " leading and trailing ",
    "-rf",
    "--help",
    'it\'s "quoted" `here`',
    "\N{FOX FACE} \N{WOMAN}\u200d\N{WOMAN}\u200d\N{GIRL}.txt",
    "a?b*c[d]{e}",
    "#comment;rm&|<>$(x)",
    "~",
    "...",
    ".hidden",
    "\u202eevil.txt",
    "\u2028line",
    "\N{NO-BREAK SPACE}",
    "n" * 255,
    "é" * 127,
    "d" * 255 + "/" + "e" * 255 + "/" + "f" * 255 + "/" + "g" * 254,
]


def test_odd_names_are_names(talk: Talk) -> None:
    """Listed on one line each, read, searched, edited and deleted by the name that the listing gives."""
    for start in range(0, len(ODD), 3):
        talk.ok("write_file", files=[{"path": path, "content": "odd\n"} for path in ODD[start : start + 3]])
    listed = talk.ok("list_files")
    files = [entry["path"] for entry in listed["structured"]["entries"] if entry["kind"] == "file"]
    assert sorted(files) == sorted(ODD)
    assert len(text(listed).splitlines()) == len(listed["structured"]["entries"])
    assert "\u202e" not in text(listed)
    found = talk.ok("search_files", queries=["odd"])["structured"]["matches"]
    assert sorted(match["path"] for match in found) == sorted(ODD)
    for path in ODD:
        assert text(talk.ok("read_file", path=path)).startswith("1\todd")
        answer = talk.api("GET", f"/v1/conversations/{talk.conversation}/file?path={quote(path)}")
        assert answer.body == b"odd\n" and "\n" not in answer.headers["content-disposition"]
        talk.ok("delete_file", path=path)
    assert talk.files() == {}


def test_a_listing_is_gone_through_page_by_page(talk: Talk, system: LocalSystem) -> None:
    """Bounded output with a way to continue, by the tool and by the raw route, with odd names at the cut."""
    paths = [f"{'x' * 180}-{number:03}" for number in range(70)] + [f"{'é' * 90}/{number}" for number in range(50)]
    changed.store_many(system, talk.conversation, dict.fromkeys(paths, b""))
    seen: list[str] = []
    after: str | None = None
    while True:
        answer = talk.ok("list_files", **({"after": after} if after else {}))
        seen += [entry["path"] for entry in answer["structured"]["entries"] if entry["kind"] == "file"]
        after = answer["structured"].get("next")
        if after is None:
            break
    assert seen == sorted(paths, key=str.encode)
    seen, url = [], f"/v1/conversations/{talk.conversation}/files?limit=50"
    page = talk.api("GET", url).json
    while True:
        seen += [file["path"] for file in page["files"]]
        if "next" not in page:
            break
        page = talk.api("GET", f"{url}&after={quote(page['next'])}").json
    assert seen == sorted(paths, key=str.encode)


def test_globs_depth_and_folders(talk: Talk) -> None:
    for path in ("a.py", "src/b.py", "src/deep/c.py", "src/d.txt"):
        talk.put(path, b"one\ntwo\n")

    def listed(**more: Any) -> list[str]:
        return [entry["path"] for entry in talk.ok("list_files", **more)["structured"]["entries"]]

    assert listed() == ["a.py", "src", "src/b.py", "src/d.txt", "src/deep", "src/deep/c.py"]
    assert listed(depth=1) == ["a.py", "src"]
    assert listed(glob="*.py") == ["a.py"]
    assert listed(glob="**/*.py") == ["a.py", "src/b.py", "src/deep/c.py"]
    assert listed(path="src", glob="?.py") == ["src/b.py"]
    assert listed(path="src", depth=1) == ["src/b.py", "src/d.txt", "src/deep"]
    entry = talk.ok("list_files", path="src", glob="d.txt")["structured"]["entries"][0]
    assert (entry["kind"], entry["bytes"], entry["lines"]) == ("file", 8, 2)
    talk.refused("not_folder", "list_files", path="a.py")
    talk.refused("not_found", "list_files", path="none")
    assert talk.call("list_files", depth=0)["outcome"] == "invalid_args"


def test_a_folder_tells_the_version_that_last_wrote_in_it(talk: Talk, system: LocalSystem) -> None:
    def versions(**more: Any) -> dict[str, int | None]:
        entries = talk.ok("list_files", **more)["structured"]["entries"]
        return {entry["path"]: entry.get("version") for entry in entries if entry["kind"] == "folder"}

    talk.put("a/one.txt", b"1")
    talk.put("b/deep/two.txt", b"2")
    talk.put("b/three.txt", b"3")
    assert versions() == {"a": 1, "b": 3, "b/deep": 2}
    talk.ok("edit_file", path="a/one.txt", append="!")
    changed.cold(system)
    assert versions(depth=1) == {"a": 4, "b": 3}
    assert versions(path="b") == {"b/deep": 2}
    assert "version 4" in text(talk.ok("list_files", depth=1))
    # A restored version is a new one, and only what it changed was written by it.
    assert talk.api("POST", f"/v1/conversations/{talk.conversation}/versions/3/restore", {}).status == 200
    assert versions() == {"a": 5, "b": 3, "b/deep": 2}
    assert talk.api("GET", f"/v1/conversations/{talk.conversation}/versions/3/diff/5").json["changes"] == []


def test_half_a_character_in_after_is_no_failure_of_ours(talk: Talk) -> None:
    talk.put("a.txt", b"x")
    for tool, arguments in (("list_files", {}), ("search_files", {"queries": ["x"]})):
        answer = talk.send(tool, {**arguments, "after": "\ud800"}).json
        assert answer["error"] is None or answer["error"]["code"] != "internal", answer
    for glob in ("\ud800*", "[", "*" * 500, "**/" * 200 + "x"):
        answer = talk.send("list_files", {"glob": glob}).json
        assert answer["error"] is None or answer["error"]["code"] != "internal", answer


def test_near_names_are_told_quickly_whatever_the_names(talk: Talk, system: LocalSystem) -> None:
    """A missing name among many long and similar ones is answered like any other."""
    talk.put("reports/quarterly-summary.md", b"x")
    assert "quarterly-summary" in talk.refused("not_found", "read_file", path="quarterly_summary.md")
    # However long a name is, its end is what is compared.
    talk.put("q" * 150 + "-minutes-of-the-meeting-of-all-departments-on-the-first-of-march.md", b"x")
    missing = "z" * 150 + "-minutes-of-the-meeting-of-all-departments-on-the-first_of_march.md"
    assert "qqq-minutes" in talk.refused("not_found", "read_file", path=missing)
    names = {"ab" * 100 + f"{number:04}" + "ba" * 20: b"" for number in range(1_500)}
    changed.store_many(system, talk.conversation, names)
    answer = talk.call("read_file", path="ba" * 120)
    assert answer["error"]["code"] == "not_found" and answer["cost"]["milliseconds"] < 30_000
