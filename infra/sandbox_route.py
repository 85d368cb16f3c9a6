"""The sandbox's only reachable address: a private REST API with one method, answered by one function.

Private means: no caller outside the sandbox's VPC gets through, whatever credentials it has. The caller inside has no
credentials at all and proves itself by its one-time secret, which the function checks.
"""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_apigateway as apigateway
from aws_cdk import aws_ec2 as ec2
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from constructs import Construct

from infra.reasons import acknowledge

STAGE = "live"
PATH = "v1/sandbox"
REQUESTS_PER_SECOND = 200


class SandboxRoute(Construct):
    """``POST /v1/sandbox``, for this VPC only."""

    def __init__(
        self, scope: Construct, construct_id: str, *, name: str, vpc: ec2.IVpc, function: lambda_.IFunction
    ) -> None:
        super().__init__(scope, construct_id)
        one_method = f"execute-api:/{STAGE}/POST/{PATH}"
        anyone = [iam.AnyPrincipal()]
        self._api = apigateway.RestApi(
            self,
            "Api",
            rest_api_name=f"{name}-sandbox",
            description="The one address a sandbox can reach",
            endpoint_configuration=apigateway.EndpointConfiguration(types=[apigateway.EndpointType.PRIVATE]),
            # The VPC has one endpoint for this service, and that endpoint's own policy names this API: naming the
            # endpoint here as well would be a circle that CloudFormation cannot create.
            policy=iam.PolicyDocument(
                statements=[
                    iam.PolicyStatement(
                        sid="OneMethodFromTheSandboxNetwork",
                        principals=anyone,
                        actions=["execute-api:Invoke"],
                        resources=[one_method],
                        conditions={"StringEquals": {"aws:SourceVpc": vpc.vpc_id}},
                    ),
                    iam.PolicyStatement(
                        sid="NobodyElse",
                        effect=iam.Effect.DENY,
                        principals=anyone,
                        actions=["execute-api:Invoke"],
                        resources=["execute-api:/*"],
                        conditions={"StringNotEquals": {"aws:SourceVpc": vpc.vpc_id}},
                    ),
                ]
            ),
            cloud_watch_role=False,
            deploy_options=apigateway.StageOptions(
                stage_name=STAGE,
                throttling_rate_limit=REQUESTS_PER_SECOND,
                throttling_burst_limit=2 * REQUESTS_PER_SECOND,
            ),
        )
        method = self._api.root.resource_for_path(PATH).add_method(
            "POST",
            apigateway.LambdaIntegration(function, allow_test_invoke=False),
            authorization_type=apigateway.AuthorizationType.NONE,
        )
        self._explain(method)

    @property
    def url(self) -> str:
        """Where a supervisor posts to."""
        return f"https://{self.host}/{STAGE}/{PATH}"

    @property
    def host(self) -> str:
        return f"{self._api.rest_api_id}.execute-api.{Aws.REGION}.{Aws.URL_SUFFIX}"

    @property
    def method_arn(self) -> str:
        """The one method as execute-api policies name it."""
        return self._api.arn_for_execute_api("POST", f"/{PATH}", STAGE)

    def _explain(self, method: apigateway.Method) -> None:
        acknowledge(
            method,
            "The caller is a task without credentials in a VPC that reaches nothing else; it proves itself by a "
            "one-time secret, stored hashed, which the function exchanges for a session secret bound to one run",
            "AwsSolutions-APIG4",
            "AwsSolutions-COG4",
        )
        acknowledge(
            self._api,
            "The function checks every body with a typed model and answers 400; a second, weaker check at the gateway "
            "would have to be kept equal",
            "AwsSolutions-APIG2",
        )
        stage = self._api.deployment_stage
        acknowledge(
            stage,
            "The API is private and has one caller; a web application firewall inspects public traffic",
            "AwsSolutions-APIG3",
        )
        acknowledge(
            stage,
            "REST API logs need an account-wide role, which one deployment should not set; the function logs requests",
            "AwsSolutions-APIG1",
            "AwsSolutions-APIG6",
        )
