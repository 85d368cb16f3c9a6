"""What one turn last saw of each file: the blob and the lines of it, so that an edit by number can be checked.

Pure bookkeeping. It is kept in one item per turn (``paths`` and ``flags``, see docs/architecture.md), bounded so that
the item never outgrows DynamoDB's 400 KB whatever the paths and however scattered the lines are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Range = tuple[int, int]

PATHS_KEPT = 500
FLAGS_KEPT = 100
RANGES_PER_PATH = 60
_PATHS_KEPT_BYTES = 240_000
# An update expression may hold 4 KB; a call that saw more files than this writes its map whole.
_CHANGES_APART = 100


@dataclass(frozen=True, slots=True)
class Span:
    """Lines ``old_first..old_last`` became ``new_first..new_last``; an empty side ends one before it begins."""

    old_first: int
    old_last: int
    new_first: int
    new_last: int

    @property
    def grown(self) -> int:
        """Lines added minus lines removed."""
        return (self.new_last - self.new_first) - (self.old_last - self.old_first)


def merge(ranges: Iterable[Range]) -> tuple[Range, ...]:
    """Ranges sorted, without empty ones, and joined where they overlap or follow each other."""
    merged: list[Range] = []
    for first, last in sorted(ranges):
        if last < first:
            continue
        if merged and first <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return tuple(merged)


def shift(ranges: Iterable[Range], spans: Sequence[Span]) -> tuple[Range, ...]:
    """The ranges seen before an edit, in the numbers after it, with the edited lines added as seen.

    ``spans`` are ascending and do not overlap.
    """
    old = merge(ranges)
    moved: list[Range] = [(span.new_first, span.new_last) for span in spans]
    gap_first, offset = 1, 0
    for span in spans:
        moved += _within(old, gap_first, span.old_first - 1, offset)
        gap_first, offset = span.old_last + 1, offset + span.grown
    moved += _within(old, gap_first, None, offset)
    return merge(moved)


def _within(ranges: Iterable[Range], first: int, last: int | None, offset: int) -> list[Range]:
    return [
        (max(start, first) + offset, (end if last is None else min(end, last)) + offset)
        for start, end in ranges
        if end >= first and (last is None or start <= last)
    ]


@dataclass(frozen=True, slots=True)
class Sight:
    """Lines ``ranges`` (sorted, disjoint, both ends included) of the file whose SHA-256 is ``blob``.

    ``place`` says where its bytes lie when that is not an object of their own (see ``Entry.place``).
    """

    blob: str
    ranges: tuple[Range, ...] = ()
    place: str = ""

    def covers(self, first: int, last: int) -> bool:
        """True when every line from ``first`` to ``last`` was seen."""
        return any(start <= first and last <= end for start, end in self.ranges)

    def and_also(self, ranges: Iterable[Range]) -> Sight:
        """This sight with more lines of the same blob; of too many scattered ranges the new and the longest stay."""
        new = merge(ranges)
        merged = merge([*self.ranges, *new])
        if len(merged) > RANGES_PER_PATH:
            newest = set(new[-RANGES_PER_PATH:])
            by_worth = sorted(merged, key=lambda one: (one in newest, one[1] - one[0]), reverse=True)
            merged = tuple(sorted(by_worth[:RANGES_PER_PATH]))
        return replace(self, ranges=merged)


@dataclass
class Seen:
    """The sights and guard flags of one turn; ``changes`` is what its item must learn.

    A flag marks a path whose replacement the whole-file guard refused in this turn; its value says over what
    (a blob's SHA-256 or a size in bytes).
    """

    _sights: dict[str, tuple[Sight, int]] = field(default_factory=dict)
    _flags: dict[str, str | int] = field(default_factory=dict)
    _stored: bool = False
    _changed: dict[tuple[str, str], None] = field(default_factory=dict)

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Seen:
        """From the turn's item, which is empty before the turn has seen anything."""
        paths, flags = item.get("paths"), item.get("flags")
        sights = {
            path: (
                Sight(value["blob"], merge((int(a), int(b)) for a, b in value["ranges"]), value.get("place", "")),
                int(value["at"]),
            )
            for path, value in (paths or {}).items()
        }
        marks = {path: mark if isinstance(mark, str) else int(mark) for path, mark in (flags or {}).items()}
        # A nested attribute can only be set where its parent exists.
        return cls(sights, marks, paths is not None and flags is not None)

    def sight(self, path: str) -> Sight | None:
        """What the turn last saw of ``path``."""
        found = self._sights.get(path)
        return found[0] if found else None

    def saw(self, path: str, blob: str, ranges: Iterable[Range], at: float, *, place: str = "") -> None:
        """Lines of ``blob`` were shown. They add to earlier ones of the same blob and replace those of another."""
        sight = self.sight(path)
        if sight is None or sight.blob != blob:
            sight = Sight(blob, place=place)
        self.replace(path, sight.and_also(ranges), at)

    def replace(self, path: str, sight: Sight, at: float) -> None:
        """After the turn's own write: all that it has seen of the file as it now is. ``at`` in Unix seconds."""
        self._sights[path] = (replace(sight, ranges=()).and_also(sight.ranges), int(at))
        self._changed["paths", path] = None

    def forget(self, path: str) -> None:
        """The file is gone: nothing of it counts as seen."""
        if self._sights.pop(path, None) is not None:
            self._changed["paths", path] = None

    def flag(self, path: str) -> str | int | None:
        """Over what the whole-file guard refused to replace ``path`` in this turn; None when it did not."""
        return self._flags.get(path)

    def set_flag(self, path: str, mark: str | int) -> None:
        """Remember that the whole-file guard refused to replace ``path``."""
        self._flags[path] = mark
        self._changed["flags", path] = None
        while len(self._flags) > FLAGS_KEPT:
            self._drop_flag(next(iter(self._flags)))

    def clear_flag(self, path: str) -> None:
        """The guard has nothing against ``path`` any more."""
        if path in self._flags:
            self._drop_flag(path)

    def changed_paths(self) -> list[str]:
        """Paths whose sight was set or dropped since the item was read."""
        return [path for kind, path in self._changed if kind == "paths"]

    def as_item(self) -> dict[str, dict[str, Any]]:
        """``{"paths": {path: {"blob", "ranges", "at"}}, "flags": {path: mark}}``, trimmed to what is kept."""
        self._trim()
        return {"paths": {path: self._value(path) for path in self._sights}, "flags": dict(self._flags)}

    def changes(self) -> tuple[dict[str | tuple[str, ...], Any], list[str | tuple[str, ...]]]:
        """(attribute paths to set with their values, attribute paths to remove) since the item was read."""
        changed: dict[str | tuple[str, ...], Any] = {}
        removed: list[str | tuple[str, ...]] = []
        if not self._changed:
            return changed, removed
        now = self.as_item()
        if not self._stored or len(self._changed) > _CHANGES_APART:
            changed.update(now)
            return changed, removed
        for kind, path in self._changed:
            if path in now[kind]:
                changed[kind, path] = now[kind][path]
            else:
                removed.append((kind, path))
        return changed, removed

    def _value(self, path: str) -> dict[str, Any]:
        sight, at = self._sights[path]
        value = {"blob": sight.blob, "ranges": [list(one) for one in sight.ranges], "at": at}
        return {**value, "place": sight.place} if sight.place else value

    def _drop_flag(self, path: str) -> None:
        del self._flags[path]
        self._changed["flags", path] = None

    def _trim(self) -> None:
        """Drop what was seen longest ago until number and estimated size fit."""
        kept_bytes = sum(_stored_bytes(path, sight) for path, (sight, _) in self._sights.items())
        if len(self._sights) <= PATHS_KEPT and kept_bytes <= _PATHS_KEPT_BYTES:
            return
        for path, (sight, _) in sorted(self._sights.items(), key=lambda one: one[1][1]):
            if len(self._sights) <= PATHS_KEPT and kept_bytes <= _PATHS_KEPT_BYTES:
                break
            kept_bytes -= _stored_bytes(path, sight)
            self.forget(path)


def _stored_bytes(path: str, sight: Sight) -> int:
    """About what DynamoDB counts: name, 64 hex digits, field names and times, a pair of numbers a range."""
    return len(path.encode(errors="replace")) + 64 + 40 + len(sight.place) + 16 * len(sight.ranges)
