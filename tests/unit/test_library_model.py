"""Any sequence of file operations over a directory does what a dictionary of bytes would."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from local.library import SandboxBackend, ToolError, create_sandbox_backend
from workbench.workspace.file_arguments import FileToWrite
from workbench.workspace.views.globs import compile_glob

NAMES = st.sampled_from(["a", "b.txt", "ü", "d e"])
PATHS = st.lists(NAMES, min_size=1, max_size=3).map("/".join)
WORDS = st.sampled_from(["x", "yy", "word", "ü", " ", "\t"])
TEXTS = st.lists(st.one_of(WORDS, st.sampled_from(["\n", "\r\n", "\r"])), max_size=12).map("".join)


def lines_of(data: bytes) -> list[str]:
    return [line.decode("utf-8", "replace") for line in data.splitlines()]


class Model(RuleBasedStateMachine):
    """The files as a dictionary beside the files on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.root = Path(self.folder.name) / "root"
        self.files: dict[str, bytes] = {}
        self.backend: SandboxBackend = create_sandbox_backend(self.root)

    def teardown(self) -> None:
        self.folder.cleanup()

    def in_the_way(self, path: str) -> bool:
        """A folder stands there, or a file where a folder would have to."""
        above = {path[:at] for at, character in enumerate(path) if character == "/"}
        return (self.root / path).is_dir() or bool(above & self.files.keys())

    def refused(self, *codes: str) -> pytest.RaisesExc[ToolError]:
        return pytest.raises(ToolError, check=lambda error: error.code in codes)

    @initialize(texts=st.dictionaries(NAMES, TEXTS, max_size=2))
    def begin(self, texts: dict[str, str]) -> None:
        for path, text in texts.items():
            (self.root / path).write_bytes(text.encode())
            self.files[path] = text.encode()

    @rule(path=PATHS, text=TEXTS)
    def write(self, path: str, text: str) -> None:
        if self.in_the_way(path):
            with self.refused("is_folder", "not_folder"):
                self.backend.write_file(path, text)
        else:
            self.backend.write_file(path, text)
            self.files[path] = text.encode()

    @rule(first=PATHS, second=PATHS, text=TEXTS)
    def write_two(self, first: str, second: str, text: str) -> None:
        batch = [FileToWrite(path=first, content=text), FileToWrite(path=second, content=text)]
        nested = first.startswith(f"{second}/") or second.startswith(f"{first}/")
        if first == second or nested or self.in_the_way(first) or self.in_the_way(second):
            with self.refused("invalid_args", "is_folder", "not_folder"):
                self.backend.write_file(files=batch)
        else:
            self.backend.write_file(files=batch)
            self.files |= dict.fromkeys((first, second), text.encode())

    @rule(path=PATHS, find=WORDS, replace=WORDS)
    def edit(self, path: str, find: str, replace: str) -> None:
        old = self.files.get(path)
        found = old is not None and sum(old[at:].startswith(find.encode()) for at in range(len(old)))
        if old is not None and found == 1 and find != replace:
            self.backend.edit_file(path, [{"find": find, "replace": replace}])
            self.files[path] = old.replace(find.encode(), replace.encode())
        else:
            with self.refused("not_found", "is_folder", "no_match", "not_unique", "no_change", "invalid_args"):
                self.backend.edit_file(path, [{"find": find, "replace": replace}])

    @rule(path=PATHS, number=st.integers(1, 6), text=WORDS)
    def edit_line(self, path: str, number: int, text: str) -> None:
        """With the anchor that a reader has just been shown, the line changes and no other does."""
        old = self.files.get(path)
        if old is None or number > len(lines_of(old)) or not lines_of(old)[number - 1].strip():
            return
        pieces = old.splitlines(keepends=True)
        line = pieces[number - 1]
        ending = line[len(line.rstrip(b"\r\n")) :]
        self.backend.read_file(path)
        anchor = lines_of(old)[number - 1]
        self.backend.edit_file(path, [{"startLine": number, "anchor": anchor, "content": f">{text}"}])
        indentation = anchor[: len(anchor) - len(anchor.lstrip(" \t"))]
        new = self.files[path] = (self.root / path).read_bytes()
        changed = new.splitlines(keepends=True)
        assert changed[: number - 1] == pieces[: number - 1] and changed[number:] == pieces[number:]
        assert changed[number - 1] in (f">{text}".encode() + ending, f"{indentation}>{text}".encode() + ending)

    @rule(path=PATHS, text=WORDS)
    def append(self, path: str, text: str) -> None:
        if path in self.files:
            self.backend.edit_file(path, append=text)
            self.files[path] += text.encode()
        else:
            with self.refused("not_found", "is_folder"):
                self.backend.edit_file(path, append=text)

    @rule(path=PATHS, recursive=st.booleans())
    def delete(self, path: str, recursive: bool) -> None:
        below = [one for one in self.files if one.startswith(f"{path}/")]
        folder = (self.root / path).is_dir()
        if path in self.files or (folder and recursive):
            self.backend.delete_file(path, recursive=recursive)
            for gone in [path, *below]:
                self.files.pop(gone, None)
        else:
            with self.refused("not_found", "is_folder"):
                self.backend.delete_file(path, recursive=recursive)

    @rule(path=PATHS)
    def read(self, path: str) -> None:
        if path not in self.files:
            with self.refused("not_found", "is_folder"):
                self.backend.read_file(path)
            return
        lines = lines_of(self.files[path])
        shown = self.backend.read_file(path)
        assert shown.structured["files"][0]["totalLines"] == len(lines)
        numbered = [f"{number}\t{line}" for number, line in enumerate(lines, 1)]
        assert shown.text == ("\n".join(numbered) if lines else f"[{path} is empty: it has 0 lines.]")

    @rule(pattern=st.sampled_from(["*", "**", "*.txt", "**/*.txt", "a/**", "?", "**/ü"]))
    def glob(self, pattern: str) -> None:
        compiled = compile_glob(pattern)
        wanted = sorted((path for path in self.files if compiled.matches(path)), key=str.encode)
        assert self.backend.glob(pattern).structured["paths"] == wanted

    @rule(query=WORDS)
    def grep(self, query: str) -> None:
        wanted = {
            (path, number)
            for path, data in self.files.items()
            for number, line in enumerate(lines_of(data), 1)
            if query in line
        }
        answer = self.backend.grep(query)
        found = {(match["path"], match["line"]) for match in answer.structured["matches"]}
        assert found == wanted if len(wanted) <= 50 else found < wanted

    @rule()
    def another_backend(self) -> None:
        """Nothing but what was seen lives outside the directory."""
        self.backend = create_sandbox_backend(self.root)

    @invariant()
    def the_disk_holds_exactly_the_files(self) -> None:
        on_disk = {
            str(path.relative_to(self.root)): path.read_bytes() for path in self.root.rglob("*") if path.is_file()
        }
        assert on_disk == self.files
        names = {path.name for path in self.root.iterdir()}
        assert not any(name.startswith(".workbench") for name in names)
        listed = self.backend.ls(depth=9).structured["entries"]
        assert {one["path"] for one in listed if one["kind"] == "file"} == self.files.keys()


Model.TestCase.settings = settings(max_examples=25, stateful_step_count=25, deadline=None)
TestAnySequence = Model.TestCase
