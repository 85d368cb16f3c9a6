"""Opening a turn: who asks, which tools in which versions, and the one transaction that makes it exist."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench import ids
from workbench.conversations import fields
from workbench.conversations.conversation import PINS, Conversation
from workbench.conversations.conversation import not_found as no_conversation
from workbench.conversations.instructions import instructions
from workbench.conversations.people import being_erased, not_erasing
from workbench.conversations.turns import OPEN, choose_tools, make_token
from workbench.errors import Conflict, InvalidRequest
from workbench.ids import TurnId
from workbench.keys import conversation_key, head_key, meta_key, seen_key, turn_key
from workbench.knowledge.binding import bind
from workbench.operations import ABSENT, ACTIVE, Condition, Item, Operation, check, put
from workbench.runtime import Runtime
from workbench.skills import permission
from workbench.table import ConditionFailed
from workbench.tools import catalogue

# Two turns of one conversation that pin new tools at once are rare; the loser reads the winner's pins.
PIN_TRIES = 5
# Where the check of the person stands in the transaction.
PERSON_AT = 0


@dataclass(frozen=True)
class Asked:
    """A well-formed request for a turn; ``tools`` is still as it came."""

    caller: dict[str, Any]
    tools: object
    model: dict[str, Any]
    parent: TurnId | None
    skills: list[str]
    knowledge: list[str]


@dataclass(frozen=True)
class Opened:
    """The new turn and its token, which is nowhere else: only its hash is stored."""

    turn: TurnId
    tools: dict[str, str]
    skills: dict[str, str]
    knowledge: dict[str, str]
    instructions: str
    token: str


def read_request(body: Mapping[str, Any], conversation: str) -> Asked:
    """Check the body of the opening request; raises InvalidRequest."""
    caller = fields.table(body.get("caller"), "caller")
    model = fields.table(fields.given(body, "model", {}), "model")
    parent_text = body.get("parent")
    parent = TurnId.parse(parent_text)
    if parent_text is not None and (parent is None or parent.conversation != conversation):
        raise InvalidRequest("`parent` must be the id of an open turn of this conversation.", field="parent")
    return Asked(
        caller={
            "user": fields.person(caller.get("user"), "caller.user"),
            "department": fields.name(caller.get("department"), "caller.department"),
            "groups": fields.names(fields.given(caller, "groups", []), "caller.groups"),
        },
        tools=body.get("tools"),
        model={
            "name": fields.name(fields.given(model, "name", "unnamed"), "model.name"),
            "vision": fields.flag(fields.given(model, "vision", False), "model.vision"),
        },
        parent=parent,
        skills=fields.names(fields.given(body, "skills", []), "skills"),
        knowledge=fields.names(fields.given(body, "knowledge", []), "knowledge"),
    )


def open_turn(runtime: Runtime, conversation: str, asked: Asked) -> Opened:
    """Make the turn. Raises NotFound, Conflict (deleted conversation, finished parent) and InvalidRequest."""
    for _attempt in range(PIN_TRIES):
        pins = _check_state(runtime, conversation, asked.parent)
        pinned: dict[str, str] = pins.get("versions", {})
        known = {name: catalogue.versions(name) for name in catalogue.names()}
        tools = choose_tools(asked.tools, pinned, known)
        skills = permission.pin(runtime, asked.skills)
        documents = bind(runtime, asked.caller["user"], asked.knowledge)
        secret = ids.new_secret()
        turn = TurnId(conversation, ids.random_part("t_"))
        opened = Opened(
            turn,
            tools,
            {skill.name: skill.version for skill in skills},
            documents.serials,
            instructions(
                tools, runtime.settings, delegated=asked.parent is not None, skills=skills, documents=documents
            ),
            make_token(turn, secret),
        )
        try:
            runtime.table.transact(_operations(runtime, opened, asked, pins, pinned))
        except ConditionFailed as failed:
            if failed.failed(PERSON_AT):
                raise being_erased() from None
            # Deleted meanwhile, or somebody else pinned a tool first: the next look tells which.
            continue
        return opened
    raise Conflict("Other turns of this conversation are being opened. Try again.", retryAfterSeconds=1)


def _check_state(runtime: Runtime, conversation: str, parent: TurnId | None) -> Item:
    """The conversation's pins, once it is known to be active and the parent to be open."""
    if not ids.is_part(conversation):
        raise no_conversation()
    meta, head, pins = meta_key(conversation), head_key(conversation), conversation_key(conversation, PINS)
    parent_keys = [turn_key(parent)] if parent else []
    found = runtime.table.get_many([meta, head, pins, *parent_keys])
    if meta not in found or head not in found:
        raise no_conversation()
    Conversation.from_items(found[meta], found[head]).require_active()
    for key in parent_keys:
        if key not in found:
            raise InvalidRequest("`parent` must be the id of an open turn of this conversation.", field="parent")
        if found[key]["state"] != OPEN:
            raise Conflict("The turn named as `parent` is finished: it can receive nothing any more.", field="parent")
    return found.get(pins, {})


def _operations(
    runtime: Runtime, opened: Opened, asked: Asked, pins: Item, pinned: Mapping[str, str]
) -> list[Operation]:
    now, turn = runtime.clock.now(), opened.turn
    pk, sk = turn_key(turn)
    item = {
        "PK": pk,
        "SK": sk,
        "tokenHash": ids.digest(opened.token),
        "tools": opened.tools,
        "state": OPEN,
        "caller": asked.caller,
        "model": asked.model,
        "knowledge": opened.knowledge,
        "skills": opened.skills,
        "instructions": opened.instructions,
        "createdAt": now,
        "expiresAt": now + runtime.settings.turn_seconds,
        # What the turn exported, by identity: the record under which finishing attaches it.
        "exports": {},
        "exportCount": 0,
        "gsi1pk": f"P#{asked.caller['user']}",
        "gsi1sk": f"{pk}/{sk}",
    }
    if asked.parent is not None:
        item["parent"] = str(asked.parent)
    seen_pk, seen_sk = seen_key(turn)
    operations = [
        not_erasing(asked.caller["user"]),
        check(head_key(turn.conversation), ACTIVE),
        put(item, ABSENT),
        # Calls set entries inside these maps, which needs the maps to be there.
        put({"PK": seen_pk, "SK": seen_sk, "paths": {}, "flags": {}}),
    ]
    versions = {**opened.tools, **pinned}
    if versions != pinned:
        pins_pk, pins_sk = conversation_key(turn.conversation, PINS)
        number = pins.get("number", 0)
        same = Condition("attribute_not_exists(#number)", {"#number": "number"})
        if number:
            same = Condition("#number = :number", {"#number": "number"}, {":number": number})
        operations.append(put({"PK": pins_pk, "SK": pins_sk, "versions": versions, "number": number + 1}, same))
    return operations
