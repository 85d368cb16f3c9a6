"""Backends for the contract tests: the library, the HTTP tools, a peer, and one that has every fault."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from local.library import create_sandbox_backend
from tests.contract.protocol import Disk, Refused
from tests.local.talk import Talk, text


class Directory(Disk):
    """This project's library."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._backend = create_sandbox_backend(root)

    def ls(self, path: str = "") -> str:
        return self._backend.ls(path).text

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        return self._backend.read_file(path, start_line, end_line).text

    def write_file(self, path: str, content: str) -> str:
        return self._backend.write_file(path, content).text

    def edit_file(self, path: str, find: str, replace: str) -> str:
        return self._backend.edit_file(path, [{"find": find, "replace": replace}]).text

    def glob(self, pattern: str) -> list[str]:
        return list(self._backend.glob(pattern).structured["paths"])

    def grep(self, query: str) -> tuple[list[tuple[str, int]], str]:
        answer = self._backend.grep(query)
        return [(match["path"], match["line"]) for match in answer.structured["matches"]], answer.text


class Http:
    """This project's tools over HTTP."""

    root = None

    def __init__(self, talk: Talk) -> None:
        self._talk = talk

    def put(self, path: str, data: bytes) -> None:
        self._talk.put(path, data)

    def get(self, path: str) -> bytes | None:
        return self._talk.bytes_of(path)

    def _call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self._talk.call(tool, **arguments)
        if answer["outcome"] != "ok":
            raise Refused(answer["error"]["message"])
        return answer

    def ls(self, path: str = "") -> str:
        return text(self._call("list_files", path=path))

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        return text(self._call("read_file", path=path, startLine=start_line, endLine=end_line))

    def write_file(self, path: str, content: str) -> str:
        return text(self._call("write_file", path=path, content=content))

    def edit_file(self, path: str, find: str, replace: str) -> str:
        return text(self._call("edit_file", path=path, edits=[{"find": find, "replace": replace}]))

    def glob(self, pattern: str) -> list[str]:
        entries = self._call("list_files", glob=pattern)["structured"]["entries"]
        return [entry["path"] for entry in entries if entry["kind"] == "file"]

    def grep(self, query: str) -> tuple[list[tuple[str, int]], str]:
        answer = self._call("search_files", queries=[query])
        return [(match["path"], match["line"]) for match in answer["structured"]["matches"]], text(answer)


class DeepAgents(Disk):
    """The file system backend of the package ``deepagents``, which has to be installed beside pytest."""

    def __init__(self, root: Path) -> None:
        from deepagents.backends import FilesystemBackend  # type: ignore[import-not-found]

        root.mkdir(exist_ok=True)
        self.root = root
        self._backend = FilesystemBackend(root_dir=str(root), virtual_mode=True)

    @staticmethod
    def _checked(result: Any) -> Any:
        if result.error:
            raise Refused(result.error)
        return result

    def ls(self, path: str = "") -> str:
        return "\n".join(entry["path"] for entry in self._checked(self._backend.ls(f"/{path}")).entries)

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        first = start_line or 1
        limit = 2_000 if end_line is None else end_line - first + 1
        return str(self._checked(self._backend.read(f"/{path}", offset=first - 1, limit=limit)).file_data["content"])

    def write_file(self, path: str, content: str) -> str:
        return str(self._checked(self._backend.write(f"/{path}", content)).path)

    def edit_file(self, path: str, find: str, replace: str) -> str:
        return str(self._checked(self._backend.edit(f"/{path}", find, replace)).path)

    def glob(self, pattern: str) -> list[str]:
        return [match["path"].lstrip("/") for match in self._checked(self._backend.glob(pattern)).matches]

    def grep(self, query: str) -> tuple[list[tuple[str, int]], str]:
        matches = self._checked(self._backend.grep(query)).matches
        said = "\n".join(f"{match['path']}:{match['line']}: {match['text']}" for match in matches)
        return [(match["path"].lstrip("/"), match["line"]) for match in matches], said


class Naive(Disk):
    """What one writes in an afternoon, with the faults that people reported: it proves that the tests see them."""

    def __init__(self, root: Path) -> None:
        root.mkdir(exist_ok=True)
        self.root = root

    def ls(self, path: str = "") -> str:
        return "\n".join(sorted(entry.name for entry in (self.root / path).iterdir()))

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str:
        lines = (self.root / path).read_text(errors="replace").splitlines()
        return "\n".join(lines[(start_line or 1) - 1 : end_line])

    def write_file(self, path: str, content: str) -> str:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content.replace("\\n", "\n"))
        return "ok"

    def edit_file(self, path: str, find: str, replace: str) -> str:
        target = self.root / path
        old = target.read_text(errors="replace")
        target.write_text(old.replace(find, replace, 1))
        return "ok"

    def glob(self, pattern: str) -> list[str]:
        return sorted(str(path.relative_to(self.root)) for path in self.root.glob(pattern))

    def grep(self, query: str) -> tuple[list[tuple[str, int]], str]:
        found = [
            (str(path.relative_to(self.root)), number, line)
            for path in sorted(self.root.rglob("*"))
            if path.is_file()
            for number, line in enumerate(path.read_text().split("\n"), 1)
            if re.search(query, line)
        ]
        return [(path, line) for path, line, _ in found], "\n".join(f"{p}:{n}: {line}" for p, n, line in found)
