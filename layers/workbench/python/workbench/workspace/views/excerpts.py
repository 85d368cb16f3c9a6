"""A long line reduced to what matters of it: the matches, some text around them, and how much was cut where."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.workspace.views.cuts import cut_after, cut_before

WHOLE_LINE_CHARACTERS = 500
EXCERPT_CHARACTERS = 400
CONTEXT_LINE_CHARACTERS = 200
PLACES_SHOWN = 5
_LEAST_AROUND_CHARACTERS = 40


def excerpt(text: str, places: Sequence[tuple[int, int, int]]) -> str:
    """The line with up to PLACES_SHOWN of its matches, centred, the first of each query among them; cuts are marked.

    ``places`` are (start, end, query index) in order. A mark says how many of the line's characters stand there:
    ``[… 120 of 900 characters]``.
    """
    chosen = _chosen(places)
    around = max(_LEAST_AROUND_CHARACTERS, EXCERPT_CHARACTERS // (2 * len(chosen)))
    windows: list[tuple[int, int]] = []
    for start, end in chosen:
        left, right = cut_before(text, start - around), cut_after(text, end + around)
        if windows and left <= windows[-1][1] + _LEAST_AROUND_CHARACTERS:
            windows[-1] = windows[-1][0], max(windows[-1][1], right)
        else:
            windows.append((left, right))
    parts, shown_to = [], 0
    for left, right in windows:
        if left - shown_to <= _LEAST_AROUND_CHARACTERS:
            left = shown_to
        if len(text) - right <= _LEAST_AROUND_CHARACTERS:
            right = len(text)
        parts += [_mark(left - shown_to, text), text[left:right]]
        shown_to = right
    return " ".join(part for part in [*parts, _mark(len(text) - shown_to, text)] if part)


def beginning(text: str) -> str:
    """A line of context: whole, or its beginning and a mark that says how much was cut."""
    if len(text) <= CONTEXT_LINE_CHARACTERS:
        return text
    end = cut_before(text, CONTEXT_LINE_CHARACTERS)
    return f"{text[:end]} {_mark(len(text) - end, text)}"


def _chosen(places: Sequence[tuple[int, int, int]]) -> list[tuple[int, int]]:
    first_of_each: dict[int, tuple[int, int]] = {}
    for start, end, query in places:
        first_of_each.setdefault(query, (start, end))
    chosen = set(first_of_each.values())
    for start, end, _ in places:
        if len(chosen) >= PLACES_SHOWN:
            break
        chosen.add((start, end))
    return sorted(chosen)


def _mark(characters: int, line: str) -> str:
    return f"[… {characters} of {len(line)} characters]" if characters else ""
