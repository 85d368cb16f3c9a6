"""What a tool gets of the turn that calls it: who asks, what they may use, the workspace, and what was seen.

A tool reads and stages through this object and returns an :class:`~workbench.tools.answer.Answer`; the call path
commits what was staged, in one transaction with the call's record.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from workbench.clock import Clock
from workbench.ids import CallId, TurnId
from workbench.operations import Item, Operation
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.workspace.storage.head import Head
from workbench.workspace.storage.store import WorkingCopy
from workbench.workspace.text.seen import Seen


@dataclass(frozen=True, slots=True)
class Caller:
    """Who is asking."""

    user: str
    department: str
    groups: tuple[str, ...] = ()

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Caller:
        return cls(item["user"], item["department"], tuple(item.get("groups", ())))


@dataclass
class Turn:
    """One call's view of its turn. ``digest`` is that of the call's decoded arguments."""

    runtime: Runtime
    call: CallId
    item: Item
    head: Head
    seen: Seen
    tool: str
    digest: str
    wait_seconds: float
    conversions: tuple[dict[str, Any], ...] = ()
    # What people allowed of this call, as its receipt says it.
    approvals: tuple[dict[str, Any], ...] = ()
    operations: list[Operation] = field(default_factory=list)

    @property
    def id(self) -> TurnId:
        return self.call.turn

    @property
    def conversation(self) -> str:
        return self.call.turn.conversation

    @property
    def settings(self) -> Settings:
        return self.runtime.settings

    @property
    def clock(self) -> Clock:
        return self.runtime.clock

    @cached_property
    def caller(self) -> Caller:
        return Caller.from_item(self.item["caller"])

    @property
    def vision(self) -> bool:
        """True when the turn's model can look at pictures."""
        return bool(self.item.get("model", {}).get("vision", False))

    @property
    def next_version(self) -> int:
        """The version that what this call stages will be."""
        return self.head.version + 1

    def stored_text(self, ref: str, pointer: str | None) -> str:
        """The text of a stored result of this conversation, or the value that a JSON pointer picks from it."""
        from workbench.workspace.sources import stored_text

        return stored_text(self.runtime, self.conversation, ref, pointer)

    @property
    def knowledge(self) -> list[str]:
        return list(self.item.get("knowledge", []))

    @property
    def skills(self) -> dict[str, str]:
        """The skills that the turn was offered: name -> version. Whether they are still there is asked elsewhere."""
        return dict(self.item.get("skills") or {})

    def offers(self, tool: str) -> bool:
        """True when this turn may call ``tool``: an answer names no other."""
        return tool in self.item["tools"]

    @cached_property
    def workspace(self) -> WorkingCopy:
        """The workspace as this call found it, with the call's own changes staged over it."""
        return WorkingCopy(self.runtime, self.head)

    def also_commit(self, operation: Operation) -> None:
        """Add a write to the call's one transaction; when its condition is false, the whole call is done again."""
        self.operations.append(operation)
