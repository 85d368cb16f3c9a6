"""What a file-tool backend is to the contract tests: few methods, plain values, and an exception for a refusal."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol


class FileBackend(Protocol):
    """One backend over one set of files. Paths are relative, with ``/``; line numbers count from 1.

    Methods give the text that a model would read. A refusal raises, whatever the exception.
    """

    root: Path | None
    """The directory that the files lie in; None where they lie elsewhere."""

    def put(self, path: str, data: bytes) -> None:
        """Store a file past the tools, missing folders too."""

    def get(self, path: str) -> bytes | None:
        """A file's bytes, past the tools; None when there is no file."""

    def ls(self, path: str = "") -> str: ...

    def read_file(self, path: str, start_line: int | None = None, end_line: int | None = None) -> str: ...

    def write_file(self, path: str, content: str) -> str: ...

    def edit_file(self, path: str, find: str, replace: str) -> str: ...

    def glob(self, pattern: str) -> list[str]: ...

    def grep(self, query: str) -> tuple[list[tuple[str, int]], str]:
        """Where ``query`` stands literally, as path and line, and the text that says so."""


class Refused(Exception):
    """For adapters of backends that answer a refusal instead of raising it."""


class Disk:
    """The two methods past the tools, for backends over a directory."""

    root: Path

    def put(self, path: str, data: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def get(self, path: str) -> bytes | None:
        target = self.root / path
        return target.read_bytes() if target.is_file() and not target.is_symlink() else None
