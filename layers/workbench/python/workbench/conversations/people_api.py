"""The routes of a person as a whole: erase everything that is theirs, and see how far that is."""

from __future__ import annotations

from workbench.conversations import erasure, fields
from workbench.http import Request, Response
from workbench.runtime import Runtime

# Most erasures end sooner; the others go on after the answer.
WAIT_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 0.2


def erase(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/people/{user}/erase``: begin, wait a while, and answer how much is erased so far."""
    user = fields.name(request.parameters["user"], "user")
    record = erasure.begin(runtime, user)
    until = runtime.clock.monotonic() + WAIT_SECONDS
    while record["status"] != erasure.DONE and runtime.clock.monotonic() < until:
        runtime.clock.sleep(LOOK_AGAIN_SECONDS)
        record = erasure.read(runtime, user)
    return Response({"erasure": erasure.as_dict(user, record)}, 202)


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/people/{user}/erase``: the latest erasure, for a day after it ended."""
    user = fields.name(request.parameters["user"], "user")
    return Response({"erasure": erasure.as_dict(user, erasure.read(runtime, user))})
