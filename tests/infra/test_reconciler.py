"""The daily reconciling as it is deployed: a schedule that begins it, and an alarm for what it could not repair."""

from __future__ import annotations

import json

from tests.infra.templates import Deployment, as_list
from workbench.logs import NAMESPACE
from workbench.reconciling.engine import METRICS


def test_a_schedule_begins_it_once_a_day_and_for_good(deployment: Deployment) -> None:
    (machine,) = [
        machine
        for machine in deployment.of("AWS::StepFunctions::StateMachine")
        if machine.properties["StateMachineName"] == "workbench-reconcile"
    ]
    rules = [
        rule.properties
        for rule in deployment.of("AWS::Events::Rule")
        if any(target["Arn"] == {"Ref": machine.id} for target in rule.properties["Targets"])
    ]
    (rule,) = rules
    assert (rule["ScheduleExpression"], rule["State"]) == ("cron(17 3 * * ? *)", "ENABLED")
    (target,) = rule["Targets"]
    assert json.loads(target["Input"]) == {"dryRun": False}
    # The schedule may start this machine and nothing else.
    role = target["RoleArn"]["Fn::GetAtt"][0]
    (statement,) = deployment.statements(role, machine.stack)
    assert (statement["Action"], statement["Resource"]) == ("states:StartExecution", {"Ref": machine.id})


def test_what_could_not_be_repaired_raises_an_alarm(deployment: Deployment) -> None:
    measured = [
        (alarm.properties["Threshold"], metric["MetricStat"])
        for alarm in deployment.of("AWS::CloudWatch::Alarm")
        for metric in alarm.properties.get("Metrics", [])
        if metric.get("MetricStat", {}).get("Metric", {}).get("Namespace") == NAMESPACE
        and metric["MetricStat"]["Metric"]["MetricName"] in METRICS
    ]
    ((threshold, stat),) = measured
    function = deployment.function("reconciler")
    assert (threshold, stat["Period"], stat["Metric"]["MetricName"]) == (0, 86_400, "ReconcilerFailed")
    assert stat["Metric"]["Dimensions"] == [{"Name": "FunctionName", "Value": {"Ref": function.id}}]


def test_it_writes_into_no_workspace(deployment: Deployment) -> None:
    """A deletion looks again when the longest writer has ended: who removes all the time must not write at all."""
    for statement in deployment.statements_of("reconciler"):
        if "s3:PutObject" in as_list(statement["Action"]):
            places = [deployment.resolved(resource) for resource in as_list(statement["Resource"])]
            assert not any(folder in place for place in places for folder in ("conversations", "results", "artifacts"))
