"""Executions: their states, how they are started, and what their functions report."""

from __future__ import annotations

import queue
from collections.abc import Mapping
from typing import Any

from local.functions import function_arn
from tests.local.moto_adaptations.lab import WAIT_SECONDS, Lab, code_of


def call(name: str, following: str | None = None, **payload: Any) -> dict[str, Any]:
    """A state that calls a function."""
    return {
        "Type": "Task",
        "Resource": "arn:aws:states:::lambda:invoke",
        "Parameters": {"FunctionName": function_arn(name), "Payload": payload or {"from": name}},
        "ResultPath": None,
        **({"Next": following} if following else {"End": True}),
    }


def waiting(name: str, **more: Any) -> dict[str, Any]:
    """States that give ``name`` a task token and tell ``ended`` how the task went."""
    return {
        "Wait": {
            "Type": "Task",
            "Resource": "arn:aws:states:::lambda:invoke.waitForTaskToken",
            "Parameters": {"FunctionName": function_arn(name), "Payload": {"token.$": "$$.Task.Token"}},
            "ResultPath": None,
            "Catch": [{"ErrorEquals": ["States.ALL"], "ResultPath": "$.error", "Next": "Failed"}],
            "Next": "Succeeded",
            **more,
        },
        "Succeeded": call("ended", how="succeeded"),
        "Failed": call("ended", **{"how": "failed", "error.$": "$.error.Error", "cause.$": "$.error.Cause"}),
    }


class Runs:
    """Starts executions and waits for what their functions report."""

    def __init__(self, lab: Lab) -> None:
        self._lab = lab
        self.ended: queue.Queue[Any] = queue.Queue()
        lab.functions.handlers = {"ended": lambda event: self.ended.put(event), "step": lambda event: event}

    def start(self, states: Mapping[str, Any], start: str = "Wait") -> str:
        machine = self._lab.machine(states, start)
        return str(
            self._lab.stepfunctions.start_execution(stateMachineArn=machine, name=self._lab.name())["executionArn"]
        )

    def outcome(self) -> Any:
        return self.ended.get(timeout=WAIT_SECONDS)

    def succeed(self, token: str, output: str = "{}") -> str | None:
        return code_of(lambda: self._lab.stepfunctions.send_task_success(taskToken=token, output=output))

    def fail(self, token: str) -> str | None:
        return code_of(
            lambda: self._lab.stepfunctions.send_task_failure(taskToken=token, error="Theirs", cause="their cause")
        )

    def beat(self, token: str) -> str | None:
        return code_of(lambda: self._lab.stepfunctions.send_task_heartbeat(taskToken=token))
