"""The library behind the words that the cases of ``tests/local`` use for a turn, so that they run over both."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from local.library import SandboxBackend, create_sandbox_backend


class DirectoryTalk:
    """One reader of one directory; :meth:`again` gives another, who has seen nothing yet."""

    def __init__(self, root: Path, *, vision: bool = False) -> None:
        self.root, self._vision = root, vision
        self.backend: SandboxBackend = create_sandbox_backend(root, vision=vision)

    def again(self, model: Any = None) -> DirectoryTalk:
        vision = self._vision if model is None else model["vision"]
        return DirectoryTalk(self.root, vision=vision)

    def call(self, tool: str, **arguments: Any) -> dict[str, Any]:
        return self.send(tool, arguments).json  # type: ignore[no-any-return]

    def send(self, tool: str, arguments: Any) -> Any:
        if tool == "list_files":
            tool, arguments = "ls", {"depth": 64, **arguments}
        elif tool == "search_files":
            (query,) = [arguments["queries"]] if isinstance(arguments["queries"], str) else arguments["queries"]
            tool, arguments = "grep", {"query": query, **{k: v for k, v in arguments.items() if k != "queries"}}
        return SimpleNamespace(json=self.backend.call(tool, arguments))

    def ok(self, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.call(tool, **arguments)
        assert answer["outcome"] == "ok", answer["error"]
        return answer

    def refused(self, code: str, tool: str, **arguments: Any) -> str:
        answer = self.call(tool, **arguments)
        assert answer["error"] is not None, answer["content"]
        assert answer["error"]["code"] == code, answer["error"]
        message: str = answer["error"]["message"]
        return message

    def put(self, path: str, data: bytes) -> None:
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)

    def bytes_of(self, path: str) -> bytes | None:
        target = self.root / path
        return target.read_bytes() if target.is_file() else None

    def files(self) -> dict[str, bytes]:
        found = (path for path in self.root.rglob("*") if path.is_file())
        return {str(path.relative_to(self.root)): path.read_bytes() for path in found}
