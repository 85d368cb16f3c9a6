"""Prompts: templates with a name and a version, filled in without looking at what the values say. No AWS here."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from workbench import frontmatter, semver
from workbench.naming import NAME_RULE, is_name

DEFAULT_VERSION = "1.0.0"

# `{{ user.name }}` names the variable `user.name`: a name with a dot is still one name.
_PLACEHOLDER = re.compile(r"\{\{\s*([^\W\d][\w.-]*)\s*\}\}")


class BadPrompt(ValueError):
    """No prompt can be made of what was given; the message says why and what to write instead."""


class MissingVariables(ValueError):
    """Variables of the template were not given; ``names`` has all of them, in the template's order."""

    def __init__(self, prompt: str, names: list[str]) -> None:
        listed = ", ".join(f"`{name}`" for name in names)
        super().__init__(
            f"The prompt `{prompt}` needs {listed}, which {'was' if len(names) == 1 else 'were'} not given."
        )
        self.names = names


class RenderedTooLong(ValueError):
    """The values make more of the template than was asked for."""


@dataclass(frozen=True)
class Prompt:
    """A template and what it is called. Made by :func:`define_prompt`."""

    name: str
    template: str
    version: str = DEFAULT_VERSION

    @property
    def id(self) -> str:
        """``name@version``."""
        return f"{self.name}@{self.version}"

    @cached_property
    def variables(self) -> list[str]:
        """The variables of the template, each once, in the order in which they first stand there."""
        return list(dict.fromkeys(_PLACEHOLDER.findall(self.template)))

    def render(self, vars: Mapping[str, Any] | None = None, *, longest: int | None = None) -> str:
        """The template with each ``{{ name }}`` replaced by its value.

        A text goes in as it is, and is never looked at again: what it holds in braces stays. Anything else goes in as
        JSON. Variables that the template does not have are ignored. Raises :class:`MissingVariables` naming every one
        that is not given, or given as None, and :class:`RenderedTooLong` past ``longest`` characters.
        """
        given = vars or {}
        missing = [name for name in self.variables if given.get(name) is None]
        if missing:
            raise MissingVariables(self.name, missing)
        values = {name: _as_text(given[name]) for name in self.variables}
        # Asked before anything is put together: a long value may stand in a template a thousand times.
        length = sum(len(values[name]) for name in _PLACEHOLDER.findall(self.template))
        if longest is not None and length + len(self.template) > longest:
            raise RenderedTooLong(f"With these values the prompt has more than {longest:,} characters.")
        return _PLACEHOLDER.sub(lambda found: values[found[1]], self.template)


def define_prompt(name: str, template: str, version: str = DEFAULT_VERSION) -> Prompt:
    """A prompt; raises :class:`BadPrompt` when name, template or version cannot be one."""
    if not is_name(name):
        raise BadPrompt(f"The name of a prompt is {NAME_RULE}.")
    if not isinstance(template, str):
        raise BadPrompt("The template must be a text.")
    try:
        semver.Version(version)
    except (semver.BadVersion, TypeError, AttributeError):
        raise BadPrompt(f"The version of a prompt is {semver.RULE}, as a text.") from None
    return Prompt(name, template, version)


def load_prompt_file(path: str | Path) -> Prompt:
    """The prompt of a Markdown file: ``name`` and ``version`` in its frontmatter, the template below.

    Without a name it is called as the file is. Byte-order marks, UTF-16 with one, CR and CRLF are tolerated; blank
    lines around the template are not part of it. Raises :class:`BadPrompt`, and OSError when the file cannot be read.
    """
    file = Path(path)
    try:
        document = frontmatter.parse(file.read_bytes())
    except frontmatter.BadFrontmatter as error:
        raise BadPrompt(f"{file}: {error}") from None
    name, version = document.fields.get("name") or file.stem, document.fields.get("version") or DEFAULT_VERSION
    try:
        return define_prompt(name, document.body.strip("\n"), version)
    except BadPrompt as error:
        raise BadPrompt(f"{file}: {error}") from None


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False, default=str)
