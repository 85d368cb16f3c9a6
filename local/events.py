"""HTTP requests as the events API Gateway makes of them, and a function's result as an HTTP answer. Pure.

HTTP API payload 2.0 for the portal's API, REST proxy 1.0 for the sandbox's private API; the shapes are those of
"Working with AWS Lambda proxy integrations" in the API Gateway developer guide.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from urllib.parse import parse_qsl, unquote_to_bytes

from local.functions import ACCOUNT, REGION
from workbench.routes import DEFAULT_ROUTE

API_ID = "localapi00"
DOMAIN = f"{API_ID}.execute-api.{REGION}.amazonaws.com"
SANDBOX_API_ID = "localsbx00"
SANDBOX_STAGE = "live"
SANDBOX_DOMAIN = f"{SANDBOX_API_ID}.execute-api.{REGION}.amazonaws.com"

# The private API asks for no signature: these stay null.
_NO_IDENTITY = (
    "accessKey",
    "accountId",
    "caller",
    "cognitoAuthenticationProvider",
    "cognitoAuthenticationType",
    "cognitoIdentityId",
    "cognitoIdentityPoolId",
    "principalOrgId",
    "user",
    "userArn",
)
_BROKEN_ESCAPE = re.compile(rb"%(?![0-9A-Fa-f]{2})")
_TEXT_TYPES = re.compile(r"(text/|application/(json|xml|javascript|[a-z0-9.-]+\+(json|xml))\b)")
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+\Z")
_HEADER_VALUE = re.compile(r"[^\x00-\x08\x0a-\x1f\x7f]*\Z")


class BadTarget(Exception):
    """The request target cannot be decoded; the message says why."""


class BadAnswer(Exception):
    """A function returned something that API Gateway cannot turn into an HTTP answer."""


@dataclass(frozen=True)
class HttpRequest:
    """A request as it came over the wire. ``path`` and ``query`` are still percent-encoded."""

    method: str
    path: bytes
    query: bytes
    headers: tuple[tuple[str, str], ...]
    body: bytes
    source_ip: str = "127.0.0.1"
    protocol: str = "HTTP/1.1"
    port: int = 80

    def header(self, name: str) -> str:
        """The value of a header (the last one of that name), or an empty text."""
        return next((value for key, value in reversed(self.headers) if key.lower() == name), "")


@dataclass(frozen=True)
class Match:
    """The route that serves a path, and the values of its parameters."""

    key: str
    function: str
    parameters: Mapping[str, str]


@dataclass(frozen=True)
class HttpAnswer:
    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


class Router:
    """Finds the most specific route: a literal segment is preferred to a parameter, from left to right."""

    def __init__(self, routes: Iterable[tuple[str, str]], fallback: str) -> None:
        """``routes`` are ``(key, function)``; ``fallback`` serves ``$default``."""
        self._fallback = fallback
        self._routes: dict[tuple[str, int], list[tuple[str, str, list[str]]]] = {}
        for key, function in routes:
            method, _space, path = key.partition(" ")
            segments = path.split("/")
            self._routes.setdefault((method, len(segments)), []).append((key, function, segments))
        for candidates in self._routes.values():
            candidates.sort(key=lambda candidate: [segment.startswith("{") for segment in candidate[2]])

    def match(self, method: str, path: str) -> Match:
        """The route of a decoded path; ``$default`` when none fits. A parameter never matches an empty segment."""
        segments = path.split("/")
        for key, function, wanted in self._routes.get((method, len(segments)), []):
            parameters: dict[str, str] = {}
            for segment, text in zip(wanted, segments, strict=True):
                if segment.startswith("{") and text:
                    parameters[segment[1:-1]] = text
                elif segment != text:
                    break
            else:
                return Match(key, function, parameters)
        return Match(DEFAULT_ROUTE, self._fallback, {})


def decoded_path(raw: bytes) -> str:
    """The path as HTTP APIs deliver it: percent-decoded, then cut at the first ``?``. Raises :class:`BadTarget`."""
    return _decoded(raw, "path").partition("?")[0]


def http_api_event(request: HttpRequest, match: Match, path: str, request_id: str, now: float) -> dict[str, Any]:
    """The event of payload format 2.0; ``path`` is :func:`decoded_path`'s, ``now`` Unix seconds."""
    raw_query = _ascii(request.query, "query")
    parameters: dict[str, str] = {}
    for name, value in _query_pairs(request.query):
        parameters[name] = f"{parameters[name]},{value}" if name in parameters else value
    headers: dict[str, str] = {}
    cookies: list[str] = []
    for name, value in (*request.headers, *_forwarded(request)):
        lower = name.lower()
        if lower == "cookie":
            cookies += [cookie.strip() for cookie in value.split(";") if cookie.strip()]
        elif lower not in ("connection", "transfer-encoding", "expect"):
            headers[lower] = f"{headers[lower]},{value}" if lower in headers else value
    body, encoded = _body_text(request)
    event: dict[str, Any] = {
        "version": "2.0",
        "routeKey": match.key,
        "rawPath": path,
        "rawQueryString": raw_query,
        "cookies": cookies,
        "headers": headers,
        "queryStringParameters": parameters,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": API_ID,
            "domainName": DOMAIN,
            "domainPrefix": API_ID,
            "http": {
                "method": request.method,
                "path": path,
                "protocol": request.protocol,
                "sourceIp": request.source_ip,
                "userAgent": request.header("user-agent"),
            },
            "requestId": request_id,
            "routeKey": match.key,
            "stage": "$default",
            "time": _common_log_time(now),
            "timeEpoch": int(now * 1000),
        },
        "pathParameters": dict(match.parameters),
        "body": body,
        "isBase64Encoded": encoded,
    }
    # API Gateway leaves these out when there is nothing to say.
    for optional in ("cookies", "queryStringParameters", "pathParameters", "body"):
        if not event[optional]:
            del event[optional]
    return event


def rest_api_event(request: HttpRequest, path: str, request_id: str, now: float) -> dict[str, Any]:
    """The proxy event of payload format 1.0 that the sandbox's private REST API sends."""
    pairs = _query_pairs(request.query)
    many_values: dict[str, list[str]] = {}
    for name, value in pairs:
        many_values.setdefault(name, []).append(value)
    many_headers: dict[str, list[str]] = {}
    for name, value in (*request.headers, *_forwarded(request)):
        if name.lower() not in ("connection", "transfer-encoding", "expect"):
            many_headers.setdefault(name, []).append(value)
    body, encoded = _body_text(request)
    return {
        "resource": path,
        "path": path,
        "httpMethod": request.method,
        "headers": {name: values[-1] for name, values in many_headers.items()},
        "multiValueHeaders": many_headers,
        "queryStringParameters": dict(pairs) or None,
        "multiValueQueryStringParameters": many_values or None,
        "pathParameters": None,
        "stageVariables": None,
        "requestContext": {
            "accountId": ACCOUNT,
            "apiId": SANDBOX_API_ID,
            "domainName": SANDBOX_DOMAIN,
            "domainPrefix": SANDBOX_API_ID,
            "extendedRequestId": request_id,
            "httpMethod": request.method,
            "identity": {
                **dict.fromkeys(_NO_IDENTITY),
                "sourceIp": request.source_ip,
                "userAgent": request.header("user-agent"),
                "vpcId": "vpc-local",
                "vpceId": "vpce-local",
            },
            "path": f"/{SANDBOX_STAGE}{path}",
            "protocol": request.protocol,
            "requestId": request_id,
            "requestTime": _common_log_time(now),
            "requestTimeEpoch": int(now * 1000),
            "resourceId": "local0",
            "resourcePath": path,
            "stage": SANDBOX_STAGE,
        },
        "body": body,
        "isBase64Encoded": encoded,
    }


def answer_of(result: Any) -> HttpAnswer:
    """A proxy integration's result as an HTTP answer; raises :class:`BadAnswer` where API Gateway would answer 500."""
    if not isinstance(result, Mapping) or "statusCode" not in result:
        # Payload 2.0: a result without a status is the body of a 200.
        text = result if isinstance(result, str) else json.dumps(result)
        return HttpAnswer(200, (("content-type", "application/json"),), text.encode())
    status = result["statusCode"]
    if isinstance(status, str) and status.isdigit():
        status = int(status)
    if not isinstance(status, int) or not 200 <= status <= 599:
        raise BadAnswer(f"statusCode is {status!r}")
    headers: list[tuple[str, str]] = []
    for name, value in (result.get("headers") or {}).items():
        headers.append((str(name), _header_text(value)))
    for name, values in (result.get("multiValueHeaders") or {}).items():
        headers += [(str(name), _header_text(value)) for value in values]
    headers += [("set-cookie", str(cookie)) for cookie in result.get("cookies") or ()]
    for name, text in headers:
        if not _HEADER_NAME.match(name) or not _HEADER_VALUE.match(text):
            raise BadAnswer(f"header {name!r} cannot be sent")
    if not any(name.lower() == "content-type" for name, _value in headers):
        headers.append(("content-type", "application/json"))
    body = result.get("body")
    if body is None:
        body = ""
    if not isinstance(body, str):
        raise BadAnswer(f"body is {type(body).__name__}, not text")
    if not result.get("isBase64Encoded"):
        return HttpAnswer(status, tuple(headers), body.encode())
    try:
        return HttpAnswer(status, tuple(headers), base64.b64decode(body, validate=True))
    except (binascii.Error, ValueError) as error:
        raise BadAnswer("body is not base64") from error


def _decoded(raw: bytes, part: str) -> str:
    broken = _BROKEN_ESCAPE.search(raw)
    if broken:
        raise BadTarget(f"The {part} has a '%' that two hexadecimal digits do not follow. Write a percent sign as %25.")
    try:
        return unquote_to_bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise BadTarget(f"The {part} is not valid UTF-8 once decoded.") from error


def _ascii(raw: bytes, part: str) -> str:
    _decoded(raw, part)
    # Bytes beyond ASCII have no place in a target; clients that send them mean their percent-encoding.
    return "".join(chr(byte) if byte < 0x80 else f"%{byte:02X}" for byte in raw)


def _query_pairs(raw: bytes) -> list[tuple[str, str]]:
    try:
        return parse_qsl(_ascii(raw, "query"), keep_blank_values=True, errors="strict", max_num_fields=1000)
    except UnicodeDecodeError as error:
        raise BadTarget("The query is not valid UTF-8 once decoded.") from error
    except ValueError as error:
        raise BadTarget("The query has more than 1000 parameters.") from error


def _forwarded(request: HttpRequest) -> tuple[tuple[str, str], ...]:
    return (
        ("x-forwarded-for", request.source_ip),
        ("x-forwarded-port", str(request.port)),
        ("x-forwarded-proto", "http"),
    )


def _body_text(request: HttpRequest) -> tuple[str, bool]:
    """The body as the event carries it: text by its media type, anything else (and broken text) as base64."""
    media_type = request.header("content-type").strip().lower()
    if not request.header("content-encoding") and (not media_type or _TEXT_TYPES.match(media_type)):
        try:
            return request.body.decode(), False
        except UnicodeDecodeError:
            pass
    return base64.b64encode(request.body).decode(), bool(request.body)


def _header_text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _common_log_time(now: float) -> str:
    return datetime.fromtimestamp(now, UTC).strftime("%d/%b/%Y:%H:%M:%S +0000")
