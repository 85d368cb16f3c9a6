"""A turn as data: its token, its caller, the tools it was offered and what stands in its record. No AWS here.

A turn is one model turn of a conversation. The portal opens it, the model's tool calls name it and prove it with its
token, and finishing it makes the reply.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from workbench import ids
from workbench.errors import InvalidRequest, Unauthorized
from workbench.ids import TurnId
from workbench.operations import Condition
from workbench.tools.arguments import nearest

OPEN = "open"
STILL_OPEN = Condition("#state = :open", {"#state": "state"}, {":open": OPEN})

# One answer for every way a token can be wrong: which of them it was is nobody's business.
_REFUSED = "The turn or its token is unknown or expired. Open a new turn and send its token as X-Turn-Token."


def unauthorized() -> Unauthorized:
    """The 401 of a turn that is unknown, expired or named with a wrong token."""
    return Unauthorized(_REFUSED)


def make_token(turn: TurnId, secret: str) -> str:
    """``<turn>.<secret>``: what the portal hands to whoever calls the turn's tools."""
    return f"{turn}.{secret}"


def verify_token(turn_item: Mapping[str, Any] | None, token: str | None, now: float) -> None:
    """Raise :class:`Unauthorized`, which discloses nothing, unless ``token`` opens the turn of ``turn_item`` now.

    ``turn_item`` is the stored ``T#turn`` item or None when there is none. The whole token is hashed and compared, so
    a token of another turn fails whatever its secret.
    """
    stored = str(turn_item["tokenHash"]) if turn_item else ids.digest("")
    given = ids.digest(token if token and token.isascii() else "")
    matches = hmac.compare_digest(stored.encode(), given.encode())
    if turn_item is None or not token or not matches or float(turn_item["expiresAt"]) <= now:
        raise unauthorized()


# ---------------------------------------------------------------- the tools of a turn


def choose_tools(asked: object, pinned: Mapping[str, str], known: Mapping[str, list[str]]) -> dict[str, str]:
    """The version of each tool a turn is offered, in the order asked; raises InvalidRequest.

    ``asked`` is ``"all"`` or a list of ``name`` and ``name@version``. A name without version keeps the version that
    the conversation first pinned; ``known`` has the registered versions of every tool, oldest first.
    """
    if asked == "all":
        wanted: list[object] = list(known)
    elif isinstance(asked, list):
        wanted = asked
    else:
        raise InvalidRequest('`tools` must be "all" or a list of names such as "read_file" or "export_artifact@1.0.0".')
    chosen: dict[str, str] = {}
    for entry in wanted:
        name, version = _tool_and_version(entry, pinned, known)
        if chosen.setdefault(name, version) != version:
            raise InvalidRequest(f"`tools` asks for {name} in two versions, {chosen[name]} and {version}. Keep one.")
    return chosen


def _tool_and_version(entry: object, pinned: Mapping[str, str], known: Mapping[str, list[str]]) -> tuple[str, str]:
    if not isinstance(entry, str):
        raise InvalidRequest('`tools` holds something that is no text. Name tools like "read_file".', field="tools")
    name, at, version = entry.partition("@")
    versions = known.get(name)
    if not versions:
        near = nearest(name, known)
        hint = f" The nearest name is `{near}`." if near else ""
        raise InvalidRequest(f"There is no tool named `{_shown(name)}`.{hint}", field="tools", nearest=near)
    if at and version not in versions:
        near = nearest(version, versions) or versions[-1]
        raise InvalidRequest(
            f"There is no version `{_shown(version)}` of {name}; the nearest of {', '.join(versions)} is {near}.",
            field="tools",
            nearest=f"{name}@{near}",
        )
    if at:
        return name, version
    # A version that is no longer registered cannot be kept: the latest takes its place.
    first = pinned.get(name)
    return name, first if first in versions else versions[-1]


def _shown(text: str) -> str:
    return text[:100].encode("ascii", "backslashreplace").decode()
