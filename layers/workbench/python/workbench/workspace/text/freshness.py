"""Whether lines still are what this turn last saw of them. The numbers of an edit are only as good as that."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from workbench.workspace.text.lines import Document, is_text, parse
from workbench.workspace.text.refusals import Excerpt
from workbench.workspace.text.seen import Range, Sight

State = Literal["fresh", "changed", "unseen"]

_EXCERPT_LINES = 40
_EXCERPT_CHARACTERS = 4_000


class Freshness:
    """Compares the file as it is with the blob that the turn last saw, which is fetched only when it differs."""

    def __init__(
        self, document: Document, sight: Sight | None, blob: str, earlier: Callable[[str], bytes | None]
    ) -> None:
        self._document = document
        self._sight = sight
        self._same_blob = sight is not None and sight.blob == blob
        self._fetch = earlier
        self._fetched = False
        self._earlier: Document | None = None

    def state(self, first: int, last: int) -> State:
        """``fresh`` when the turn saw every line of the range and all of them still read so."""
        if self._sight is None or not self._sight.covers(first, last):
            return "unseen"
        return "fresh" if self._same_blob or self._unchanged(first, last) else "changed"

    def carried_over(self) -> tuple[Range, ...]:
        """What the turn has seen of the file as it is now: of another blob, the lines that still read so."""
        if self._sight is None or self._same_blob:
            return self._sight.ranges if self._sight else ()
        earlier = self._before()
        if earlier is None:
            return ()
        return tuple(run for one in self._sight.ranges for run in self._unchanged_runs(earlier, *one))

    def _unchanged_runs(self, earlier: Document, first: int, last: int) -> Iterator[Range]:
        """The lines of a range that read as before, at once or one by one."""
        last = min(last, len(earlier), len(self._document))
        if first <= last and self._unchanged(first, last):
            yield first, last
        elif earlier.encoding == self._document.encoding:
            for line in range(first, last + 1):
                if earlier.line_bytes(line) == self._document.line_bytes(line):
                    yield line, line

    def _unchanged(self, first: int, last: int) -> bool:
        earlier, now = self._before(), self._document
        if earlier is None or not earlier.has_line(last) or not now.has_line(last):
            return False
        return (
            earlier.encoding == now.encoding
            # The last line's ending is left out: text that was added after an unterminated line did not change it.
            and earlier.data[earlier.span(first)[0] : earlier.span(last)[1]]
            == now.data[now.span(first)[0] : now.span(last)[1]]
        )

    def _before(self) -> Document | None:
        if not self._fetched and self._sight is not None:
            self._fetched = True
            data = self._fetch(self._sight.blob)
            if data is not None and is_text(data):
                self._earlier = parse(data)
        return self._earlier


def excerpt(document: Document, first: int, last: int) -> Excerpt:
    """The lines of a range as reading numbers them, as many as a refusal can carry."""
    texts = document.lines(first, min(last, first + _EXCERPT_LINES - 1))
    shown: list[str] = []
    left = _EXCERPT_CHARACTERS
    for number, text in enumerate(texts, first):
        line = f"{number}\t{text}"
        if len(line) > left:
            break
        left -= len(line) + 1
        shown.append(line)
    whole = (first, first + len(shown) - 1)
    if whole[1] < last:
        shown.append("… (the rest is not shown here)" if shown else "(too long to be shown here)")
    return Excerpt("\n".join(shown), whole, whole[1] == last)
