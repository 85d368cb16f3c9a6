"""Deleting a conversation: a state machine whose steps are idempotent, and the function that carries them out."""

from __future__ import annotations

from constructs import Construct

from infra.functions import LONGEST_SECONDS, FunctionFactory
from infra.grants import granted_to
from infra.workflows import DELETE_CONVERSATION, Workflow


class Lifecycle(Construct):
    """DeleteConversation. How long files stay after it is said by the lifecycle rules in infra/storage.py."""

    def __init__(self, scope: Construct, construct_id: str, *, factory: FunctionFactory) -> None:
        super().__init__(scope, construct_id)
        self.function = factory.make(
            self,
            "lifecycle",
            does="The steps of DeleteConversation",
            grants=granted_to("lifecycle"),
            seconds=LONGEST_SECONDS,
        )
        self.workflow = Workflow(
            self,
            "DeleteConversation",
            name=f"{factory.name}-{DELETE_CONVERSATION}",
            definition="delete_conversation.asl.json",
            placeholder="LifecycleFunctionArn",
            function=self.function,
            log_retention=factory.log_retention,
        )
