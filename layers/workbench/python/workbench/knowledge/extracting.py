"""Reading a file in a child process: started for one file, watched by the clock, and trusted with nothing.

What comes back is checked like anybody's input. The heavy libraries load in the child alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench import apart
from workbench.errors import WorkbenchError
from workbench.knowledge.model import EXTENTS
from workbench.knowledge.passages import MOST_CHARACTERS, Passage
from workbench.logs import logger

# An upload has to be read, stored and indexed before the API's gateway gives up.
SECONDS = 18.0
# Five million characters, each as an escape, and what stands around them.
ANSWER_BYTES = 80 * 1024 * 1024
CODES = frozenset({"encrypted", "broken", "unsupported_type", "too_large"})

_PLACE_CHARACTERS = 400
_PROGRAM = "from workbench.knowledge.reading.child import main; main(sys.argv[1:])"


class Unreadable(WorkbenchError):
    """The file is not taken; ``code`` says why in a word."""


@dataclass(frozen=True)
class Extracted:
    """A file's text in passages; ``extent`` counts pages, slides, sheets, rows or lines."""

    format: str
    media_type: str
    extent: Mapping[str, int]
    notes: tuple[str, ...]
    passages: list[Passage]


def extract(data: bytes, media_type: str, charset: str | None, name: str, seconds: float = SECONDS) -> Extracted:
    """Read a file's text. Raises :class:`Unreadable`: encrypted, broken, of an unsupported type or too large."""
    try:
        answer = apart.run(_PROGRAM, [media_type, charset or "", name], data, seconds=seconds, most=ANSWER_BYTES)
    except apart.NoAnswer:
        raise Unreadable(
            f"Reading the file took more than {seconds:.0f} seconds. Split it into smaller files and upload those.",
            code="too_large",
            seconds=seconds,
        ) from None
    return _checked(answer)


def _checked(answer: bytes) -> Extracted:
    try:
        told: dict[str, Any] = json.loads(answer)
        if "refused" in told:
            code = told["refused"] if told["refused"] in CODES else "broken"
            if "cause" in told:
                logger.info("unreadable file", extra={"cause": str(told["cause"])[:100]})
            raise Unreadable(str(told["message"])[:1000], code=code)
        return Extracted(
            format=_text(told["kind"], 40),
            media_type=_text(told["mediaType"], 127),
            extent={name: int(told["extent"][name]) for name in EXTENTS if name in told["extent"]},
            notes=tuple(_text(note, 1000) for note in told["notes"][:20]),
            passages=[
                Passage(
                    number, _text(text, MOST_CHARACTERS), None if place is None else _text(place, _PLACE_CHARACTERS)
                )
                for number, (text, place) in enumerate(told["passages"], 1)
            ],
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        # Killed by a limit, or by the file.
        raise Unreadable(
            "The file could not be read: its reader ended before it was done, as with damaged files and with very "
            "large ones. Open it in its own program, save it anew or split it.",
            code="broken",
        ) from error


def _text(value: Any, most: int) -> str:
    if not isinstance(value, str) or len(value) > most:
        raise TypeError("not a text of that length")
    return value
