"""``workbench inspect``: the real path of a sentence, the hostile inputs turned down, in any terminal and as JSON."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from dataclasses import asdict

import pytest
from rich.console import Console

from local.inspect_path import HOSTILE, Inspection, inspect
from local.inspect_view import render
from local.system import LocalSystem


@pytest.fixture(scope="module")
def found(system: LocalSystem) -> Inspection:
    return inspect(system, "what is 1 / 3 to 2 decimal places?")


def test_the_path_of_a_sentence_is_shown_as_it_was(found: Inspection) -> None:
    assert found.choice.tool == "calculate" and found.choice.tool in found.available
    assert found.published.id == "calculate@1.0.0" and found.offered
    assert [one.name for one in found.published.parameters] == ["expressions", "precision"]
    assert found.arguments.drafted == {"expressions": "1 / 3", "precision": "2"}
    assert found.arguments.checked == {"expressions": ["1 / 3"], "precision": 2}
    assert {one["argument"] for one in found.arguments.conversions} == {"expressions", "precision"}
    assert found.gate is not None and (found.gate.rating, found.gate.decision) == ("low", "proceed")
    assert found.breaker.startswith("closed")
    assert (found.outcome, found.code) == ("ok", None)
    assert "0.33" in found.content and "0.33" in found.line
    assert found.cost["requests"] == 2


def test_everything_hostile_is_turned_down_with_a_reason(found: Inspection) -> None:
    assert len(found.turned_down) == len(HOSTILE) and found.held
    assert {one.outcome for one in found.turned_down} >= {
        "error",
        "unknown_tool",
        "denied",
        "invalid_args",
        "circuit_open",
        "approval_required",
    }
    assert all(one.why for one in found.turned_down)


def test_a_sentence_whose_arguments_are_refused_shows_why(system: LocalSystem) -> None:
    refused = inspect(system, "calculate " + "+".join(["1"] * 3) + " to 99 decimal places")
    assert refused.outcome == "invalid_args" and refused.arguments.checked is None and refused.gate is None
    assert refused.arguments.problems == ("precision must be <= 10",)
    searched = inspect(system, "how much may a file hold?")
    assert searched.choice.tool == "search_docs" and "limits.md" in searched.content
    assert searched.arguments.conversions == ({"argument": "k", "from": "3", "to": 3},)


@pytest.mark.parametrize("width", [80, 120])
def test_it_fits_the_terminal(found: Inspection, width: int) -> None:
    console = Console(file=io.StringIO(), width=width)
    render(found, console)
    assert isinstance(console.file, io.StringIO)
    lines = console.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    shown = "\n".join(lines)
    for expected in ("no model and no key", "calculate@1.0.0", "0.33", "rated low", "division by zero", "turned down."):
        assert expected in shown


def test_what_is_shown_is_data_that_a_page_can_take(found: Inspection) -> None:
    data = json.loads(json.dumps(asdict(found)))
    assert data["choice"]["tool"] == "calculate" and data["turned_down"][0]["outcome"] == "error"


def test_the_command_prints_json_and_succeeds() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-m", "local.cli", "inspect", "--json", "what time is it in Lisbon?"]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    data = json.loads(done.stdout)
    assert data["choice"]["arguments"] == {"zone": "Europe/Lisbon"} and data["outcome"] == "ok"
