"""Running code: the workflow around one sandbox, the sandbox's own route, and the news that a task ended.

``workflow`` gives runs their sandboxes and commits what they report, ``sandbox_route`` is what a sandbox talks to,
``task_stopped`` hears from ECS when one is gone, and the pool's keeper starts some ahead.
"""

from __future__ import annotations

from aws_cdk import Duration, Fn
from aws_cdk import aws_events as events
from aws_cdk import aws_events_targets as targets
from constructs import Construct

from infra.functions import LIGHT_MIB, LONGEST_SECONDS, FunctionFactory
from infra.grants import granted_to
from infra.network import Network
from infra.pool import Pool
from infra.sandbox import Sandbox
from infra.sandbox_route import SandboxRoute
from infra.workflows import RUN_CODE, Workflow
from workbench.settings import Settings

# Every sandbox that waits holds one request all the time, and Lambda charges memory by the second: at a whole processor
# a waiting sandbox would cost more here than its task does. A part of 4 MiB takes about 100 MiB here, eight remembered
# plans of 50,000 files take 340.
HOLDING_MIB = 512


class Runs(Construct):
    """Everything between a call of run_code and the commit of its files."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        factory: FunctionFactory,
        network: Network,
        sandbox: Sandbox,
        warm: bool,
    ) -> None:
        super().__init__(scope, construct_id)
        self.sandbox_function = factory.make(
            self,
            "sandbox_route",
            does="Answers sandboxes: claim, input, heartbeat, output, report",
            grants=granted_to("sandbox_route"),
            memory_mib=HOLDING_MIB,
        )
        self.route = SandboxRoute(self, "Route", name=factory.name, vpc=network.vpc, function=self.sandbox_function)
        network.open_to(
            repository_arn=sandbox.repository.repository_arn,
            log_group_arn=sandbox.log_group.log_group_arn,
            route_arn=self.route.method_arn,
            route_host=self.route.host,
        )
        starting = Settings.model_validate(
            {
                "sandbox_cluster": sandbox.cluster.attr_arn,
                "sandbox_task_definition": sandbox.family,
                "sandbox_subnets": Fn.join(",", network.subnet_ids),
                "sandbox_security_group": network.sandbox_group.security_group_id,
                "sandbox_route_url": self.route.url,
            }
        ).to_environment()
        self.pool = Pool(self, "Pool", factory=factory, environment=starting, on=warm)
        self.workflow_function = factory.make(
            self,
            "workflow",
            does="The steps of RunCode: prepare, claim, run, commit, finish, abort",
            grants=granted_to("workflow"),
            seconds=LONGEST_SECONDS,
            environment=starting,
        )
        # A task is started by the family's name: without this, the first run could find no revision.
        for function in (self.workflow_function, self.pool.function):
            function.node.add_dependency(sandbox.task_definition)
        self.workflow = Workflow(
            self,
            "RunCode",
            name=f"{factory.name}-{RUN_CODE}",
            definition="run_code.asl.json",
            placeholder="WorkflowFunctionArn",
            function=self.workflow_function,
            log_retention=factory.log_retention,
        )
        self.task_stopped_function = factory.make(
            self,
            "task_stopped",
            does="Ends the run of a sandbox that stopped without a report",
            grants=granted_to("task_stopped"),
            memory_mib=LIGHT_MIB,
        )
        events.Rule(
            self,
            "TaskStopped",
            description="A sandbox task of this deployment stopped",
            event_pattern=events.EventPattern(
                source=["aws.ecs"],
                detail_type=["ECS Task State Change"],
                detail={"clusterArn": [sandbox.cluster.attr_arn], "lastStatus": ["STOPPED"]},
            ),
            targets=[targets.LambdaFunction(self.task_stopped_function, max_event_age=Duration.hours(1))],
        )
