"""What a skill or a prompt may be called. No AWS here.

Its name is a part of routes and keys, for a skill also a folder of the sandbox and a word that people write after a
``$``. It never holds an ``@``, which sets a version apart.
"""

from __future__ import annotations

import unicodedata

NAME_CHARACTERS = 64
NAME_RULE = (
    f"1 to {NAME_CHARACTERS} letters, digits, blanks and `- _ . : + & ' ( )`, with a letter or digit first and no "
    "blank last"
)
_MARKS = frozenset(" -_.:+&'()")


def is_name(text: object) -> bool:
    """True when a skill or a prompt may have this name, which is in Unicode's composed form (:func:`composed`)."""
    return (
        isinstance(text, str)
        and 0 < len(text) <= NAME_CHARACTERS
        and text[0].isalnum()
        and not text.endswith(" ")
        and all(sign in _MARKS or sign.isalnum() or unicodedata.combining(sign) for sign in text)
    )


def composed(text: str) -> str:
    """``text`` in the one form (NFC) in which names are compared."""
    return unicodedata.normalize("NFC", text)
