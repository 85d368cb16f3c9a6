"""What the supervisor adds to a run: from handing out the job to its report, against the bare interpreter.

The sandbox is warm: its process has started, proved itself and waits for a job, as one from the pool does. The route
is the tests' own small server, so that only supervisor and program are measured.
"""

from __future__ import annotations

import itertools
import subprocess
import time
from collections.abc import Callable

from bench.measure import Row, Times, timed
from local.launcher import start_sandbox
from local.payload import payload_environment
from tests.sandbox.route_server import RouteServer

RUNS = 15
CLAIM_WAIT_SECONDS = 30.0


def overhead() -> Row:
    """``pass`` through a waiting supervisor against ``python3 -I -c pass``."""
    interpreter = str(payload_environment().interpreter)
    route = RouteServer()
    numbers = itertools.count()
    ours, theirs = [], []
    try:
        for _ in range(RUNS + 1):
            ours.append(_warm_run(route, f"bench{next(numbers)}"))
            theirs.append(timed(_bare(interpreter)))
    finally:
        route.close()
    # The first of each only warms the disk's cache.
    return Row(Times(tuple(ours[1:])), "python3 -I -c pass", Times(tuple(theirs[1:])), "at most 100 ms more", more=100)


def _bare(interpreter: str) -> Callable[[], object]:
    return lambda: subprocess.run([interpreter, "-I", "-c", "pass"], check=True)


def _warm_run(route: RouteServer, sandbox: str) -> float:
    waiting = route.calls["claim"]
    process = start_sandbox(sandbox, route.new_secret(sandbox), route.url)
    try:
        give_up = time.monotonic() + CLAIM_WAIT_SECONDS
        while route.calls["claim"] == waiting:
            if time.monotonic() > give_up:
                raise TimeoutError("the sandbox did not ask for a job")
            time.sleep(0.005)
        started = time.perf_counter()
        run = route.submit("pass")
        if not run.reported.wait(CLAIM_WAIT_SECONDS):
            raise TimeoutError("the sandbox did not report")
        elapsed = (time.perf_counter() - started) * 1000
        if run.report["exitCode"] != 0:
            raise AssertionError(run.report)
    except BaseException:
        process.stop()
        raise
    finally:
        process.wait()
    return elapsed
