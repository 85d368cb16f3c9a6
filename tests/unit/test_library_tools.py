"""The library's tools as a reader meets them: listings, patterns, matches, and what models and frameworks are given."""

from __future__ import annotations

import inspect
import json
import typing
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from local.library import SandboxBackend, ToolError, create_sandbox_backend, finding
from local.library.backend import TOOL_NAMES
from local.library.desk import Memory
from local.library.directory import Directory
from workbench.clock import ManualClock
from workbench.settings import Settings
from workbench.workspace.file_arguments import Edit

ALL = list(TOOL_NAMES)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def backend(root: Path) -> SandboxBackend:
    return create_sandbox_backend(root)


def put(root: Path, **files: str) -> None:
    for path, text in files.items():
        target = root / path.replace("__", "/").replace("_dot_", ".")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)


def refused(code: str, work: Any, *arguments: Any, **named: Any) -> str:
    with pytest.raises(ToolError) as caught:
        work(*arguments, **named)
    assert caught.value.code == code, caught.value
    return caught.value.message


# ---------------------------------------------------------------- ls


def test_a_listing_goes_as_deep_as_asked_and_counts_what_lies_below(backend: SandboxBackend, root: Path) -> None:
    put(root, a_dot_txt="12", src__b_dot_py="123", src__deep__c_dot_py="1234")
    (root / "empty").mkdir()
    assert backend.ls().text == "a.txt (2 bytes)\nempty/ (0 files, 0 bytes)\nsrc/ (2 files, 7 bytes)"
    assert [one["path"] for one in backend.ls("src", depth=2).structured["entries"]] == [
        "src/b.py",
        "src/deep",
        "src/deep/c.py",
    ]
    assert "empty" in backend.ls("empty").text
    refused("not_folder", backend.ls, "a.txt")
    refused("not_found", backend.ls, "none")


def test_a_long_listing_is_gone_through_page_by_page(backend: SandboxBackend, root: Path) -> None:
    wanted = [f"file-{number:04}-with-a-rather-long-name.txt" for number in range(600)]
    for name in wanted:
        (root / name).touch()
    found: list[str] = []
    after = None
    while True:
        answer = backend.ls(after=after)
        found += [one["path"] for one in answer.structured["entries"]]
        after = answer.structured.get("next")
        if after is None:
            break
        assert f"after: {after}" in answer.text and len(answer.text) <= 12_000
    assert found == wanted


# ---------------------------------------------------------------- glob


@pytest.mark.parametrize(
    ("pattern", "path", "wanted"),
    [
        ("*.py", None, ["a.py"]),
        ("**/*.py", None, ["a.py", "src/b.py", "src/deep/c.py"]),
        ("**", "src", ["src/b.py", "src/deep/c.py", "src/deep/d.txt"]),
        ("src/?.py", None, ["src/b.py"]),
        ("**/deep/*", None, ["src/deep/c.py", "src/deep/d.txt"]),
        ("d*", "src/deep", ["src/deep/d.txt"]),
        ("[a].py", None, []),
    ],
)
def test_patterns_find_files(
    backend: SandboxBackend, root: Path, pattern: str, path: str | None, wanted: list[str]
) -> None:
    put(root, a_dot_py="", src__b_dot_py="", src__deep__c_dot_py="", src__deep__d_dot_txt="")
    answer = backend.glob(pattern, path)
    assert answer.structured["paths"] == wanted
    assert answer.text == "\n".join(wanted) if wanted else "No file matches" in answer.text


def test_patterns_that_are_none_are_refused_with_a_better_one(backend: SandboxBackend) -> None:
    assert "`**/*.py`" in refused("invalid_path", backend.glob, "/**/*.py")
    refused("invalid_path", backend.glob, "../*")
    refused("not_found", backend.glob, "*", "none")


def test_many_paths_are_gone_through_page_by_page(backend: SandboxBackend, root: Path) -> None:
    wanted = [f"{number:04}-{'x' * 40}" for number in range(500)]
    for name in wanted:
        (root / name).touch()
    first = backend.glob("**")
    assert first.structured["total"] == 500 and len(first.text) < 13_000
    second = backend.glob("**", after=first.structured["next"])
    assert first.structured["paths"] + second.structured["paths"] == wanted and "next" not in second.structured


# ---------------------------------------------------------------- grep


def test_matches_are_told_as_path_line_and_text(backend: SandboxBackend, root: Path) -> None:
    put(root, a_dot_txt="one\ntwo words\n", b__c_dot_txt="TWO\rtwo\r\n", d_dot_md="two\n")
    assert backend.grep("two").text == "a.txt:2: two words\nb/c.txt:2: two\nd.md:1: two"
    assert backend.grep("two", glob="**/*.txt", path="b").text == "b/c.txt:2: two"
    assert [one["line"] for one in backend.grep("two", path="b/c.txt", ignore_case=True).structured["matches"]] == [
        1,
        2,
    ]
    assert backend.grep("t.o").text == "Nothing found in 3 files."
    refused("not_found", backend.grep, "two", path="none")
    for query in ("", "two\nlines", "x" * 1_001, "\ud800"):
        refused("invalid_args", backend.grep, query)


def test_at_most_fifty_are_shown_and_no_file_starves_another(backend: SandboxBackend, root: Path) -> None:
    (root / "0.txt").write_text("needle\n" * 10_000)
    for number in range(1, 31):
        (root / f"{number}.txt").write_text("needle\nneedle\n")
    answer = backend.grep("needle")
    assert len(answer.structured["matches"]) == 50 and answer.structured["truncated"]
    assert {one["path"] for one in answer.structured["matches"]} == {f"{number}.txt" for number in range(31)}
    assert "At most 50" in answer.text and "matching lines" in answer.text
    for number in range(31, 80):
        (root / f"{number}.txt").write_text("needle\n")
    assert "30 further files match" in backend.grep("needle").text


def test_a_long_line_is_shown_around_its_match(backend: SandboxBackend, root: Path) -> None:
    (root / "min.js").write_text("x" * 300_000 + "needle" + "y" * 300_000)
    answer = backend.grep("needle")
    assert "needle" in answer.text and len(answer.text) < 1_000 and "characters]" in answer.text
    # It was not shown whole, so it may not be replaced by its number.
    with pytest.raises(ToolError) as caught:
        backend.edit_file("min.js", [{"startLine": 1, "content": "x"}])
    assert caught.value.code == "not_read"


def test_text_is_found_in_every_encoding_that_is_read(backend: SandboxBackend, root: Path) -> None:
    (root / "le.txt").write_bytes("\ufeffeins\nzwei ü\n".encode("utf-16-le"))
    (root / "be.txt").write_bytes("\ufeffzwei ü\n".encode("utf-16-be"))
    (root / "b.bin").write_bytes(b"\0zwei")
    answer = backend.grep("zwei")
    assert answer.text.splitlines() == ["be.txt:1: zwei ü", "le.txt:2: zwei ü", "[Not searched (binary): b.bin.]"]


def test_lines_that_grep_showed_may_be_edited_by_number(backend: SandboxBackend, root: Path) -> None:
    (root / "f.txt").write_text("a\nneedle\nb\n")
    backend.grep("needle")
    backend.edit_file("f.txt", [{"startLine": 2, "content": "thread"}])
    assert (root / "f.txt").read_text() == "a\nthread\nb\n"


class Running(ManualClock):
    """A clock on which every look takes seconds."""

    def monotonic(self) -> float:
        self.advance(8)
        return super().monotonic()


def test_a_search_past_its_deadline_says_how_far_it_got(root: Path) -> None:
    root.mkdir()
    for number in range(9):
        (root / f"{number}.txt").write_text("needle\n")
    settings, clock = Settings.from_environment({}), Running()
    with Directory(root, clock).opened() as top:
        answer = finding.grep(top, "needle", None, None, Memory(), settings, clock)
    assert 1 <= len(answer.structured["matches"]) < 9
    assert answer.structured["truncated"] and "Time was up after" in answer.text


# ---------------------------------------------------------------- for models and frameworks


@pytest.mark.parametrize("format_name", ["openai", "anthropic", "bedrock", "mcp", "workbench"])
def test_schemas_are_published_in_every_format(backend: SandboxBackend, format_name: str) -> None:
    published = backend.schemas(format_name)
    parameters = [_parameters(one) for one in published]
    assert len(parameters) == len(ALL)
    for schema in parameters:
        jsonschema.Draft202012Validator.check_schema(schema)
        assert schema["type"] == "object" and "turn" not in schema["properties"]
        assert all(part["description"] for part in schema["properties"].values())
    assert "{" not in json.dumps([one.get("description", "") for one in published])
    with pytest.raises(KeyError):
        backend.schemas("none")


def _parameters(one: dict[str, Any]) -> dict[str, Any]:
    if "toolSpec" in one:
        return one["toolSpec"]["inputSchema"]["json"]  # type: ignore[no-any-return]
    one = one.get("function", one)
    return next(one[name] for name in ("parameters", "input_schema", "inputSchema") if name in one)  # type: ignore[no-any-return]


def test_functions_carry_what_a_framework_publishes(backend: SandboxBackend, root: Path) -> None:
    functions = {function.__name__: function for function in backend.tools()}
    assert list(functions) == ALL
    for function in functions.values():
        hints = typing.get_type_hints(function)
        assert hints["return"] is str and set(hints) == {*inspect.signature(function).parameters, "return"}
        assert function.__doc__ and "Args:" in function.__doc__ and "[if" not in function.__doc__
    assert functions["write_file"]("f.txt", content="one\ntwo\n").startswith("Created `f.txt`")
    assert functions["read_file"](path="f.txt", start_line="2") == "2\ttwo\n[Line 2 of 2.]"
    # As a framework made the arguments, or as the model's JSON.
    for edit in (Edit(find="two", replace="2"), {"find": "2", "replace": "two"}):
        assert functions["edit_file"]("f.txt", edits=[edit]).startswith("Edited `f.txt`")
    assert (root / "f.txt").read_text() == "one\ntwo\n"
    assert functions["edit_file"]("f.txt", edits=[{"find": "zzz", "replace": ""}]).startswith(
        "[no_match]\nfind does not"
    )
    assert functions["read_file"]("../x").startswith("[invalid_path]\n")
    assert functions["ls"](depth=0).startswith("[invalid_args]\ndepth")


def test_a_call_never_raises_and_says_what_was_wrong(backend: SandboxBackend) -> None:
    for name, arguments, outcome, words in (
        ("read_fil", {}, "unknown_tool", "read_file"),
        ("read_file", {"pth": "x"}, "invalid_args", "path"),
        ("read_file", "not json", "invalid_args", "JSON"),
        ("read_file", ["x"], "invalid_args", "object"),
        ("read_file", {"path": "none"}, "error", "There is no file"),
        ("write_file", {"path": "a", "content": 1}, "invalid_args", "content"),
        ("write_file", {"path": "a"}, "invalid_args", "content is missing"),
        ("write_file", {"content": "a"}, "invalid_args", "path"),
        ("write_file", {}, "invalid_args", "path and content"),
        ("execute", {"command": ""}, "invalid_args", "command"),
    ):
        answer = backend.call(name, arguments)
        assert answer["outcome"] == outcome, answer
        assert words in answer["content"][0]["text"] and answer["error"]["message"] == answer["content"][0]["text"]
        json.dumps(answer)
    answer = backend.call("write_file", '{"files": "[{\\"path\\": \\"a\\", \\"content\\": \\"[1]\\"}]"}')
    assert answer["outcome"] == "ok" and answer["conversions"]
    assert "version" not in answer["structured"] and "version" not in answer["content"][0]["text"]


def test_only_offered_tools_are_called_and_named(root: Path) -> None:
    few = create_sandbox_backend(root, tools=["read_file", "write_file"])
    assert [function.__name__ for function in few.tools()] == ["read_file", "write_file"]
    published = json.dumps(few.schemas("anthropic"))
    assert "edit_file" not in published and "execute" not in published
    assert few.call("execute", {"command": "true"})["outcome"] == "unknown_tool"
    (root / "long.txt").write_text("line\n" * 2_000)
    said = refused("exists_long", few.write_file, "long.txt", "x")
    assert "edit_file" not in said and "execute" not in said
    every = create_sandbox_backend(root)
    assert "edit_file" in refused("exists_long", every.write_file, "long.txt", "x")
    (root / "b.bin").write_bytes(b"\0")
    assert "execute" in refused("binary", every.edit_file, "b.bin", append="x")
    assert "execute" in every.read_file("b.bin").text and "execute" not in few.read_file("b.bin").text
    (root / "wide.txt").write_text("x" * 50_000)
    assert "grep" in every.read_file("wide.txt").text and "grep" not in few.read_file("wide.txt").text
    with pytest.raises(ValueError, match="run_code"):
        create_sandbox_backend(root, tools=["run_code"])


def test_a_picture_is_given_where_it_can_be_looked_at(root: Path) -> None:
    from PIL import Image

    root.mkdir()
    Image.new("RGB", (30, 20), "red").save(root / "p.png")
    seeing, blind = create_sandbox_backend(root, vision=True), create_sandbox_backend(root)
    kinds = [part["type"] for part in seeing.call("read_file", {"path": "p.png"})["content"]]
    assert kinds == ["text", "image"]
    assert [part["type"] for part in blind.call("read_file", {"path": "p.png"})["content"]] == ["text"]
    read = next(function for function in seeing.tools() if function.__name__ == "read_file")
    assert "cannot be given as text" in read("p.png")


def test_edits_are_taken_as_objects_and_refused_as_a_models_are(backend: SandboxBackend, root: Path) -> None:
    backend.write_file("f.txt", "a\nb\n")
    backend.edit_file("f.txt", [Edit(start_line=1, content="A"), Edit(start_line=2, anchor="b", content="B")])
    assert (root / "f.txt").read_text() == "A\nB\n"
    assert "nothing" in refused("invalid_args", backend.edit_file, "f.txt", [{"nothing": 1}])
    refused("invalid_args", backend.edit_file, "f.txt")
