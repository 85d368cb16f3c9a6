"""Every step of the DeleteConversation state machine."""

from workbench.conversations.lifecycle import handler

__all__ = ["handler"]
