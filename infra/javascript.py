"""The function that evaluates JavaScript. Its role may do nothing at all, not even write a log.

Whoever breaks out of the engine there holds the credentials of that role. A log of its own would be one thing to write
to, and would hold nothing that its answers and its metrics do not tell: the tool that invokes it logs what went wrong.
"""

from __future__ import annotations

from aws_cdk import Duration
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.functions import FUNCTIONS, INTERPRETER, LIGHT_MIB, FunctionFactory
from infra.layers import ARCHITECTURE, NOT_SHIPPED, PYTHON
from infra.reasons import acknowledge

FOLDER = "javascript"
# A cold start, a program's two seconds and the start of the next child.
SECONDS = 15


class Javascript(Construct):
    """functions/javascript, without a setting, a log or a permission."""

    def __init__(self, scope: Construct, construct_id: str, *, factory: FunctionFactory) -> None:
        super().__init__(scope, construct_id)
        role = iam.Role(
            self,
            "Role",
            description="Evaluates JavaScript; may do nothing",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
        )
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=f"{factory.name}-{FOLDER}",
            description="Evaluates one JavaScript program for run_javascript",
            runtime=PYTHON,
            architecture=ARCHITECTURE,
            handler="handler.handler",
            code=lambda_.Code.from_asset(str(FUNCTIONS / FOLDER), exclude=NOT_SHIPPED),
            layers=list(factory.layers),
            role=role,
            timeout=Duration.seconds(SECONDS),
            memory_size=LIGHT_MIB,
            environment=INTERPRETER,
        )
        acknowledge(self.function, "Functions run the Python that the tests and the sandbox run", "AwsSolutions-L1")
