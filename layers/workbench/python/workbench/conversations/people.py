"""The record of a person while everything of theirs is being erased. Whoever makes something for a person checks it."""

from __future__ import annotations

from workbench.errors import Conflict
from workbench.keys import Key
from workbench.operations import Condition, Operation, check

# Not there at all, for nearly everybody.
NOT_ERASING = Condition("attribute_not_exists(erasing)")


def person_key(user: str) -> Key:
    return f"P#{user}", "PERSON"


def not_erasing(user: str) -> Operation:
    """The check that every creation for ``user`` makes in its own transaction, so that none slips past an erasure."""
    return check(person_key(user), NOT_ERASING)


def being_erased() -> Conflict:
    """The 409 of everything that would make something new for such a person."""
    return Conflict("Everything of this person is being erased. Try again when that is done.", retryAfterSeconds=60)
