"""The unified difference of two texts, in bounded time whatever they hold. Pure.

Lines are those of the line model. An ending that is no plain newline stays on its line, a missing last one is told as
diff tools tell it, so that two texts that differ in bytes never look the same.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher

from workbench.workspace.text.lines import parse

CONTEXT_LINES = 3
# Above these, what lies between the first and the last difference is shown as replaced: finding the lines that both
# have in common takes time that grows with their product.
COMPARED_LINES = 4_000
COMPARED_PAIRS = 40_000
_NO_NEWLINE = "\n\\ No newline at end of file"

Opcode = tuple[str, int, int, int, int]


def unified(path: str, before: bytes | None, after: bytes | None) -> str:
    """The unified diff from ``before`` to ``after`` (None: no file). Empty when they differ in no visible text."""
    old, new = _lines(before), _lines(after)
    said: list[str] = []
    for group in _grouped(_opcodes(old, new)):
        first, last = group[0], group[-1]
        said.append(f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@")
        for kind, old_from, old_to, new_from, new_to in group:
            if kind == "equal":
                said += [f" {line}" for line in old[old_from:old_to]]
            else:
                said += [f"-{line}" for line in old[old_from:old_to]]
                said += [f"+{line}" for line in new[new_from:new_to]]
    if not said:
        return ""
    names = [f"--- a/{path}" if before is not None else "--- /dev/null", f"+++ {_name(path, after)}"]
    # Each line ended, the last one too: otherwise no tool takes it as a patch.
    return "\n".join([*names, *said, ""])


def _name(path: str, data: bytes | None) -> str:
    return "/dev/null" if data is None else f"b/{path}"


def _lines(data: bytes | None) -> list[str]:
    if not data:
        return []
    document = parse(data)
    texts = document.lines(1, len(document))
    if document.endings.keys() - {"\n"}:
        texts = [
            text if document.decode(document.ending(number)) in ("\n", "") else f"{text}\r"
            for number, text in enumerate(texts, 1)
        ]
    if texts and document.bom and document.encoding == "utf-8":
        texts[0] = f"\ufeff{texts[0]}"
    if texts and not document.final_newline:
        texts[-1] += _NO_NEWLINE
    return texts


def _opcodes(old: Sequence[str], new: Sequence[str]) -> list[Opcode]:
    """What to do with which lines, as difflib says it."""
    start, most = 0, min(len(old), len(new))
    while start < most and old[start] == new[start]:
        start += 1
    end = 0
    while end < most - start and old[-1 - end] == new[-1 - end]:
        end += 1
    one, other = old[start : len(old) - end], new[start : len(new) - end]
    middle: list[Opcode] = []
    if _comparable(one, other):
        middle = [
            (kind, i1 + start, i2 + start, j1 + start, j2 + start)
            for kind, i1, i2, j1, j2 in SequenceMatcher(None, one, other, autojunk=False).get_opcodes()
        ]
    elif one or other:
        middle = [("replace", start, start + len(one), start, start + len(other))]
    head: list[Opcode] = [("equal", 0, start, 0, start)] if start else []
    tail: list[Opcode] = [("equal", len(old) - end, len(old), len(new) - end, len(new))] if end else []
    return [*head, *middle, *tail]


def _comparable(old: Sequence[str], new: Sequence[str]) -> bool:
    if max(len(old), len(new)) > COMPARED_LINES:
        return False
    counts = Counter(new)
    return sum(counts[line] for line in old) <= COMPARED_PAIRS


def _grouped(opcodes: Sequence[Opcode]) -> Iterator[list[Opcode]]:
    """Changes with a few equal lines around them; those that are near each other together."""
    group: list[Opcode] = []
    for at, (kind, old_from, old_to, new_from, new_to) in enumerate(opcodes):
        if kind != "equal":
            group.append((kind, old_from, old_to, new_from, new_to))
            continue
        before = CONTEXT_LINES if group else 0
        after = CONTEXT_LINES if at + 1 < len(opcodes) else 0
        if group and after and old_to - old_from <= before + after:
            group.append((kind, old_from, old_to, new_from, new_to))
            continue
        if group:
            cut = min(before, old_to - old_from)
            group.append((kind, old_from, old_from + cut, new_from, new_from + cut))
            yield group
            group = []
        if after:
            cut = min(after, old_to - old_from)
            group.append((kind, old_to - cut, old_to, new_to - cut, new_to))
    if any(kind != "equal" for kind, *_ in group):
        yield group


def _span(start: int, stop: int) -> str:
    """A range of lines as unified diffs write it."""
    length = stop - start
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"
