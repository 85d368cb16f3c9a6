"""The names that people give their documents: whatever a file system somewhere allows, and hostile until shown quoted.

A document keeps its name as it was given. As a file's name it is made fit for one, and in a text that a model reads it
stands quoted on its line. Pure.
"""

from __future__ import annotations

import json
import re
import unicodedata

# Leaves room for a number that tells two inputs apart; file systems take 255.
FILE_NAME_BYTES = 200
SHOWN_CHARACTERS = 120

_NO_FILE_NAME = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff/\\\\]")
# Joiners and presentation marks, of which emoji and several scripts are made.
_JOINING = frozenset("\u200c\u200d\ufe0e\ufe0f")


def file_name(name: str) -> str:
    """``name`` as the bare name of a file: no folder, no control or direction character, at most 200 bytes."""
    clean = _NO_FILE_NAME.sub("_", unicodedata.normalize("NFC", name)).strip()
    if not clean.strip("."):
        clean = f"document{clean if len(clean) > 2 else ''}"
    stem, dot, extension = clean.rpartition(".")
    if not dot or len(extension.encode()) > 20:
        stem, dot, extension = clean, "", ""
    room = FILE_NAME_BYTES - len((dot + extension).encode())
    return stem.encode()[:room].decode(errors="ignore").rstrip() + dot + extension


def quoted(name: str) -> str:
    """``name`` in quotation marks for a line of text: nothing in it ends the quotation, the line or its direction."""
    cut = name if len(name) <= SHOWN_CHARACTERS else f"{name[: SHOWN_CHARACTERS - 1]}…"
    shown = "".join(
        letter if letter.isprintable() or letter in _JOINING else f"\\u{{{ord(letter):x}}}" for letter in cut
    )
    return json.dumps(shown, ensure_ascii=False).replace("\\\\u{", "\\u{")
