"""Which skills a turn may use: those that it was opened with, in the versions that were the latest then.

The one test for everything that gives a turn something of a skill. What it refuses it refuses alike: a skill that does
not exist, one that the turn was not offered, and one that was withdrawn meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.errors import InvalidRequest, ToolError
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.semver import BadVersion, Version
from workbench.skills.offered import Offered
from workbench.skills.store import SHELF
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

SHOWN_CHARACTERS = 120


def pin(runtime: Runtime, asked: Sequence[str]) -> list[Offered]:
    """What a turn that asks for ``asked`` (``name`` or ``name@version``) is offered, in order.

    Raises InvalidRequest naming the first that there is not.
    """
    wanted: dict[str, tuple[str | None, str]] = {}
    for text in asked:
        name, version = _name_and_version(text)
        if name in wanted:
            raise InvalidRequest(f"`skills` names `{printable(name)}` twice. Name it once.", field="skills")
        wanted[name] = version, text
    latest = [name for name, (version, _text) in wanted.items() if version is None]
    exact = [(name, version) for name, (version, _text) in wanted.items() if version is not None]
    found = SHELF.latest(runtime, latest) if latest else {}
    found |= {item["name"]: item for item in SHELF.versions(runtime, exact) if item} if exact else {}
    for name, (_version, text) in wanted.items():
        if name not in found:
            raise InvalidRequest(f"There is no skill `{printable(text)}`. Leave it out of `skills`.", field="skills")
    return [Offered(name, found[name]["version"], found[name]["description"]) for name in wanted]


def pins(turn_item: Mapping[str, Any]) -> dict[str, str]:
    """The skills of a turn's record: name -> version."""
    return dict(turn_item.get("skills") or {})


def usable(runtime: Runtime, turn_item: Mapping[str, Any]) -> list[Item]:
    """The versions that a turn may use now, in the order in which it was offered them."""
    return [item for item in SHELF.versions(runtime, list(pins(turn_item).items())) if item]


def require(turn: Turn, names: Sequence[str], argument: str) -> list[Item]:
    """The version of each of ``names`` that the turn may use, each once, in order. One request.

    Raises ToolError ``not_allowed`` naming every skill that it may not, and ``argument``.
    """
    pinned = pins(turn.item)
    wanted = list(dict.fromkeys(names))
    asked = [(name, pinned[name]) for name in wanted if name in pinned]
    found = {item["name"]: item for item in SHELF.versions(turn.runtime, asked) if item} if asked else {}
    refused = [name for name in wanted if name not in found]
    if refused:
        raise refusal(refused, argument)
    return [found[name] for name in wanted]


def refusal(names: Sequence[str], argument: str) -> ToolError:
    """The refusal of ``names``; whether they exist is not said."""
    given = [printable(name[:SHOWN_CHARACTERS]) for name in names]
    shown = ", ".join(f"`{name}`" for name in given)
    noun, is_ = ("skill", "is") if len(given) == 1 else ("skills", "are")
    return ToolError(
        f"The {noun} {shown} {is_} not available to this turn. Nothing was done. Use only skills that the turn's "
        "instructions list, by their exact names.",
        code="not_allowed",
        argument=argument,
        ids=given,
    )


def _name_and_version(text: str) -> tuple[str, str | None]:
    name, at, version = text.rpartition("@")
    if not at:
        return text, None
    try:
        return name, str(Version(version))
    except BadVersion:
        return text, None
