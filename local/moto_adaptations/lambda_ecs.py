"""Lambda and ECS: functions and tasks run on this machine."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote

from botocore.awsrequest import AWSPreparedRequest
from moto.core.botocore_stubber import BotocoreStubber

from local.functions import PAYLOAD_BYTES, FunctionMissing
from local.moto_adaptations.registry import Functions, Patches, adaptation

_INVOKE = re.compile(r"https?://lambda\.[a-z0-9-]+\.amazonaws\.com/2015-03-31/functions/([^/?]+)/invocations")
_ECS = re.compile(r"https?://ecs\.[a-z0-9-]+\.amazonaws\.com/")


@adaptation
def functions_run_here(patches: Patches) -> None:
    """moto runs functions in Docker or answers every Invoke with its own payload. Here the handler of that name runs:
    what it raises becomes a function error, and ``Event`` invocations return before it ran, as in AWS.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def process_request(self: BotocoreStubber, request: AWSPreparedRequest) -> Any:
            invocation = _INVOKE.match(request.url)
            if invocation is None:
                return stock(self, request)
            return _invoke(patches.functions, unquote(invocation.group(1)), request)

        return process_request

    patches.wrap(BotocoreStubber, "process_request", wrapper)


@adaptation
def tasks_run_here(patches: Patches) -> None:
    """moto's ECS loads its EC2 backend (a second of imports) and its RunTask starts nothing. Here the request goes to
    the launcher before moto sees it, and the task it names is a real process.
    """

    def wrapper(stock: Callable[..., Any]) -> Callable[..., Any]:
        def process_request(self: BotocoreStubber, request: AWSPreparedRequest) -> Any:
            _service, _dot, operation = _text(request.headers.get("X-Amz-Target")).partition(".")
            if not _ECS.match(request.url) or operation not in ("RunTask", "StopTask", "DescribeTasks"):
                return stock(self, request)
            sent = json.loads(request.body)
            if operation == "RunTask":
                answer = patches.tasks.run(sent)
            elif operation == "DescribeTasks":
                answer = patches.tasks.describe(sent["tasks"])
            else:
                try:
                    answer = patches.tasks.stop(sent["task"], sent.get("reason") or "")
                except LookupError:
                    return _refused(400, "InvalidParameterException", "The referenced task was not found.")
            return 200, {"content-type": "application/x-amz-json-1.1"}, json.dumps(answer)

        return process_request

    patches.wrap(BotocoreStubber, "process_request", wrapper)


def _invoke(functions: Functions, name: str, request: AWSPreparedRequest) -> Any:
    payload = request.body if isinstance(request.body, bytes) else (request.body or "").encode()
    if len(payload) > PAYLOAD_BYTES:
        return _refused(413, "RequestTooLargeException", f"The payload has more than {PAYLOAD_BYTES} bytes.")
    try:
        if _text(request.headers.get("X-Amz-Invocation-Type")) == "Event":
            functions.invoke_later(name, payload)
            return 202, {}, b""
        answer, failed = functions.invoke(name, payload)
    except FunctionMissing:
        return _refused(404, "ResourceNotFoundException", f"Function not found: {name}")
    headers = {"content-type": "application/json"}
    if failed:
        headers["x-amz-function-error"] = "Unhandled"
    return 200, headers, answer


def _refused(status: int, code: str, message: str) -> tuple[int, dict[str, str], str]:
    return status, {"x-amzn-errortype": code}, json.dumps({"__type": code, "message": message})


def _text(header: str | bytes | None) -> str:
    return header.decode() if isinstance(header, bytes) else header or ""
