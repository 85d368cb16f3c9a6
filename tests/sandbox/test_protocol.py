"""Both ends of the protocol when something goes wrong between them: faults, refusals, lies and a killed supervisor."""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
from collections.abc import Callable
from typing import Any

import pytest

from sandbox_container import reap
from tests.sandbox.conftest import Sandbox
from tests.sandbox.route_server import Answer, RouteServer, packed

WAIT_SECONDS = 60.0
OPERATIONS = ("claim", "input", "output", "report")

Body = dict[str, Any]


# Talking to the route does not depend on what is around the supervisor.
RUNGS = ("process",)


def once(operation: str, how: Callable[[], Answer | None]) -> Callable[[Body, int], Answer | None]:
    """A fault that hits the first request of an operation."""
    return lambda body, count: how() if body["op"] == operation and count == 1 else None


def drop() -> None:
    raise ConnectionError


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "how",
    [lambda: (503, {"error": "overloaded"}), lambda: (429, {}), drop],
    ids=["status 503", "status 429", "dropped"],
)
def test_a_fault_is_met_by_asking_again(
    sandbox: Sandbox, route: RouteServer, operation: str, how: Callable[[], Answer | None]
) -> None:
    route.fault = once(operation, how)
    run = sandbox.run("open('workspace/x', 'w').write('1')")
    assert run.workspace() == {"x": b"1"}
    assert route.calls[operation] >= 2


@pytest.mark.parametrize("operation", ["output", "report"])
def test_an_answer_that_is_lost_leads_to_the_same_request_again(
    sandbox: Sandbox, route: RouteServer, operation: str
) -> None:
    """The route took it, the sandbox never heard: it sends the same once more."""
    seen: list[Body] = []

    def lose_the_answer(body: Body, count: int) -> Answer | None:
        if body["op"] != operation:
            return None
        seen.append(body)
        if len(seen) > 1:
            return None
        route.fault = lambda later, n: seen.append(later) if later["op"] == operation else None  # type: ignore[func-returns-value]
        if operation == "output":
            route.answer(body)
        raise ConnectionError

    route.fault = lose_the_answer
    run = sandbox.run("open('workspace/x', 'w').write('1')")
    part = seen[0].get("stream"), seen[0].get("part")
    first, *again = [body for body in seen if (body.get("stream"), body.get("part")) == part]
    assert again
    assert all(body == first for body in again)
    assert run.workspace() == {"x": b"1"}


def test_damaged_input_is_fetched_again_and_then_refused(sandbox: Sandbox, route: RouteServer) -> None:
    damaged = {**packed(b"something else"), "sha256": "0" * 64}
    route.fault = once("input", lambda: (200, damaged))
    assert sandbox.run("print('ran')").report["stdout"] == "ran\n"

    route.calls.clear()
    route.fault = lambda body, count: (200, damaged) if body["op"] == "input" else None
    report = sandbox.run("print('ran')").report
    assert (report["outcome"], report["tree"], report["stdout"]) == ("failed", "unreadable", "")
    assert "sum" in report["reason"]


def test_a_bomb_in_a_part_is_refused_in_bounded_memory(sandbox: Sandbox, route: RouteServer) -> None:
    bomb = packed(b"\0" * 64 * 2**20)
    route.fault = lambda body, count: (200, bomb) if body["op"] == "input" else None
    assert sandbox.run("pass").report["outcome"] == "failed"


@pytest.mark.parametrize(
    "line",
    [
        {"root": "workspace", "path": "../outside", "kind": "folder"},
        {"root": "workspace", "path": "/etc/x", "kind": "folder"},
        {"root": "inputs", "path": "a/./b", "kind": "folder"},
        {"root": "etc", "path": "x", "kind": "folder"},
        {"root": "workspace", "path": "x", "kind": "link"},
        {"root": "workspace", "path": "x", "kind": "file", "bytes": -1, "sha256": "", "offset": 0},
        {"root": "workspace", "path": "x", "kind": "file", "bytes": 9, "sha256": "0" * 64, "offset": 10**9},
        {"root": "program", "path": "second", "kind": "file", "bytes": 0, "sha256": "", "offset": 0},
    ],
)
def test_a_plan_that_does_not_fit_is_refused_and_nothing_runs(sandbox: Sandbox, route: RouteServer, line: Body) -> None:
    def forge(body: Body, count: int) -> Answer | None:
        if (body["op"], body.get("stream")) != ("input", "plan"):
            return None
        return 200, packed(run_plan[0] + json.dumps(line).encode() + b"\n")

    route.fault = forge
    run_plan: list[bytes] = []
    started = sandbox.start()
    run = route.submit("print('ran')")
    run_plan += run.streams["plan"]
    assert started.wait() == 0
    assert (run.report["outcome"], run.report["stdout"], run.report["tree"]) == ("failed", "", "unreadable")
    assert run.report["reason"]


def test_files_that_share_their_bytes_in_the_stream_are_all_laid_out(sandbox: Sandbox, route: RouteServer) -> None:
    def share(body: Body, count: int) -> Answer | None:
        if (body["op"], body.get("stream")) != ("input", "plan"):
            return None
        lines = [json.loads(text) for text in run_plan[0].splitlines()]
        twin = next(entry for entry in lines if entry["path"] == "a")
        return 200, packed("\n".join(map(json.dumps, [*lines, {**twin, "path": "b"}])).encode())

    run_plan: list[bytes] = []
    route.fault = share
    started = sandbox.start()
    run = route.submit("print(open('workspace/a').read(), open('workspace/b').read())", files={"a": b"same"})
    run_plan += run.streams["plan"]
    assert started.wait() == 0
    assert run.report["stdout"] == "same same\n"


def test_stop_ends_the_program_and_keeps_what_it_did(sandbox: Sandbox) -> None:
    run = sandbox.run("open('workspace/x', 'w').write('1')\nimport time; time.sleep(60)", heartbeat=0.2, stop_at_beat=2)
    assert (run.report["outcome"], run.report["exitCode"]) == ("stopped", None)
    assert run.report["seconds"] < 50
    assert run.workspace() == {"x": b"1"}


def test_beats_come_while_the_program_runs_and_survive_faults(sandbox: Sandbox, route: RouteServer) -> None:
    """However slowly they come: the program ends when they have shown what it printed."""
    shown: list[str] = []

    def answer(body: Body, count: int) -> Answer | None:
        if body["op"] != "heartbeat":
            return None
        if count in (1, 2):
            return 500, {}
        shown.append(body["stdout"])
        return 200, {"do": "stop" if len(shown) >= 2 and shown[-1] == "0\n1\n" else "continue"}

    route.fault = answer
    run = sandbox.run(
        "import time\nfor n in range(2): print(n, flush=True); time.sleep(0.2)\ntime.sleep(60)", heartbeat=0.2
    )
    assert len(shown) >= 2
    assert shown[-1] == "0\n1\n"
    assert run.report["outcome"] == "stopped"


@pytest.mark.parametrize("status", [409, 401])
def test_a_run_that_is_over_is_ended_without_a_report(sandbox: Sandbox, route: RouteServer, status: int) -> None:
    route.fault = lambda body, count: (status, {}) if body["op"] not in ("claim", "input") else None
    started = sandbox.start()
    run = route.submit("import time; time.sleep(60)", heartbeat=0.2)
    assert started.wait() == (0 if status == 409 else 3)
    assert run.reports == []


@pytest.mark.parametrize(
    ("answer", "exit_status"),
    [((401, {"error": "wrong secret"}), 3), ((200, {"status": "leave"}), 0), ((400, {}), 3), ((409, {}), 0)],
)
def test_a_supervisor_that_gets_no_job_leaves(
    sandbox: Sandbox, route: RouteServer, answer: Answer, exit_status: int
) -> None:
    route.fault = lambda body, count: answer
    assert sandbox.start().wait() == exit_status
    assert set(route.calls) == {"claim"}


def test_waiting_is_asked_again(sandbox: Sandbox, route: RouteServer) -> None:
    route.fault = lambda body, count: (200, {"status": "wait"}) if body["op"] == "claim" and count < 4 else None
    assert sandbox.run("print('ran')").report["stdout"] == "ran\n"
    assert route.calls["claim"] == 4


def test_a_lost_exchange_of_the_start_secret_is_made_again_with_the_same_own_one(
    sandbox: Sandbox, route: RouteServer
) -> None:
    """The route has taken the sandbox's own secret and its answer is lost: only what it sent before opens it now."""
    sent: list[Body] = []

    def lose_the_first(body: Body, count: int) -> Answer | None:
        if body["op"] != "claim":
            return None
        sent.append(body)
        if count == 1:
            route.own_secrets[body["sandbox"]] = body["ownSecret"]
            raise ConnectionError
        return None

    route.fault = lose_the_first
    assert sandbox.run("print('ran')").report["stdout"] == "ran\n"
    assert len(sent) >= 2 and all(body == sent[0] for body in sent)
    assert len(bytes.fromhex(sent[0]["ownSecret"])) == 32


def test_every_sandbox_makes_a_secret_of_its_own(sandbox: Sandbox, route: RouteServer) -> None:
    sandbox.run("pass")
    sandbox.run("pass")
    one, other = (body["ownSecret"] for body in route.claims[-2:])
    assert one != other


def test_the_claim_and_the_report_say_what_was_verified(sandbox: Sandbox, route: RouteServer) -> None:
    run = sandbox.run("pass")
    verified = run.report["verified"]
    assert route.claims[-1]["verified"] == verified
    assert verified["uid"] >= 260_000
    assert (int(verified["capabilities"], 16), verified["noNewPrivs"], verified["seccomp"]) == (0, 1, 2)
    assert verified["descriptors"] == 0
    assert verified["kernel"] == os.uname().release
    assert isinstance(verified["landlock"], int)


def test_a_supervisor_that_is_killed_takes_the_program_with_it(local_sandbox: Sandbox, route: RouteServer) -> None:
    started = local_sandbox.start()
    run = route.submit("print('up', flush=True)\nimport time; time.sleep(600)", heartbeat=0.2, seconds=900)
    assert run.beaten.wait(WAIT_SECONDS)
    mine = {process.pid: process.parent for process in reap.processes()}
    family = {started.process.pid}
    while grown := {pid for pid, parent in mine.items() if parent in family} - family:
        family |= grown
    assert len(family) >= 4
    watching = [os.pidfd_open(pid) for pid in family - {started.process.pid}]
    started.process.stop()
    assert started.wait() == -signal.SIGKILL
    for descriptor in watching:
        _wait_for(descriptor)
        os.close(descriptor)
    assert run.reports == []


def test_a_supervisor_killed_alone_leaves_no_program_behind(sandbox: Sandbox, route: RouteServer) -> None:
    started = sandbox.start()
    run = route.submit("print('up', flush=True)\nimport time; time.sleep(600)", heartbeat=0.2, seconds=900)
    assert run.beaten.wait(WAIT_SECONDS)
    programs = [os.pidfd_open(p.pid) for p in reap.processes() if started.uid in p.uids]
    assert programs
    started.process.kill()
    started.wait()
    for descriptor in programs:
        _wait_for(descriptor)
        os.close(descriptor)
    _remove_what_it_left(started.uid or 0)


def _wait_for(descriptor: int) -> None:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    assert poll.poll(WAIT_SECONDS * 1000)


def _remove_what_it_left(uid: int) -> None:
    """A supervisor that was killed cannot clean up; in a container or a mount namespace nothing of it stays."""
    shutil.rmtree(f"/tmp/home-{uid}")
