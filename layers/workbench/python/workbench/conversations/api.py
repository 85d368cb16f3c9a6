"""The routes of a conversation itself: create, show, delete, restore."""

from __future__ import annotations

from workbench import ids
from workbench.conversations import deletion, fields, restoring
from workbench.conversations.conversation import ACTIVE_STATUS, Conversation, load
from workbench.conversations.people import being_erased, not_erasing
from workbench.errors import Conflict
from workbench.http import Request, Response
from workbench.keys import meta_key
from workbench.logs import audit
from workbench.operations import Condition, put
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage.head import empty_head


def create(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/conversations``: a new conversation with an empty workspace; 409 when its id is taken."""
    body = request.json()
    owner = fields.person(body.get("owner"), "owner")
    department = fields.name(body.get("department"), "department")
    given = body.get("id")
    conversation = ids.random_part("c_") if given is None else fields.part(given, "id")
    now = runtime.clock.now()
    pk, sk = meta_key(conversation)
    meta = {
        "PK": pk,
        "SK": sk,
        "owner": owner,
        "department": department,
        "createdAt": now,
        "gsi1pk": f"P#{owner}",
        "gsi1sk": pk,
    }
    # TTL deletes late: an id whose grace is over is free again, whether or not its items are gone already.
    free = Condition("attribute_not_exists(PK) OR purgeAt <= :now", {}, {":now": now})
    # But not before everything of the former one is removed: the new one would find it.
    empty = Condition("attribute_not_exists(PK) OR swept = deletion")
    try:
        runtime.table.transact([put(meta, free), put(empty_head(conversation), empty), not_erasing(owner)])
    except ConditionFailed as failed:
        if not failed.failed(0) and not failed.failed(1):
            raise being_erased() from None
        raise Conflict(f"There is a conversation `{conversation}` already. Choose another id.") from None
    audit("conversation.create", conversation=conversation)
    created = Conversation(conversation, owner, department, ACTIVE_STATUS, now)
    return Response({"conversation": created.as_dict()}, 201)


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/conversations/{conversation}``: also a deleted one, until its grace is over."""
    return Response({"conversation": load(runtime, request.parameters["conversation"]).as_dict()})


def delete(runtime: Runtime, request: Request) -> Response:
    """``DELETE /v1/conversations/{conversation}``: refused to everybody from now on; twice is harmless."""
    deleted = deletion.begin(runtime, request.parameters["conversation"])
    return Response({"conversation": deleted.as_dict()}, 202)


def restore(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/conversations/{conversation}/restore``: back with its artifacts and an empty workspace."""
    before = load(runtime, request.parameters["conversation"])
    if not before.deleted:
        return Response({"conversation": before.as_dict()})
    restored = restoring.restore(runtime, before)
    return Response(
        {
            "conversation": restored.as_dict(),
            "workspace": "empty",
            "message": "Conversation and artifacts are back. The workspace was removed for good and starts empty.",
        }
    )
