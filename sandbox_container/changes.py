"""What differs between the workspace as it was laid out and as it was found: contents to packs, the rest to lines."""

import json
from collections.abc import Iterable, Iterator

from sandbox_container.layout import WORKSPACE, Planned
from sandbox_container.packs import Packs, Piece
from sandbox_container.scan import Found, LeftOut


class Changes:
    """Compares entry by entry. New contents go to ``packs`` at once; :meth:`lines` gives the list at the end."""

    def __init__(self, plan: Iterable[Planned], packs: Packs) -> None:
        self._before = {entry.path: entry for entry in plan if entry.root == WORKSPACE}
        self._contents = {entry.sha256 for entry in self._before.values() if entry.kind == "file"}
        self._packs = packs
        self._lines: list[bytes] = []
        self._seen: set[str] = set()

    def take(self, found: Found) -> None:
        self._seen.add(found.path)
        before = self._before.get(found.path)
        if before and (before.kind, before.mode, before.sha256) == (found.kind, found.mode, found.sha256):
            return
        line: dict[str, object] = {"path": found.path, "kind": found.kind, "mode": f"{found.mode:04o}"}
        if found.kind == "file":
            line |= {"bytes": found.size, "sha256": found.sha256, "pieces": self._pieces(found)}
        self._lines.append(_json(line))

    def lines(self, left_out: Iterable[LeftOut]) -> Iterator[bytes]:
        """Deleted paths first, so that a folder that became a file is out of the way."""
        for path in sorted(self._before.keys() - self._seen, reverse=True):
            yield _json({"path": path, "deleted": True})
        yield from self._lines
        for entry in left_out:
            yield _json({"name": entry.name, "leftOut": entry.reason})

    def _pieces(self, found: Found) -> list[dict[str, int]]:
        if found.sha256 in self._contents or found.size == 0:
            return []
        pieces = self._packs.known(found.sha256)
        if pieces is None:
            pieces = self._packs.add(found.sha256, found.size, found.read())
        return [Piece._asdict(piece) for piece in pieces]


def _json(line: dict[str, object]) -> bytes:
    return json.dumps(line, ensure_ascii=False, separators=(",", ":")).encode()
