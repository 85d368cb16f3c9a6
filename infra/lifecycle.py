"""What goes, and who hears of it: the deletion of conversations, and the news that an exported file has expired.

A deletion is a state machine whose steps are idempotent, and the function that carries them out.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.functions import LIGHT_MIB, LONGEST_SECONDS, FunctionFactory
from infra.grants import granted_to
from infra.workflows import DELETE_CONVERSATION, Workflow


class Lifecycle(Construct):
    """DeleteConversation. How long files stay after it is said by the lifecycle rules in infra/storage.py."""

    def __init__(self, scope: Construct, construct_id: str, *, factory: FunctionFactory, artifacts: str) -> None:
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
        self.artifact_removed_function = factory.make(
            self,
            "artifact_removed",
            does="Takes an exported file off its department's bill when its bytes have gone",
            grants=granted_to("artifact_removed"),
            memory_mib=LIGHT_MIB,
        )
        events.Rule(
            self,
            "ArtifactRemoved",
            description="The bytes of an exported file are gone for good; a delete marker only begins its grace",
            event_pattern=events.EventPattern(
                source=["aws.s3"],
                detail_type=["Object Deleted"],
                detail={"bucket": {"name": [artifacts]}, "deletion-type": ["Permanently Deleted"]},
            ),
            targets=[targets.LambdaFunction(self.artifact_removed_function, max_event_age=Duration.hours(24))],
        )
