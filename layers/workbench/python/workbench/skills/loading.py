"""What a model reads of a skill that it loads: the instructions, and which files come with them. No AWS here."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import frontmatter
from workbench.errors import ToolError
from workbench.tools.answer import Answer, TextPart
from workbench.workspace.paths import printable
from workbench.workspace.views.cuts import cut_before

# Paths shown to the model; the structured answer has all of them.
LISTED_FILES = 200


def instructions_of(skill_file: bytes) -> str:
    """The body of a stored SKILL.md."""
    return frontmatter.split(skill_file)[1]


def text_of(data: bytes, path: str, how: str) -> str:
    """A file's text; raises ToolError ``binary`` that says ``how`` else to use it."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ToolError(
            f"`{printable(path)}` is no UTF-8 text ({len(data):,} bytes), so it cannot be shown. {how}".rstrip(),
            code="binary",
            path=path,
            bytes=len(data),
        ) from None


def answer(title: str, text: str, *, offset: int, budget: int, closing: str = "", **facts: Any) -> Answer:
    """``text`` from character ``offset`` on, at most ``budget`` of them, exactly as stored: the answer's first part.

    ``title`` follows, and ``closing`` on the first page. ``next`` in the structured answer says where the text goes on.
    Raises ToolError ``range_outside``.
    """
    if offset > len(text):
        raise ToolError(
            f"There are {len(text):,} characters, and none at {offset:,}. Use an offset up to that.",
            code="range_outside",
            total=len(text),
        )
    page = text[offset : cut_before(text, offset + budget)]
    end = offset + len(page)
    parts = [page or "[It is empty.]"]
    if end < len(text):
        facts["next"] = end
        parts.append(f"[Characters {offset:,} to {end:,} of {len(text):,}. Call again with offset {end} to read on.]")
    parts.append(f"{title}\n{closing}" if closing and not offset else title)
    return Answer([TextPart(part) for part in parts], facts)


def listed(files: Sequence[dict[str, Any]], how: str = "") -> str:
    """The skill's files by path and size, and ``how`` to use them."""
    lines = [f"- {printable(file['path'])} ({file['bytes']:,} bytes)" for file in files[:LISTED_FILES]]
    if len(files) > LISTED_FILES:
        lines.append(f"- and {len(files) - LISTED_FILES:,} more")
    return "\n".join(["Files of this skill:", *lines, *filter(None, [how])]) if lines else ""
