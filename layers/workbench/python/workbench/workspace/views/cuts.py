"""Where a text may be cut: never inside what a reader sees as one character, such as a family emoji.

Boundaries are those of Unicode's extended grapheme clusters (UAX #29). Only the surroundings of a cut are looked at,
and the library that knows the rules is imported when a cut falls beside something other than ASCII.
"""

from __future__ import annotations

# Longer clusters than this exist only to be a nuisance; they are cut between code points.
_REACH_CHARACTERS = 64
# Flags are pairs of these, so which two belong together depends on where the whole run of them begins.
_REGIONAL_INDICATORS = "".join(map(chr, range(0x1F1E6, 0x1F200)))


def cut_before(text: str, at: int) -> int:
    """The last place at or before ``at`` where ``text`` may be cut."""
    return _cut(text, at, after=False)


def cut_after(text: str, at: int) -> int:
    """The first place at or after ``at`` where ``text`` may be cut."""
    return _cut(text, at, after=True)


def _cut(text: str, at: int, *, after: bool) -> int:
    if not 0 < at < len(text):
        return max(0, min(at, len(text)))
    if text[at - 1 : at + 1].isascii() and text[at - 1 : at + 1] != "\r\n":
        return at
    import regex

    start = max(0, at - _REACH_CHARACTERS)
    if text[start] in _REGIONAL_INDICATORS:
        start -= (start - len(text[:start].rstrip(_REGIONAL_INDICATORS))) % 2
    window = text[start : at + _REACH_CHARACTERS]
    before = 0
    for cluster in regex.finditer(r"\X", window):
        end = cluster.end()
        if start + end == at:
            return at
        if start + end > at:
            if after:
                return start + end if end < len(window) or start + end == len(text) else at
            return start + before if before or start == 0 else at
        before = end
    return at
