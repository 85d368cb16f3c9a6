"""The warm pool's keeper: a function that starts sandboxes ahead, called every minute and by runs that ask for one."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import Duration
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.functions import LIGHT_MIB, FunctionFactory
from infra.grants import granted_to
from workbench.logs import NAMESPACE
from workbench.runs import assignment, keeper

EVERY = Duration.minutes(1)


class Pool(Construct):
    """The keeper and its schedule. ``environment`` says what a task is started with; ``on`` whether any should wait."""

    def __init__(
        self, scope: Construct, construct_id: str, *, factory: FunctionFactory, environment: Mapping[str, str], on: bool
    ) -> None:
        super().__init__(scope, construct_id)
        self.function = factory.make(
            self,
            keeper.FUNCTION,
            does="Keeps sandboxes waiting for work",
            grants=granted_to(keeper.FUNCTION),
            memory_mib=LIGHT_MIB,
            environment=environment,
        )
        events.Rule(
            self,
            "EveryMinute",
            description="Replaces waiting sandboxes that are gone, follows demand",
            schedule=events.Schedule.rate(EVERY),
            # Sandboxes that wait when the pool is turned off leave by themselves.
            enabled=on,
            # The next round does what this one could not.
            targets=[targets.LambdaFunction(self.function, retry_attempts=0, max_event_age=EVERY)],
        )

    def metrics(self, workflow: str) -> dict[str, cloudwatch.IMetric]:
        """What the pool counts, by name; ``workflow`` is the name of the function that gives runs their sandboxes."""
        counted = {
            **dict.fromkeys(assignment.METRICS, (workflow, "Sum")),
            keeper.FAILED_STARTS: (self.function.function_name, "Sum"),
            keeper.WAITING: (self.function.function_name, "Average"),
        }
        return {
            name: cloudwatch.Metric(
                namespace=NAMESPACE,
                metric_name=name,
                dimensions_map={"FunctionName": function},
                statistic=statistic,
                period=Duration.minutes(5),
                label=name,
            )
            for name, (function, statistic) in counted.items()
        }
