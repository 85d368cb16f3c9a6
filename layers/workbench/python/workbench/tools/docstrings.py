"""What a tool's docstring says, and how it reads for one turn.

A docstring is the description that a model reads, so it may only name what the turn has. A line that begins with a
mark is kept or dropped with what follows it, up to the next mark or blank line::

    Write a file of the workspace.
    [if export_artifact] Only export_artifact gives the person a file.
    [if not vision] Pictures are described in words.

The word in the mark is a tool's name or ``vision``. ``{written_file_bytes}`` stands for that setting's value. Used for
publishing only: a function that answers a call never loads the parser.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from workbench.settings import Settings
from workbench.tools.contract import Tool

Has = Callable[[str], bool]

_MARK = re.compile(r"\[if (?P<without>not )?(?P<name>[a-z_]+)\]\s*")
_SETTING = re.compile(r"\{([a-z_]+)\}")
_ITEM = re.compile(r"\s*(?:[-*]|\d+\.)\s")
_BYTE_UNITS = (("GiB", 1024**3), ("MiB", 1024**2), ("KiB", 1024))


class Undocumented(TypeError):
    """A tool whose docstring does not describe it; the catalogue is not published with it."""


@dataclass(frozen=True, slots=True)
class Documentation:
    """A docstring's description and its parameters' (by the function's names), marks and placeholders as written."""

    description: str
    parameters: dict[str, str]


def read(tool: Tool) -> Documentation:
    """Parse the docstring of ``tool``; raises :class:`Undocumented` unless it describes exactly the parameters."""
    from griffe import Docstring, DocstringSectionKind

    description: list[str] = []
    parameters: dict[str, str] = {}
    text = tool.function.__doc__ or ""
    for section in Docstring(_dedented(text)).parse("google", warnings=False):
        if section.kind is DocstringSectionKind.text:
            description.append(section.value)
        elif section.kind is DocstringSectionKind.parameters:
            parameters = {entry.name: entry.description for entry in section.value}
    if not description:
        raise Undocumented(f"{tool.id} has no description")
    wanted = list(tool.model.model_fields)
    missing = [name for name in wanted if not parameters.get(name)]
    unknown = [name for name in parameters if name not in wanted]
    if missing or unknown:
        raise Undocumented(f"{tool.id}: not described: {missing}; described but not taken: {unknown}")
    return Documentation("\n\n".join(description), parameters)


def render(text: str, has: Has, settings: Settings) -> str:
    """``text`` for a turn: marked sentences kept or dropped, settings filled in, lines of a paragraph joined."""
    paragraphs: list[list[str]] = [[]]
    kept = True
    for line in text.splitlines():
        if not line.strip():
            kept = True
            paragraphs.append([])
            continue
        mark = _MARK.match(line.lstrip())
        if mark:
            kept = has(mark["name"]) != bool(mark["without"])
            line = line.lstrip()[mark.end() :]
        if kept and line.strip():
            paragraphs[-1].append(line)
    joined = "\n\n".join(_joined(lines) for lines in paragraphs if lines)
    return _SETTING.sub(lambda match: _setting(match[1], settings) or match[0], joined)


def _joined(lines: list[str]) -> str:
    text = lines[0].strip()
    for line in lines[1:]:
        text += ("\n" if _ITEM.match(line) else " ") + line.strip()
    return text


def _setting(name: str, settings: Settings) -> str | None:
    if name not in Settings.model_fields:
        return None
    value = getattr(settings, name)
    if name.endswith("_bytes"):
        for unit, size in _BYTE_UNITS:
            if value % size == 0:
                return f"{value // size:,} {unit}"
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _dedented(text: str) -> str:
    from inspect import cleandoc

    return cleandoc(text)
