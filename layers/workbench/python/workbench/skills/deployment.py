"""Skills that come with a deployment: CloudFormation's custom resources, each a bundle among the stack's assets.

CloudFormation waits, for an hour if need be, for an answer at the address in its request; so every request is answered,
and a bundle that is refused fails the deployment with the reason. A resource that goes takes nothing away: turns that
are open may use the skill, and a rollback must not remove what was there before. Withdrawing is a command of its own.
"""

from __future__ import annotations

import json
from typing import Any

from botocore.awsrequest import AWSRequest
from botocore.exceptions import BotoCoreError, ClientError
from botocore.httpsession import URLLib3Session

from workbench import runtime as runtimes
from workbench.errors import WorkbenchError
from workbench.http import Event
from workbench.logs import logger
from workbench.objects import code_of
from workbench.operations import Item
from workbench.runtime import Runtime
from workbench.skills import api
from workbench.workspace.paths import printable

# What CloudFormation takes as an answer is 4,096 bytes in all.
REASON_CHARACTERS = 1_000
TRIES = 3
PERMISSION_SECONDS = 5.0
DENIED, MISSING = ("AccessDenied", "AccessDeniedException"), ("NoSuchKey", "NoSuchBucket")


class AnswerLost(Exception):
    """CloudFormation could not be told. Lambda tries the whole event again; pushing again changes nothing."""


def handler(event: Event, _context: Any) -> None:
    """Keep the bundle that a custom resource names and tell CloudFormation. Raises AnswerLost."""
    properties = event["ResourceProperties"]
    reason = ""
    try:
        if event["RequestType"] != "Delete":
            _push_when_allowed(runtimes.current(), properties)
    except WorkbenchError as error:
        reason = error.message
    except Exception:  # noqa: BLE001 - whatever it is, CloudFormation must not wait for an hour
        logger.exception("a skill of the deployment was not kept")
        reason = "Something failed on our side; the function's log has the cause."
    _answer(event, f"The skill {properties['Name']} was not deployed. {reason}" if reason else "")


def _push_when_allowed(runtime: Runtime, properties: Item) -> None:
    for left in reversed(range(TRIES)):
        try:
            return _push(runtime, properties)
        except ClientError as error:
            if code_of(error) in MISSING:
                raise WorkbenchError("Its bundle is not among the assets of the stack.") from None
            # In a first deployment the role is as new as the request, and IAM takes a while to know of it everywhere.
            if code_of(error) not in DENIED or not left:
                raise
        runtime.clock.sleep(PERMISSION_SECONDS)
    return None


def _push(runtime: Runtime, properties: Item) -> None:
    answer = runtime.clients.s3.get_object(Bucket=properties["Bucket"], Key=properties["Key"])
    allowed = runtime.settings.skill_bytes
    # One byte more tells that there is more, without reading it.
    bundle = api.read_bundle(answer["Body"].read(allowed + 1), allowed)
    api.keep(runtime, bundle)


def _answer(event: Event, reason: str) -> None:
    said = {
        "Status": "FAILED" if reason else "SUCCESS",
        "Reason": printable(reason)[:REASON_CHARACTERS],
        "PhysicalResourceId": f"skill-{event['ResourceProperties']['Name']}",
        **{name: event[name] for name in ("StackId", "RequestId", "LogicalResourceId")},
    }
    # The address is signed for a request without a content type.
    request = AWSRequest("PUT", event["ResponseURL"], {"content-type": ""}, json.dumps(said).encode())
    http = URLLib3Session(timeout=(3, 5))
    for _ in range(TRIES):
        try:
            response = http.send(request.prepare())
        except BotoCoreError:
            continue
        if response.status_code < 300:
            return
    raise AnswerLost(event["LogicalResourceId"])
