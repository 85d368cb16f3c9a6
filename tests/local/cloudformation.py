"""CloudFormation as a custom resource sees it: it asks, and waits for an answer at an address of its own."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any


class Waiting:
    """The requests for one resource, and the answers that came."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answers: list[dict[str, Any]] = []
        # How many answers to turn down before one is taken.
        self.deaf = 0

    def event(self, kind: str, **properties: str) -> dict[str, Any]:
        """What CloudFormation sends to the function."""
        return {
            "RequestType": kind,
            "ResponseURL": f"{self.url}/answer?signature=x",
            "StackId": "arn:aws:cloudformation:eu-central-1:123456789012:stack/workbench-api/1",
            "RequestId": "request",
            "LogicalResourceId": "SkillDemo",
            "ResourceType": "Custom::WorkbenchSkill",
            "ResourceProperties": {"ServiceToken": "arn", **properties},
        }


@contextmanager
def waiting() -> Iterator[Waiting]:
    """Listen on loopback for the function's answers."""

    class Listener(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            status = 503 if made.deaf else 200
            if made.deaf:
                made.deaf -= 1
            else:
                assert not self.headers.get("content-type")
                made.answers.append(json.loads(body))
            self.send_response(status)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_arguments: Any) -> None:
            """Nothing on standard error."""

    server = HTTPServer(("127.0.0.1", 0), Listener)
    made = Waiting(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield made
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
