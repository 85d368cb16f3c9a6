"""Text to search terms, the same for documents and questions: what readers take for the same is spelled the same here.

Case, compatibility forms (full width, ligatures), accents, invisible characters and the s of a plural make no
difference. Scripts that are written without spaces become overlapping pairs of characters. A compound such as
``foo_bar``, ``AB-123`` or ``don't`` gives itself without its joints, and its parts, so that ``email`` finds ``e-mail``
and ``bar`` finds ``foo_bar``. Pure; no language is assumed or detected.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from regex import Pattern

# What is longer is data rather than a word; cut alike on both sides, it is still found.
LONGEST = 64
# A chain of more parts (a breadcrumb, a row of cells) is no one's name for a thing.
MOST_PARTS = 8
# Words whose terms are remembered; longer ones come once.
_REMEMBERED, _REMEMBERED_LENGTH = 32_768, 32

# A joint needs a word on both sides. A comma joins only thousands: `1,000` but not the cells of `a,b`.
_JOINTS = r"(?:['_.\-]+|(?<=[0-9]),(?=[0-9]{3}(?![0-9])))"
_LANGUAGE = r"(?<![a-z0-9])[a-z](?:\+\+|\#)(?![a-z0-9])"
_ASCII = re.compile(rf"{_LANGUAGE}|[a-z0-9]+(?:{_JOINTS}[a-z0-9]+)*")
_PARTS = re.compile(r"[^'_.,\-]+")
_DOT_IN_A_NUMBER = re.compile(r"(?<=[0-9])\.+(?=[0-9])")
_JOINT_CHARACTERS = "'_.,-"
_NOT_JOINED = str.maketrans("", "", _JOINT_CHARACTERS)
# ASCII with everything blanked that is no part of a term: splitting is several times faster than any pattern.
_BLANKED = str.maketrans(
    {code: " " for code in range(128) if not (chr(code).isalnum() or chr(code) in _JOINT_CHARACTERS + "+#")}
)

# Scripts whose writers put no space between words, and Korean, whose words carry their particles with them.
_UNSPACED = r"\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Hangul}ー\u3099\u309A"
_UNSPACED += r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Tham}"
# Accents, tones, vowel points and harakat: what a reader may leave out. Vowel signs of Indic scripts are no such marks.
_MARKS = r"\u0300-\u036F\u0483-\u0489\u0591-\u05BD\u05BF\u05C1\u05C2\u05C4\u05C5\u05C7\u0610-\u061A\u064B-\u065F\u0670"
_MARKS += r"\u1AB0-\u1AFF\u1DC0-\u1DFF\u20D0-\u20FF\uFE20-\uFE2F"
# Soft hyphens, joiners, direction marks, variation selectors, tatweel, skin tones: they make no other word.
_INVISIBLE = r"\u00AD\u034F\u0640\u061C\u180B-\u180F\u200C-\u200F\u202A-\u202E\u2060-\u206F\uFE00-\uFE0F\uFEFF"
_INVISIBLE += r"\U0001F3FB-\U0001F3FF\U000E0000-\U000E0FFF"
# Letters with a stroke have no decomposition, yet they are typed without it. Some quotation marks serve as apostrophes.
_ALIKE = {"ø": "o", "đ": "d", "ð": "d", "ł": "l", "ħ": "h", "ŧ": "t", "ı": "i", "æ": "ae", "œ": "oe", "þ": "th"}
_ALIKE |= {"\u2019": "'", "\u2018": "'", "\u02bc": "'", "\u2010": "-", "\u2011": "-", "\u2212": "-"}

_ADDS_ES = ("sses", "shes", "xes", "tches", "rches", "nches")


def tokens(text: str) -> list[str]:
    """The search terms of ``text`` in reading order, repeated as often as they occur; empty when it holds none.

    Any string will do, lone surrogates included. A lone ideograph is a term; two or more give their pairs only.
    """
    return list(chain.from_iterable(map(_terms.__getitem__, _chunks(text))))


def index_tokens(text: str) -> list[str]:
    """:func:`tokens` of a text that is to be found, and each ideograph of a run: a lone ``猫`` shall find ``黒猫``."""
    found = tokens(text)
    if not text.isascii():
        for run in _patterns().runs.findall(fold(text)):
            found += _patterns().ideographs.findall(run)
    return found


def fold(text: str) -> str:
    """``text`` with everything alike that search does not tell apart."""
    if text.isascii():
        return text.lower()
    # Decomposed and folded to the end: folding a case may decompose, and leave a mark to take off.
    plain = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", text).casefold())
    patterns = _patterns()
    plain = patterns.taken_out.sub("", plain)
    plain = patterns.replaced.sub(_replacement, plain)
    # Composed again: syllables of Hangul, and kana with their voicing marks, are one character each.
    return unicodedata.normalize("NFC", plain)


# ---------------------------------------------------------------- chunks: what stands between blanks


class _Terms(dict[str, list[str]]):
    """The terms of a chunk, remembered: a text repeats its words."""

    def __missing__(self, chunk: str) -> list[str]:
        found = _terms_of(chunk)
        if len(chunk) <= _REMEMBERED_LENGTH:
            if len(self) >= _REMEMBERED:
                self.clear()
            self[chunk] = found
        return found


_terms = _Terms()


def _chunks(text: str) -> list[str]:
    return text.lower().translate(_BLANKED).split() if text.isascii() else text.split()


def _terms_of(chunk: str) -> list[str]:
    found: list[str] = []
    folded = fold(chunk)
    if folded.isascii():
        _add_words(_ASCII.findall(folded), found)
        return found
    patterns = _patterns()
    for piece in patterns.pieces.findall(folded):
        if patterns.unspaced.match(piece):
            found += _pairs(_characters(piece))
        else:
            _add_words((piece,), found)
    return found


class _Patterns:
    """What needs the properties of Unicode; compiled when the first text beyond ASCII comes by."""

    def __init__(self) -> None:
        # Loaded here, because it takes longer to import than all the rest and many texts never need it.
        import regex

        def pattern(text: str) -> Pattern[str]:
            return regex.compile(text, regex.VERSION1)

        words = rf"[[\p{{L}}\p{{M}}\p{{N}}]--[{_UNSPACED}]]"
        self.taken_out = pattern(f"[{_MARKS}{_INVISIBLE}]+")
        self.replaced = pattern(rf"[{''.join(_ALIKE)}]|[\p{{Nd}}--[0-9]]")
        self.pieces = pattern(
            rf"[{_UNSPACED}]+|{_LANGUAGE}|{words}+(?:{_JOINTS}{words}+)*"
            r"|\p{Regional_Indicator}{2}|\p{Extended_Pictographic}"
        )
        self.unspaced = pattern(f"[{_UNSPACED}]")
        self.marked = pattern(r"\p{M}")
        self.characters = pattern(r"\P{M}\p{M}*|\p{M}+")
        self.runs = pattern(f"[{_UNSPACED}]{{2,}}")
        self.ideographs = pattern(r"\p{Han}")


_patterns: Callable[[], _Patterns] = cache(_Patterns)


def _replacement(match: re.Match[str]) -> str:
    character = match[0]
    # The two libraries know Unicode in different versions: a digit of a newer script stays as it is.
    return _ALIKE.get(character) or str(unicodedata.decimal(character, character))


def _characters(run: str) -> str | list[str]:
    """What a reader of the run counts as its characters: letters with the vowel signs on them."""
    patterns = _patterns()
    return patterns.characters.findall(run) if patterns.marked.search(run) else run


def _pairs(run: str | list[str]) -> list[str]:
    if len(run) == 1:
        return [run[0]]
    return [run[place] + run[place + 1] for place in range(len(run) - 1)]


# ---------------------------------------------------------------- words


def _add_words(words: Iterable[str], found: list[str]) -> None:
    for word in words:
        parts = _PARTS.findall(word)
        if len(parts) == 1:
            found.append(_singular(word))
            continue
        if len(parts) <= MOST_PARTS:
            # The dots of 1.25 stay, or it would be 125; every other joint is a matter of taste.
            numbers = [part.translate(_NOT_JOINED) for part in _DOT_IN_A_NUMBER.split(word)]
            found.append(_singular(".".join(numbers)))
        clitics = "'" in word
        # The s of `Anna's` and the l of `l'avion` say nothing.
        found += [_singular(part) for part in parts if not (clitics and len(part) == 1 and part.isalpha())]


def _singular(word: str) -> str:
    """``word`` without the s of a plural. Rough, and the same on both sides, which is all that finding needs."""
    if len(word) > 3 and word[-1] == "s" and word[-2] not in "siu":
        word = word[:-2] if word.endswith(_ADDS_ES) else word[:-1]
    if len(word) > 4 and word.endswith("ie"):
        # `companies` has to meet `company`; so `movie` becomes `movy`, and so does `movies`.
        word = word[:-2] + "y"
    return word[:LONGEST]
