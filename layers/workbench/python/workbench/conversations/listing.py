"""Whose conversations there are: page by page, out of the index under the owner's name."""

from __future__ import annotations

from workbench.artifacts import access
from workbench.conversations import fields
from workbench.conversations.conversation import Conversation
from workbench.errors import Forbidden, InvalidRequest
from workbench.http import Request, Response
from workbench.keys import head_key, meta_key
from workbench.runtime import Runtime

LISTED_AT_ONCE = 100
# The index holds a conversation's key and, behind it, one for each turn of its owner.
KEYS_AT_ONCE = 1_000
KEY_PAGES = 5
CURSOR_CHARACTERS = 400


def list_conversations(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/conversations?owner=&after=``: a person's conversations, deleted ones until their grace is over.

    Each with the ``files`` and ``bytes`` of its workspace. ``next`` is given when more follow.
    """
    viewer = access.viewer_of(request.headers)
    owner = fields.name(request.query.get("owner") or (viewer.user if viewer else None), "owner")
    if viewer is not None and viewer.user != owner:
        raise Forbidden("A person may list their own conversations only.")
    after = request.query.get("after", "")
    if len(after) > CURSOR_CHARACTERS:
        raise InvalidRequest("`after` must be the `next` of an earlier answer.", field="after")
    found, following = _page(runtime, owner, after)
    listed = _load(runtime, owner, found)
    return Response({"conversations": listed, **({"next": following} if following else {})})


def _page(runtime: Runtime, owner: str, after: str) -> tuple[list[str], str | None]:
    """Ids of conversations behind ``after``, and where to go on; the index is a moment behind."""
    found: list[str] = []
    cursor = f"C#{after}" if after else None
    for _ in range(KEY_PAGES):
        keys = runtime.table.query(f"P#{owner}", "C#", index="gsi1", limit=KEYS_AT_ONCE, after=cursor)
        for key in keys:
            cursor = key["gsi1sk"]
            if key["SK"] == "META":
                found.append(key["PK"].removeprefix("C#"))
            if len(found) == LISTED_AT_ONCE:
                return found, cursor.removeprefix("C#")
        if len(keys) < KEYS_AT_ONCE:
            return found, None
    return found, (cursor or "").removeprefix("C#")


def _load(runtime: Runtime, owner: str, conversations: list[str]) -> list[dict[str, object]]:
    items = runtime.table.get_many([key for name in conversations for key in (meta_key(name), head_key(name))])
    listed: list[dict[str, object]] = []
    for name in conversations:
        meta, head = items.get(meta_key(name)), items.get(head_key(name))
        # The index lags: the id may have gone, or gone to somebody else.
        if meta is None or head is None or meta["owner"] != owner:
            continue
        loaded = Conversation.from_items(meta, head)
        if not loaded.gone(runtime.clock.now()):
            listed.append({**loaded.as_dict(), "workspace": {"files": head["files"], "bytes": head["bytes"]}})
    return listed
