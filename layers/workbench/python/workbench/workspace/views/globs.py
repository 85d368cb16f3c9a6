"""File patterns: ``*`` and ``?`` within a name, ``**`` for any number of folders. Everything else is itself.

A pattern is compiled once into a regular expression in which every wildcard sits in an atomic group: the shortest
match of what follows it is final. For these wildcards that loses nothing, and no pattern can make matching backtrack.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, field

from workbench.errors import ToolError
from workbench.workspace.paths import printable

GLOB_CHARACTERS = 512
_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff]")


class InvalidGlob(ToolError):
    """Not a pattern; ``details`` holds it and, where one is clear, ``suggestion``."""

    code = "invalid_path"


@dataclass(frozen=True, slots=True)
class Glob:
    """A compiled pattern. Matches whole paths, relative to the folder that was searched."""

    pattern: str
    _regex: re.Pattern[str] = field(repr=False, compare=False)

    def matches(self, path: str) -> bool:
        """True when the pattern fits the whole of ``path``."""
        return self._regex.match(path) is not None


def compile_glob(pattern: object, *, what: str = "glob") -> Glob:
    """The pattern ready for use; raises :class:`InvalidGlob`.

    ``*`` fits any characters of one name, none included, ``?`` exactly one, ``**`` as a whole name any number of
    folders, none included; at the end it fits everything below. Case counts; brackets and braces are characters.
    """
    segments = _segments(pattern, what)
    blocks: list[list[str]] = [[]]
    for segment in segments:
        if segment == "**":
            blocks.append([])
        else:
            blocks[-1].append(segment)
    return Glob("/".join(segments), re.compile(_expression(blocks), re.DOTALL))


def _segments(pattern: object, what: str) -> list[str]:
    if not isinstance(pattern, str):
        raise InvalidGlob(f"`{what}` must be a text such as `**/*.md`, not {type(pattern).__name__}.")
    if len(pattern) > GLOB_CHARACTERS:
        raise InvalidGlob(f"`{what}` has {len(pattern):,} characters; at most {GLOB_CHARACTERS} are allowed.")
    shown = printable(pattern)
    if _FORBIDDEN.search(pattern):
        raise InvalidGlob(f"`{what}` `{shown}` holds a character that no file name can. Take it out.", glob=shown)
    if "\\" in pattern:
        raise _refusal(what, shown, "holds a backslash; folders are separated by `/`", pattern.replace("\\", "/"))
    if pattern.startswith("/"):
        raise _refusal(what, shown, "begins with `/`; patterns are relative", pattern.lstrip("/") or "**")
    segments = [part for part in unicodedata.normalize("NFC", pattern).split("/") if part != "."]
    if pattern.endswith("/"):
        raise _refusal(what, shown, "ends with `/`, which fits no file", pattern.rstrip("/") + "/**")
    if not pattern or not segments:
        raise InvalidGlob(f"`{what}` is empty. Leave it out, or use `**` for every file.", suggestion="**")
    if not all(segments):
        raise _refusal(what, shown, "holds an empty name", "/".join(filter(None, segments)) or "**")
    if ".." in segments:
        raise InvalidGlob(f"`{what}` `{shown}` holds `..`; a pattern only looks below its folder.", glob=shown)
    for number, segment in enumerate(segments):
        if "**" in segment and segment != "**":
            name = re.sub(r"\*+", "*", segment)
            better = "/".join([*segments[:number], "**", name, *segments[number + 1 :]])
            raise _refusal(what, shown, "joins `**` to other characters; it stands for whole folders", better)
    return segments


def _refusal(what: str, shown: str, fault: str, suggestion: str) -> InvalidGlob:
    return InvalidGlob(f"`{what}` `{shown}` {fault}. Use `{printable(suggestion)}`.", glob=shown, suggestion=suggestion)


def _expression(blocks: list[list[str]]) -> str:
    """The expression for blocks of names that ``**`` separates."""
    parts = [_names(blocks[0])]
    for number, block in enumerate(blocks[1:], start=2):
        if number == len(blocks):
            # The last block has to reach the end: each folder may be where it begins, and none is final before that.
            parts.append(rf"(?:[^/]+/)*?{_names(block)}" if block else ".+")
        elif block:
            parts.append(rf"(?>(?:[^/]+/)*?{_names(block)}/)")
    head = parts[0]
    separator = "/" if blocks[0] and len(blocks) > 1 else ""
    return rf"{head}{separator}{''.join(parts[1:])}\Z"


def _names(block: list[str]) -> str:
    return "/".join(map(_name, block))


def _name(segment: str) -> str:
    head, *pieces = (_literal(piece) for piece in re.split(r"\*+", segment))
    if not pieces:
        return head
    *middle, tail = pieces
    steps = "".join(rf"(?>[^/]*?{piece})" for piece in middle)
    # The last piece has to end the name; the look-ahead lets the rest of the path follow.
    return rf"{head}{steps}[^/]*{tail}(?=/|\Z)" if tail else rf"{head}{steps}(?>[^/]*)"


def _literal(piece: str) -> str:
    return "".join("[^/]" if character == "?" else re.escape(character) for character in piece)
