"""The portal's API: one function per tool of the catalogue, one per group of routes, all behind IAM.

Nothing is listed twice: tools come from the catalogue, other routes from the route table, and both are what the local
gateway reads.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from aws_cdk import CfnOutput, RemovalPolicy, Stack
from aws_cdk import aws_apigatewayv2 as apigateway
from aws_cdk import aws_apigatewayv2_authorizers as authorizers
from aws_cdk import aws_apigatewayv2_integrations as integrations
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from infra.functions import LIGHT_MIB, WHOLE_PROCESSOR_MIB, FunctionFactory
from infra.grants import ASK_THE_CLASSIFIER, STEP_GRANTS, TOOL_GRANTS, Grant, granted_to
from workbench.routes import DEFAULT_ROUTE, FALLBACK, ROUTES, TOOL_ROUTE
from workbench.tools.classifier import STATE_CHANGING
from workbench.tools.contract import Tool

# What a request was and how it ended; never a query or a body, which may hold what people wrote.
ACCESS_LOG = {
    "request": "$context.requestId",
    "time": "$context.requestTimeEpoch",
    "route": "$context.routeKey",
    "status": "$context.status",
    "milliseconds": "$context.integrationLatency",
    "caller": "$context.identity.caller",
    "error": "$context.error.message",
}

# Reading a stranger's file takes a process of its own, with a gigabyte that it may fill.
READING_FILES = frozenset({"documents"})


class Tools(Construct):
    """The HTTP API and the functions behind it."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        factory: FunctionFactory,
        tools: Sequence[Tool],
        requests_per_second: int,
    ) -> None:
        super().__init__(scope, construct_id)
        self.api = apigateway.HttpApi(
            self,
            "Api",
            api_name=factory.name,
            description="Workbench: workspaces, tools, runs and artifacts",
            create_default_stage=False,
            default_authorizer=authorizers.HttpIamAuthorizer(),
        )
        self.stage = self._stage(factory, requests_per_second)
        self.functions: dict[str, lambda_.Function] = {}
        for tool in tools:
            self.functions[tool.name] = factory.make(
                self,
                tool.name,
                does=f"Tool {tool.name} ({tool.step})",
                grants=[*STEP_GRANTS[tool.step], *TOOL_GRANTS.get(tool.name, ()), *_classifier(factory, tool)],
            )
        for function in dict.fromkeys(route.function for route in ROUTES):
            self.functions[function] = factory.make(
                self,
                function,
                does=f"API routes: {function}",
                grants=granted_to(function),
                memory_mib=WHOLE_PROCESSOR_MIB if function in READING_FILES else LIGHT_MIB,
            )
        self._integrations = {
            name: integrations.HttpLambdaIntegration(name, function, scope_permission_to_route=False)
            for name, function in self.functions.items()
        }
        for tool in tools:
            self._serve(TOOL_ROUTE.replace("{tool}", tool.name), tool.name)
        for route in ROUTES:
            self._serve(route.key, route.function)
        self._serve(DEFAULT_ROUTE, FALLBACK)
        # The permission for all routes ends in stage/method/path; this one route is called as stage/$default.
        self.functions[FALLBACK].add_permission(
            "UnknownRoutes",
            principal=iam.ServicePrincipal("apigateway.amazonaws.com"),
            source_arn=Stack.of(self).format_arn(
                service="execute-api", resource=self.api.api_id, resource_name=f"*/{DEFAULT_ROUTE}"
            ),
        )
        CfnOutput(self, "Url", value=self.api.api_endpoint, description="The portal signs its requests to this address")

    def _serve(self, route: str, function: str) -> None:
        apigateway.HttpRoute(
            self,
            f"Route {route}".replace("/", "|"),
            http_api=self.api,
            route_key=_route_key(route),
            integration=self._integrations[function],
        )

    def _stage(self, factory: FunctionFactory, requests_per_second: int) -> apigateway.HttpStage:
        stage = apigateway.HttpStage(
            self,
            "Stage",
            http_api=self.api,
            stage_name="$default",
            auto_deploy=True,
            throttle=apigateway.ThrottleSettings(rate_limit=requests_per_second, burst_limit=2 * requests_per_second),
        )
        log_group = logs.LogGroup(
            self,
            "AccessLog",
            # Under this prefix log delivery needs no growing resource policy, which an account may have used up.
            log_group_name=f"/aws/vendedlogs/apis/{factory.name}",
            retention=factory.log_retention,
            removal_policy=RemovalPolicy.DESTROY,
        )
        resource = stage.node.default_child
        assert isinstance(resource, apigateway.CfnStage)
        resource.access_log_settings = apigateway.CfnStage.AccessLogSettingsProperty(
            destination_arn=log_group.log_group_arn, format=json.dumps(ACCESS_LOG)
        )
        return stage


def _classifier(factory: FunctionFactory, tool: Tool) -> list[Grant]:
    asks = factory.places.classifier_model and tool.step in STATE_CHANGING
    return [ASK_THE_CLASSIFIER] if asks else []


def _route_key(route: str) -> apigateway.HttpRouteKey:
    if route == DEFAULT_ROUTE:
        return apigateway.HttpRouteKey.DEFAULT
    method, path = route.split(" ", 1)
    return apigateway.HttpRouteKey.with_(path, apigateway.HttpMethod[method])
