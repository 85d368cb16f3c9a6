"""The definitions that AWS and the local system execute: valid, with every placeholder filled and little power."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from infra.workflows import DEFINITIONS
from tests.infra.templates import Deployment, as_list, text

FILES = sorted(DEFINITIONS.glob("*.asl.json"))
PLACEHOLDER = re.compile(r"\$\{(\w+)\}")
FUNCTIONS = {
    "run_code.asl.json": "workflow",
    "delete_conversation.asl.json": "lifecycle",
    "reconcile.asl.json": "reconciler",
}


def test_every_definition_is_deployed(deployment: Deployment) -> None:
    assert {path.name for path in FILES} == set(FUNCTIONS)
    assert len(deployment.of("AWS::StepFunctions::StateMachine")) == len(FILES)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_definition_passes_the_linter(path: Path) -> None:
    command = [str(Path(sys.executable).parent / "statelint"), "--ignore=URI,FLOAT", str(path)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_every_placeholder_is_filled_with_the_function_that_carries_out_the_steps(
    deployment: Deployment, path: Path
) -> None:
    machine = _machine(deployment, path)
    function = deployment.function(FUNCTIONS[path.name])
    filled = machine.properties["DefinitionSubstitutions"]
    assert set(PLACEHOLDER.findall(path.read_text())) == set(filled)
    assert list(filled.values()) == [{"Fn::GetAtt": [function.id, "Arn"]}]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_the_deployed_definition_is_the_file(deployment: Deployment, path: Path) -> None:
    key = text(_machine(deployment, path).properties["DefinitionS3Location"]["Key"])
    assert (deployment.folder / f"asset.{key}").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_definitions_use_what_both_systems_can_execute(path: Path) -> None:
    definition = json.loads(path.read_text())
    # The local system evaluates JSONPath only.
    assert definition.get("QueryLanguage", "JSONPath") == "JSONPath"
    for name, state in _states(definition):
        assert state.get("QueryLanguage", "JSONPath") == "JSONPath", name
        if state["Type"] == "Task":
            assert state["Resource"] in (
                "arn:aws:states:::lambda:invoke",
                "arn:aws:states:::lambda:invoke.waitForTaskToken",
            ), name
            assert "TimeoutSeconds" in state or "TimeoutSecondsPath" in state, name


def test_the_run_state_expects_heartbeats() -> None:
    states = dict(_states(json.loads((DEFINITIONS / "run_code.asl.json").read_text())))
    assert "HeartbeatSeconds" in states["Run"] or "HeartbeatSecondsPath" in states["Run"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_machine_may_invoke_one_function_and_write_its_log(deployment: Deployment, path: Path) -> None:
    machine = _machine(deployment, path)
    function = deployment.function(FUNCTIONS[path.name])
    statements = deployment.statements(machine.properties["RoleArn"]["Fn::GetAtt"][0], machine.stack)
    invoking = [s for s in statements if any(a.startswith("lambda:") for a in as_list(s["Action"]))]
    assert [(s["Action"], s["Resource"]) for s in invoking] == [
        ("lambda:InvokeFunction", {"Fn::GetAtt": [function.id, "Arn"]})
    ]
    others = {action.split(":")[0] for s in statements if s not in invoking for action in as_list(s["Action"])}
    assert others == {"logs", "xray"}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_what_a_machine_carries_is_not_logged(deployment: Deployment, path: Path) -> None:
    # Payloads hold task tokens.
    logging = _machine(deployment, path).properties["LoggingConfiguration"]
    assert (logging["Level"], logging["IncludeExecutionData"]) == ("ALL", False)


def _machine(deployment: Deployment, path: Path) -> Any:
    name = "workbench-" + path.name.removesuffix(".asl.json").replace("_", "-")
    (found,) = [
        machine
        for machine in deployment.of("AWS::StepFunctions::StateMachine")
        if machine.properties["StateMachineName"] == name
    ]
    return found


def _states(definition: dict[str, Any]) -> list[tuple[str, dict[str, Any]]]:
    found = list(definition["States"].items())
    for _name, state in list(found):
        nested = [state[part] for part in ("Iterator", "ItemProcessor") if part in state] + state.get("Branches", [])
        for inner in nested:
            found += _states(inner)
    return found
