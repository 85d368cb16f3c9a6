"""Which artifacts there are: of a conversation or of a person, page by page; for the portal also what nobody may use.

Pages are of the index or of a conversation's pointers, so that a page costs the same however many follow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench import objects
from workbench.artifacts import access, store
from workbench.artifacts.access import Viewer
from workbench.artifacts.model import Artifact
from workbench.clock import iso
from workbench.conversations import fields
from workbench.conversations.conversation import ACTIVE_STATUS
from workbench.conversations.conversation import load as load_conversation
from workbench.errors import Conflict, Forbidden, InvalidRequest, NotFound
from workbench.http import Request, Response
from workbench.keys import head_key
from workbench.operations import Item
from workbench.runtime import Runtime

LISTED_AT_ONCE = 500
LISTED_AT_MOST = 1_000
# Of a conversation, to find what a person may read of it.
READ_AT_ONCE = 100
ALL = "all"


def list_artifacts(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/artifacts?conversation=&person=``: those that may be read; without a conversation the person's own.

    ``next`` is given when more follow. The portal may ask for ``state=all``: also what has expired or is in its grace,
    each with its state.
    """
    viewer = access.viewer_of(request.headers)
    whole = everything(request)
    limit, after = _page(request)
    conversation, person = request.query.get("conversation"), _person(request, viewer)
    if conversation is not None and viewer is not None:
        return _readable_of_conversation(runtime, conversation, viewer, limit, after)
    if conversation is not None:
        keys = _of_conversation(runtime, conversation, viewer, whole, limit, after)
    elif person is not None:
        listed = runtime.table.query(f"P#{person}", "A#", index="gsi1", limit=limit, after=after and f"A#{after}")
        keys = [key["PK"].removeprefix("A#") for key in listed]
    else:
        raise InvalidRequest("Name a conversation (`?conversation=`), or a person (`?person=`, or X-Workbench-User).")
    found = store.load_many(runtime, keys)
    found.sort(key=lambda artifact: (artifact.created_at, artifact.id))
    if whole:
        shown = described(runtime, found)
    else:
        usable = store.usable(runtime, found)
        shown = [artifact.as_dict() for artifact in usable if access.may_read(artifact, viewer)]
    more = {"next": keys[-1]} if len(keys) == limit else {}
    return Response({"artifacts": shown, **more})


def _readable_of_conversation(
    runtime: Runtime, conversation: str, viewer: Viewer, limit: int, after: str | None
) -> Response:
    """A page of what a person may read. Of the rest they learn nothing: no page ends at it."""
    found: list[Artifact] = []
    size = max(limit, READ_AT_ONCE)
    while True:
        keys = _of_conversation(runtime, conversation, viewer, False, size, after)
        here = store.usable(runtime, store.load_many(runtime, keys))
        found += [artifact for artifact in here if access.may_read(artifact, viewer)]
        if len(keys) < size or len(found) > limit:
            break
        after = keys[-1]
    more = {"next": found[limit - 1].id} if len(found) > limit else {}
    shown = sorted(found[:limit], key=lambda artifact: (artifact.created_at, artifact.id))
    return Response({"artifacts": [artifact.as_dict() for artifact in shown], **more})


def everything(request: Request) -> bool:
    """True when the portal asks for ``state=all``; raises Forbidden when it speaks for a person."""
    if request.query.get("state") is None:
        return False
    fields.choice(request.query["state"], "state", (ALL,))
    if access.viewer_of(request.headers) is not None:
        raise Forbidden("Only the portal itself may see what nobody may use any more.")
    return True


def show_all(runtime: Runtime, artifact: str) -> dict[str, Any]:
    """An artifact in whatever state, with what the bucket holds of each version; for the portal only. NotFound."""
    found = store.load(runtime, artifact)
    if found is None:
        raise NotFound("There is no such artifact.")
    (shown,) = described(runtime, [found])
    stored, markers = objects.versions(runtime.clients, runtime.settings.artifact_bucket, f"artifacts/{artifact}/")
    hidden = {entry["Key"]: entry["LastModified"] for entry in markers if entry["IsLatest"]}
    shown["stored"] = [
        {
            "version": int(entry["Key"].rsplit("/", 1)[1]),
            "bytes": entry["Size"],
            "deletedAt": iso(hidden[entry["Key"]].timestamp()) if entry["Key"] in hidden else None,
        }
        for entry in sorted(stored, key=lambda entry: int(entry["Key"].rsplit("/", 1)[1]))
    ]
    return shown


def described(runtime: Runtime, artifacts: Sequence[Artifact]) -> list[dict[str, Any]]:
    """Artifacts with their state: `attached`, `unattached`, `deleted` (until ``purgeAt``) or `expired`."""
    homes = list({head_key(artifact.conversation) for artifact in artifacts if artifact.conversation})
    heads = runtime.table.get_many(homes) if homes else {}
    return [
        {**artifact.as_dict(), **_state(artifact, heads.get(head_key(artifact.conversation or "")))}
        for artifact in artifacts
    ]


def _state(artifact: Artifact, head: Item | None) -> dict[str, Any]:
    # An id that was free again may find artifacts of the conversation that had it before.
    former = artifact.retired is not None and (head is None or artifact.retired != head.get("deletion"))
    if not artifact.versions or former:
        return {"state": "expired"}
    if artifact.conversation is not None and (head is None or head["status"] != ACTIVE_STATUS):
        return {"state": "deleted", "purgeAt": iso(head["purgeAt"]) if head and "purgeAt" in head else None}
    return {"state": "attached" if artifact.expires_at is None else "unattached"}


def _of_conversation(
    runtime: Runtime, conversation: str, viewer: Viewer | None, whole: bool, limit: int, after: str | None
) -> list[str]:
    try:
        found = load_conversation(runtime, conversation)
        if not whole:
            found.require_active()
    except (NotFound, Conflict):
        # A person learns nothing of which conversations there are or were; what they may read decides alone.
        if viewer is None:
            raise
        return []
    return store.pointed_at(
        runtime.table.query(f"C#{conversation}", store.POINTER, limit=limit, after=after and f"{store.POINTER}{after}")
    )


def _person(request: Request, viewer: Viewer | None) -> str | None:
    asked = request.query.get("person")
    if asked is None:
        return viewer.user if viewer else None
    person = fields.name(asked, "person")
    if viewer is not None and person != viewer.user:
        raise Forbidden("A person may list their own artifacts only.")
    return person


def _page(request: Request) -> tuple[int, str | None]:
    limit, after = request.query.get("limit", str(LISTED_AT_ONCE)), request.query.get("after")
    if not (limit.isascii() and limit.isdigit() and len(limit) <= 5 and 1 <= int(limit) <= LISTED_AT_MOST):
        raise InvalidRequest(f"`limit` must be a whole number from 1 to {LISTED_AT_MOST}.", field="limit")
    return int(limit), None if after is None else fields.part(after, "after")
