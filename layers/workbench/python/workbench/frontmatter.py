"""The head of a Markdown file: YAML between two lines of ``---``, as skills and prompts have it. No AWS here.

Public files are not always YAML: ``description: Use when: a form is to be filled`` is what people write. What YAML
refuses is read entry by entry, and an entry that YAML still refuses is the text that stands there. Every scalar is
text, so that ``version: 1.10`` stays ``1.10``.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

HEAD_CHARACTERS = 16_384
RULE_LINE = "---"

_BREAKS = re.compile(r"\r\n?")
# The space after the colon may be missing at the end of the line only: `http://x` is no entry.
_ENTRY = re.compile(r"([^\s:#\-?\[\]{},&*!|>'\"%@`][^:]*):(?:[ \t]+(.*)|[ \t]*)")
_BLOCK = re.compile(r"([|>])[+-]?\d?[+-]?(?:[ \t]+#.*)?")
_MARKS = ((b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"), (b"\xef\xbb\xbf", "utf-8-sig"))


class BadFrontmatter(ValueError):
    """The file has no head that could be read; the message says where it breaks and what to write."""


@dataclass(frozen=True)
class Document:
    """``fields`` are the head's entries: texts, lists and maps of them. ``body`` has ``\\n`` line ends."""

    fields: dict[str, Any]
    body: str


def decode(content: str | bytes) -> str:
    """The file's text without a byte-order mark, with ``\\n`` line ends. Raises BadFrontmatter."""
    if isinstance(content, bytes):
        encoding = next((name for mark, name in _MARKS if content.startswith(mark)), "utf-8")
        try:
            text = content.decode(encoding)
        except UnicodeDecodeError as error:
            raise BadFrontmatter(
                f"The file is not {encoding.removesuffix('-sig').upper()} text: byte {error.start:,} cannot be read. "
                "Save it as UTF-8."
            ) from None
    else:
        text = content
    return _BREAKS.sub("\n", text.removeprefix("\ufeff"))


def parse(content: str | bytes) -> Document:
    """Read head and body. Tolerates a byte-order mark, UTF-16 with one, CR, CRLF, and blank lines before the head.

    Raises BadFrontmatter when there is no head, when it does not end, or when it is no map.
    """
    head, body = split(content)
    if sum(map(len, head)) + len(head) > HEAD_CHARACTERS:
        raise BadFrontmatter(f"The frontmatter has more than {HEAD_CHARACTERS:,} characters. Move text to the body.")
    return Document(_fields(head), body)


def split(content: str | bytes) -> tuple[list[str], str]:
    """The lines of the head, not read yet, and the body. Raises BadFrontmatter."""
    text = decode(content)
    if "\x00" in text:
        raise BadFrontmatter("The file holds NUL bytes, which no text has. Save it as UTF-8.")
    lines = text.lstrip("\n \t\ufeff").split("\n")
    if lines[0].rstrip() != RULE_LINE:
        raise BadFrontmatter(
            f"The file does not begin with frontmatter: its first line must be `{RULE_LINE}`, followed by entries such "
            f"as `name: demo` and a closing `{RULE_LINE}`."
        )
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == RULE_LINE), None)
    if end is None:
        raise BadFrontmatter(f"The frontmatter does not end. Close it with a line `{RULE_LINE}`.")
    return lines[1:end], "\n".join(lines[end + 1 :]).lstrip("\n")


def _fields(head: list[str]) -> dict[str, Any]:
    known = _yaml("\n".join(head))
    if isinstance(known, dict):
        return {str(name): value for name, value in known.items()}
    fields: dict[str, Any] = {}
    for name, rest, following in _entries(head):
        if name in fields:
            raise BadFrontmatter(f"The frontmatter says `{name[:80]}` twice. Keep one.")
        entry = _yaml("\n".join([f"entry: {rest}", *following]))
        fields[name] = (
            entry["entry"] if isinstance(entry, dict) and list(entry) == ["entry"] else _text(rest, following)
        )
    if not fields and any(line.strip() and not line.lstrip().startswith("#") for line in head):
        raise BadFrontmatter("The frontmatter holds no entries such as `name: demo`.")
    return fields


# ---------------------------------------------------------------- YAML that can do no harm


def _yaml(text: str) -> Any:
    """``text`` read as YAML with nothing but texts, lists and maps in it; None when YAML refuses it."""
    import yaml

    try:
        return yaml.load(text, Loader=_loader())  # noqa: S506 - a BaseLoader, which makes no objects
    except (yaml.YAMLError, RecursionError, ValueError):
        return None


@cache
def _loader() -> Any:
    import yaml

    class Loader(yaml.BaseLoader):
        """Refuses what could grow or say something twice: aliases and repeated keys."""

        def compose_node(self, parent: Any, index: Any) -> Any:
            if self.check_event(yaml.AliasEvent):
                raise yaml.YAMLError("aliases are not read")
            return super().compose_node(parent, index)

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            keys = [key.value for key, _value in node.value if isinstance(key, yaml.ScalarNode)]
            if len(keys) != len(node.value) or len(set(keys)) != len(keys):
                raise yaml.YAMLError("keys are texts, each once")
            return super().construct_mapping(node, deep)

    return Loader


# ---------------------------------------------------------------- entry by entry


def _entries(head: list[str]) -> Iterator[tuple[str, str, list[str]]]:
    """Each entry that begins at the left margin: name, what follows on its line, and the lines below that are its."""
    current: tuple[str, str, list[str]] | None = None
    for line in head:
        found = _ENTRY.fullmatch(line)
        if found is not None:
            if current is not None:
                yield current
            current = found[1].rstrip(), (found[2] or "").strip(), []
        elif current is not None:
            current[2].append(line)
        elif line.strip() and not line.lstrip().startswith("#"):
            raise BadFrontmatter(f"The frontmatter's line `{line.strip()[:80]}` is no entry such as `name: demo`.")
    if current is not None:
        yield current


def _text(rest: str, following: list[str]) -> str:
    """What a person meant by an entry that is no YAML: its words, lines folded unless a ``|`` keeps them."""
    lines = [line.strip() for line in following]
    block = _BLOCK.fullmatch(rest)
    if block is not None:
        return ("\n" if block[1] == "|" else " ").join(lines).strip()
    whole = " ".join(filter(None, [rest, *lines]))
    if len(whole) > 1 and whole[0] == whole[-1] and whole[0] in "\"'":
        return whole[1:-1]
    return whole
