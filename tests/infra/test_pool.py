"""The warm pool as it is deployed: a keeper with a schedule, which nobody else calls, and what waiting costs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from infra.runs import HOLDING_MIB
from tests.infra.templates import Deployment, Resource, as_list, synthesise, text


def schedule(deployment: Deployment) -> dict[str, Any]:
    """The rule that calls the keeper."""
    keepers = {f.id for f in deployment.of("AWS::Lambda::Function") if "pool_keeper" in f.properties["FunctionName"]}
    rules = [rule.properties for rule in deployment.of("AWS::Events::Rule")]
    (found,) = [rule for rule in rules if rule["Targets"][0]["Arn"].get("Fn::GetAtt", [""])[0] in keepers]
    return found


def test_the_keeper_is_called_every_minute_and_missed_rounds_are_not_made_up(deployment: Deployment) -> None:
    rule = schedule(deployment)
    assert (rule["ScheduleExpression"], rule["State"]) == ("rate(1 minute)", "ENABLED")
    (target,) = rule["Targets"]
    assert target["RetryPolicy"] == {"MaximumEventAgeInSeconds": 60, "MaximumRetryAttempts": 0}


def test_without_a_pool_nothing_is_called(tmp_path: Path) -> None:
    without = synthesise(tmp_path, warmSandboxes=0)
    assert schedule(without)["State"] == "DISABLED"
    for name in ("workflow", "sandbox_route", "pool_keeper"):
        assert without.function(name).properties["Environment"]["Variables"]["WORKBENCH_WARM_SANDBOXES"] == "0"


def test_the_keeper_may_start_and_end_tasks_and_touch_its_own_items(deployment: Deployment) -> None:
    statements = {statement["Sid"]: statement for statement in deployment.statements_of("pool_keeper")}
    assert set(statements) == {"OwnLog", "WaitingSandboxes", "StartSandboxes", "StopSandboxes", "PassTheExecutionRole"}
    items = statements["WaitingSandboxes"]
    assert items["Condition"] == {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["POOL", "SBX#*"]}}
    assert not {action for action in items["Action"] if "Delete" in action or "Scan" in action}


def test_only_the_workflow_and_the_schedule_call_the_keeper(deployment: Deployment) -> None:
    callers = {
        function.properties["FunctionName"]
        for function in deployment.of("AWS::Lambda::Function")
        for statement in deployment.statements_of(function.properties["FunctionName"].removeprefix("workbench-"))
        if "lambda:InvokeFunction" in as_list(statement["Action"])
        and any("pool_keeper" in deployment.resolved(resource) for resource in as_list(statement["Resource"]))
    }
    assert callers == {"workbench-workflow"}
    keeper = deployment.function("pool_keeper").id
    permissions = [p.properties for p in deployment.of("AWS::Lambda::Permission") if keeper in str(p.properties)]
    assert [permission["Principal"] for permission in permissions] == ["events.amazonaws.com"]
    assert "SourceArn" in permissions[0]


def test_what_is_held_while_a_sandbox_waits_is_small(deployment: Deployment) -> None:
    assert deployment.function("sandbox_route").properties["MemorySize"] == HOLDING_MIB <= 512


def test_an_admin_hears_when_no_sandbox_can_be_started_ahead(deployment: Deployment) -> None:
    metrics = [m["MetricStat"]["Metric"] for a in deployment.of("AWS::CloudWatch::Alarm") for m in _metrics(a)]
    (watched,) = [metric for metric in metrics if metric["MetricName"] == "FailedSandboxStarts"]
    assert watched["Namespace"] == "Workbench"
    assert "poolkeeper" in str(watched["Dimensions"])
    dashboard = text(deployment.one("AWS::CloudWatch::Dashboard").properties["DashboardBody"])
    assert all(name in dashboard for name in ("WarmRuns", "ColdRuns", "WaitingSandboxes", "FailedSandboxStarts"))


def _metrics(alarm: Resource) -> list[dict[str, Any]]:
    return [metric for metric in alarm.properties.get("Metrics", []) if "MetricStat" in metric]
