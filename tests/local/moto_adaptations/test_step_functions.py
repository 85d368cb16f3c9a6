"""Step Functions: how executions start, what becomes of a task's token, how retries wait."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from moto.stepfunctions.models import StateMachine
from moto.stepfunctions.parser.asl.antlr.runtime.ASLParser import ASLParser
from moto.stepfunctions.parser.asl.component.common.retry import retrier_decl
from moto.stepfunctions.parser.asl.component.common.retry.max_attempts_decl import MaxAttemptsDecl
from moto.stepfunctions.parser.asl.eval.callback.callback import HeartbeatEndpoint
from moto.stepfunctions.parser.asl.utils import boto_client
from moto.stepfunctions.parser.backend.execution import BaseExecutionWorkerCommunication
from moto.stepfunctions.parser.backend.execution_worker import ExecutionWorker

from tests.local.moto_adaptations.lab import WAIT_SECONDS, Both, Lab, in_threads, meet
from tests.local.moto_adaptations.starting import Runs, call, waiting

STEP_OF_BATCH = "moto.stepfunctions.parser.asl.component.state.exec.state_task.service.state_task_service_batch"


@pytest.fixture
def runs(lab: Lab) -> Runs:
    return Runs(lab)


@pytest.fixture
def tokens(lab: Lab, runs: Runs) -> queue.Queue[str]:
    """The tokens given to the function ``take``."""
    taken: queue.Queue[str] = queue.Queue()
    lab.functions.handlers["take"] = lambda event: taken.put(event["token"])
    return taken


HasEnded = Callable[[str], bool]


@pytest.fixture
def has_ended(monkeypatch: pytest.MonkeyPatch) -> HasEnded:
    """``has_ended(arn)`` waits for the end of that execution: those of earlier tests may still be ending."""
    ended: dict[str, threading.Event] = {}
    stock = BaseExecutionWorkerCommunication.terminated

    def end_of(execution: str) -> threading.Event:
        return ended.setdefault(execution, threading.Event())

    def terminate(self: Any) -> None:
        stock(self)
        end_of(self.execution.exec_arn).set()

    monkeypatch.setattr(BaseExecutionWorkerCommunication, "terminated", terminate)
    return lambda execution: end_of(execution).wait(WAIT_SECONDS)


def test_step_clients_are_kept(lab: Lab, both: Both, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    stock_client = boto_client.boto3.client

    def make(*arguments: Any, **named: Any) -> Any:
        made.append(named["service_name"])
        return stock_client(*arguments, **named)

    monkeypatch.setattr(boto_client.boto3, "client", make)

    def probe() -> int:
        made.clear()
        runs.start({"A": call("step", "B"), "B": call("step", "C"), "C": call("ended")}, "A")
        runs.outcome()
        return len(made)

    assert both("step_clients_are_kept", probe) == (3, 1)


def test_definitions_are_parsed_once(lab: Lab, both: Both, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[ASLParser] = []
    stock_parse = ASLParser.state_machine
    monkeypatch.setattr(ASLParser, "state_machine", lambda self: parsed.append(self) or stock_parse(self))

    def probe() -> int:
        machine = lab.machine({"A": call("ended")}, "A")
        parsed.clear()
        for _time in range(3):
            lab.stepfunctions.start_execution(stateMachineArn=machine, name=lab.name())
            runs.outcome()
        return len(parsed)

    assert both("definitions_are_parsed_once", probe) == (3, 0)


def test_names_start_one_execution(lab: Lab, both: Both, runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    meet(lab, monkeypatch, StateMachine, "_handle_name_input_idempotency")

    def probe() -> int:
        # Long enough that the first still runs when the second comes, however late that is.
        machine = lab.machine({"A": {"Type": "Wait", "Seconds": WAIT_SECONDS, "End": True}}, "A")
        name = lab.name()

        def start() -> None:
            lab.stepfunctions.start_execution(stateMachineArn=machine, name=name, input="{}")

        in_threads(start, start)
        return len(lab.stepfunctions.list_executions(stateMachineArn=machine)["executions"])

    assert both("names_start_one_execution", probe) == (2, 1)


def test_task_tokens_are_found_anywhere(
    lab: Lab,
    both: Both,
    runs: Runs,
    tokens: queue.Queue[str],
    has_ended: HasEnded,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def probe() -> list[str | None]:
        with monkeypatch.context() as patch:
            # An execution between "running" and the first line of its thread.
            patch.setattr(ExecutionWorker, "start", lambda self: None)
            beginning = runs.start({"A": call("step")}, "A")
        execution = runs.start(waiting("take"))
        token = tokens.get(timeout=WAIT_SECONDS)
        first = runs.succeed(token)
        lab.stepfunctions.delete_state_machine(
            stateMachineArn=beginning.replace(":execution:", ":stateMachine:").rpartition(":")[0]
        )
        if first is not None:
            runs.succeed(token)
        runs.outcome()
        assert has_ended(execution)
        return [first, runs.succeed(token), runs.fail(token), runs.beat(token), runs.succeed("nonsense")]

    stock, cured = both("task_tokens_are_found_anywhere", probe)
    assert stock[0] == "AttributeError"
    assert stock[1] == "InvalidToken"
    assert cured == [None, "TaskTimedOut", "TaskTimedOut", "TaskTimedOut", "InvalidToken"]


def test_failures_keep_their_cause(both: Both, runs: Runs, tokens: queue.Queue[str]) -> None:
    def probe() -> tuple[str, str]:
        runs.start(waiting("take"))
        runs.fail(tokens.get(timeout=WAIT_SECONDS))
        outcome = runs.outcome()
        return outcome["error"], outcome["cause"]

    assert both("failures_keep_their_cause", probe) == (("Theirs", None), ("Theirs", "their cause"))


def test_tasks_complete_once(lab: Lab, both: Both, runs: Runs) -> None:
    def probe() -> list[str | None]:
        answers: list[str | None] = []

        def finish_twice(event: Any) -> None:
            answers.append(runs.succeed(event["token"]))
            answers.append(runs.fail(event["token"]))
            answers.append(runs.beat(event["token"]))

        lab.functions.handlers["finish"] = finish_twice
        runs.start(waiting("finish"))
        answers.append(runs.outcome()["how"])
        return answers

    stock, cured = both("tasks_complete_once", probe)
    assert stock[:2] == [None, None] and stock[3] == "failed"
    assert cured == [None, "TaskTimedOut", "TaskTimedOut", "succeeded"]


def test_a_task_whose_time_is_over_cannot_be_completed(lab: Lab, runs: Runs, tokens: queue.Queue[str]) -> None:
    with lab.adapted():
        runs.start(waiting("take", TimeoutSeconds=3, HeartbeatSeconds=1))
        token = tokens.get(timeout=WAIT_SECONDS)
        assert runs.outcome()["error"] == "States.Timeout"
        assert runs.succeed(token) == "TaskTimedOut"
        assert runs.beat(token) == "TaskTimedOut"


def test_attempts_have_their_own_token(lab: Lab, both: Both, runs: Runs) -> None:
    retry = [{"ErrorEquals": ["Theirs"], "IntervalSeconds": 1, "BackoffRate": 1.0, "MaxAttempts": 1}]

    def probe() -> tuple[int, str]:
        seen: list[str] = []

        def fail_then_succeed(event: Any) -> None:
            seen.append(event["token"])
            if len(seen) == 1:
                runs.fail(event["token"])
            else:
                runs.succeed(event["token"])

        lab.functions.handlers["flaky"] = fail_then_succeed
        runs.start(waiting("flaky", Retry=retry))
        how = runs.outcome()["how"]
        return len(set(seen)), how

    stock, cured = both("attempts_have_their_own_token", probe)
    assert stock == (1, "failed")
    assert cured == (2, "succeeded")


def test_retries_wait_for_their_execution(
    lab: Lab, both: Both, runs: Runs, has_ended: HasEnded, monkeypatch: pytest.MonkeyPatch
) -> None:
    retry = [{"ErrorEquals": ["States.ALL"], "IntervalSeconds": 600, "BackoffRate": 1.0, "MaxAttempts": 1}]
    stock_decide = MaxAttemptsDecl._eval_body
    deciding, stopped, slept = threading.Event(), threading.Event(), threading.Event()

    def fail(_event: Any) -> None:
        raise ValueError("broken")

    def decide(self: Any, env: Any) -> None:
        stock_decide(self, env)
        deciding.set()

    def sleep(_seconds: float) -> None:
        # What nothing but the time could wake.
        slept.set()
        assert stopped.wait(WAIT_SECONDS)

    monkeypatch.setattr(MaxAttemptsDecl, "_eval_body", decide)
    monkeypatch.setattr(retrier_decl, "time", SimpleNamespace(sleep=sleep))
    lab.functions.handlers["fail"] = fail

    def probe() -> bool:
        for event in (deciding, stopped, slept):
            event.clear()
        execution = runs.start({"Fail": {**call("fail"), "Retry": retry}}, "Fail")
        assert deciding.wait(WAIT_SECONDS)
        if lab.without:
            assert slept.wait(WAIT_SECONDS)
        lab.stepfunctions.stop_execution(executionArn=execution)
        stopped.set()
        assert has_ended(execution)
        return slept.is_set()

    assert both("retries_wait_for_their_execution", probe) == (True, False)


def test_early_callbacks_count(lab: Lab, both: Both, runs: Runs) -> None:
    def probe() -> tuple[str | None, Any]:
        beats: list[str | None] = []

        def eager(event: Any) -> None:
            beats.append(runs.beat(event["token"]))
            runs.succeed(event["token"])

        lab.functions.handlers["eager"] = eager
        # Without the adaptation nothing but the heartbeat's time ends it; with it, that must not.
        heartbeat = 1 if lab.without else WAIT_SECONDS
        runs.start(waiting("eager", TimeoutSeconds=2 * WAIT_SECONDS, HeartbeatSeconds=heartbeat))
        return beats[0] if beats else None, runs.outcome()

    def whole() -> tuple[Any, Any]:
        _beat, outcome = probe()
        return outcome["how"], outcome.get("error")

    stock, cured = both("early_callbacks_count", whole)
    assert stock == ("failed", "States.Timeout")
    assert cured == ("succeeded", None)


def test_an_early_heartbeat_is_honoured(lab: Lab, both: Both, runs: Runs, tokens: queue.Queue[str]) -> None:
    def probe() -> str | None:
        beats: queue.Queue[str | None] = queue.Queue()

        def beat(event: Any) -> None:
            beats.put(runs.beat(event["token"]))
            tokens.put(event["token"])

        lab.functions.handlers["beat"] = beat
        runs.start(waiting("beat", TimeoutSeconds=WAIT_SECONDS, HeartbeatSeconds=5))
        answer = beats.get(timeout=WAIT_SECONDS)
        runs.fail(tokens.get(timeout=WAIT_SECONDS))
        runs.outcome()
        return answer

    assert both("early_callbacks_count", probe) == ("InvalidToken", None)


def test_heartbeats_keep_a_task_alive(
    lab: Lab, runs: Runs, tokens: queue.Queue[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What moto does by itself, through the adaptations: each beat begins the waiting anew, its absence ends it."""
    waits: queue.Queue[HeartbeatEndpoint] = queue.Queue()
    stock = HeartbeatEndpoint.clear_and_wait

    def wait(self: HeartbeatEndpoint) -> bool:
        waits.put(self)
        return stock(self)

    monkeypatch.setattr(HeartbeatEndpoint, "clear_and_wait", wait)
    with lab.adapted():
        runs.start(waiting("take", TimeoutSeconds=10 * WAIT_SECONDS, HeartbeatSeconds=WAIT_SECONDS))
        token = tokens.get(timeout=WAIT_SECONDS)
        mine = waits.get(timeout=WAIT_SECONDS)
        for _beat in range(4):
            assert runs.beat(token) is None
            while waits.get(timeout=WAIT_SECONDS) is not mine:
                pass
        assert runs.succeed(token) is None
        assert runs.outcome() == {"how": "succeeded"}


def test_step_functions_loads_without_ec2() -> None:
    """In a process of its own, because other tests of this one may have loaded it."""
    program = f"""
import sys
import local.system
print("moto.ec2" in sys.modules, "moto.batch" in sys.modules)
del sys.modules["{STEP_OF_BATCH}"]
import {STEP_OF_BATCH}
print("moto.ec2" in sys.modules)
"""
    run = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert run.stdout.splitlines() == ["False False", "True"], run.stderr
