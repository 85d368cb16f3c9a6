"""ECS on one machine: RunTask starts a real sandbox process, and its end becomes the event that EventBridge would send.

Knows nothing of how a sandbox is isolated: ``start`` is :func:`local.launcher.start_sandbox` or a test's own.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from local.functions import ACCOUNT, REGION, FunctionMissing
from workbench.clock import SystemClock, iso

CLUSTER = "workbench-local"
TASK_DEFINITION = "workbench-sandbox:1"
CONTAINER = "sandbox"
VARIABLES = ("WORKBENCH_SANDBOX", "WORKBENCH_SECRET", "WORKBENCH_ROUTE")
STOPPED_FUNCTION = "task_stopped"
# RunTask refuses longer container overrides.
OVERRIDE_CHARACTERS = 8192

log = logging.getLogger("workbench.local")


class Process(Protocol):
    """A sandbox that runs: what :func:`local.launcher.start_sandbox` returns."""

    def wait(self) -> int:
        """Block until it ended; its exit code (negative: the signal that ended it)."""

    def stop(self) -> None:
        """End it and everything it started; harmless when it has ended."""


# sandbox id, secret, URL of the sandbox's route, further environment of the container
Start = Callable[[str, str, str, Mapping[str, str]], Process]
Deliver = Callable[[str, bytes], None]


@dataclass
class _Task:
    arn: str
    sandbox: str
    process: Process
    started_at: float
    status: str = "RUNNING"
    reason: str = ""
    exit_code: int | None = None
    stopped_at: float | None = None
    ended: threading.Event = field(default_factory=threading.Event)

    def as_dict(self) -> dict[str, Any]:
        """The task as DescribeTasks shows it (timestamps in Unix seconds)."""
        described: dict[str, Any] = {
            "taskArn": self.arn,
            "clusterArn": f"arn:aws:ecs:{REGION}:{ACCOUNT}:cluster/{CLUSTER}",
            "taskDefinitionArn": f"arn:aws:ecs:{REGION}:{ACCOUNT}:task-definition/{TASK_DEFINITION}",
            "startedBy": self.sandbox,
            "lastStatus": self.status,
            "desiredStatus": "RUNNING" if self.status == "RUNNING" else "STOPPED",
            "launchType": "FARGATE",
            "createdAt": self.started_at,
            "containers": [{"name": CONTAINER, "lastStatus": self.status}],
        }
        if self.status == "STOPPED":
            described |= {"stoppedReason": self.reason, "stoppedAt": self.stopped_at}
            if self.exit_code is not None:
                described["containers"][0]["exitCode"] = self.exit_code
        return described


class LocalTasks:
    """The running sandboxes. ``deliver(function, payload)`` takes the stopped events."""

    def __init__(self, start: Start, deliver: Deliver) -> None:
        self._start = start
        self._deliver = deliver
        self._clock = SystemClock()
        self._guard = threading.Lock()
        self._tasks: dict[str, _Task] = {}
        self._answers: dict[str, dict[str, Any]] = {}
        self._closed = False

    def run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """RunTask. What the launcher raises is answered as a placement failure, with its words as the reason."""
        token = request.get("clientToken")
        with self._guard:
            if token and token in self._answers:
                return self._answers[token]
        answer = self._run(request)
        if token and answer["tasks"]:
            with self._guard:
                self._answers[token] = answer
        return answer

    def stop(self, task: str, reason: str) -> dict[str, Any]:
        """StopTask, by id or ARN. The stopped event follows when the process is gone."""
        found = self._find(task)
        if found is None:
            raise LookupError(f"there is no task {task}")
        found.reason = found.reason or reason or "Task stopped by user"
        found.process.stop()
        return {"task": found.as_dict()}

    def describe(self, tasks: Collection[str]) -> dict[str, Any]:
        """DescribeTasks."""
        found = {task: self._find(task) for task in tasks}
        return {
            "tasks": [task.as_dict() for task in found.values() if task is not None],
            "failures": [{"arn": name, "reason": "MISSING"} for name, task in found.items() if task is None],
        }

    def running(self) -> int:
        """How many sandboxes have not ended."""
        with self._guard:
            return sum(task.status == "RUNNING" for task in self._tasks.values())

    def close(self, seconds: float = 1.5) -> None:
        """End every sandbox and wait for them, together at most ``seconds``. No event is sent any more."""
        with self._guard:
            self._closed = True
            tasks = [task for task in self._tasks.values() if task.status == "RUNNING"]
        for task in tasks:
            with contextlib.suppress(OSError):
                task.process.stop()
        deadline = self._clock.monotonic() + seconds
        for task in tasks:
            task.ended.wait(max(0.0, deadline - self._clock.monotonic()))

    def _run(self, request: Mapping[str, Any]) -> dict[str, Any]:
        overrides = request.get("overrides") or {}
        if len(json.dumps(overrides)) > OVERRIDE_CHARACTERS:
            return _failure(f"Container Overrides length must be at most {OVERRIDE_CHARACTERS}")
        environment = {
            pair["name"]: pair["value"]
            for container in overrides.get("containerOverrides") or []
            for pair in container.get("environment") or []
        }
        sandbox, secret, route = (environment.pop(name, "") for name in VARIABLES)
        if not sandbox or not secret or not route:
            return _failure(f"The overrides must give the container {', '.join(VARIABLES)}")
        if self._closed:
            return _failure("The local system is stopping")
        try:
            process = self._start(sandbox, secret, route, environment)
        except Exception as error:
            log.warning("sandbox %s could not be started", sandbox, exc_info=True)
            return _failure(str(error))
        task = _Task(
            arn=f"arn:aws:ecs:{REGION}:{ACCOUNT}:task/{CLUSTER}/{uuid.uuid4().hex}",
            sandbox=str(request.get("startedBy") or sandbox),
            process=process,
            started_at=self._clock.now(),
        )
        with self._guard:
            self._tasks[task.arn] = task
            closed = self._closed
        if closed:
            # Stopping began while the process was being started.
            process.stop()
        threading.Thread(target=self._watch, args=(task,), name=f"sandbox {sandbox}", daemon=True).start()
        return {"tasks": [task.as_dict()], "failures": []}

    def _watch(self, task: _Task) -> None:
        try:
            task.exit_code = task.process.wait()
        except OSError:
            log.exception("sandbox %s could not be waited for", task.sandbox)
        with self._guard:
            task.status = "STOPPED"
            task.stopped_at = self._clock.now()
            task.reason = task.reason or "Essential container in task exited"
            closed = self._closed
        task.ended.set()
        if closed:
            return
        try:
            self._deliver(STOPPED_FUNCTION, json.dumps(stopped_event(task.as_dict())).encode())
        except FunctionMissing:
            log.error("there is no function %s to hear that sandbox %s stopped", STOPPED_FUNCTION, task.sandbox)

    def _find(self, task: str) -> _Task | None:
        with self._guard:
            return self._tasks.get(task) or next(
                (found for arn, found in self._tasks.items() if arn.rpartition("/")[2] == task), None
            )


def stopped_event(task: Mapping[str, Any]) -> dict[str, Any]:
    """EventBridge's "ECS Task State Change" for a described task that has stopped."""
    detail = dict(task)
    for name in ("createdAt", "stoppedAt"):
        detail[name] = iso(detail[name])
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": "ECS Task State Change",
        "source": "aws.ecs",
        "account": ACCOUNT,
        "time": detail["stoppedAt"],
        "region": REGION,
        "resources": [task["taskArn"]],
        "detail": {**detail, "stopCode": "EssentialContainerExited"},
    }


def _failure(reason: str) -> dict[str, Any]:
    return {"tasks": [], "failures": [{"arn": "", "reason": reason}]}
