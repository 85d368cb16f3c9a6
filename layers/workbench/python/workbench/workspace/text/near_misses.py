"""Why a text that was to be found is not there: what it differs in from the text that was probably meant.

Only hints are made here. Nothing that merely comes near is ever edited.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any

from workbench.workspace.text.lines import text_lines
from workbench.workspace.text.refusals import listed
from workbench.workspace.text.visible import visible

_LINES_LISTED = 20
_NUMBER_COLUMN = re.compile(r"(?m)^[ ]*\d+\t")
_BLANKS = re.compile(r"[^\S\n]+")
_BLANKS_AT_ENDS = re.compile(r"[^\S\n]+(?=\n|\Z)")
_BLANKS_AT_STARTS = re.compile(r"(?m)^[^\S\n]+")
_INVISIBLE = re.compile("[\u00ad\u200b-\u200f\u2060\ufeff]")
_ESCAPE = re.compile(r"\\([nrt\"'\\])")
_ESCAPED = {"n": "\n", "r": "\n", "t": "\t"}
_QUOTES = str.maketrans(dict.fromkeys("\"'`´‘’‚‛“”„‟«»‹›′″＂＇", "'"))
_DASHES = str.maketrans(dict.fromkeys("‐‑‒–—―−﹘－", "-"))

Answer = tuple[str, list[int], dict[str, Any]]

# What two texts may differ in: a name, and a function that makes it equal and keeps every line where it is.
Fold = Callable[[str], str]
_FOLDS: tuple[tuple[str, Fold], ...] = (
    ("quotes", lambda text: text.translate(_QUOTES)),
    ("dashes", lambda text: text.translate(_DASHES)),
    ("blanks at line ends", lambda text: _BLANKS_AT_ENDS.sub("", text)),
    ("indentation", lambda text: _BLANKS_AT_STARTS.sub("", text)),
    ("blanks", lambda text: _BLANKS_AT_ENDS.sub("", _BLANKS.sub(" ", text))),
    ("upper and lower case", str.casefold),
    ("invisible characters", lambda text: _INVISIBLE.sub("", text)),
    ("the Unicode form of its accents", lambda text: unicodedata.normalize("NFC", text)),
)


def why_no_match(find: str, text: str, new_texts: Sequence[str]) -> Answer | None:
    """(a sentence, the lines it points to, facts for programs) about a ``find`` that does not occur in ``text``.

    ``text`` is the whole file with ``\\n`` for every ending and U+FFFD for invalid bytes; ``new_texts`` are what the
    call's other edits put in. None when nothing comes near.
    """
    find = "\n".join(text_lines(find)) + "\n" * find.endswith(("\n", "\r"))
    return (
        _number_column(find, text)
        or _put_in_by_another(find, new_texts)
        or _undecodable(find, text)
        or _differs_only(find, text)
        or _first_line(find, text)
    )


def why_anchor_differs(parameter: str, anchor: str, now: str) -> str | None:
    """A sentence when the anchor evidently means the line that reads ``now``, or could mean no line at all."""
    if len(text_lines(anchor)) > 1:
        return f"{parameter} holds several lines; it is the text of one line only."
    column = _NUMBER_COLUMN.match(anchor)
    if column:
        return f"{parameter} begins with the number column that reading shows ({visible(column[0])}); leave it out."
    anchor, now = anchor.rstrip(), now.rstrip()
    if anchor in now:
        return f"{parameter} is a part of that line; it must be the whole line."
    kinds = _kinds(anchor, now, str.__eq__)
    return f"They differ only in {_joined(kinds)}." if kinds else None


def _number_column(find: str, text: str) -> Answer | None:
    column = _NUMBER_COLUMN.match(find)
    if column is None:
        return None
    hint = (
        f"It begins with the number column that reading shows ({visible(column[0])}); leave it out, in replace as well."
    )
    lines = _lines_of(_NUMBER_COLUMN.sub("", find), text)
    if lines:
        hint += f" Without it, the text stands on {listed(lines)}."
    return hint, lines, {"differsIn": ["number column"]}


def _put_in_by_another(find: str, new_texts: Sequence[str]) -> Answer | None:
    if any(find in new for new in new_texts):
        return (
            "It is in what another edit of this call puts in, but all edits mean the file before the call. Join them.",
            [],
            {"differsIn": ["another edit"]},
        )
    return None


def _undecodable(find: str, text: str) -> Answer | None:
    lines = _lines_of(find, text) if "\ufffd" in find else []
    if not lines:
        return None
    return (
        f"On {listed(lines)} U+FFFD only stands for bytes of the file that are no valid text. Leave it out of find.",
        lines,
        {"differsIn": ["invalid bytes"]},
    )


def _differs_only(find: str, text: str) -> Answer | None:
    plain = _ESCAPE.sub(lambda match: _ESCAPED.get(match[1], match[1]), find)
    lines = _lines_of(plain, text) if plain != find else []
    if lines:
        return _told(["escapes (write real line breaks, tabs and quotes)"], lines, find, text)
    for kind, fold in _FOLDS:
        folded = fold(find)
        # An empty rest would be found everywhere.
        lines = _lines_of(folded, fold(text)) if folded.strip() else []
        if lines:
            return _told([kind], lines, find, text)
    bare = find.strip("\n")
    lines = _lines_of(bare, text) if bare.strip() and bare != find else []
    if lines:
        return _told(["the line breaks at its ends"], lines, find, text)
    folded = _folded(find, _FOLDS)
    lines = _lines_of(folded, _folded(text, _FOLDS)) if folded.strip() else []
    if not lines:
        return None
    there = "\n".join(text.split("\n")[lines[0] - 1 : lines[0] + find.count("\n")])
    return _told(_kinds(find, there, str.__contains__), lines, find, text)


def _told(kinds: Sequence[str], lines: list[int], find: str, text: str) -> Answer:
    """The lines that come near, and the first one there that is not as ``find`` has it."""
    there = text.split("\n")[lines[0] - 1 :]
    pairs = enumerate(zip(find.split("\n"), there, strict=False), lines[0])
    number, line = next(((at, now) for at, (wanted, now) in pairs if wanted not in now), (lines[0], there[0]))
    if len(lines) == 1:
        hint = f"Line {number} differs only in {_joined(kinds)}: it reads {visible(line)}. Copy it exactly."
    else:
        hint = f"{listed(lines).capitalize()} differ only in {_joined(kinds)}; line {number} reads {visible(line)}."
    return hint, lines, {"differsIn": list(kinds)}


def _first_line(find: str, text: str) -> Answer | None:
    """Where the first line of an excerpt stands, and how far the file agrees with it there."""
    wanted = find.split("\n")
    blank = next((number for number, line in enumerate(wanted) if line.strip()), len(wanted))
    wanted = wanted[blank:]
    if len(wanted) < 2:
        return None
    lines = _lines_of(f"{wanted[0]}\n", f"{text}\n")
    if not lines:
        return None
    there = text.split("\n")
    agreed, at = max((_agreement(wanted, there[line - 1 :]), -line) for line in lines)
    line = -at + agreed
    hint = f"Its first line stands on {listed(lines)}, but what follows there is different: "
    if line > len(there):
        hint += f"the file ends after line {len(there)}."
    else:
        hint += f"line {line} reads {visible(there[line - 1])} where find has {visible(wanted[agreed])}."
    return hint, lines, {"firstLine": lines, "differsAt": line}


def _agreement(wanted: Sequence[str], there: Sequence[str]) -> int:
    """How many lines agree, the first of them being known to."""
    for number, (one, other) in enumerate(zip(wanted[1:], there[1:], strict=False), 1):
        if one != other:
            return number
    return min(len(wanted), len(there))


def _lines_of(find: str, text: str) -> list[int]:
    """On which lines ``find`` begins; the first few."""

    def starts() -> Iterator[int]:
        at, line, counted = text.find(find), 1, 0
        while at >= 0:
            line += text.count("\n", counted, at)
            counted = at
            yield line
            at = text.find(find, at + 1)

    return list(dict.fromkeys(islice(starts(), _LINES_LISTED))) if find else []


def _kinds(one: str, other: str, agree: Callable[[str, str], Any]) -> list[str]:
    """The fewest kinds of difference, as named in _FOLDS, without which ``agree(other, one)``; [] when they remain."""
    needed = list(_FOLDS)

    def agrees(folds: Sequence[tuple[str, Fold]]) -> bool:
        folded = _folded(one, folds)
        return bool(folded.strip()) and bool(agree(_folded(other, folds), folded))

    if not agrees(needed):
        return []
    for fold in reversed(_FOLDS):
        fewer = [kept for kept in needed if kept is not fold]
        if agrees(fewer):
            needed = fewer
    return [kind for kind, _ in needed]


def _folded(text: str, folds: Sequence[tuple[str, Fold]]) -> str:
    for _, fold in folds:
        text = fold(text)
    return text


def _joined(kinds: Sequence[str]) -> str:
    return kinds[0] if len(kinds) == 1 else f"{', '.join(kinds[:-1])} and {kinds[-1]}"
