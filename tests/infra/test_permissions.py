"""Least privilege: what no function may do, and for each kind the little that it may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.infra.templates import ROOT, Deployment, as_list
from workbench.tools import catalogue

FOLDERS = sorted(path.name for path in (ROOT / "functions").iterdir() if (path / "handler.py").exists())
# Its role holds nothing at all (test_functions.py).
POWERLESS = "javascript"
KNOWN_FOLDERS = ("conversations", "results", "tmp", "tmp/runs", "tmp/uploads", "indexes", "skills")
KNOWN_FOLDERS += ("artifacts", "documents")
KNOWN_ENDINGS = tuple(f"/{folder}/*" for folder in KNOWN_FOLDERS)


def _allowed(deployment: Deployment, function: str) -> Iterator[tuple[str, str, Any]]:
    """(action, resource, partitions) of everything a function may do, its own log apart."""
    for statement in deployment.statements_of(function):
        if statement["Sid"] == "OwnLog":
            continue
        partitions = statement.get("Condition", {}).get("ForAllValues:StringLike", {}).get("dynamodb:LeadingKeys")
        for action in as_list(statement["Action"]):
            for resource in as_list(statement["Resource"]):
                yield action, deployment.resolved(resource), partitions


@pytest.mark.parametrize("function", FOLDERS)
def test_no_action_is_a_wildcard_and_no_resource_is_everything(deployment: Deployment, function: str) -> None:
    for action, resource, partitions in _allowed(deployment, function):
        assert "*" not in action
        assert resource != "*"
        if action == "dynamodb:Scan":
            # Keys only: what belongs to whom, and nothing of what it holds.
            assert (function, resource.split("/")[-1]) == ("reconciler", "gsi1")
        elif "dynamodb" in action:
            assert partitions and all(kind[0] in "CRSAPUD" and kind != "*" for kind in partitions)
            assert "*" not in resource
        elif action.startswith("s3:") and "*" in resource:
            assert resource.endswith(KNOWN_ENDINGS) and resource.count("*") == 1
        elif action == "states:DescribeExecution":
            # Executions of one machine, whatever they are called.
            assert resource.endswith("-reconcile:*") and resource.count("*") == 1
        elif not action.startswith("ecs:"):
            assert "*" not in resource


@pytest.mark.parametrize("function", sorted(set(FOLDERS) - {POWERLESS}))
def test_a_function_writes_only_its_own_log(deployment: Deployment, function: str) -> None:
    (own,) = [s for s in deployment.statements_of(function) if s["Sid"] == "OwnLog"]
    group = deployment.function(function).properties["LoggingConfig"]["LogGroup"]["Ref"]
    assert own["Resource"] == {"Fn::GetAtt": [group, "Arn"]}


def test_roles_hold_nothing_but_these_statements(deployment: Deployment) -> None:
    for function in FOLDERS:
        role_id = deployment.function(function).properties["Role"]["Fn::GetAtt"][0]
        (role,) = [found for found in deployment.of("AWS::IAM::Role") if found.id == role_id]
        assert not role.properties.get("ManagedPolicyArns") and not role.properties.get("Policies")
        (trusted,) = role.properties["AssumeRolePolicyDocument"]["Statement"]
        assert trusted["Principal"] == {"Service": "lambda.amazonaws.com"}


def test_nobody_scans_the_table_or_changes_a_resource(deployment: Deployment) -> None:
    actions = {
        action
        for function in FOLDERS
        for action, resource, _partitions in _allowed(deployment, function)
        if not (action == "dynamodb:Scan" and resource.endswith("/index/gsi1"))
    }
    assert actions <= {
        *(f"dynamodb:{name}" for name in ("GetItem", "BatchGetItem", "Query", "PutItem", "UpdateItem")),
        *(f"dynamodb:{name}" for name in ("ConditionCheckItem", "DeleteItem", "BatchWriteItem")),
        *(f"s3:{name}" for name in ("GetObject", "PutObject", "PutObjectTagging", "DeleteObject")),
        *(f"s3:{name}" for name in ("DeleteObjectVersion", "ListBucket", "ListBucketVersions")),
        *(f"states:{name}" for name in ("StartExecution", "SendTaskSuccess", "SendTaskFailure", "SendTaskHeartbeat")),
        *("states:DescribeExecution", "ecs:RunTask", "ecs:StopTask", "iam:PassRole", "lambda:InvokeFunction"),
    }


def _who_may(deployment: Deployment, *actions: str, where: str = "") -> set[str]:
    return {
        function
        for function in FOLDERS
        for action, resource, _partitions in _allowed(deployment, function)
        if action in actions and where in resource
    }


def test_who_changes_workspaces(deployment: Deployment) -> None:
    writers = {"write_file", "edit_file", "delete_file"}
    assert {tool.name for tool in catalogue.tools() if tool.step == "write"} == writers
    may = _who_may(deployment, "s3:PutObject", where="/conversations/*")
    assert may == writers | {"files", "workflow", "sandbox_route"}


def test_who_removes_what(deployment: Deployment) -> None:
    # Finishing a turn thins a history that is past its limits (docs/decisions/004).
    removers = {"conversations", "lifecycle", "turns", "reconciler"}
    assert _who_may(deployment, "s3:DeleteObject", where="/conversations/*") == removers
    # A restore removes markers, an erasure everything; a document is removed for good.
    erasers = {"conversations", "lifecycle", "reconciler", "documents"}
    assert _who_may(deployment, "s3:DeleteObjectVersion") == erasers
    assert _who_may(deployment, "s3:DeleteObject", where="/indexes/*") == {"documents", "lifecycle", "reconciler"}


def test_who_reaches_exported_files(deployment: Deployment) -> None:
    writers = {"export_artifact", "captures", "documents"}
    assert _who_may(deployment, "s3:PutObject", where="/artifacts/*") == writers
    # The sandbox's route hands a run's artifacts over; which ones, run_code has authorised.
    readers = {"read_artifact", "artifacts", "sandbox_route"}
    assert _who_may(deployment, "s3:GetObject", where="/artifacts/*") == readers
    # The reconciler fills an index that was lost from the passages again.
    assert _who_may(deployment, "s3:GetObject", where="/documents/*") == {"documents", "sandbox_route", "reconciler"}


def test_who_reaches_skills(deployment: Deployment) -> None:
    assert _who_may(deployment, "s3:PutObject", where="/skills/*") == {"skills", "deployed_skills"}
    # The sandbox's route hands a run's skills over; which ones, run_code has authorised.
    assert _who_may(deployment, "s3:GetObject", where="/skills/*") == {"load_skill", "sandbox_route"}
    assert _who_may(deployment, "s3:DeleteObject", where="/skills/*") <= {"skills", "reconciler"}


def test_who_starts_what(deployment: Deployment) -> None:
    assert _who_may(deployment, "states:StartExecution", where="run-code") == {"run_code"}
    starters = {"conversations", "people", "reconciler"}
    assert _who_may(deployment, "states:StartExecution", where="delete-conversation") == starters
    assert _who_may(deployment, "states:StartExecution", where="reconcile") == {"reconciliations"}
    assert _who_may(deployment, "states:DescribeExecution") == {"reconciliations"}
    assert _who_may(deployment, "ecs:RunTask") == _who_may(deployment, "iam:PassRole") == {"workflow", "pool_keeper"}
    assert _who_may(deployment, "states:SendTaskSuccess") <= {"workflow", "sandbox_route"}


def test_arithmetic_reaches_no_files(deployment: Deployment) -> None:
    for function in ("calculate", "convert_units", "current_time", "run_javascript"):
        places = {resource.split(">")[-1] for action, resource, _ in _allowed(deployment, function) if "s3" in action}
        assert places == {"/results/*"}


def test_the_self_check_goes_the_usual_way_and_reads_records_of_runs(deployment: Deployment) -> None:
    reached: dict[str, set[str]] = {}
    for action, resource, partitions in _allowed(deployment, "sandbox_check"):
        reached.setdefault(action, set()).add(resource.split(":")[-1] if partitions is None else str(partitions))
    assert reached == {
        "lambda:InvokeFunction": {f"workbench-{name}" for name in ("conversations", "turns", "run_code", POWERLESS)},
        "dynamodb:GetItem": {"['R#*']"},
    }


def test_one_tool_evaluates_javascript(deployment: Deployment) -> None:
    invoked = {
        function: resource
        for function in FOLDERS
        for action, resource, _partitions in _allowed(deployment, function)
        if action == "lambda:InvokeFunction" and resource.endswith(f"-{POWERLESS}")
    }
    assert set(invoked) == {"run_javascript", "sandbox_check"}
    assert invoked["run_javascript"].endswith(":function:workbench-javascript")


def test_a_tool_cannot_touch_sandboxes_or_other_peoples_records(deployment: Deployment) -> None:
    for tool in catalogue.tools():
        if tool.step in ("run", "export"):
            continue
        for action, _resource, partitions in _allowed(deployment, tool.name):
            if action in ("dynamodb:PutItem", "dynamodb:UpdateItem"):
                assert partitions == ["C#*"]
