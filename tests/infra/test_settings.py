"""What an admin writes in cdk.json is checked before anything is made of it; a mistake is answered with what fits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

import pytest
from annotated_types import Ge, Le
from pydantic import BaseModel

from infra.functions import INTERPRETER, LONGEST_SECONDS
from infra.settings import (
    CONTEXT_KEY,
    MIB,
    SANDBOX_ENV_CHARACTERS,
    DeploymentSettings,
    Limits,
    Sandbox,
    SettingsError,
    parse,
    read_context,
)
from tests.infra.templates import ROOT, synthesise, text
from workbench.settings import Settings
from workbench.tools import catalogue

DELIVERED: dict[str, Any] = read_context(ROOT / "cdk.json")[CONTEXT_KEY]


def test_the_delivered_settings_are_the_defaults() -> None:
    assert parse(DELIVERED) == DeploymentSettings()


def test_functions_get_the_same_defaults_as_a_developer() -> None:
    assert DeploymentSettings().function_settings() == Settings()


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"zones": 4}, "zones"),
        ({"zone": 2}, "zone: Extra inputs are not permitted"),
        ({"name": "Work Bench"}, "name"),
        ({"logRetentionDays": 31}, "logRetentionDays.*only 1, 3, 5, 7, 14, 30"),
        ({"warmSandboxes": 6}, "warmSandboxes is 6, but warmSandboxesMost allows 5: raise warmSandboxesMost"),
        ({"warmSandboxes": 51}, "warmSandboxes.*less than or equal to 50"),
        ({"graceDays": 0}, "graceDays.*greater than or equal to 1"),
        ({"askFrom": "often"}, "askFrom.*'low', 'moderate', 'high', 'dangerous' or 'never'"),
        ({"limits": {"workspaceFiles": 0}}, "limits.workspaceFiles"),
        ({"limits": {"workspaceBytes": "much"}}, "limits.workspaceBytes.*valid integer"),
        ({"sandbox": {"cpu": 512}}, "sandbox.cpu.*1024, 2048 or 4096"),
        (
            {"sandbox": {"memoryMiB": 4000}},
            "with cpu 1024 Fargate offers 2048 to 8192 in steps of 1024",
        ),
        ({"sandbox": {"runMemoryMiB": 4096}}, "memoryMiB is 4096, but a run may need 5284"),
        ({"sandboxEnv": {"PATH": "/x"}}, "PATH is set by the sandbox itself"),
        ({"sandboxEnv": {"AWS_SECRET_ACCESS_KEY": "x"}}, "AWS_SECRET_ACCESS_KEY is set by the sandbox itself"),
        ({"sandboxEnv": {"WORKBENCH_SECRET": "x"}}, "WORKBENCH_SECRET is set by the sandbox itself"),
        ({"sandboxEnv": {"my var": "x"}}, "'my var' is no variable name"),
        ({"sandboxEnv": {"NOTE": "x" * 1_500}}, "may hold 1500 characters"),
        ({"sandboxImage": "docker.io/somebody/image:latest@x"}, 'write "build"'),
        ({"sandboxImage": "workbench-sandbox"}, '"repository:tag"'),
        ({"alarmTopicArn": "my-topic"}, "the ARN of an SNS topic"),
        ({"classifierModel": "eu.amazon.nova-lite-v1:0"}, "classifierModel.*no inference profile"),
        ({"classifierModel": "*"}, "classifierModel.*foundation model"),
    ],
    ids=lambda value: json.dumps(value)[:50] if isinstance(value, dict) else "",
)
def test_a_setting_that_does_not_fit_is_named_with_what_does(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(SettingsError, match=f"(?s)context.workbench does not fit.*{said}"):
        parse({**DELIVERED, **changes})


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(SettingsError) as told:
        parse({**DELIVERED, "zones": 9, "graceDays": -1})
    assert "zones" in str(told.value) and "graceDays" in str(told.value)


def test_a_broken_cdk_json_is_named(tmp_path: Path) -> None:
    (tmp_path / "cdk.json").write_text('{"context": {')
    with pytest.raises(SettingsError, match=r"cdk\.json cannot be read as JSON"):
        read_context(tmp_path / "cdk.json")


def test_every_setting_is_documented_with_its_default() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    rows = {line.split("`")[1]: line for line in page.splitlines() if line.startswith("| `")}
    described = dict(_settings(DeploymentSettings()))
    assert set(rows) == set(described)
    for name, default in described.items():
        assert f"| {default} |" in rows[name], name


def test_every_setting_is_documented_with_its_bounds() -> None:
    page = (ROOT / "docs" / "settings.md").read_text()
    cells = {line.split("`")[1]: line.split(" | ")[2] for line in page.splitlines() if line.startswith("| `")}
    described = dict(_bounds(DeploymentSettings()))
    assert len(described) > 15
    assert {name: cells[name] for name in described} == described


def test_the_longest_settings_fit_into_a_functions_environment() -> None:
    """Lambda takes 4 KB and says so only while a deployment is under way."""
    digits = "9" * 12
    longest = DeploymentSettings(
        name="w" * 31,
        limits=Limits(
            workspace_bytes=1024 * MIB,
            workspace_files=50_000,
            written_file_bytes=4 * MIB,
            history_bytes=10**12,
            history_versions=100_000,
            run_input_bytes=256 * MIB,
            upload_bytes=256 * MIB,
            skill_bytes=64 * MIB,
        ),
        sandbox=Sandbox(cpu=4096, memory_mib=30_720, run_memory_mib=20_000, run_disk_mib=2_000, run_processes=1024),
        sandbox_env={"NOTE": "x" * (SANDBOX_ENV_CHARACTERS - len('{"NOTE": ""}'))},
        runs_at_once=1_000,
        warm_sandboxes=50,
        warm_sandboxes_most=50,
        grace_days=3_650,
        unattached_days=3_650,
        ask_from="moderate",
        deny_from="dangerous",
        classifier_model="a" * 30 + "." + "b" * 60,
    )
    machine = f"arn:aws-us-gov:states:ap-southeast-99:{digits}:stateMachine:{longest.name}-delete-conversation"
    settings = longest.function_settings(
        table="t" * 80,
        workspace_bucket="b" * 63,
        artifact_bucket="b" * 63,
        run_state_machine=machine,
        delete_state_machine=machine,
        reconcile_state_machine=machine,
        function_prefix=f"{longest.name}-",
        longest_function_seconds=LONGEST_SECONDS,
        # What only those that start sandboxes know besides.
        sandbox_cluster=f"arn:aws-us-gov:ecs:ap-southeast-99:{digits}:cluster/{longest.name}",
        sandbox_task_definition=f"{longest.name}-sandbox",
        sandbox_subnets=",".join(["subnet-0123456789abcdef0"] * 3),
        sandbox_security_group="sg-0123456789abcdef0",
        sandbox_route_url="https://0123456789.execute-api.ap-southeast-99.amazonaws.com/live/v1/sandbox",
    )
    # Whatever a deployment passes on is as long here as it gets: nothing is left out for being the default.
    assert set(settings.model_dump(exclude_defaults=True)) == settings.model_fields_set
    variables = {**INTERPRETER, **settings.to_environment()}
    assert sum(len(name) + len(value.encode()) for name, value in variables.items()) < 4096


def test_changed_settings_reach_the_resources(tmp_path: Path) -> None:
    changed = synthesise(
        tmp_path,
        name="pilot",
        zones=1,
        graceDays=7,
        unattachedDays=3,
        sandboxImage="images/sandbox@sha256:" + "a" * 64,
        sandboxEnv={"NOTE": "hello"},
        denyFrom="dangerous",
        classifierModel="amazon.nova-lite-v1:0",
        alarmTopicArn="arn:aws:sns:eu-central-1:123456789012:alarms",
    )
    assert set(changed.templates) == {"pilot-storage", "pilot-sandbox", "pilot-api"}
    assert len(changed.of("AWS::EC2::Subnet")) == 1
    (artifacts,) = [b for b in changed.of("AWS::S3::Bucket") if "VersioningConfiguration" in b.properties]
    rules = {rule["Id"]: rule for rule in artifacts.properties["LifecycleConfiguration"]["Rules"]}
    assert rules["grace"]["NoncurrentVersionExpiration"]["NoncurrentDays"] == 7
    assert rules["unattached"]["ExpirationInDays"] == 3
    (container,) = changed.one("AWS::ECS::TaskDefinition").properties["ContainerDefinitions"]
    assert json.dumps(container["Image"]).endswith(f'/images/sandbox@sha256:{"a" * 64}"]]}}')
    (workflow,) = [f for f in changed.of("AWS::Lambda::Function") if f.properties["FunctionName"] == "pilot-workflow"]
    variables = workflow.properties["Environment"]["Variables"]
    assert json.loads(variables["WORKBENCH_SANDBOX_ENV"]) == {"NOTE": "hello"}
    assert variables["WORKBENCH_DENY_FROM"] == "dangerous"
    assert variables["WORKBENCH_GRACE_DAYS"] == "7"
    assert variables["WORKBENCH_CLASSIFIER_MODEL"] == "amazon.nova-lite-v1:0"
    asking = [
        statement
        for policy in changed.of("AWS::IAM::Policy")
        for statement in policy.properties["PolicyDocument"]["Statement"]
        if statement.get("Sid") == "AskTheClassifier"
    ]
    # One for each tool that writes, runs or exports.
    assert len(asking) == len([tool for tool in catalogue.tools() if tool.step in ("write", "run", "export")]) == 5
    assert all(text(one["Resource"]).endswith(":foundation-model/amazon.nova-lite-v1:0") for one in asking)
    alarms = changed.of("AWS::CloudWatch::Alarm")
    assert alarms and all(a.properties["AlarmActions"] for a in alarms)


def _settings(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, field in type(model).model_fields.items():
        value = getattr(model, name)
        key = prefix + (field.alias or name)
        if isinstance(value, BaseModel):
            yield from _settings(value, f"{key}.")
        else:
            yield key, "none" if value is None else f"`{json.dumps(value)}`"


def _bounds(model: BaseModel, prefix: str = "") -> Iterator[tuple[str, str]]:
    """What the page says of settings that are numbers between two, or one of a few."""
    for name, field in type(model).model_fields.items():
        value, key = getattr(model, name), prefix + (field.alias or name)
        if isinstance(value, BaseModel):
            yield from _bounds(value, f"{key}.")
        elif get_origin(field.annotation) is Literal and isinstance(value, int):
            *others, last = map(str, get_args(field.annotation))
            yield key, f"{', '.join(others)} or {last}"
        elif least := [rule.ge for rule in field.metadata if isinstance(rule, Ge)]:
            most = [rule.le for rule in field.metadata if isinstance(rule, Le)]
            yield key, f"{_number(key, least[0])} {f'to {_number(key, most[0])}' if most else 'or more'}"


def _number(key: str, number: Any) -> str:
    if not key.endswith("Bytes"):
        return f"{number:,}"
    for unit, size in (("GiB", 1024 * MIB), ("MiB", MIB), ("KiB", 1024)):
        if number % size == 0:
            return f"{number // size} {unit}"
    return f"{number:,} bytes"
