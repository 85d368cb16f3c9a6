"""New contents on their way out: packed into objects of at most 4 MiB, sent as they fill up.

A content that fits one pack is never split; a larger one continues over the following packs. Equal contents travel
once.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

PACK_BYTES = 4 * 1024 * 1024

Send = Callable[[int, bytes], None]  # part number, raw bytes


class Piece(NamedTuple):
    part: int
    offset: int
    length: int


class Packs:
    """``send`` gets every full pack, in order; ``parts`` counts them."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self._open = bytearray()
        self._known: dict[str, list[Piece]] = {}
        self.parts = 0

    def known(self, sha256: str) -> list[Piece] | None:
        """Where this content stands already."""
        return self._known.get(sha256)

    def add(self, sha256: str, size: int, contents: Iterable[bytes]) -> list[Piece]:
        """Pack one content of ``size`` bytes, given in pieces of any length."""
        if len(self._open) + size > PACK_BYTES and size <= PACK_BYTES:
            self.flush()
        pieces: list[Piece] = []
        for data in contents:
            view = memoryview(data)
            while view:
                if len(self._open) == PACK_BYTES:
                    self.flush()
                taken = view[: PACK_BYTES - len(self._open)]
                _extend(pieces, Piece(self.parts, len(self._open), len(taken)))
                self._open += taken
                view = view[len(taken) :]
        self._known[sha256] = pieces
        return pieces

    def flush(self) -> None:
        """Send what is packed so far; also the end."""
        if self._open:
            self._send(self.parts, bytes(self._open))
            self.parts += 1
            self._open.clear()


def _extend(pieces: list[Piece], piece: Piece) -> None:
    last = pieces[-1] if pieces else None
    if last and last.part == piece.part and last.offset + last.length == piece.offset:
        pieces[-1] = last._replace(length=last.length + piece.length)
    else:
        pieces.append(piece)


def send_lines(lines: Iterable[bytes], send: Send) -> int:
    """Send JSON lines in parts of at most 4 MiB of whole lines; how many parts it took."""
    parts, waiting = 0, bytearray()
    for line in lines:
        if waiting and len(waiting) + len(line) + 1 > PACK_BYTES:
            send(parts, bytes(waiting))
            parts += 1
            waiting.clear()
        waiting += line + b"\n"
    if waiting:
        send(parts, bytes(waiting))
        parts += 1
    return parts
