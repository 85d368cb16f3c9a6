"""What the supervisor adds to a run, and what a whole run takes.

The first row's sandbox is warm: its process has started, proved itself and waits for a job, as one from the pool does.
The route is the tests' own small server, so that only supervisor and program are measured. The others are whole
``run_code`` calls through the local system and the workflow, with a sandbox of the pool or one started for the call.
Fargate takes a minute for what takes a process here, so that there the pool saves that minute as well.
"""

from __future__ import annotations

import itertools
import subprocess
from collections.abc import Callable
from functools import partial

from bench.measure import Figures, Row, in_turns, timed
from bench.portal import Portal
from bench.sandbox import WAIT_SECONDS, Sandboxes
from local.payload import payload_environment
from local.system import LocalSystem
from workbench.keys import run_key

RUNS = 15


def overhead() -> Row:
    """``pass`` through a waiting supervisor, from handing out the job to its report, against a bare interpreter."""
    bare = _bare()
    ours, theirs = [], []
    with Sandboxes() as sandboxes:
        for _ in range(RUNS + 1):
            ours.append(sandboxes.run("pass")[0])
            theirs.append(timed(bare))
    # The first of each only warms the disk's cache.
    return Row(Figures(tuple(ours[1:])), "python3 -I -c pass", Figures(tuple(theirs[1:])), "100 ms more", more=100)


def claim() -> Row:
    """From the moment a run is given to a sandbox until that has claimed it."""
    return Row(_claims(warm=1), "a sandbox started for it", _claims(warm=0), "faster", most=1.0)


def _claims(warm: int) -> Figures:
    """Milliseconds; every call but the first, which loads the functions."""
    took = []
    with LocalSystem().start(settings={"warm_sandboxes": warm, "warm_sandboxes_most": warm}) as system:
        portal = Portal(system.url, "bench-claim", ["run_code"])
        for number in range(RUNS + 1):
            if warm and not system.has_warm_sandbox(WAIT_SECONDS):
                raise TimeoutError("no sandbox waits for work")
            answer = portal.call("run_code", code=f"pass  # {number}")
            record = system.runtime.table.get(run_key(answer["structured"]["run"]))
            assert record is not None
            took.append(1000 * (record["claimedAt"] - record["awaitedAt"]))
    return Figures(tuple(took[1:]))


def whole_call() -> Row:
    """A ``run_code`` call that starts its sandbox, over HTTP."""
    with LocalSystem().start() as system:
        portal = Portal(system.url, "bench-run", ["run_code"])
        numbers = itertools.count()
        # A program of its own each time: the same call again and again would be told so.
        ours, theirs = in_turns(
            lambda: portal.call("run_code", code=f"pass  # {next(numbers)}"), partial(_bare()), runs=RUNS
        )
    return Row(ours, "python3 -I -c pass", theirs, "")


def _bare() -> Callable[[], object]:
    interpreter = str(payload_environment().interpreter)
    return lambda: subprocess.run([interpreter, "-I", "-c", "pass"], check=True)
