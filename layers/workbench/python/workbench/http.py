"""API Gateway events in, API Gateway responses out, and the one place where failures become HTTP.

Knows both shapes: HTTP API payload 2.0 (the portal's API) and REST proxy 1.0 (the sandbox's private API).
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from workbench.errors import (
    THROTTLED_SECONDS,
    Internal,
    InvalidRequest,
    RequestError,
    Throttled,
    WorkbenchError,
    is_throttling,
)
from workbench.logs import logger
from workbench.table import Contended

Event = Mapping[str, Any]

# No request of the API needs more; whatever walks or writes a decoded body may recurse this deep.
NESTED_LEVELS = 200
# One that never ends is taken to the end as well: otherwise each quote in it would be tried as a beginning.
_STRING = re.compile(rb'"(?:[^"\\]++|\\.)*+"?', re.DOTALL)
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in b"[]{}")


@dataclass(frozen=True)
class Request:
    """One HTTP request. Header names are lower case; query values are decoded once."""

    method: str
    path: str
    route: str
    parameters: Mapping[str, str]
    query: Mapping[str, str]
    headers: Mapping[str, str]
    body: bytes

    @classmethod
    def from_event(cls, event: Event) -> Request:
        """Read an API Gateway event of payload 2.0 or 1.0; raises InvalidRequest on a broken body."""
        context = event.get("requestContext") or {}
        if event.get("version") == "2.0":
            method, path = context["http"]["method"], event["rawPath"]
            route = event["routeKey"]
            query_text = event.get("rawQueryString") or ""
            pairs = parse_qs(query_text, keep_blank_values=True, errors="strict") if query_text else {}
            query = {name: values[-1] for name, values in pairs.items()}
        else:
            method, path = event["httpMethod"], event["path"]
            route = f"{method} {event.get('resource') or path}"
            query = dict(event.get("queryStringParameters") or {})
        body = event.get("body") or ""
        try:
            data = base64.b64decode(body, validate=True) if event.get("isBase64Encoded") else body.encode()
        except (binascii.Error, UnicodeEncodeError) as error:
            raise InvalidRequest("The body could not be decoded.") from error
        return cls(
            method=method,
            path=path,
            route=route,
            parameters=dict(event.get("pathParameters") or {}),
            query=query,
            headers={name.lower(): value for name, value in (event.get("headers") or {}).items()},
            body=data,
        )

    def json(self) -> dict[str, Any]:
        """The body as a JSON object; raises InvalidRequest saying where it breaks."""
        if self.body.count(b"[") + self.body.count(b"{") > NESTED_LEVELS and _too_deep(self.body):
            raise InvalidRequest(f"The body is nested in more than {NESTED_LEVELS} levels.")
        try:
            value = json.loads(self.body, parse_constant=_no_constant)
        except (ValueError, RecursionError) as error:
            # Python's own words for a number beyond its limit speak of Python.
            what = "a number in it has too many digits" if type(error) is ValueError else error
            raise InvalidRequest(f"The body is not valid JSON: {what}.") from error
        if not isinstance(value, dict):
            raise InvalidRequest(f"The body must be a JSON object, not {kind_of(value)}.")
        return value


@dataclass(frozen=True)
class Response:
    """An answer: ``body`` is sent as JSON unless it is bytes."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_event(self) -> dict[str, Any]:
        """The response object a Lambda proxy integration returns."""
        if isinstance(self.body, bytes):
            headers = {"content-type": "application/octet-stream", **self.headers}
            text, encoded = base64.b64encode(self.body).decode(), True
        else:
            headers = {"content-type": "application/json", **_retry_after(self.body), **self.headers}
            text, encoded = _json(self.body), False
        return {"statusCode": self.status, "headers": headers, "body": text, "isBase64Encoded": encoded}


def failure(error: RequestError) -> Response:
    """A request failure as its HTTP answer."""
    return Response({"error": error.as_dict()}, error.status)


def respond(event: Event, answer: Callable[[Request], Response]) -> dict[str, Any]:
    """Run ``answer`` on the event's request; whatever it raises becomes the contract's error."""
    try:
        return answer(Request.from_event(event)).as_event()
    except RequestError as error:
        return failure(error).as_event()
    except WorkbenchError as error:
        return failure(_as_request_error(error)).as_event()
    except Contended:
        busy = Throttled("Others keep changing the same record. Nothing was changed. Try again.", retryAfterSeconds=1)
        return failure(busy).as_event()
    except UnicodeDecodeError:
        return failure(InvalidRequest("The query is not valid UTF-8.")).as_event()
    except Exception as error:  # noqa: BLE001 - the last line of defence: log it, answer `internal`, keep serving
        if is_throttling(error):
            slow = Throttled("Too much is going on at once. Try again.", retryAfterSeconds=THROTTLED_SECONDS)
            return failure(slow).as_event()
        logger.exception("request failed")
        return failure(Internal("Something failed on our side. Nothing is known to be lost; try again.")).as_event()


# A tool error that reaches a route which is no tool route (raw files, versions) becomes the nearest HTTP failure.
_STATUS_OF_TOOL_ERRORS = {
    "not_found": 404,
    "workspace_busy": 429,
    "throttled": 429,
    "limit_exceeded": 413,
    "too_large": 413,
    "internal": 500,
}


def _as_request_error(error: WorkbenchError) -> RequestError:
    status = _STATUS_OF_TOOL_ERRORS.get(error.code, 400)
    for kind in RequestError.__subclasses__():
        if kind.status == status:
            details = {"reason": error.code, **error.details}
            if kind is Throttled:
                details.setdefault("retryAfterSeconds", 1)
            return kind(error.message, **details)
    return Internal(error.message)


def _retry_after(body: Any) -> dict[str, str]:
    """The header of an answer whose error says how long to wait, a tool's refusal among them."""
    error = body.get("error") if isinstance(body, dict) else None
    details = error.get("details") if isinstance(error, dict) else None
    wait = details.get("retryAfterSeconds") if isinstance(details, dict) else None
    return {} if wait is None else {"retry-after": str(math.ceil(wait))}


def _json(body: Any) -> str:
    """``body`` as JSON that every parser takes, although what was sent may hold what JSON has no way to send back."""
    try:
        text = json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        # 1e999 is a number to JSON and an infinity to us.
        text = json.dumps(_finite(body), ensure_ascii=False, separators=(",", ":"))
    # The same for half of a surrogate pair and UTF-8.
    return text.encode(errors="replace").decode()


def _finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {name: _finite(part) for name, part in value.items()}
    return [_finite(part) for part in value] if isinstance(value, list | tuple) else value


def _too_deep(body: bytes) -> bool:
    """True when arrays and objects of a JSON text nest too deeply; brackets inside strings do not count."""
    depth = 0
    for bracket in _STRING.sub(b"", body).translate(None, delete=_ALL_BUT_BRACKETS):
        depth += 1 if bracket in b"[{" else -1
        if depth > NESTED_LEVELS:
            return True
    return False


class _NoConstant(ValueError):
    """NaN or an infinity, which Python would read."""


def _no_constant(name: str) -> None:
    raise _NoConstant(f"{name} is not allowed in JSON")


_KINDS = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}


def kind_of(value: Any) -> str:
    """What a decoded JSON value is, in the words of a refusal."""
    return _KINDS.get(type(value), "a number")
