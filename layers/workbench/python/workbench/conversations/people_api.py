"""The routes of a person as a whole: what is theirs, erase all of it, and see how far that is."""

from __future__ import annotations

import math

from workbench.conversations import erasure, fields
from workbench.conversations.people import person_key
from workbench.errors import InvalidRequest
from workbench.http import Request, Response
from workbench.runtime import Runtime

# Most erasures end sooner; the others go on after the answer.
WAIT_SECONDS = 15.0
LOOK_AGAIN_SECONDS = 0.2
# What the index holds under a person's name, by partition and sort key.
HELD = {
    ("C", "META"): "conversations",
    ("C", "T"): "turns",
    ("A", "META"): "artifacts",
    ("COL", "META"): "collections",
}


def holdings(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/people/{user}``: how much is theirs, which is what erasing them would remove.

    ``turns`` are those that they took part in, in whosever conversation. The index is a moment behind.
    """
    user = fields.name(request.parameters["user"], "user")
    counts = dict.fromkeys(HELD.values(), 0)
    for key in runtime.table.query(f"P#{user}", index="gsi1"):
        kind = key["PK"].partition("#")[0], key["SK"].partition("#")[0]
        if kind in HELD:
            counts[HELD[kind]] += 1
    record = runtime.table.get(person_key(user)) or {}
    return Response({"person": {"user": user, "erasing": "erasing" in record, "counts": counts}})


def erase(runtime: Runtime, request: Request) -> Response:
    """``POST /v1/people/{user}/erase?wait=``: begin, wait a while, and answer how much is erased so far."""
    user = fields.name(request.parameters["user"], "user")
    wait = _wait(request)
    record = erasure.begin(runtime, user)
    until = runtime.clock.monotonic() + wait
    while record["status"] != erasure.DONE and runtime.clock.monotonic() < until:
        runtime.clock.sleep(LOOK_AGAIN_SECONDS)
        record = erasure.read(runtime, user)
    return Response({"erasure": erasure.as_dict(user, record)}, 202)


def show(runtime: Runtime, request: Request) -> Response:
    """``GET /v1/people/{user}/erase``: the latest erasure, for a day after it ended."""
    user = fields.name(request.parameters["user"], "user")
    return Response({"erasure": erasure.as_dict(user, erasure.read(runtime, user))})


def _wait(request: Request) -> float:
    text = request.query.get("wait", str(WAIT_SECONDS))
    try:
        seconds = float(text)
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < math.inf:
        raise InvalidRequest("`wait` must be a number of seconds, 0 or more.", field="wait")
    return min(seconds, WAIT_SECONDS)
