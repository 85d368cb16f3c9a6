"""The functions are the catalogue's tools, the route table's groups and four internal ones, each exactly once."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from infra.functions import ANSWER_SECONDS, LONGEST_SECONDS
from infra.grants import FUNCTION_GRANTS, STEP_GRANTS, TOOL_GRANTS
from tests.infra.templates import ROOT, Deployment, Resource, text
from workbench.routes import ROUTES
from workbench.settings import Settings
from workbench.tools import catalogue

FOLDERS = sorted(path for path in (ROOT / "functions").iterdir() if path.is_dir() and path.name != "__pycache__")
INTERNAL = {
    "workflow": "workbench.runs.workflow",
    "sandbox_route": "workbench.runs.sandbox_route",
    "task_stopped": "workbench.runs.task_stopped",
    "pool_keeper": "workbench.runs.keeper",
    "deployed_skills": "workbench.skills.deployment",
    "lifecycle": "workbench.conversations.lifecycle",
    "artifact_removed": "workbench.artifacts.billing_api",
    "reconciler": "workbench.reconciling.engine",
    "javascript": "workbench.javascript.function",
    "sandbox_check": "workbench.selfcheck.function",
}
TOOLS = set(catalogue.names())
GROUPS = {route.function for route in ROUTES}


def test_every_tool_and_route_has_a_folder_and_every_folder_a_use() -> None:
    assert {folder.name for folder in FOLDERS} == TOOLS | GROUPS | set(INTERNAL)
    assert not TOOLS & GROUPS and not (TOOLS | GROUPS) & set(INTERNAL)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_handler_is_a_docstring_an_import_and_a_line(folder: Path) -> None:
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["handler.py"]
    module = ast.parse((folder / "handler.py").read_text())
    sentence = ast.get_docstring(module)
    assert sentence and "\n" not in sentence
    _docstring, imported, last = module.body
    assert isinstance(imported, ast.ImportFrom)
    if folder.name in INTERNAL:
        assert (imported.module, [name.name for name in imported.names]) == (INTERNAL[folder.name], ["handler"])
        return
    maker, where = (
        ("tool_route", "workbench.tools.path") if folder.name in TOOLS else ("api_function", "workbench.routes")
    )
    assert (imported.module, [name.name for name in imported.names]) == (where, [maker])
    assert ast.unparse(last) == f"handler = {maker}({folder.name!r})"


def test_every_folder_is_deployed_once(deployment: Deployment) -> None:
    names = sorted(function.properties["FunctionName"] for function in deployment.of("AWS::Lambda::Function"))
    assert names == [f"workbench-{folder.name}" for folder in FOLDERS]


def test_grants_name_only_what_exists() -> None:
    assert set(FUNCTION_GRANTS) == GROUPS | set(INTERNAL) - {"javascript"}
    assert set(STEP_GRANTS) == {"read", "write", "run", "compute", "search", "export"}
    assert set(TOOL_GRANTS) <= TOOLS


def test_functions_run_one_python_on_one_architecture(deployment: Deployment) -> None:
    for function in deployment.of("AWS::Lambda::Function"):
        assert function.properties["Runtime"] == "python3.13"
        assert function.properties["Architectures"] == ["arm64"]
        assert function.properties["Handler"] == "handler.handler"
        # The two that all have; which function has a third is said in test_layers.py.
        assert len(function.properties["Layers"]) >= 2


def test_no_function_outlives_what_a_deletion_waits_for(deployment: Deployment) -> None:
    timeouts = {f.properties["FunctionName"]: f.properties["Timeout"] for f in deployment.of("AWS::Lambda::Function")}
    waits = {
        f.properties["Environment"]["Variables"]["WORKBENCH_LONGEST_FUNCTION_SECONDS"]
        for f in deployment.of("AWS::Lambda::Function")
        if f.properties["FunctionName"] != "workbench-javascript"
    }
    assert waits == {str(LONGEST_SECONDS)}
    assert max(timeouts.values()) <= LONGEST_SECONDS
    # Behind a gateway nobody waits longer than this.
    names = ("workflow", "lifecycle", "javascript", "sandbox_check", "reconciler")
    background = {f"workbench-{name}" for name in names}
    assert {timeouts[name] for name in timeouts if name not in background} == {ANSWER_SECONDS}


def test_every_function_has_a_role_and_a_log_of_its_own(deployment: Deployment) -> None:
    functions = deployment.of("AWS::Lambda::Function")
    roles = [function.properties["Role"]["Fn::GetAtt"][0] for function in functions]
    logs = {group.properties.get("LogGroupName"): group for group in deployment.of("AWS::Logs::LogGroup")}
    assert len(set(roles)) == len(functions)
    for function in functions:
        if function.properties["FunctionName"] == "workbench-javascript":
            continue
        log = logs[f"/aws/lambda/{function.properties['FunctionName']}"]
        assert log.properties["RetentionInDays"] == 90
        assert function.properties["LoggingConfig"]["LogGroup"] == {"Ref": log.id}


def test_every_log_ends_some_day(deployment: Deployment) -> None:
    groups = deployment.of("AWS::Logs::LogGroup")
    assert {group.properties.get("RetentionInDays") for group in groups} == {90}


def test_the_environment_gives_the_settings_back(deployment: Deployment) -> None:
    table = deployment.one("AWS::DynamoDB::GlobalTable").id
    for function in deployment.of("AWS::Lambda::Function"):
        if function.properties["FunctionName"] == "workbench-javascript":
            continue
        variables = function.properties["Environment"]["Variables"]
        settings = Settings.from_environment({name: text(value) for name, value in variables.items()})
        assert table in settings.table
        assert "Workspaces" in settings.workspace_bucket
        assert "Artifacts" in settings.artifact_bucket
        assert settings.run_state_machine.endswith(":stateMachine:workbench-run-code")
        assert settings.delete_state_machine.endswith(":stateMachine:workbench-delete-conversation")
        assert settings.reconcile_state_machine.endswith(":stateMachine:workbench-reconcile")


def test_the_machines_that_functions_start_exist(deployment: Deployment) -> None:
    machines = {machine.properties["StateMachineName"] for machine in deployment.of("AWS::StepFunctions::StateMachine")}
    assert machines == {"workbench-run-code", "workbench-delete-conversation", "workbench-reconcile"}


def test_what_evaluates_javascript_has_nothing(deployment: Deployment) -> None:
    function = deployment.function("javascript")
    assert deployment.statements_of("javascript") == []
    (role,) = [r for r in deployment.of("AWS::IAM::Role") if r.id == function.properties["Role"]["Fn::GetAtt"][0]]
    assert set(role.properties) <= {"AssumeRolePolicyDocument", "Description", "Tags"}
    # No setting names a table, a bucket or anybody; no network of ours, no storage, no log.
    assert set(function.properties["Environment"]["Variables"]) == {"PYDANTIC_DISABLE_PLUGINS"}
    assert not {"VpcConfig", "FileSystemConfigs", "DeadLetterConfig", "LoggingConfig", "TracingConfig"} & set(
        function.properties
    )
    assert "ReservedConcurrentExecutions" not in function.properties
    assert function.properties["MemorySize"] <= 1024
    assert "workbench-javascript" not in str([group.properties for group in deployment.of("AWS::Logs::LogGroup")])
    assert [p for p in deployment.of("AWS::Lambda::Permission") if function.id in str(p.properties)] == []


def test_only_the_workflow_and_the_pool_know_how_to_start_a_sandbox(deployment: Deployment) -> None:
    names = {"CLUSTER", "TASK_DEFINITION", "SUBNETS", "SECURITY_GROUP", "ROUTE_URL"}
    for function in deployment.of("AWS::Lambda::Function"):
        variables = function.properties["Environment"]["Variables"]
        told = {name for name in names if f"WORKBENCH_SANDBOX_{name}" in variables}
        starts = function.properties["FunctionName"] in ("workbench-workflow", "workbench-pool_keeper")
        assert told == (names if starts else set())


# ---------------------------------------------------------------- the API


def test_the_api_has_exactly_the_routes_of_the_tables(deployment: Deployment) -> None:
    served = {
        route.properties["RouteKey"]: _behind(deployment, route.properties["Target"]) for route in _routes(deployment)
    }
    expected = {route.key: route.function for route in ROUTES}
    expected |= {f"POST /v1/turns/{{turn}}/tools/{tool}": tool for tool in TOOLS}
    assert served == {**expected, "$default": "fallback"}


def test_every_route_asks_for_iam(deployment: Deployment) -> None:
    assert {route.properties["AuthorizationType"] for route in _routes(deployment)} == {"AWS_IAM"}


def test_integrations_carry_the_payload_that_the_code_reads(deployment: Deployment) -> None:
    integrations = deployment.of("AWS::ApiGatewayV2::Integration")
    assert {found.properties["PayloadFormatVersion"] for found in integrations} == {"2.0"}
    assert len(integrations) == len(TOOLS | GROUPS)


def test_only_this_api_may_invoke_the_functions_behind_it(deployment: Deployment) -> None:
    for permission in deployment.of("AWS::Lambda::Permission"):
        assert permission.properties["Principal"] in ("apigateway.amazonaws.com", "events.amazonaws.com")
        assert permission.properties["SourceArn"]


def test_every_route_may_invoke_its_function(deployment: Deployment) -> None:
    """As API Gateway names the caller: api/stage/METHOD/path, and api/stage/$default for what no route serves."""
    api = deployment.one("AWS::ApiGatewayV2::Api").id
    allowed = [
        (permission.properties["FunctionName"]["Fn::GetAtt"][0], text(permission.properties["SourceArn"]))
        for permission in deployment.of("AWS::Lambda::Permission")
        if permission.properties["Principal"] == "apigateway.amazonaws.com"
    ]
    for route in _routes(deployment):
        key = route.properties["RouteKey"]
        caller = f"arn:<AWS::Partition>:execute-api:<AWS::Region>:<AWS::AccountId>:<{api}>/$default/"
        caller += key.replace(" /", "/")
        function = deployment.function(_behind(deployment, route.properties["Target"])).id
        patterns = [source for id_, source in allowed if id_ == function]
        assert any(_arn_is_like(caller, pattern) for pattern in patterns), key


def _arn_is_like(arn: str, pattern: str) -> bool:
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), arn) is not None


def test_requests_are_logged_and_throttled(deployment: Deployment) -> None:
    stage = deployment.one("AWS::ApiGatewayV2::Stage").properties
    (group,) = [g for g in deployment.of("AWS::Logs::LogGroup") if g.id in str(stage["AccessLogSettings"])]
    # Elsewhere, each log that a service delivers makes a resource policy longer that the whole account shares.
    assert group.properties["LogGroupName"] == "/aws/vendedlogs/apis/workbench"
    assert stage["DefaultRouteSettings"] == {"ThrottlingRateLimit": 100, "ThrottlingBurstLimit": 200}
    written = stage["AccessLogSettings"]["Format"]
    assert "$context.status" in written
    # People's words travel in queries and bodies.
    assert not any(field in written for field in ("$context.path", "$context.requestOverride", "querystring", "body"))


def _routes(deployment: Deployment) -> list[Resource]:
    return deployment.of("AWS::ApiGatewayV2::Route")


def _behind(deployment: Deployment, target: dict[str, object]) -> str:
    """The folder of the function behind a route's target."""
    integration_id = text(target).removeprefix("integrations/<").removesuffix(">")
    (integration,) = [i for i in deployment.of("AWS::ApiGatewayV2::Integration") if i.id == integration_id]
    function_id = integration.properties["IntegrationUri"]["Fn::GetAtt"][0]
    (function,) = [f for f in deployment.of("AWS::Lambda::Function") if f.id == function_id]
    return str(function.properties["FunctionName"]).removeprefix("workbench-")
