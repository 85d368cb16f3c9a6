"""A turn as data: its token, its caller, the tools it was offered and what stands in its record. No AWS here.

A turn is one model turn of a conversation. The portal opens it, the model's tool calls name it and prove it with its
token, and finishing it makes the reply.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from typing import Any

from workbench import ids
from workbench.errors import Unauthorized
from workbench.ids import TurnId

OPEN = "open"

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
