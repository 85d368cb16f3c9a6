"""One factory makes every Lambda: its own role with the statements it was granted, its log group, its layers.

A new function needs a folder under functions/ and an entry in the catalogue or the route table, and nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from aws_cdk import ArnFormat, Duration, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct, IConstruct

from infra.grants import Grant, Places
from infra.layers import ARCHITECTURE, NOT_SHIPPED, PYTHON, ROOT
from infra.reasons import acknowledge, wildcard

FUNCTIONS = ROOT / "functions"
# API Gateway gives up after 30 s (HTTP APIs) and 29 s (REST APIs): working longer would help nobody.
ANSWER_SECONDS = 29
# Deleting a conversation waits past the longest function before it looks for late writes.
LONGEST_SECONDS = 120
# One whole virtual processor.
WHOLE_PROCESSOR_MIB = 1769
LIGHT_MIB = 768


# pydantic would look through every installed package for plug-ins at the first model; there are none here.
INTERPRETER = {"PYDANTIC_DISABLE_PLUGINS": "__all__"}


def function_arn(scope: IConstruct, name: str) -> str:
    """The ARN that a function of this name has or will have."""
    return Stack.of(scope).format_arn(
        service="lambda", resource="function", resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME
    )


@dataclass(frozen=True)
class FunctionFactory:
    """What all functions of one stack share."""

    name: str
    layers: Sequence[lambda_.ILayerVersion]
    # Further layers of single functions, by folder; made in the stack that has the function.
    more_layers: Mapping[str, Callable[[], lambda_.ILayerVersion]]
    environment: Mapping[str, str]
    log_retention: logs.RetentionDays
    places: Places

    def make(
        self,
        scope: Construct,
        folder: str,
        *,
        does: str,
        grants: Sequence[Grant],
        seconds: int = ANSWER_SECONDS,
        memory_mib: int = WHOLE_PROCESSOR_MIB,
        environment: Mapping[str, str] | None = None,
    ) -> lambda_.Function:
        """The function of functions/``folder``; it may do what ``grants`` say and write its own log, nothing else."""
        function_name = f"{self.name}-{folder}"
        scope = Construct(scope, folder)
        log_group = logs.LogGroup(
            scope,
            "Log",
            log_group_name=f"/aws/lambda/{function_name}",
            retention=self.log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = self._role(scope, does, log_group, grants)
        function = lambda_.Function(
            scope,
            "Function",
            function_name=function_name,
            description=does,
            runtime=PYTHON,
            architecture=ARCHITECTURE,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(FUNCTIONS / folder), exclude=NOT_SHIPPED),
            layers=[*self.layers, *self._more_layers(folder)],
            role=role,
            log_group=log_group,
            timeout=Duration.seconds(seconds),
            memory_size=memory_mib,
            environment={**INTERPRETER, **self.environment, **(environment or {})},
        )
        acknowledge(function, "Functions run the Python that the tests and the sandbox run", "AwsSolutions-L1")
        return function

    def _more_layers(self, folder: str) -> list[lambda_.ILayerVersion]:
        return [self.more_layers[folder]()] if folder in self.more_layers else []

    def _role(self, scope: Construct, does: str, log_group: logs.LogGroup, grants: Sequence[Grant]) -> iam.Role:
        role = iam.Role(scope, "Role", description=does, assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"))
        own_log = iam.PolicyStatement(
            sid="OwnLog", actions=["logs:CreateLogStream", "logs:PutLogEvents"], resources=[log_group.log_group_arn]
        )
        statements = [own_log, *(grant.statement(self.places) for grant in grants)]
        policy = iam.Policy(scope, "Policy", roles=[role], statements=statements)
        for grant in grants:
            if grant.because:
                findings = [wildcard(scope, resource) for resource in grant.resources(self.places)]
                acknowledge(policy, grant.because, *findings)
        return role
