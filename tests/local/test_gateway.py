"""The gateway against API Gateway's events and answers, and against clients that break the rules. No AWS here."""

from __future__ import annotations

import base64
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from local import events, gateway
from local.functions import PAYLOAD_BYTES, FunctionMissing, LocalFunctions
from local.gateway import BODY_BYTES, SANDBOX_FUNCTION, Gateway
from workbench.routes import FALLBACK, ROUTES

FIXTURES = Path(__file__).parent / "fixtures"
API_FIXTURES = ["http_api_tool_call", "http_api_query_and_cookies", "http_api_binary_body", "http_api_default_route"]
MIB = 1024 * 1024

ECHO = """
def handler(event, context):
    return {"statusCode": 200, "body": __import__("json").dumps({"event": event, "function": context.function_name})}
"""

# A function per behaviour, reached by GET and POST /v1/<name>.
HANDLERS = {
    "raises": "def handler(event, context):\n    raise ValueError('secret detail')\n",
    "unserialisable": "def handler(event, context):\n    return {'statusCode': 200, 'body': {1, 2}}\n",
    "no_status": "def handler(event, context):\n    return {'hello': 'world'}\n",
    "plain_text": "def handler(event, context):\n    return 'hello'\n",
    "bad_status": "def handler(event, context):\n    return {'statusCode': 42, 'body': ''}\n",
    "bad_body": "def handler(event, context):\n    return {'statusCode': 200, 'body': {'a': 1}}\n",
    "bad_base64": "def handler(e, c):\n    return {'statusCode': 200, 'body': '*', 'isBase64Encoded': True}\n",
    "splits_header": "def handler(e, c):\n    return {'statusCode': 200, 'body': '', 'headers': {'a': 'b\\nc: d'}}\n",
    "too_much": f"def handler(e, c):\n    return {{'statusCode': 200, 'body': 'x' * {PAYLOAD_BYTES}}}\n",
    "binary": (
        "def handler(event, context):\n"
        "    return {'statusCode': 201, 'headers': {'Content-Type': 'image/png', 'X-Number': 7}, 'body': '//8A',\n"
        "            'isBase64Encoded': True, 'cookies': ['a=1; Secure', 'b=2']}\n"
    ),
    "no_content": "def handler(event, context):\n    return {'statusCode': 204}\n",
    "measures": (
        "import base64, hashlib\n"
        "def handler(event, context):\n"
        "    body = event.get('body') or ''\n"
        "    data = base64.b64decode(body) if event['isBase64Encoded'] else body.encode()\n"
        "    return {'statusCode': 200, 'body': f'{len(data)} {hashlib.sha256(data).hexdigest()}'}\n"
    ),
    "broken_import": "import no_such_module_anywhere\n",
    "no_handler": "x = 1\n",
}


@pytest.fixture(scope="module")
def front(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway over tiny functions: every route of the product echoes, /v1/<name> behaves as its handler says."""
    folder = tmp_path_factory.mktemp("functions")
    echoing = {route.function for route in ROUTES} | {FALLBACK, SANDBOX_FUNCTION, "read_file"}
    for name, program in {**dict.fromkeys(echoing, ECHO), **HANDLERS}.items():
        (folder / name).mkdir()
        (folder / name / "handler.py").write_text(program)
    routes = [(route.key, route.function) for route in ROUTES]
    routes += [("POST /v1/turns/{turn}/tools/read_file", "read_file")]
    routes += [(f"{method} /v1/{name}", name) for name in [*HANDLERS, "missing"] for method in ("GET", "POST")]
    functions = LocalFunctions(folder)
    server = Gateway(functions.call, routes, FALLBACK)
    server.start()
    yield server
    server.stop()
    functions.close()


class Response:
    def __init__(self, response: http.client.HTTPResponse) -> None:
        self.status = response.status
        self.headers = [(name.lower(), value) for name, value in response.getheaders()]
        self.body = response.read()

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    def header(self, name: str) -> str | None:
        return next((value for key, value in self.headers if key == name), None)


def connect(front: Gateway) -> socket.socket:
    address = urlsplit(front.url)
    return socket.create_connection((address.hostname, address.port), timeout=20)


def send(front: Gateway, data: bytes, method: str = "GET") -> Response:
    """Send raw bytes and read one answer."""
    with connect(front) as connection:
        connection.sendall(data)
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        return Response(response)


def request(
    front: Gateway, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
) -> Response:
    connection = http.client.HTTPConnection(urlsplit(front.url).netloc, timeout=20)
    try:
        connection.request(method, path, body, dict(headers or {}))
        return Response(connection.getresponse())
    finally:
        connection.close()


def echoed(response: Response) -> dict[str, Any]:
    assert response.status == 200, response.body
    event: dict[str, Any] = response.json["event"]
    return event


def is_contract_error(response: Response, status: int, code: str) -> None:
    """The contract's shape for failures of the request itself."""
    assert response.status == status, response.body
    assert response.header("content-type") == "application/json"
    error = response.json["error"]
    assert set(error) == {"code", "message", "retryable", "details"}
    assert error["code"] == code
    assert isinstance(error["message"], str) and len(error["message"]) > 10


def answers(front: Gateway) -> None:
    """The server is up and well."""
    assert echoed(request(front, "GET", "/v1/catalogue"))["rawPath"] == "/v1/catalogue"


# ---------------------------------------------------------------- events


def shape(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: shape(part) for key, part in value.items()}
    if isinstance(value, list):
        return [shape(part) for part in value[:1]]
    return type(value).__name__


# Values that differ between accounts, APIs and requests; their type and place do not.
VOLATILE = {
    "accountId",
    "apiId",
    "domainName",
    "domainPrefix",
    "requestId",
    "extendedRequestId",
    "time",
    "timeEpoch",
    "requestTime",
    "requestTimeEpoch",
    "resourceId",
    "vpcId",
    "vpceId",
    "x-forwarded-port",
    "x-forwarded-proto",
}


def settled(value: Any, name: str = "") -> Any:
    if name in VOLATILE:
        return shape(value)
    if isinstance(value, dict):
        return {key: settled(part, key) for key, part in value.items()}
    return value


def wire(fixture: Mapping[str, Any]) -> bytes:
    sent = fixture["wire"]
    body = base64.b64decode(sent["bodyBase64"]) if "bodyBase64" in sent else sent["body"].encode()
    headers = [*sent["headers"], *([["Content-Length", str(len(body))]] if body else [])]
    lines = [sent["line"], *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize("name", [*API_FIXTURES, "rest_api_sandbox"])
def test_events_are_those_of_api_gateway(front: Gateway, name: str) -> None:
    fixture = json.loads((FIXTURES / f"{name}.json").read_text(encoding="utf-8"))
    answer = send(front, wire(fixture)).json
    assert answer["function"] == fixture["function"]
    assert shape(answer["event"]) == shape(fixture["event"])
    assert settled(answer["event"]) == settled(fixture["event"])


def test_requests_have_ids_of_their_own(front: Gateway) -> None:
    first, second = (request(front, "GET", "/v1/catalogue") for _ in range(2))
    ids = [echoed(response)["requestContext"]["requestId"] for response in (first, second)]
    assert ids[0] != ids[1]
    assert first.header("apigw-requestid") == ids[0]


@pytest.mark.parametrize(
    ("method", "path", "key"),
    [
        ("POST", "/v1/turns/c.t/tools/read_file", "POST /v1/turns/{turn}/tools/read_file"),
        ("POST", "/v1/turns/c.t/tools/other", "POST /v1/turns/{turn}/tools/{tool}"),
        ("POST", "/v1/turns/c.t/tools/", "$default"),
        ("POST", "/v1/turns//tools/read_file", "$default"),
        ("GET", "/v1/turns/c.t/tools/read_file", "$default"),
        ("GET", "/v1/catalogue/", "$default"),
        ("HEAD", "/v1/catalogue", "$default"),
        ("OPTIONS", "/v1/catalogue", "$default"),
        ("PATCH", "/v1/catalogue", "$default"),
        ("GET", "/", "$default"),
        ("GET", "/v1/sandbox", "$default"),
        ("GET", "/v1/conversations/c/versions/1/diff/2", "GET /v1/conversations/{conversation}/versions/{a}/diff/{b}"),
    ],
)
def test_the_most_specific_route_is_taken(front: Gateway, method: str, path: str, key: str) -> None:
    with connect(front) as connection:
        connection.sendall(f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        response = http.client.HTTPResponse(connection, method=method)
        response.begin()
        if method == "HEAD":
            assert response.status == 200 and response.read() == b""
            return
        event = json.loads(response.read())["event"]
    assert event["routeKey"] == key
    assert (event.get("pathParameters") is None) == (key == "$default" or "{" not in key)


def test_literal_segments_win_from_left_to_right() -> None:
    router = events.Router([("GET /a/{x}", "f1"), ("GET /{y}/b", "f2"), ("GET /a/b", "f3")], "none")
    assert router.match("GET", "/a/b").function == "f3"
    assert router.match("GET", "/a/c").function == "f1"
    assert router.match("GET", "/c/b").function == "f2"
    assert router.match("GET", "/c/d") == events.Match("$default", "none", {})


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        ("/v1/results/res%5Fa%2Db", "/v1/results/res_a-b"),
        ("/v1/results/a+b", "/v1/results/a+b"),
        ("/v1/results/%C3%BC", "/v1/results/ü"),
        ("/v1/results/a%3Fb%3Fc", "/v1/results/a"),
        ("/v1/results/%2525", "/v1/results/%25"),
        ("/v1/results/a%00b", "/v1/results/a\0b"),
        ("/v1/results/a#fragment", "/v1/results/a"),
        ("http://127.0.0.1/v1/results/a?b=1", "/v1/results/a"),
    ],
)
def test_paths_are_decoded_once_and_cut_at_a_decoded_question_mark(front: Gateway, raw: str, path: str) -> None:
    event = echoed(send(front, f"GET {raw} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()))
    assert event["rawPath"] == event["requestContext"]["http"]["path"] == path
    assert event["pathParameters"] == {"ref": path.rpartition("/")[2]}


def test_a_target_in_utf8_means_its_percent_encoding(front: Gateway) -> None:
    event = echoed(send(front, "GET /v1/results/ü?q=ü HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()))
    assert (event["rawPath"], event["rawQueryString"]) == ("/v1/results/ü", "q=%C3%BC")
    assert event["queryStringParameters"] == {"q": "ü"}


@pytest.mark.parametrize(
    ("media_type", "body", "encoded"),
    [
        ("application/json", b"{}", False),
        ("application/json; charset=utf-8", "ü".encode(), False),
        ("application/problem+json", b"{}", False),
        ("text/plain", b"a\r\nb\0", False),
        ("text/plain", b"\xff\xfe", True),
        ("application/octet-stream", b"{}", True),
        ("application/jsonx", b"{}", True),
        ("", b"{}", False),
    ],
)
def test_text_travels_as_text_and_bytes_as_base64(front: Gateway, media_type: str, body: bytes, encoded: bool) -> None:
    headers = {"content-type": media_type} if media_type else {}
    event = echoed(request(front, "POST", "/v1/conversations", body, headers))
    assert event["isBase64Encoded"] is encoded
    assert (base64.b64decode(event["body"]) if encoded else event["body"].encode()) == body


def test_a_compressed_text_is_bytes(front: Gateway) -> None:
    headers = {"content-type": "application/json", "content-encoding": "gzip"}
    assert echoed(request(front, "POST", "/v1/conversations", b"{}", headers))["isBase64Encoded"] is True


# ---------------------------------------------------------------- answers


def test_binary_answers_headers_and_cookies(front: Gateway) -> None:
    answer = request(front, "GET", "/v1/binary")
    assert (answer.status, answer.body) == (201, b"\xff\xff\x00")
    assert answer.header("content-type") == "image/png"
    assert answer.header("x-number") == "7"
    assert [value for name, value in answer.headers if name == "set-cookie"] == ["a=1; Secure", "b=2"]


def test_a_result_without_a_status_is_the_body_of_a_200(front: Gateway) -> None:
    answer = request(front, "GET", "/v1/no_status")
    assert (answer.status, answer.json) == (200, {"hello": "world"})
    assert request(front, "GET", "/v1/plain_text").body == b"hello"


def test_no_content_has_no_length(front: Gateway) -> None:
    answer = request(front, "GET", "/v1/no_content")
    assert (answer.status, answer.body, answer.header("content-length")) == (204, b"", None)


@pytest.mark.parametrize(
    "name",
    [
        "raises",
        "unserialisable",
        "bad_status",
        "bad_body",
        "bad_base64",
        "splits_header",
        "too_much",
        "broken_import",
        "no_handler",
        "missing",
    ],
)
def test_a_function_that_fails_is_internal(front: Gateway, name: str) -> None:
    answer = request(front, "GET", f"/v1/{name}")
    is_contract_error(answer, 500, "internal")
    assert answer.json["error"]["retryable"] is True
    assert b"secret detail" not in answer.body
    answers(front)


def test_special_paths_are_answered_before_the_functions() -> None:
    def special(asked: events.HttpRequest) -> events.HttpAnswer | None:
        return events.HttpAnswer(200, (), b"special") if asked.path == b"/special" else None

    server = Gateway(lambda _name, _event: "function", [], FALLBACK, special)
    server.start()
    try:
        assert request(server, "GET", "/special").body == b"special"
        assert request(server, "GET", "/other").body == b"function"
    finally:
        server.stop()


# ---------------------------------------------------------------- limits and malformed requests


def test_bodies_as_large_as_lambda_carries(front: Gateway) -> None:
    data = bytes(range(256)) * (4 * MIB // 256)
    answer = request(front, "POST", "/v1/measures", data, {"content-type": "application/octet-stream"})
    assert answer.body.startswith(b"4194304 ")
    for text in (b"x" * (PAYLOAD_BYTES - 4096), "ü".encode() * (PAYLOAD_BYTES // 2 - 4096)):
        assert request(front, "POST", "/v1/measures", text, {"content-type": "text/plain"}).status == 200


@pytest.mark.parametrize(
    ("size", "media_type"),
    [
        (PAYLOAD_BYTES, "text/plain"),
        (5 * MIB, "application/octet-stream"),
        (BODY_BYTES, "text/plain"),
        (BODY_BYTES + 1, "text/plain"),
        (24 * MIB, "application/octet-stream"),
    ],
)
def test_larger_bodies_are_refused_with_what_to_do(front: Gateway, size: int, media_type: str) -> None:
    answer = request(front, "POST", "/v1/measures", b"x" * size, {"content-type": media_type})
    is_contract_error(answer, 413, "too_large")
    assert f"{size:,} bytes" in answer.json["error"]["message"]
    answers(front)


def test_text_that_json_must_escape_counts_as_what_it_becomes(front: Gateway) -> None:
    answer = request(front, "POST", "/v1/measures", b"\x01" * (PAYLOAD_BYTES // 6 + 1), {"content-type": "text/plain"})
    is_contract_error(answer, 413, "too_large")


def test_the_refusal_names_signed_uploads_only_where_they_exist(front: Gateway) -> None:
    assert "POST /v1/uploads" in front.too_large(1).message
    without = Gateway(lambda _name, _event: None, [], FALLBACK)
    assert "uploads" not in without.too_large(1).message


def test_some_paths_take_larger_bodies(front: Gateway) -> None:
    def measured(asked: events.HttpRequest) -> events.HttpAnswer:
        return events.HttpAnswer(200, (), str(len(asked.body)).encode())

    server = Gateway(lambda _name, _event: None, [], FALLBACK, measured, {"/large/": 3 * BODY_BYTES})
    server.start()
    try:
        data = bytes(BODY_BYTES + 1)
        assert request(server, "PUT", "/large/x", data).body == str(len(data)).encode()
        is_contract_error(request(server, "PUT", "/small/x", data), 413, "too_large")
        is_contract_error(request(server, "PUT", "/large/x", bytes(3 * BODY_BYTES + 1)), 413, "too_large")
    finally:
        server.stop()


def chunked(*parts: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    body = b"".join(f"{len(part):x}\r\n".encode() + part + b"\r\n" for part in parts) + end
    head = b"POST /v1/measures HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n"
    return head + b"Content-Type: text/plain\r\n\r\n" + body


def test_chunked_bodies_are_joined(front: Gateway) -> None:
    assert send(front, chunked(b"ab", b"c" * 5000)).body.startswith(b"5002 ")
    assert send(front, chunked(b"ab", end=b"0\r\nTrailer: x\r\n\r\n")).body.startswith(b"2 ")
    assert send(front, chunked(b"ab").replace(b"2\r\n", b"2;extension=1\r\n", 1)).body.startswith(b"2 ")


def test_a_chunked_body_beyond_the_limit_is_refused(front: Gateway) -> None:
    is_contract_error(send(front, chunked(*[b"x" * MIB] * 11)), 413, "too_large")
    answers(front)


def test_permission_to_send_is_given_after_the_length_was_judged(front: Gateway) -> None:
    head = "POST /v1/measures HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: {}\r\n\r\n"
    with connect(front) as connection:
        connection.sendall(head.format(3).encode())
        assert connection.recv(100) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.sendall(b"abc")
        response = http.client.HTTPResponse(connection)
        response.begin()
        assert response.read().startswith(b"3 ")
    is_contract_error(send(front, head.format(BODY_BYTES + 1).encode()), 413, "too_large")


HOST = b"Host: localhost\r\n"
MALFORMED: dict[str, tuple[bytes, int, str]] = {
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 400, "invalid_request"),
    "no target": (b"GET\r\n\r\n", 400, "invalid_request"),
    "HTTP/0.9": (b"GET /v1/catalogue\r\n\r\n", 400, "invalid_request"),
    "HTTP/2": (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400, "invalid_request"),
    "bad version": (b"GET / HTTP/one\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "four words": (b"GET / a HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "unknown method": (b"BREW /v1/catalogue HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "CONNECT": (b"CONNECT example.com:443 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "asterisk": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "relative target": (b"GET v1/catalogue HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "broken escape": (b"GET /v1/%zz HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "cut escape": (b"GET /v1/results/a%2 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "broken escape in query": (b"GET /v1/catalogue?a=%g1 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "path not UTF-8": (b"GET /v1/results/%ff HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "raw path not UTF-8": (b"GET /v1/results/\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "query not UTF-8": (b"GET /v1/catalogue?a=%ff HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "surrogate": (b"GET /v1/results/%ed%a0%80 HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "many parameters": (b"GET /v1/x?" + b"a&" * 1500 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 400, "invalid_request"),
    "no host": (b"GET /v1/catalogue HTTP/1.1\r\n\r\n", 400, "invalid_request"),
    "two hosts": (b"GET /v1/catalogue HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400, "invalid_request"),
    "foreign host": (b"GET /v1/catalogue HTTP/1.1\r\nHost: evil.example\r\n\r\n", 403, "forbidden"),
    "foreign origin": (
        b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Origin: https://evil.example\r\n\r\n",
        403,
        "forbidden",
    ),
    "opaque origin": (b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Origin: null\r\n\r\n", 403, "forbidden"),
    "header without colon": (b"GET /v1/catalogue HTTP/1.1\r\n" + HOST + b"nonsense\r\n\r\n", 400, "invalid_request"),
    "space in header name": (b"GET /v1/catalogue HTTP/1.1\r\n" + HOST + b"a b: c\r\n\r\n", 400, "invalid_request"),
    "long request line": (b"GET /" + b"a" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 413, "too_large"),
    "long header": (b"GET / HTTP/1.1\r\n" + HOST + b"a: " + b"b" * 70_000 + b"\r\n\r\n", 413, "too_large"),
    "headers over 10 KB": (b"GET / HTTP/1.1\r\n" + HOST + b"a: " + b"b" * 11_000 + b"\r\n\r\n", 413, "too_large"),
    "many headers": (
        b"GET / HTTP/1.1\r\n" + HOST + b"".join(b"h%d: x\r\n" % n for n in range(200)) + b"\r\n",
        413,
        "too_large",
    ),
    "length not a number": (
        b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Content-Length: ten\r\n\r\n",
        400,
        "invalid_request",
    ),
    "negative length": (
        b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\n",
        400,
        "invalid_request",
    ),
    "astronomic length": (
        b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Content-Length: 999999999999999999999\r\n\r\n",
        400,
        "invalid_request",
    ),
    "two lengths": (
        b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Content-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        400,
        "invalid_request",
    ),
    "length and chunks": (
        b"POST /v1/conversations HTTP/1.1\r\n"
        + HOST
        + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        400,
        "invalid_request",
    ),
    "unknown coding": (
        b"POST /v1/conversations HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n",
        400,
        "invalid_request",
    ),
    "chunk size": (chunked(end=b"zz\r\nab\r\n0\r\n\r\n"), 400, "invalid_request"),
    "negative chunk size": (chunked(end=b"-2\r\nab\r\n0\r\n\r\n"), 400, "invalid_request"),
    "huge chunk size": (chunked(end=b"fffffffff\r\n"), 400, "invalid_request"),
    "chunk over the limit": (chunked(end=b"ffffffff\r\n"), 413, "too_large"),
    "chunk longer than said": (chunked(end=b"2\r\nabc\r\n0\r\n\r\n"), 400, "invalid_request"),
    "endless trailers": (chunked(end=b"0\r\n" + b"a: b\r\n" * 200), 400, "invalid_request"),
}


@pytest.mark.parametrize("media_type", ["multipart/form-data", "multipart/mixed; boundary=x", "message/rfc822"])
def test_a_body_of_parts_or_of_another_message_is_taken_as_it_is(front: Gateway, media_type: str) -> None:
    answer = request(front, "POST", "/v1/measures", b"--x", {"content-type": media_type})
    assert answer.status == 200 and answer.body.startswith(b"3 ")
    broken = (
        b"POST /v1/measures HTTP/1.1\r\nHost: localhost\r\nContent-Type: %s\r\nno colon\r\n\r\n" % media_type.encode()
    )
    is_contract_error(send(front, broken), 400, "invalid_request")


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_requests_are_answered_in_the_contracts_words(front: Gateway, name: str) -> None:
    data, status, code = MALFORMED[name]
    answer = send(front, data)
    is_contract_error(answer, status, code)
    answers(front)


@pytest.mark.parametrize(
    "data",
    [
        b"POST /v1/conversations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10\r\n\r\nabc",
        chunked(end=b"5\r\nab"),
        chunked(end=b""),
    ],
)
def test_a_body_that_ends_early_is_refused(front: Gateway, data: bytes) -> None:
    with connect(front) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        response = http.client.HTTPResponse(connection)
        response.begin()
        is_contract_error(Response(response), 400, "invalid_request")


def test_a_barrage_leaves_the_server_standing(front: Gateway) -> None:
    """Everything malformed at once, clients that vanish, and garbage; in between, good requests are answered."""

    def misbehave(data: bytes) -> None:
        for cut in (len(data), len(data) // 2, 1):
            with connect(front) as connection:
                try:
                    connection.sendall(data[:cut])
                except OSError:
                    continue

    garbage = [bytes((seed * number) % 256 for number in range(1, 2000)) for seed in (3, 7, 11, 251)]
    threads = [
        threading.Thread(target=misbehave, args=(data,))
        for data in [*(entry[0] for entry in MALFORMED.values()), *garbage]
    ]
    for thread in threads:
        thread.start()
        answers(front)
    for thread in threads:
        thread.join(20)
        assert not thread.is_alive()
    answers(front)


# ---------------------------------------------------------------- connections


def test_a_connection_serves_many_requests(front: Gateway) -> None:
    connection = http.client.HTTPConnection(urlsplit(front.url).netloc, timeout=20)
    connection.connect()
    first = connection.sock
    for size in (0, 10, 100_000, 5):
        connection.request("POST", "/v1/measures", b"x" * size)
        response = connection.getresponse()
        assert response.read().startswith(str(size).encode())
    assert connection.sock is first
    connection.close()


def received(connection: socket.socket) -> bytes:
    parts = []
    while part := connection.recv(65536):
        parts.append(part)
    return b"".join(parts)


def test_pipelined_requests_are_answered_in_order(front: Gateway) -> None:
    one = b"POST /v1/measures HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n%b\r\n"
    with connect(front) as connection:
        connection.sendall(one % (3, b"") + b"abc" + one % (5, b"Connection: close\r\n") + b"defgh")
        first, _end, second = received(connection).partition(b"HTTP/1.1 200 OK")[2].partition(b"HTTP/1.1 200 OK")
    assert b"\r\n\r\n3 " in first and b"connection: keep-alive" in first
    assert b"\r\n\r\n5 " in second and b"connection: close" in second


def test_http_1_0_closes_unless_asked_not_to(front: Gateway) -> None:
    with connect(front) as connection:
        connection.sendall(b"GET /v1/plain_text HTTP/1.0\r\nHost: localhost\r\n\r\n")
        answer = received(connection)
    assert b"connection: close" in answer and answer.endswith(b"hello")


def test_idle_clients_hold_nobody_up(front: Gateway) -> None:
    idle = [connect(front) for _ in range(100)]
    for connection in idle[:50]:
        connection.sendall(b"GET /v1/cat")
    answers(front)
    for connection in idle:
        connection.close()


def test_it_listens_on_loopback_only(front: Gateway) -> None:
    assert front.url.startswith("http://127.0.0.1:")
    others = {address[4][0] for address in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)}
    for address in others - {"127.0.0.1"}:
        with pytest.raises(OSError):
            socket.create_connection((address, front.port), timeout=2).close()


def test_a_taken_port_is_said(front: Gateway) -> None:
    with pytest.raises(OSError, match="in use"):
        Gateway(lambda _name, _event: None, [], FALLBACK).start(front.port)


def test_stopping_ends_open_connections_and_waiting_requests(tmp_path: Path) -> None:
    entered, leave = threading.Event(), threading.Event()

    def call(_name: str, _event: Any) -> str:
        entered.set()
        leave.wait(20)
        return "late"

    server = Gateway(call, [], FALLBACK)
    server.start()
    idle, busy = connect(server), connect(server)
    busy.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert entered.wait(20)
    server.stop()
    assert (idle.recv(1), busy.recv(1)) == (b"", b"")
    leave.set()
    for connection in (idle, busy):
        connection.close()
    with pytest.raises(RuntimeError):
        _ = server.url
    server.stop()


def test_many_clients_at_once(front: Gateway) -> None:
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(10):
                body = f"{number}-{turn}".encode()
                assert request(front, "POST", "/v1/measures", body).body.startswith(f"{len(body)} ".encode())
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(32)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert failures == []


# ---------------------------------------------------------------- functions


@pytest.fixture
def functions(tmp_path: Path) -> Iterator[Callable[[str, str], LocalFunctions]]:
    loaded = LocalFunctions(tmp_path)

    def add(name: str, program: str) -> LocalFunctions:
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "handler.py").write_text(program)
        return loaded

    yield add
    loaded.close()


Add = Callable[[str, str], LocalFunctions]


def test_a_handler_is_loaded_once_however_many_call(functions: Add) -> None:
    loaded = functions("counts", "def handler(event, context):\n    return id(handler)\n")
    seen: list[Any] = []
    threads = [threading.Thread(target=lambda: seen.append(loaded.call("counts", {}))) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert len(seen) == 16 and all(result == seen[0] for result in seen)


def test_what_a_handler_raises_is_lambdas_error_payload(functions: Add) -> None:
    loaded = functions("raises", "def handler(event, context):\n    raise KeyError('x')\n")
    answer, failed = loaded.invoke("raises", b"{}")
    assert failed
    error = json.loads(answer)
    assert (error["errorType"], error["errorMessage"]) == ("KeyError", "'x'")
    assert any("raise KeyError" in line for line in error["stackTrace"])


@pytest.mark.parametrize(
    ("program", "payload", "error"),
    [
        ("import no_such_module\n", b"{}", "Runtime.ImportModuleError"),
        ("x = 1\n", b"{}", "Runtime.HandlerNotFound"),
        ("def handler(e, c):\n    return {1, 2}\n", b"{}", "Runtime.MarshalError"),
        ("def handler(e, c):\n    return e\n", b"{broken", "Runtime.UnmarshalError"),
        ("def handler(e, c):\n    return 'x' * 7_000_000\n", b"{}", "Function.ResponseSizeTooLarge"),
    ],
)
def test_lambdas_own_errors_have_lambdas_names(functions: Add, program: str, payload: bytes, error: str) -> None:
    answer, failed = functions("odd", program).invoke("odd", payload)
    assert failed and json.loads(answer)["errorType"] == error


def test_a_repaired_handler_is_loaded_at_the_next_call(functions: Add) -> None:
    loaded = functions("fixed", "import no_such_module\n")
    assert loaded.invoke("fixed", b"{}")[1]
    functions("fixed", "def handler(event, context):\n    return 'well'\n")
    assert loaded.invoke("fixed", b"{}") == (b'"well"', False)


def test_the_context_says_who_and_how_long(functions: Add) -> None:
    program = (
        "def handler(event, context):\n"
        "    return [context.function_name, context.invoked_function_arn, context.aws_request_id,\n"
        "            context.get_remaining_time_in_millis(), context.memory_limit_in_mb]\n"
    )
    name, arn, request_id, left, memory = functions("asks", program).call("asks", {})
    assert (name, memory) == ("asks", 1024)
    assert arn.endswith(":function:asks") and len(request_id) == 36
    # Of a minute; the machine may stand still for some of it.
    assert 30_000 < left <= 60_000


@pytest.mark.parametrize("name", ["absent", "../asks", "a/b", "", "a" * 65, "arn:aws:lambda:x:1:function:asks"])
def test_names_reach_their_folder_only(functions: Add, name: str) -> None:
    loaded = functions("asks", "def handler(event, context):\n    return 1\n")
    with pytest.raises(FunctionMissing):
        loaded.invoke(name, b"{}")


def test_an_event_invocation_returns_before_the_handler_ran(functions: Add) -> None:
    program = "def handler(event, context):\n    import threading\n    event_box.wait(20)\n    done.set()\n"
    loaded = functions("later", "import threading\nevent_box, done = threading.Event(), threading.Event()\n" + program)
    loaded.invoke_later("later", b"{}")
    module = loaded._handler("later").__globals__
    assert not module["done"].is_set()
    module["event_box"].set()
    assert module["done"].wait(20)


def test_gateway_constants_are_api_gateways() -> None:
    assert (BODY_BYTES, gateway.HEAD_BYTES, PAYLOAD_BYTES) == (10 * MIB, 10_240, 6 * MIB)
