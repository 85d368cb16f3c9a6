"""Starts a sandbox for a run: a record with the hash of its secret, then one Fargate task that is told the secret.

The task gets three variables and nothing else. Its start secret opens one claim and expires.
"""

from __future__ import annotations

from typing import Any

from botocore.exceptions import ClientError

from workbench import ids
from workbench.keys import run_key, sandbox_key
from workbench.operations import Item, Update
from workbench.runs.items import attempt_is
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.table import ConditionFailed

CONTAINER = "sandbox"
# The record of a sandbox outlives its use by a day, for the news of its end.
RECORD_SECONDS = 24 * 3600
REASON_CHARACTERS = 500


class NoSandbox(Exception):
    """No sandbox could be started; the message says why, in words for an admin."""


def new_id() -> str:
    """An id for a sandbox; the run's record says which one is awaited before it is started."""
    return ids.random_part("sbx_")


def start(runtime: Runtime, sandbox: str, record: Item) -> None:
    """Start the sandbox that will claim the run of ``record``. Raises :class:`NoSandbox`."""
    run, attempt, secret = record["run"], record["attempt"], ids.new_secret()
    now = runtime.clock.now()
    pk, sk = sandbox_key(sandbox)
    runtime.table.put(
        {
            "PK": pk,
            "SK": sk,
            "secretHash": ids.digest(secret),
            "run": run,
            "attempt": attempt,
            "state": "starting",
            "expiresAt": now + runtime.settings.claim_seconds,
            "ttl": int(now) + RECORD_SECONDS,
        }
    )
    task = _run_task(runtime, sandbox, secret)
    if task:
        # For Abort, which ends a task that no longer answers.
        try:
            runtime.table.update(run_key(run), Update().set("task", task), attempt_is(attempt))
        except ConditionFailed:
            stop(runtime, task)


def stop(runtime: Runtime, task: str) -> bool:
    """End a task that may still be there; False when it is not."""
    try:
        runtime.clients.ecs.stop_task(cluster=runtime.settings.sandbox_cluster, task=task, reason="its run is over")
    except ClientError:
        return False
    return True


def task_request(settings: Settings, sandbox: str, secret: str) -> dict[str, Any]:
    """The RunTask request: idempotent by the sandbox's id, and found again by it when the task stops."""
    environment = {
        "WORKBENCH_SANDBOX": sandbox,
        "WORKBENCH_SECRET": secret,
        "WORKBENCH_ROUTE": settings.sandbox_route_url,
    }
    return {
        "cluster": settings.sandbox_cluster,
        "taskDefinition": settings.sandbox_task_definition,
        "launchType": "FARGATE",
        "count": 1,
        "clientToken": sandbox,
        "startedBy": sandbox,
        "networkConfiguration": {
            "awsvpcConfiguration": {
                "subnets": [subnet for subnet in settings.sandbox_subnets.split(",") if subnet],
                "securityGroups": [group for group in (settings.sandbox_security_group,) if group],
                "assignPublicIp": "DISABLED",
            }
        },
        "overrides": {
            "containerOverrides": [
                {
                    "name": CONTAINER,
                    "environment": [{"name": name, "value": value} for name, value in environment.items()],
                }
            ]
        },
    }


def _run_task(runtime: Runtime, sandbox: str, secret: str) -> str | None:
    request = task_request(runtime.settings, sandbox, secret)
    try:
        answer = runtime.clients.ecs.run_task(**request)
    except ClientError as error:
        raise NoSandbox(error.response["Error"].get("Message", "RunTask was refused")[:REASON_CHARACTERS]) from error
    failures = answer.get("failures") or []
    if failures:
        reason = " ".join(str(failures[0][name]) for name in ("reason", "detail") if failures[0].get(name))
        raise NoSandbox(reason[:REASON_CHARACTERS] or "RunTask found no place for the task")
    tasks = answer.get("tasks") or []
    return tasks[0].get("taskArn") if tasks else None
