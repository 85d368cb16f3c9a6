"""One factory makes a state machine from a definition that the local system executes as well.

Each machine has a fixed name, so that functions can be granted its ARN before it exists, and a role that may invoke one
function.
"""

from __future__ import annotations

from aws_cdk import ArnFormat, RemovalPolicy, Stack
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct, IConstruct

from infra.layers import ROOT
from infra.reasons import acknowledge

DEFINITIONS = ROOT / "infra" / "state_machines"
RUN_CODE = "run-code"
DELETE_CONVERSATION = "delete-conversation"
RECONCILE = "reconcile"


def machine_arn(scope: IConstruct, name: str) -> str:
    """The ARN a machine of that name has or will have."""
    return Stack.of(scope).format_arn(
        service="states", resource="stateMachine", resource_name=name, arn_format=ArnFormat.COLON_RESOURCE_NAME
    )


class Workflow(Construct):
    """The state machine of infra/state_machines/``definition``, all of whose states call ``function``.

    ``placeholder`` is what the definition writes for the function's ARN, without ``${}``.
    """

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        definition: str,
        placeholder: str,
        function: lambda_.IFunction,
        log_retention: logs.RetentionDays,
    ) -> None:
        super().__init__(scope, construct_id)
        log_group = logs.LogGroup(
            self,
            "Log",
            # Under this prefix log delivery needs no growing resource policy.
            log_group_name=f"/aws/vendedlogs/states/{name}",
            retention=log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        role = iam.Role(
            self,
            "Role",
            description=f"{name}: invokes its one function, writes its log",
            assumed_by=iam.ServicePrincipal("states.amazonaws.com"),
        )
        role.add_to_policy(
            iam.PolicyStatement(
                sid="InvokeTheOneFunction", actions=["lambda:InvokeFunction"], resources=[function.function_arn]
            )
        )
        acknowledge(
            role,
            "Log delivery and tracing accept no resource in IAM; what the machine may invoke is named exactly",
            "AwsSolutions-IAM5[Resource::*]",
        )
        self.machine = sfn.StateMachine(
            self,
            "Machine",
            state_machine_name=name,
            definition_body=sfn.DefinitionBody.from_file(str(DEFINITIONS / definition)),
            definition_substitutions={placeholder: function.function_arn},
            role=role,
            # Every event, without data: payloads hold task tokens.
            logs=sfn.LogOptions(destination=log_group, level=sfn.LogLevel.ALL, include_execution_data=False),
            tracing_enabled=True,
        )
