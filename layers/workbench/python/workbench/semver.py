"""Versions of skills and prompts: which texts are one, which of two is later, and one spelling for each. No AWS here.

The order is Semantic Versioning's (2.0.0, section 11). People also write ``1``, ``1.0``, ``v2.1`` or a date such as
``2025.01.15``: missing numbers count as 0, a leading ``v`` and leading zeros as not written.
"""

from __future__ import annotations

import re
from functools import total_ordering

VERSION_CHARACTERS = 64
RULE = "up to three numbers with dots, such as 1.2.0, and perhaps a label such as -beta.1"
_NUMBER = r"0*([0-9]{1,9})"
_LABEL = r"[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*"
PATTERN = rf"[vV]?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?(?:-({_LABEL}))?(?:\+({_LABEL}))?"
_VERSION = re.compile(PATTERN)


class BadVersion(ValueError):
    """The text is no version; the message says what one looks like."""


@total_ordering
class Version:
    """One version. ``str()`` gives its one spelling; a build label (``+…``) only tells two apart that are else one."""

    def __init__(self, text: str) -> None:
        """Raises :class:`BadVersion`."""
        found = _VERSION.fullmatch(text) if len(text) <= VERSION_CHARACTERS and text.isascii() else None
        if found is None:
            raise BadVersion(f"A version is {RULE}; this one is not.")
        *numbers, label, build = found.groups()
        self.numbers = tuple(int(number or 0) for number in numbers)
        self.label = label or ""
        self._build = build or ""

    def __str__(self) -> str:
        text = ".".join(map(str, self.numbers))
        return text + (f"-{self.label}" if self.label else "") + (f"+{self._build}" if self._build else "")

    def __repr__(self) -> str:
        return f"Version({str(self)!r})"

    def next(self) -> Version:
        """The version that a small change leads to: the last number one higher, without labels."""
        major, minor, patch = self.numbers
        return Version(f"{major}.{minor}.{patch + (not self.label)}")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Version) and self._key() == other._key()

    def __lt__(self, other: Version) -> bool:
        return self._key() < other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        # A labelled version comes before the same without label; numbers come before words.
        parts = self.label.split(".") if self.label else []
        order = tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in parts)
        return self.numbers, not self.label, order, self._build
