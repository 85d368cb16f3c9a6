"""Workspace paths: what counts as one, and how a refused one is put right.

A path is relative, ``/``-separated and in Unicode's composed form (NFC). Nothing is decoded: a percent sign is just a
character. The same rules judge what a caller asks for and what a run leaves behind.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from workbench.errors import ToolError

SEGMENT_BYTES = 255
PATH_BYTES = 1_024
# Only code sees the tree under this name; a caller who copies it from there means the file itself.
MOUNT_NAME = "workspace"
_SHOWN_CHARACTERS = 120

# Cc: no name may hold these. The rest is legal in a name but would break or reorder the line that shows it.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_UNPRINTABLE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class InvalidPath(ToolError):
    """Not a workspace path. ``details`` holds the path as shown and, where one is clear, ``suggestion``."""

    code = "invalid_path"


def check_path(text: object, *, what: str = "path") -> str:
    """The path of a file, normalised; ``what`` names the argument in a refusal. Raises :class:`InvalidPath`."""
    path = _segments(text, what)
    if not path:
        raise InvalidPath(
            f"`{what}` {_quoted(text) if text else 'is empty and'} names the workspace's root folder, not a file. "
            "Add a file name, for example `notes.md`.",
            path=printable(str(text)),
        )
    joined = "/".join(path)
    if str(text).endswith(("/", "/.", "/..")):
        raise InvalidPath(
            f"`{what}` {_quoted(text)} names a folder. Add a file name, for example {_quoted(joined + '/notes.md')}.",
            path=printable(str(text)),
            suggestion=f"{joined}/notes.md",
        )
    return joined


def check_folder(text: object, *, what: str = "path") -> str:
    """The path of a folder (or of a file), normalised; ``""`` is the root. Raises :class:`InvalidPath`."""
    return "/".join(_segments(text, what))


def parents(path: str) -> Iterator[str]:
    """The folders above ``path``, outermost first, without the root: ``a/b/c`` gives ``a`` and ``a/b``."""
    at = path.find("/")
    while at >= 0:
        yield path[:at]
        at = path.find("/", at + 1)


def usable_name(raw: bytes) -> str | None:
    """The path a name found on disk (one name or a relative path) gets, or None when no rule allows it."""
    return None if name_fault(raw) else unicodedata.normalize("NFC", raw.decode())


def name_fault(raw: bytes) -> str | None:
    """Why a name found on disk cannot be a path, in words that complete "left out: …"; None when it can."""
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return "the name is not valid UTF-8"
    if "\\" in text:
        return "the name holds a backslash"
    if _CONTROL.search(text):
        return "the name holds a control character"
    normal = unicodedata.normalize("NFC", text)
    segments = normal.split("/")
    if any(segment in ("", ".", "..") for segment in segments):
        return "the name is not a relative path"
    if segments[0] == MOUNT_NAME and len(segments) > 1:
        return f"a folder named `{MOUNT_NAME}` cannot stand in the root"
    return _length_fault(normal)


def printable(text: str) -> str:
    """``text`` on one line and in its own order: controls, line separators and direction marks escaped."""
    return _UNPRINTABLE.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    named = {9: "\\t", 10: "\\n", 13: "\\r"}.get(code)
    return named or (f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}")


def _quoted(text: object) -> str:
    shown = printable(str(text)[: _SHOWN_CHARACTERS + 1])
    return f"`{shown}`" if len(shown) <= _SHOWN_CHARACTERS else f"`{shown[:_SHOWN_CHARACTERS]}`…"


def _length_fault(path: str) -> str | None:
    size = len(path.encode())
    if size > PATH_BYTES:
        return f"the path has {size:,} bytes and {PATH_BYTES:,} are allowed"
    longest = max(len(segment.encode()) for segment in path.split("/"))
    if longest > SEGMENT_BYTES:
        return f"one name in the path has {longest} bytes and {SEGMENT_BYTES} are allowed"
    return None


def _segments(text: object, what: str) -> list[str]:
    """The resolved segments of a path, ``[]`` for the root. Every rule but "is it a file" is checked here."""
    if not isinstance(text, str):
        raise InvalidPath(f"`{what}` must be a text such as `notes/plan.md`, not {type(text).__name__}.")
    if len(text) > 4 * PATH_BYTES:
        raise InvalidPath(
            f"`{what}` has {len(text):,} characters; a path has at most {PATH_BYTES:,} bytes. Use a shorter one.",
            path=printable(text[:_SHOWN_CHARACTERS]),
        )
    _check_characters(text, what)
    # Composing may turn a character into another one, so it comes before the segments are looked at.
    normal = unicodedata.normalize("NFC", text)
    resolved = _resolve(normal, what)
    if resolved and resolved[0] == MOUNT_NAME and (len(resolved) > 1 or normal.endswith("/")):
        raise _refusal(
            what,
            text,
            f"starts with `{MOUNT_NAME}/`, which only code run in the sandbox sees",
            _without_mount(resolved),
        )
    fault = _length_fault("/".join(resolved)) if resolved else None
    if fault:
        raise InvalidPath(
            f"`{what}` {_quoted(text)} is too long: {fault}. Use shorter names.", path=printable(normal[:PATH_BYTES])
        )
    return resolved


def _check_characters(text: str, what: str) -> None:
    if _SURROGATE.search(text):
        raise InvalidPath(
            f"`{what}` {_quoted(text)} holds half a character (a lone surrogate), which no file name can. "
            "Write the name in plain characters.",
            path=printable(text[:PATH_BYTES]),
        )
    found = _CONTROL.search(text)
    if found:
        raise _refusal(what, text, f"holds the control character {printable(found[0])}", _clean(text))
    if "\\" in text:
        raise _refusal(what, text, "holds a backslash; folders are separated by `/`", _clean(text))


def _resolve(path: str, what: str) -> list[str]:
    if path.startswith("/"):
        raise _refusal(what, path, "is absolute; paths are relative to the workspace's root", _clean(path))
    if "//" in path:
        raise _refusal(what, path, "holds an empty name (`//`)", _clean(path))
    resolved: list[str] = []
    for segment in path.split("/"):
        if segment == "..":
            if not resolved:
                raise _refusal(what, path, "leaves the workspace; nothing outside of it can be reached", _clean(path))
            resolved.pop()
        elif segment not in ("", "."):
            resolved.append(segment)
    return resolved


def _refusal(what: str, text: str, fault: str, suggestion: str) -> InvalidPath:
    advice = f" Use {_quoted(suggestion)}." if suggestion else " Give a path such as `notes/plan.md`."
    details = {"suggestion": suggestion} if suggestion else {}
    return InvalidPath(f"`{what}` {_quoted(text)} {fault}.{advice}", path=printable(text[:PATH_BYTES]), **details)


def _clean(text: str) -> str:
    """The nearest path that the rules allow; empty when nothing is left."""
    kept: list[str] = []
    for segment in _CONTROL.sub("", text).replace("\\", "/").split("/"):
        if segment == "..":
            del kept[-1:]
        elif segment not in ("", "."):
            kept.append(segment)
    return _without_mount(kept)


def _without_mount(segments: list[str]) -> str:
    while len(segments) > 1 and segments[0] == MOUNT_NAME:
        segments = segments[1:]
    return "" if segments == [MOUNT_NAME] else "/".join(segments)
