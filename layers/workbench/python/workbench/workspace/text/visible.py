"""Lines as an answer quotes them: on one line, cut, and with white space and control characters to be seen."""

from __future__ import annotations

from workbench.workspace.views.cuts import cut_before

QUOTED_CHARACTERS = 200
_ESCAPES = {"\t": "\\t", "\n": "\\n", "\r": "\\r", "\\": "\\\\"}
# Holds the parts of an emoji together: escaped, it would take them apart.
_JOINER = "\u200d"


def visible(text: str, limit: int = QUOTED_CHARACTERS) -> str:
    """``text`` in double quotes, cut at ``limit`` characters; only plain blanks stand for themselves.

    Escapes are those of most programming languages, so a backslash is doubled.
    """
    shown = text[: cut_before(text, limit)]
    escaped = shown if shown.isprintable() and "\\" not in shown else "".join(map(_escape, shown))
    if len(shown) == len(text):
        return f'"{escaped}"'
    return f'"{escaped}…" (cut: {len(text):,} characters in all)'


def counted(number: int, noun: str) -> str:
    """``1 line`` or ``2,000 lines``; of ``entry``, ``2 entries``."""
    if number == 1:
        return f"1 {noun}"
    return f"{number:,} {noun[:-1]}ies" if noun.endswith("y") else f"{number:,} {noun}s"


def _escape(character: str) -> str:
    if character in _ESCAPES:
        return _ESCAPES[character]
    if character.isprintable() or character == _JOINER:
        return character
    code = ord(character)
    return f"\\x{code:02x}" if code < 0x80 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
