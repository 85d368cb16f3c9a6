"""A SKILL.md as data: name, description, version and body, or the reason why it is none. No AWS here."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePath
from typing import Any

from workbench import frontmatter, semver
from workbench.frontmatter import BadFrontmatter
from workbench.naming import NAME_CHARACTERS, NAME_RULE, composed, is_name
from workbench.semver import BadVersion

SKILL_FILE = "SKILL.md"
DESCRIPTION_CHARACTERS = 1_024
DEFAULT_VERSION = "0.1.0"

_LINE = re.compile(r"\s+")


class BadSkill(ValueError):
    """Not a skill. ``reason`` says what is wrong and what to write instead; ``path`` is the file, where known."""

    def __init__(self, reason: str, path: str | None = None) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.reason = reason
        self.path = path


class BadName(BadSkill):
    """The name is missing, too long or holds what no name may."""


class BadDescription(BadSkill):
    """The description is missing, too long or no text."""


@dataclass(frozen=True)
class Skill:
    """A parsed SKILL.md. ``path`` is the file's, where it is one.

    ``fields`` are the other entries of its head: license, allowed-tools, metadata and whatever else stands there.
    """

    name: str
    description: str
    version: str
    body: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    path: str | None = None

    @property
    def folder(self) -> Path | None:
        """The folder that holds the skill's files; None for one that was parsed from a text alone."""
        return Path(self.path).parent if self.path else None


def parse_skill_file(content: str | bytes, path: str | PurePath | None = None) -> Skill:
    """Read a SKILL.md; ``path`` only names it in refusals.

    Tolerates a byte-order mark, UTF-16 with one, CR and CRLF, blank lines before the head, a closing ``---`` that ends
    the file, and ``---`` in the body. The description is given on one line. Raises :class:`BadSkill` with the reason.
    """
    where = None if path is None else str(path)
    try:
        document = frontmatter.parse(content)
    except BadFrontmatter as error:
        raise BadSkill(str(error), where) from None
    known = dict(document.fields)
    return Skill(
        name=_name(known.pop("name", None), where),
        description=_description(known.pop("description", None), where),
        version=_version(known.pop("version", None), where),
        body=document.body,
        fields=known,
        path=where,
    )


def _name(value: Any, path: str | None) -> str:
    if value is None or value == "":
        raise BadName("The frontmatter has no `name`. Add one, such as `name: fill-forms`.", path)
    if not isinstance(value, str):
        raise BadName(f"`name` must be a text, not {_kind(value)}.", path)
    name = composed(value.strip())
    if len(name) > NAME_CHARACTERS:
        raise BadName(f"`name` has {len(name):,} characters and {NAME_CHARACTERS} are allowed. Shorten it.", path)
    if not is_name(name):
        raise BadName(f"`name` holds a character that none may. A name is {NAME_RULE}.", path)
    return name


def _description(value: Any, path: str | None) -> str:
    if value is not None and not isinstance(value, str):
        raise BadDescription(f"`description` must be a text, not {_kind(value)}.", path)
    description = _LINE.sub(" ", value or "").strip()
    if not description:
        raise BadDescription("The frontmatter has no `description`. Say what the skill does and when to use it.", path)
    if len(description) > DESCRIPTION_CHARACTERS:
        raise BadDescription(
            f"`description` has {len(description):,} characters and {DESCRIPTION_CHARACTERS:,} are allowed. Shorten it "
            f"by {len(description) - DESCRIPTION_CHARACTERS:,}; what does not fit belongs in the body.",
            path,
        )
    return description


def _version(value: Any, path: str | None) -> str:
    if value is None or value == "":
        return DEFAULT_VERSION
    if not isinstance(value, str):
        raise BadSkill(f"`version` must be a text such as 1.2.0, not {_kind(value)}.", path)
    try:
        semver.Version(value.strip())
    except BadVersion as error:
        raise BadSkill(f"`version` cannot be read. {error}", path) from None
    return value.strip()


def _kind(value: Any) -> str:
    return "a list" if isinstance(value, list) else "a map"
