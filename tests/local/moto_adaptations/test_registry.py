"""Every adaptation has a reason and a test, can be left out and can be undone."""

from __future__ import annotations

from pathlib import Path

import pytest
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table
from moto.stepfunctions.models import StateMachine

from local.moto_adaptations import ADAPTATIONS, adapt
from tests.local.moto_adaptations.lab import Lab


def test_every_adaptation_is_explained_and_tested() -> None:
    """The test has the adaptation's name, and its module the name of the adaptation's."""
    for name, function in ADAPTATIONS.items():
        assert function.__doc__ and "moto" in function.__doc__, name
        module = function.__module__.rpartition(".")[2]
        assert f"\ndef test_{name}(" in Path(__file__).with_name(f"test_{module}.py").read_text(), name


def test_an_unknown_adaptation_cannot_be_left_out(lab: Lab) -> None:
    with pytest.raises(ValueError, match="no such adaptation"):
        adapt(lab.functions, lab.tasks, without=["nonsense"])


def test_undoing_leaves_moto_as_it_was(lab: Lab) -> None:
    before = (vars(Table)["query"], vars(StateMachine).get("start_execution"), vars(DynamoType)["__lt__"])
    with lab.adapted():
        assert vars(Table)["query"] is not before[0]
    assert (vars(Table)["query"], vars(StateMachine).get("start_execution"), vars(DynamoType)["__lt__"]) == before
