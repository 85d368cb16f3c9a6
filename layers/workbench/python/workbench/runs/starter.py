"""Starts sandboxes: a record with the hash of the sandbox's secret, then one Fargate task that is told the secret.

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


def record(sandbox: str, secret: str, state: str, expires_at: float, **facts: Any) -> Item:
    """A sandbox's record: the hash of its start secret, which opens nothing any more at ``expires_at``."""
    pk, sk = sandbox_key(sandbox)
    return {
        "PK": pk,
        "SK": sk,
        "secretHash": ids.digest(secret),
        "state": state,
        "expiresAt": expires_at,
        "ttl": int(expires_at) + RECORD_SECONDS,
        **facts,
    }


def start(runtime: Runtime, sandbox: str, run: Item) -> None:
    """Start the sandbox that will claim ``run``, of which this is the record. Raises :class:`NoSandbox`."""
    name, attempt, secret = run["run"], run["attempt"], ids.new_secret()
    expires_at = runtime.clock.now() + runtime.settings.claim_seconds
    runtime.table.put(record(sandbox, secret, "starting", expires_at, run=name, attempt=attempt))
    task = run_task(runtime, sandbox, secret, sandbox)
    if task:
        # For Abort, which ends a task that no longer answers.
        try:
            runtime.table.update(run_key(name), Update().set("task", task), attempt_is(attempt))
        except ConditionFailed:
            stop(runtime, task)


def stop(runtime: Runtime, task: str, reason: str = "its run is over") -> bool:
    """End a task that may still be there; False when it is not."""
    try:
        runtime.clients.ecs.stop_task(cluster=runtime.settings.sandbox_cluster, task=task, reason=reason)
    except ClientError:
        return False
    return True


def task_request(settings: Settings, sandbox: str, secret: str, token: str) -> dict[str, Any]:
    """The RunTask request: idempotent by ``token``, and its sandbox is found again when the task stops."""
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
        "clientToken": token,
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


def run_task(runtime: Runtime, sandbox: str, secret: str, token: str) -> str | None:
    """Start a task for a sandbox whose record exists; the task's ARN. Raises :class:`NoSandbox`.

    A repetition with the same ``token`` starts no second one.
    """
    request = task_request(runtime.settings, sandbox, secret, token)
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
