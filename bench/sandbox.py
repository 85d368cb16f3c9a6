"""Warm sandboxes of this machine on the tests' own small route: hand one a program, wait for its report."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from local.launcher import start_sandbox
from tests.sandbox.route_server import RouteServer

WAIT_SECONDS = 60.0
_MIB = 1024 * 1024


class Sandboxes:
    """A route and the sandboxes that claim from it, one program each."""

    def __init__(self) -> None:
        self._route = RouteServer()
        self._numbers = itertools.count()
        self._pid = 0
        self._peak = 0.0
        self._route.fault = self._note_peak

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._route.close()

    def run(self, program: str, **limits: int) -> tuple[float, float, dict[str, Any]]:
        """(milliseconds from handing out the job to its report, the supervisor's peak memory in MiB, the report)."""
        route, waiting = self._route, self._route.calls["claim"]
        name = f"bench{next(self._numbers)}"
        process = start_sandbox(name, route.new_secret(name), route.url)
        try:
            self._pid = process.pid
            give_up = time.monotonic() + WAIT_SECONDS
            while route.calls["claim"] == waiting:
                if time.monotonic() > give_up:
                    raise TimeoutError("the sandbox did not ask for a job")
                time.sleep(0.005)
            started = time.perf_counter()
            run = route.submit(program, **limits)
            if not run.reported.wait(WAIT_SECONDS):
                raise TimeoutError("the sandbox did not report")
            elapsed = (time.perf_counter() - started) * 1000
        except BaseException:
            process.stop()
            raise
        finally:
            process.wait()
        return elapsed, self._peak, run.report

    def _note_peak(self, body: dict[str, Any], _count: int) -> None:
        """While the supervisor waits for the answer to its report it is alive and has nothing more to do."""
        if body["op"] == "report":
            self._peak = max(map(_peak_mebibytes, [self._pid, *_descendants(self._pid)]))


def _descendants(pid: int) -> list[int]:
    found: list[int] = []
    waiting = [pid]
    while waiting:
        above = waiting.pop()
        children = [int(child) for child in Path(f"/proc/{above}/task/{above}/children").read_text().split()]
        found += children
        waiting += children
    return found


def _peak_mebibytes(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    peak = next((line for line in lines if line.startswith("VmHWM:")), "VmHWM: 0 kB")
    return int(peak.split()[1]) * 1024 / _MIB
