"""What goes, and who hears of it: deletions, the daily look for what nothing names, the news that a file has expired.

A deletion is a state machine whose steps are idempotent, and the function that carries them out. Reconciling is one
that goes on, a slice at a time, until everything was looked at.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.functions import LIGHT_MIB, LONGEST_SECONDS, FunctionFactory
from infra.grants import granted_to
from infra.workflows import DELETE_CONVERSATION, RECONCILE, Workflow
from workbench.logs import NAMESPACE
from workbench.reconciling.engine import METRICS as RECONCILER_METRICS

# When few people are at work anywhere in Europe or the Americas.
DAILY = events.Schedule.cron(hour="3", minute="17")


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
        self.reconciler_function = factory.make(
            self,
            "reconciler",
            does="Finds and removes what nothing names: remains of crashes, stalled deletions, lost runs",
            grants=granted_to("reconciler"),
            seconds=LONGEST_SECONDS,
        )
        self.reconciling = Workflow(
            self,
            "Reconcile",
            name=f"{factory.name}-{RECONCILE}",
            definition="reconcile.asl.json",
            placeholder="ReconcilerFunctionArn",
            function=self.reconciler_function,
            log_retention=factory.log_retention,
        )
        events.Rule(
            self,
            "Daily",
            description="Looks once a day for what nothing names",
            schedule=DAILY,
            targets=[
                targets.SfnStateMachine(
                    self.reconciling.machine, input=events.RuleTargetInput.from_object({"dryRun": False})
                )
            ],
        )

    @property
    def reconciler_metrics(self) -> dict[str, cloudwatch.IMetric]:
        """What the reconciler counts in a day, by name."""
        return {
            name: cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=name,
                dimensions_map={"FunctionName": self.reconciler_function.function_name},
                statistic="Sum",
                period=Duration.days(1),
                label=name,
            )
            for name in RECONCILER_METRICS
        }
