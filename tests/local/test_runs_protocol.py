"""A run as the sandbox's route and the workflow see it: races, lies, deaths. The sandbox here is a client of ours."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from workbench.clients import counting
from workbench.http import Request
from workbench.runs import sandbox_route, task_stopped, workflow
from workbench.runs.items import admission_key, at_work_key
from workbench.table import Update, head_key, run_key
from workbench.tools.path import call_tool
from workbench.workspace import head as lease

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs_sandbox import Killed, Launcher, Sandbox, held, killed_after, packed, report
from tests.local.talk import Talk, text

pytestmark = pytest.mark.usefixtures("alone")

SETTINGS = {
    "lease_seconds": 8.0,
    "heartbeat_seconds": 1.0,
    "skew_seconds": 0.1,
    "busy_wait_seconds": 1.0,
    "claim_seconds": 5,
    "runs_at_once": 3,
    "workspace_bytes": 12 * 1024 * 1024,
    "workspace_files": 20,
    "longest_wait_seconds": 60,
}


@pytest.fixture(scope="module")
def launcher() -> Launcher:
    return Launcher()


@pytest.fixture(scope="module")
def system(alone: None, launcher: Launcher) -> Iterator[LocalSystem]:
    with LocalSystem().start(settings=SETTINGS, start_sandbox=launcher.start) as running:
        yield running


@pytest.fixture
def talk(api: Api, unique: str) -> Talk:
    return Talk.open(api, unique)


@pytest.fixture(scope="module")
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as pool:
        yield pool


Begin = Callable[..., "Future[dict[str, Any]]"]


@pytest.fixture
def begin(talk: Talk, threads: ThreadPoolExecutor) -> Begin:
    """Send run_code in a thread; the future is its answer."""

    def send(call: str = "run", code: str = "pass", **arguments: Any) -> Future[dict[str, Any]]:
        return threads.submit(talk.call, "run_code", call=call, code=code, **arguments)

    return send


@pytest.fixture
def sandbox(begin: Begin, launcher: Launcher, api: Api) -> Iterator[Sandbox]:
    """A sandbox that has claimed the run of call ``run``."""
    answer = begin()
    started = launcher.next(api).claimed()
    yield started
    started.task.end()
    answer.result(timeout=30)


def final(answer: Future[dict[str, Any]]) -> dict[str, Any]:
    return answer.result(timeout=30)


def record(system: LocalSystem, sandbox: Sandbox) -> dict[str, Any]:
    found = system.runtime.table.get(run_key(sandbox.run))
    assert found is not None
    return found


def free(system: LocalSystem, talk: Talk) -> None:
    """Nothing is held any more: the next writer and the next run get in at once."""
    head = system.runtime.table.get(head_key(talk.conversation))
    assert head is not None
    assert head["leaseUntil"] == 0
    assert system.runtime.table.get(at_work_key(talk.conversation)) is None
    talk.put("afterwards.txt", b"free")


def settled_admission(system: LocalSystem, run: str) -> None:
    """The run's place is given back; that is the workflow's last step, so it may come a moment after the answer."""
    clock = system.runtime.clock
    deadline = clock.monotonic() + 10
    while run in (system.runtime.table.get(admission_key()) or {}).get("runs", ()):
        assert clock.monotonic() < deadline, "the place was never given back"
        clock.sleep(0.02)


# ---------------------------------------------------------------- claiming


def test_a_wrong_secret_opens_nothing_and_spoils_nothing(begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api)
    for secret in ("wrong", started.secret[:-1], started.secret + "x", "é" * 20):
        assert started.claim(secret)[0] == 401
    unknown = Sandbox(api, "sbx_unknown", started.secret, started.task)
    assert unknown.claim()[0] == 401
    started.claimed().finish()
    assert final(answer)["outcome"] == "ok"


def test_a_start_secret_claims_once(begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    assert started.good("heartbeat", stdout="", stderr="", outputBytes=0) == {"do": "continue"}
    assert started.send("claim", sandbox=started.id, secret=started.secret) == (200, {"status": "leave"})
    started.finish()
    assert final(answer)["outcome"] == "ok"


def test_a_sandbox_that_never_got_its_job_loses_the_run_at_once(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    assert started.claim()[1] == {"status": "leave"}
    assert final(answer)["error"]["code"] == "SANDBOX_UNAVAILABLE"
    free(system, talk)


def test_the_job_says_what_may_be_used_and_holds_no_token(system: LocalSystem, sandbox: Sandbox) -> None:
    assert sandbox.job["limits"]["outputBytes"] == 4 * 1024 * 1024
    assert sandbox.job["timeoutSeconds"] == 30
    stored = record(system, sandbox)
    told = str(sandbox.job) + sandbox.session + sandbox.run
    assert stored["claimToken"] not in told
    assert sandbox.session not in str(stored)
    sandbox.finish()


def test_two_sandboxes_cannot_have_one_run(system: LocalSystem, begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    first = launcher.next(api)
    run = system.runtime.table.get(("SBX#" + first.id, "SBX"))
    assert run is not None
    # The Claim state is retried: another token, another sandbox. The earlier one is not awaited any more.
    with held("run"):
        stored = system.runtime.table.get(run_key(run["run"]))
        assert stored is not None
        workflow.claim(system.runtime, stored, {"token": stored["claimToken"]})
        second = launcher.next(api)
        assert first.claim()[1] == {"status": "leave"}
        second.claimed()
    first.task.end()
    second.finish()
    assert final(answer)["outcome"] == "ok"


# ---------------------------------------------------------------- the session


def test_a_session_opens_one_run_only(sandbox: Sandbox, api: Api) -> None:
    messages: list[dict[str, Any]] = [
        {"op": "input", "stream": "plan", "part": 0},
        {"op": "heartbeat", "stdout": "", "stderr": "", "outputBytes": 0},
        {"op": "output", "stream": "packs", "part": 0, **packed(b"x")},
        {"op": "report", "report": report()},
    ]
    for message in messages:
        op = message.pop("op")
        assert sandbox.send(op, run=sandbox.run, session="wrong", **message)[0] == 401, op
        assert sandbox.send(op, run=sandbox.run + "x", session=sandbox.session, **message)[0] == 401, op
        assert sandbox.send(op, run=sandbox.run, session=sandbox.secret, **message)[0] == 401, op
        assert sandbox.send(op, session=sandbox.session, **message)[0] == 400, op
    assert sandbox.send("shutdown")[0] == 400
    assert api("POST", "/v1/sandbox", b"[" * 100_000).status == 400
    sandbox.finish()


def test_inputs_are_the_workspace_the_program_and_nothing_else(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    big = {f"big{number}.bin": os.urandom(3 * 1024 * 1024) for number in range(3)}
    for path, data in {"a.txt": b"one", "deep/b.bin": b"\0\1", "empty": b"", **big}.items():
        talk.put(path, data)
    answer = begin(code="print('ä')")
    started = launcher.next(api).claimed()
    assert started.job["dataParts"] == 3
    assert started.inputs() == {
        "workspace/a.txt": b"one",
        "workspace/deep/b.bin": b"\0\1",
        **{f"workspace/{path}": data for path, data in big.items()},
        "workspace/empty": b"",
        "program/main.py": "print('ä')".encode(),
    }
    assert started.op("input", stream="data", part=99)[0] == 400
    assert started.op("input", stream="secrets", part=0)[0] == 400
    started.finish()
    assert final(answer)["structured"]["version"] == 6


def test_parts_that_are_not_what_they_say_are_refused(sandbox: Sandbox) -> None:
    lies: list[dict[str, Any]] = [
        {"stream": "packs", "part": 0, **packed(b"x"), "sha256": "0" * 64},
        {"stream": "packs", "part": 10**6, **packed(b"x")},
        {"stream": "packs", "part": -1, **packed(b"x")},
        {"stream": "packs", "part": 0, **packed(b"")},
        {"stream": "packs", "part": 0, **packed(b"\0" * (4 * 1024 * 1024 + 1))},
        {"stream": "changes", "part": 16, **packed(b"x")},
        {"stream": "elsewhere", "part": 0, **packed(b"x")},
        {"stream": "packs", "part": 0, "sha256": "x", "data": 5},
    ]
    for lie in lies:
        assert sandbox.op("output", **lie)[0] == 400
    sandbox.finish()


def test_a_part_is_stored_once(sandbox: Sandbox) -> None:
    for _ in range(2):
        assert sandbox.op("output", stream="packs", part=0, **packed(b"first")) == (200, {})
    assert sandbox.op("output", stream="packs", part=0, **packed(b"second"))[0] == 409
    sandbox.finish()


# ---------------------------------------------------------------- reporting


def test_the_same_report_again_is_harmless_and_another_is_refused(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("a.txt", b"once\n")
    parts = started.leave()
    with held("commit") as commit:
        assert started.report(**parts)[0] == 200
        commit.wait()
        assert started.report(**parts) == (200, {})
        assert started.report(**parts, exitCode=1)[0] == 409
        assert started.good("heartbeat", stdout="", stderr="", outputBytes=0) == {"do": "stop"}
        assert started.op("output", stream="packs", part=0, **packed(b"late"))[0] == 409
        assert started.op("input", stream="plan", part=0)[0] == 409
    made = final(answer)
    assert (made["outcome"], made["structured"]["exitCode"], made["structured"]["created"]) == ("ok", 0, ["a.txt"])
    assert started.report(**parts) == (200, {})
    assert started.report(**parts, exitCode=1)[0] == 409
    assert talk.files() == {"a.txt": b"once\n"}
    free(system, talk)


def test_many_reports_at_once_have_one_winner(
    begin: Begin, launcher: Launcher, api: Api, threads: ThreadPoolExecutor
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    codes = [threads.submit(lambda code=code: (started.report(exitCode=code)[0], code)) for code in range(6)]
    accepted = [code for status, code in (future.result() for future in codes) if status == 200]
    assert len(accepted) == 1
    assert final(answer)["structured"]["exitCode"] == accepted[0]


def test_a_report_may_come_before_the_workflow_waits_for_it(begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    with held("run") as waiting:
        started = launcher.next(api).claimed()
        waiting.wait()
        started.finish(stdout="early")
    assert final(answer)["structured"]["stdout"] == "early"


def test_a_program_that_failed_keeps_its_changes(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    talk.put("old.txt", b"old\n")
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("half.txt", b"half")
    started.line(path="old.txt", deleted=True)
    started.line(name="pipe", leftOut="a FIFO")
    started.finish(exitCode=1, stderr="Traceback (most recent call last): boom\n", outputBytes=40)
    made = final(answer)
    assert (made["outcome"], made["error"]["code"]) == ("error", "SANDBOX_ERROR")
    assert "Traceback (most recent call last): boom" in text(made)
    facts = made["structured"]
    assert (facts["created"], facts["modified"], facts["deleted"]) == (["half.txt"], [], ["old.txt"])
    assert facts["leftOut"] == [{"name": "pipe", "reason": "a FIFO"}]
    assert talk.files() == {"half.txt": b"half"}


@pytest.mark.parametrize(
    ("outcome", "code", "shown"),
    [
        ("timeout", "SANDBOX_TIMEOUT", "timeout"),
        ("memory", "SANDBOX_MEMORY", "error"),
        ("disk", "SANDBOX_DISK", "error"),
        ("output", "SANDBOX_OUTPUT_TOO_LARGE", "error"),
        ("failed", "SANDBOX_UNAVAILABLE", "error"),
    ],
)
def test_a_killed_program_keeps_its_changes_and_says_why(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api, outcome: str, code: str, shown: str
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("kept.txt", b"so far")
    started.finish(outcome=outcome, exitCode=None, signal=9)
    made = final(answer)
    assert (made["outcome"], made["error"]["code"]) == (shown, code)
    assert talk.bytes_of("kept.txt") == b"so far"


# ---------------------------------------------------------------- lies about the tree

Lie = Callable[[Sandbox], dict[str, Any]]


def lie_wrong_hash(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true", sha256=packed(b"other")["sha256"])
    return sandbox.leave()


def lie_other_bytes(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    sandbox.file("c.txt", b"also", pieces=[{"part": 0, "offset": 0, "length": 4}])
    return sandbox.leave()


def lie_beyond_the_pack(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true", pieces=[{"part": 0, "offset": 1, "length": 4}])
    return sandbox.leave()


def lie_never_sent(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.line(path="b", kind="file", mode="0644", bytes=4, sha256=packed(b"true")["sha256"], pieces=[])
    return sandbox.leave()


def lie_a_file_below_a_file(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("a.txt/below", b"true")
    return sandbox.leave()


def lie_twice(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"one")
    sandbox.file("b.txt", b"two")
    return sandbox.leave()


def lie_no_packs(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    return sandbox.leave() | {"packParts": 3}


def lie_no_changes(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    return sandbox.leave() | {"changeParts": 2}


def lie_not_json(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    sandbox.lines.append(b"[" * 60_000 + b"\n")
    return sandbox.leave()


def lie_absurdly_many(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.lines += [b'{"path":"p%d","deleted":true}\n' % number for number in range(5_000)]
    return sandbox.leave()


def lie_deleted_everything_unreadably(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.line(path="a.txt", deleted=True)
    return sandbox.leave() | {"tree": "unreadable", "reason": "folders are nested more than 128 deep"}


def too_many_files(sandbox: Sandbox) -> dict[str, Any]:
    for number in range(25):
        sandbox.file(f"n{number}", b"x%d" % number)
    return sandbox.leave()


def too_many_bytes(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("huge.bin", os.urandom(13 * 1024 * 1024))
    return sandbox.leave()


def too_many_folders(sandbox: Sandbox) -> dict[str, Any]:
    for number in range(25):
        sandbox.line(path=f"f{number}", kind="folder", mode="0755")
    return sandbox.leave()


VOID: list[tuple[Lie, str]] = [
    (lie_wrong_hash, "SANDBOX_ERROR"),
    (lie_other_bytes, "SANDBOX_ERROR"),
    (lie_beyond_the_pack, "SANDBOX_ERROR"),
    (lie_never_sent, "SANDBOX_ERROR"),
    (lie_a_file_below_a_file, "SANDBOX_ERROR"),
    (lie_twice, "SANDBOX_ERROR"),
    (lie_no_packs, "SANDBOX_ERROR"),
    (lie_no_changes, "SANDBOX_ERROR"),
    (lie_not_json, "SANDBOX_ERROR"),
    (lie_absurdly_many, "SANDBOX_ERROR"),
    (lie_deleted_everything_unreadably, "SANDBOX_ERROR"),
    (too_many_files, "limit_exceeded"),
    (too_many_bytes, "limit_exceeded"),
    (too_many_folders, "limit_exceeded"),
]


@pytest.mark.parametrize(("lie", "code"), VOID, ids=[lie.__name__ for lie, _code in VOID])
def test_a_tree_that_cannot_be_trusted_changes_nothing(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, lie: Lie, code: str
) -> None:
    talk.put("a.txt", b"before\n")
    answer = begin()
    started = launcher.next(api).claimed()
    parts = lie(started)
    assert started.report(**parts, stdout="done\n", outputBytes=5)[0] == 200
    made = final(answer)
    assert (made["outcome"], made["error"]["code"]) == ("error", code)
    assert "No file changes were kept" in text(made)
    assert "done" in text(made)
    facts = made["structured"]
    assert (facts["created"], facts["modified"], facts["deleted"], facts["version"]) == ([], [], [], 1)
    assert talk.files() == {"a.txt": b"before\n"}
    free(system, talk)


@pytest.mark.parametrize("path", ["../../outside", "/etc/passwd", "a\\b", "x/../../y", "workspace/z", "n\0l"])
def test_a_hostile_path_reaches_nothing_and_the_rest_is_kept(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api, path: str
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file(path, b"evil")
    started.file("fine.txt", b"fine")
    started.finish()
    made = final(answer)
    assert made["structured"]["created"] == ["fine.txt"]
    assert len(made["structured"]["leftOut"]) == 1
    assert talk.files() == {"fine.txt": b"fine"}


def test_spill_files_go_first_when_the_rest_would_fit(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("result.bin", os.urandom(10 * 1024 * 1024))
    started.file(".spill-1.txt", b"x" * (3 * 1024 * 1024))
    started.finish(truncated=True, spill=".spill-1.txt", stdout="tail", outputBytes=3 * 1024 * 1024)
    made = final(answer)
    assert made["outcome"] == "ok"
    assert made["structured"]["created"] == ["result.bin"]
    assert made["structured"]["leftOut"] == [{"name": ".spill-1.txt", "reason": "the workspace has no room for it"}]
    assert made["structured"]["spill"] is None


def test_a_file_over_several_packs_arrives_whole_and_text_is_measured(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    large = os.urandom(9 * 1024 * 1024)
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("first.txt", "zwei\nZeilen ä\n".encode())
    started.file("large.bin", large)
    started.file("again.txt", "zwei\nZeilen ä\n".encode())
    started.line(path="empty", kind="folder", mode="0755")
    started.finish()
    assert final(answer)["structured"]["created"] == ["again.txt", "empty", "first.txt", "large.bin"]
    head = lease.read_head(system.runtime, talk.conversation)
    entries = {entry.path: entry for entry in system.runtime.workspaces.manifest(head).entries()}
    assert system.runtime.workspaces.read(talk.conversation, entries["large.bin"]) == large
    assert (entries["first.txt"].lines, entries["first.txt"].characters) == (2, 14)
    assert (entries["large.bin"].lines, entries["large.bin"].mode) == (None, 0o644)
    assert entries["empty"].kind == "folder"


def test_a_mode_alone_and_a_copy_need_no_bytes(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    talk.put("tool.sh", b"#!/bin/sh\n")
    digest = packed(b"#!/bin/sh\n")["sha256"]
    answer = begin()
    started = launcher.next(api).claimed()
    for path, mode in (("tool.sh", "0755"), ("copy.sh", "0644")):
        started.line(path=path, kind="file", mode=mode, bytes=10, sha256=digest, pieces=[])
    started.finish()
    facts = final(answer)["structured"]
    assert (facts["created"], facts["modified"]) == (["copy.sh"], ["tool.sh"])
    assert talk.files() == {"tool.sh": b"#!/bin/sh\n", "copy.sh": b"#!/bin/sh\n"}


# ---------------------------------------------------------------- deaths


def test_a_sandbox_that_cannot_be_started_is_said_with_its_reason(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher
) -> None:
    launcher.refuse = "install bubblewrap to run code"
    made = final(begin())
    assert made["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert made["error"]["retryable"]
    assert "install bubblewrap" in text(made)
    free(system, talk)


def test_a_task_that_dies_before_it_claims_is_said_at_once(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    launcher.next(api).task.end(3)
    made = final(answer)
    assert made["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert "exit code 3" in text(made)
    free(system, talk)


@pytest.mark.parametrize("stage", ["claimed", "beating", "sending"])
def test_a_task_that_dies_while_it_works_changes_nothing_and_frees_the_lease(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, stage: str
) -> None:
    talk.put("a.txt", b"before")
    answer = begin()
    started = launcher.next(api).claimed()
    if stage != "claimed":
        started.good("heartbeat", stdout="so far", stderr="", outputBytes=6)
    if stage == "sending":
        started.line(path="a.txt", deleted=True)
        started.file("b.txt", b"never")
        started.leave()
    started.task.end()
    made = final(answer)
    assert made["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert talk.files() == {"a.txt": b"before"}
    free(system, talk)
    assert started.report()[0] == 409
    settled_admission(system, started.run)


def test_a_task_that_ends_after_its_report_changes_nothing_about_it(begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("a.txt", b"kept")
    started.finish()
    started.task.end(0)
    assert final(answer)["structured"]["created"] == ["a.txt"]


def test_the_news_of_a_task_s_end_is_harmless_when_repeated_or_unknown(
    system: LocalSystem, begin: Begin, launcher: Launcher, api: Api
) -> None:
    def news(sandbox: object, **detail: Any) -> dict[str, Any]:
        return {"detail": {"lastStatus": "STOPPED", "startedBy": sandbox, "stoppedReason": "Scaled in", **detail}}

    answer = begin()
    started = launcher.next(api).claimed()
    for event in (news("sbx_unknown"), news(None), news(started.id, lastStatus="RUNNING"), {}):
        task_stopped.handler(event, None)
    assert record(system, started)["status"] == "running"
    for _ in range(3):
        task_stopped.handler(news(started.id), None)
    made = final(answer)
    assert (made["error"]["code"], "Scaled in" in text(made)) == ("SANDBOX_UNAVAILABLE", True)
    task_stopped.handler(news(started.id), None)
    assert record(system, started)["status"] == "failed"


def test_a_silent_sandbox_is_given_up(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    made = final(answer)
    assert made["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert started.task.ended
    free(system, talk)


def test_a_sandbox_that_never_claims_is_given_up(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api)
    made = final(answer)
    assert (made["error"]["code"], made["error"]["retryable"]) == ("SANDBOX_UNAVAILABLE", True)
    assert started.claim()[1] == {"status": "leave"}
    free(system, talk)


def test_cancelling_the_turn_stops_the_run(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("a.txt", b"never")
    parts = started.leave()
    finished = api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "cancelled", "text": ""})
    assert finished.status == 200, finished.body
    assert started.good("heartbeat", stdout="", stderr="", outputBytes=0) == {"do": "stop"}
    assert started.report(**parts)[0] == 409
    made = final(answer)
    assert (made["outcome"], made["error"]["code"]) == ("error", "SANDBOX_ERROR")
    assert talk.files() == {}
    free(system, talk)


def test_no_run_begins_behind_the_back_of_a_turn_that_ends(
    system: LocalSystem, talk: Talk, launcher: Launcher, api: Api
) -> None:
    finished = threading.Event()

    def finish_first(_service: str, operation: str) -> None:
        # Between the call's look at its turn and its first write.
        if operation == "PutObject" and not finished.is_set():
            finished.set()
            api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "cancelled", "text": ""})

    system.runtime.clients.hook = finish_first
    try:
        refused = talk.send("run_code", {"code": "pass"})
    finally:
        system.runtime.clients.hook = None
    assert finished.is_set()
    assert refused.status == 409 or refused.json["error"]["code"] == "not_allowed"
    assert launcher.idle
    free(system, talk)


def test_a_turn_with_a_run_at_work_cannot_be_completed_until_it_ends(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    finish = {"outcome": "completed", "text": "done"}
    assert api("POST", f"/v1/turns/{talk.turn}/finish", finish).status == 409
    started.finish()
    final(answer)
    finished = api("POST", f"/v1/turns/{talk.turn}/finish", finish)
    assert finished.status == 200
    assert [run["exitCode"] for run in finished.json["receipt"]["runs"]] == [0]


def test_deleting_the_conversation_stops_the_run_and_leaves_nothing_behind(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    assert api("DELETE", f"/v1/conversations/{talk.conversation}").status == 202
    deadline = system.runtime.clock.monotonic() + 20
    while started.op("heartbeat", stdout="", stderr="", outputBytes=0)[1].get("do") == "continue":
        assert system.runtime.clock.monotonic() < deadline
        system.runtime.clock.sleep(0.05)
    assert started.report()[0] in (401, 409)
    answer.exception(timeout=30)
    settled_admission(system, started.run)


def test_beats_keep_the_lease_for_longer_than_it_lasts(system: LocalSystem, talk: Talk, sandbox: Sandbox) -> None:
    clock, until = system.runtime.clock, record(system, sandbox)["claimedAt"] + SETTINGS["lease_seconds"] + 1
    while clock.now() < until:
        assert sandbox.good("heartbeat", stdout="", stderr="", outputBytes=0) == {"do": "continue"}
        clock.sleep(0.3)
    refused = talk.api("PUT", f"/v1/conversations/{talk.conversation}/file?path=a", b"x")
    assert refused.status == 429
    sandbox.file("mine.txt", b"kept")
    sandbox.finish()


# ---------------------------------------------------------------- writers and other runs


def test_a_short_writer_waits_for_the_run_and_then_writes(
    talk: Talk, sandbox: Sandbox, threads: ThreadPoolExecutor
) -> None:
    path = f"/v1/conversations/{talk.conversation}/file?path=other.txt"
    refused = talk.api("PUT", path, b"x")
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "run_code" in refused.json["error"]["message"]
    writing = threads.submit(talk.api, "PUT", path, b"patient")
    sandbox.file("mine.txt", b"run")
    sandbox.finish()
    assert writing.result(timeout=30).status == 200
    assert talk.files() == {"mine.txt": b"run", "other.txt": b"patient"}


def test_a_run_waits_for_whoever_writes(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, threads: ThreadPoolExecutor
) -> None:
    writing = lease.acquire(system.runtime, talk.conversation, owner="other", purpose="restore")
    answer = begin()
    started = launcher.next(api)
    claiming = threads.submit(started.claimed)
    while "busy" not in (system.runtime.table.get(run_key(f"run_{talk.turn}.run")) or {}):
        system.runtime.clock.sleep(0.02)
    lease.release(system.runtime, talk.conversation, writing.fence)
    claiming.result(timeout=30).finish()
    assert final(answer)["outcome"] == "ok"


def test_a_run_that_never_gets_the_workspace_is_busy_and_may_be_sent_again(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, threads: ThreadPoolExecutor
) -> None:
    writing = lease.acquire(system.runtime, talk.conversation, owner="other", purpose="restore")
    answer = begin("again", "print(1)")
    claiming = threads.submit(launcher.next(api).claim)
    made = final(answer)
    assert (made["error"]["code"], made["error"]["details"]["retryAfterSeconds"]) == ("workspace_busy", 5)
    assert claiming.result(timeout=30)[1] == {"status": "leave"}
    lease.release(system.runtime, talk.conversation, writing.fence)
    answer = begin("again", "print(1)")
    launcher.next(api).claimed().finish()
    assert final(answer)["outcome"] == "ok"
    assert begin("again", "print(1)").result(timeout=30) == final(answer)


def test_a_conversation_runs_one_program_at_a_time(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api, sandbox: Sandbox
) -> None:
    refused = final(begin("second"))
    assert (refused["outcome"], refused["error"]["code"]) == ("error", "throttled")
    assert refused["error"]["details"]["run"] == sandbox.run
    assert launcher.idle
    sandbox.finish()
    assert api("GET", f"/v1/runs/{sandbox.run}?wait=20").json["run"]["status"] == "succeeded"
    answer = begin("second")
    launcher.next(api).claimed().finish(stdout="second")
    assert final(answer)["structured"]["stdout"] == "second"


def test_the_deployment_runs_only_so_many_programs(
    system: LocalSystem, api: Api, unique: str, launcher: Launcher, threads: ThreadPoolExecutor
) -> None:
    talks = [Talk.open(api, f"{unique}-{number}") for number in range(4)]
    answers = [threads.submit(each.call, "run_code", call="run", code="pass") for each in talks[:3]]
    started = [launcher.next(api).claimed() for _ in answers]
    refused = talks[3].call("run_code", call="run", code="pass")
    assert refused["error"]["code"] == "throttled"
    assert refused["error"]["details"]["limit"] == 3
    for each in started:
        each.finish()
    for answer, each in zip(answers, started, strict=True):
        assert final(answer)["outcome"] == "ok"
        settled_admission(system, each.run)
    answer = threads.submit(talks[3].call, "run_code", call="run", code="pass")
    launcher.next(api).claimed().finish()
    assert final(answer)["outcome"] == "ok"


def test_a_run_that_a_crash_left_behind_blocks_nobody_for_ever(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin("first")
    started = launcher.next(api).claimed()
    with held("abort"):
        started.task.end()
        table = system.runtime.table
        change = Update().set("deadline", system.runtime.clock.now() - 1)
        table.update(run_key(started.run), change)
        second = begin("second")
        launcher.next(api).claimed().finish()
        assert final(second)["outcome"] == "ok"
        assert final(answer)["error"]["code"] == "SANDBOX_UNAVAILABLE"


def test_asking_again_for_a_run_that_a_crash_left_behind_ends_it(
    system: LocalSystem, talk: Talk, launcher: Launcher, api: Api
) -> None:
    talk.send("run_code", {"code": "pass"}, call="left", wait=0)
    started = launcher.next(api).claimed()
    with held("abort"):
        started.task.end()
        change = Update().set("deadline", system.runtime.clock.now() - 1)
        system.runtime.table.update(run_key(started.run), change)
        made = talk.call("run_code", call="left", code="pass")
        assert made["error"]["code"] == "SANDBOX_UNAVAILABLE"
        free(system, talk)


# ---------------------------------------------------------------- waiting


def test_a_run_is_followed_from_running_to_its_answer(
    talk: Talk, launcher: Launcher, api: Api, system: LocalSystem
) -> None:
    first = talk.send("run_code", {"code": "pass"}, call="slow", wait=0).json
    assert first["outcome"] == "running"
    run = first["structured"]["run"]
    assert api("GET", f"/v1/runs/{run}").json["run"]["status"] in ("queued", "starting")
    started = launcher.next(api).claimed()
    started.good("heartbeat", stdout="half way\n", stderr="careful\n", outputBytes=17)
    shown = api("GET", f"/v1/runs/{run}").json["run"]
    assert (shown["status"], shown["answer"]) == ("running", None)
    assert shown["output"] == {"stdout": "half way\n", "stderr": "careful\n", "truncated": False}
    again = talk.send("run_code", {"code": "pass"}, call="slow", wait=0).json
    assert (again["outcome"], again["structured"]["status"]) == ("running", "running")
    assert "half way" in text(again)
    with held("commit") as commit:
        started.finish(stdout="half way\nthere\n", outputBytes=15)
        commit.wait()
        assert api("GET", f"/v1/runs/{run}").json["run"]["status"] == "committing"
    done = api("GET", f"/v1/runs/{run}?wait=20").json["run"]
    assert (done["status"], done["answer"]["outcome"]) == ("succeeded", "ok")
    assert done["output"]["stdout"] == "half way\nthere\n"
    assert talk.send("run_code", {"code": "pass"}, call="slow", wait=0).json == done["answer"]
    assert talk.send("run_code", {"code": "other"}, call="slow", wait=0).json["outcome"] == "invalid_args"
    assert launcher.idle


def test_a_failed_run_is_failed_with_its_answer(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.finish(exitCode=2)
    made = final(answer)
    shown = api("GET", f"/v1/runs/{started.run}").json["run"]
    assert (shown["status"], shown["answer"]) == ("failed", made)


@pytest.mark.parametrize("run", ["run_a.b.c", "nonsense", "run_", "run_..", "res_a.b.c"])
def test_an_unknown_run_is_not_found(api: Api, run: str) -> None:
    assert api("GET", f"/v1/runs/{run}").status == 404


@pytest.mark.parametrize("wait", ["soon", "-1", "nan", "inf"])
def test_a_wait_that_is_no_time_is_refused(api: Api, wait: str) -> None:
    assert api("GET", f"/v1/runs/run_a.b.c?wait={wait}").status == 400


def test_twins_of_one_call_run_once(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api, threads: ThreadPoolExecutor
) -> None:
    answers = [begin("twin") for _ in range(4)]
    launcher.next(api).claimed().finish(stdout="once")
    made = [final(answer) for answer in answers]
    assert all(answer == made[0] for answer in made)
    assert launcher.idle


# ---------------------------------------------------------------- crashes


def test_a_commit_killed_between_any_two_requests_is_whole_or_not_at_all(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    survived = False
    requests = 0
    while not survived:
        content = b"version %d\n" % requests
        before = talk.files()
        answer = begin(f"run{requests}")
        started = launcher.next(api).claimed()
        started.file("a.txt", content)
        parts = started.leave()
        with held("commit") as commit:
            assert started.report(**parts)[0] == 200
            commit.wait()
            try:
                with killed_after(system.runtime.clients, requests):
                    commit.step(system.runtime, record(system, started), {})
                survived = True
            except Killed:
                assert talk.files() in (before, before | {"a.txt": content})
        made = final(answer)
        assert (made["outcome"], made["structured"]["modified"] or made["structured"]["created"]) == ("ok", ["a.txt"])
        assert talk.bytes_of("a.txt") == content
        started.task.end(0)
        requests += 1
    assert requests >= 5
    free(system, talk)


def test_an_abort_killed_between_any_two_requests_frees_everything(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    survived = False
    requests = 0
    while not survived:
        answer = begin(f"run{requests}")
        started = launcher.next(api).claimed()
        with held("abort") as abort:
            started.task.end()
            abort.wait()
            try:
                with killed_after(system.runtime.clients, requests):
                    abort.step(system.runtime, record(system, started), {})
                survived = True
            except Killed:
                assert record(system, started)["status"] in ("reported", "failed")
        assert final(answer)["error"]["code"] == "SANDBOX_UNAVAILABLE"
        settled_admission(system, started.run)
        free(system, talk)
        requests += 1
    assert requests >= 3


def test_a_claim_killed_between_any_two_requests_can_be_made_again(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    survived = False
    requests = 0
    while not survived:
        answer = begin(f"run{requests}")
        started = launcher.next(api)
        body = {"op": "claim", "sandbox": started.id, "secret": started.secret}
        try:
            with killed_after(system.runtime.clients, requests):
                sandbox_route.claim(system.runtime, body)
            survived = True
        except Killed:
            pass
        status, again = started.claim()
        assert status == 200
        if again["status"] == "job":
            started.finish()
            assert final(answer)["outcome"] == "ok"
        else:
            # The claim was done, but nobody knows its session any more.
            assert final(answer)["error"]["code"] == "SANDBOX_UNAVAILABLE"
        free(system, talk)
        requests += 1
    assert requests >= 6


def test_a_heartbeat_and_a_report_killed_between_any_two_requests_can_be_sent_again(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    for requests in range(5):
        answer = begin(f"run{requests}")
        started = launcher.next(api).claimed()
        session = {"run": started.run, "session": started.session}
        for op, body in (
            ("heartbeat", {"stdout": "", "stderr": "", "outputBytes": 0}),
            ("report", {"report": report(stdout=f"{requests}")}),
        ):
            try:
                with killed_after(system.runtime.clients, requests):
                    sandbox_route.OPERATIONS[op](system.runtime, {**session, **body})
            except Killed:
                pass
            assert started.op(op, **body)[0] == 200
        made = final(answer)
        assert (made["outcome"], made["structured"]["stdout"]) == ("ok", f"{requests}")
        started.task.end(0)
    free(system, talk)


# ---------------------------------------------------------------- requests


def test_what_a_run_costs_in_requests(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    talk.put("a.txt", b"before")
    answer = begin()
    started = launcher.next(api)
    with counting() as claim:
        claimed = sandbox_route.claim(system.runtime, {"op": "claim", "sandbox": started.id, "secret": started.secret})
    started.run, started.session, started.job = claimed["run"], claimed["session"], claimed["job"]
    session = {"run": started.run, "session": started.session, "stdout": "", "stderr": "", "outputBytes": 0}
    while "runToken" not in record(system, started):
        system.runtime.clock.sleep(0.01)
    with counting() as first_beat:
        sandbox_route.heartbeat(system.runtime, session)
    started.file("a.txt", b"after")
    parts = started.leave()
    with held("commit") as commit:
        with counting() as reporting:
            sandbox_route.take_report(system.runtime, {**session, "report": report(**parts)})
        commit.wait()
        with counting() as committing:
            commit.step(system.runtime, record(system, started), {})
    final(answer)
    assert claim.operations == [
        "dynamodb:GetItem",  # sandbox
        "dynamodb:GetItem",  # run
        "dynamodb:UpdateItem",  # lease
        "s3:PutObject",  # plan
        "dynamodb:TransactWriteItems",
        "sfn:SendTaskSuccess",
    ]
    assert sorted(first_beat.operations) == ["dynamodb:PutItem", "dynamodb:UpdateItem", "sfn:SendTaskHeartbeat"]
    assert sorted(reporting.operations) == [
        "dynamodb:GetItem",  # run
        "dynamodb:PutItem",  # output
        "dynamodb:UpdateItem",  # lease
        "dynamodb:UpdateItem",  # run
        "sfn:SendTaskSuccess",
    ]
    assert committing.operations == [
        "dynamodb:GetItem",  # by the test
        "dynamodb:UpdateItem",
        "dynamodb:GetItem",  # head
        "dynamodb:Query",  # packs
        "s3:GetObject",  # changes
        "s3:PutObject",  # page
        "dynamodb:TransactWriteItems",
    ]


def test_what_asking_for_a_run_costs_in_requests(system: LocalSystem, talk: Talk, launcher: Launcher, api: Api) -> None:
    path, headers = f"/v1/turns/{talk.turn}/tools/run_code", {"X-Turn-Token": talk.token}
    body = json.dumps({"callId": "run", "arguments": {"code": "pass"}, "wait": 0}).encode()
    request = Request("POST", path, "", {"turn": talk.turn}, {}, {"x-turn-token": talk.token}, body)
    with counting() as asking:
        made = call_tool(system.runtime, "run_code", request).body
    assert made["outcome"] == "running"
    assert asking.operations == [
        "dynamodb:BatchGetItem",
        "s3:PutObject",  # program
        "dynamodb:TransactWriteItems",
        "sfn:StartExecution",
        "dynamodb:GetItem",  # call
        "dynamodb:BatchGetItem",  # run and output, for the words
    ]
    started = launcher.next(api).claimed()
    with counting() as asking_again:
        call_tool(system.runtime, "run_code", request)
    assert asking_again.operations == [
        "dynamodb:BatchGetItem",
        "dynamodb:GetItem",
        "dynamodb:GetItem",
        "dynamodb:BatchGetItem",
    ]
    started.finish()
    assert api("POST", path, {"callId": "run", "arguments": {"code": "pass"}}, headers).json["outcome"] == "ok"


def test_asking_for_a_run_killed_between_any_two_requests_runs_it_once(
    system: LocalSystem, talk: Talk, launcher: Launcher, api: Api
) -> None:
    survived = False
    requests = 0
    while not survived:
        call = f"run{requests}"
        body = json.dumps({"callId": call, "arguments": {"code": "pass"}, "wait": 0}).encode()
        request = Request("POST", "", "", {"turn": talk.turn}, {}, {"x-turn-token": talk.token}, body)
        try:
            with killed_after(system.runtime.clients, requests):
                call_tool(system.runtime, "run_code", request)
            survived = True
        except Killed:
            pass
        talk.send("run_code", {"code": "pass"}, call=call, wait=0)
        launcher.next(api).claimed().finish(stdout=call)
        made = talk.call("run_code", call=call, code="pass")
        assert (made["outcome"], made["structured"]["stdout"]) == ("ok", call)
        assert launcher.idle
        requests += 1
    assert requests >= 6
    free(system, talk)


# ---------------------------------------------------------------- inputs


def test_results_and_artifacts_are_mounted_and_listed(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    talk.put("report.md", b"# Report\n")
    exported = talk.ok("export_artifact", path="report.md")["structured"]["artifact"]
    summed = talk.call("calculate", expressions=["1 + 1"])
    answer = begin(artifacts=[{"id": exported}], toolResults=[summed["ref"]])
    started = launcher.next(api).claimed()
    found = started.inputs()
    assert found[f"inputs/artifacts/{exported}.md"] == b"# Report\n"
    result = json.loads(found["inputs/tool-results/1.json"])
    assert (result["ref"], result["toolName"], result["isError"]) == (summed["ref"], "calculate", False)
    assert result["output"] == text(summed)
    started.finish()
    made = final(answer)
    assert made["structured"]["mounted"] == [f"inputs/artifacts/{exported}.md", "inputs/tool-results/1.json"]
    assert f"inputs/artifacts/{exported}.md" in text(made)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"toolResults": ["res_other.turn.call"]}, "not_found"),
        ({"toolResults": ["../../secret"]}, "not_found"),
        ({"artifacts": [{"id": "art_unknown"}]}, "not_found"),
        ({"files": ["doc_1"]}, "not_allowed"),
        ({"passages": ["doc_1"]}, "not_allowed"),
        ({"skills": ["reporting"]}, "not_allowed"),
    ],
)
def test_one_bad_input_refuses_the_call_and_is_named(
    talk: Talk, launcher: Launcher, arguments: dict[str, Any], code: str
) -> None:
    made = talk.call("run_code", code="pass", **arguments)
    assert (made["outcome"], made["error"]["code"]) == ("error", code)
    ((_kind, (named, *_)),) = arguments.items()
    assert (named["id"] if isinstance(named, dict) else named) in text(made)
    assert launcher.idle


def test_an_artifact_is_mounted_for_those_it_is_shared_with_only(
    talk: Talk, api: Api, unique: str, launcher: Launcher, threads: ThreadPoolExecutor
) -> None:
    talk.put("plan.txt", b"secret plan")
    exported = talk.ok("export_artifact", path="plan.txt")["structured"]["artifact"]
    eve = {"user": f"eve-{unique}", "department": "sales"}
    other = Talk.open(api, f"{unique}-other", caller=eve)
    wanted = {"code": "pass", "artifacts": [{"id": exported}]}
    refused = other.call("run_code", **wanted)
    assert refused["error"]["code"] == "not_found"
    assert "plan.txt" not in text(refused)
    assert launcher.idle
    shared = api("PUT", f"/v1/artifacts/{exported}/sharing", {"people": [eve["user"]]})
    assert shared.status == 200, shared.body
    answer = threads.submit(other.call, "run_code", **wanted)
    started = launcher.next(api).claimed()
    assert b"secret plan" in started.inputs().values()
    started.finish()
    assert final(answer)["outcome"] == "ok"
    assert (
        other.call("run_code", code="pass", artifacts=[{"id": exported, "version": 7}])["error"]["code"] == "not_found"
    )


def test_a_ref_of_another_conversation_is_not_there(talk: Talk, api: Api, unique: str, launcher: Launcher) -> None:
    other = Talk.open(api, f"{unique}-other")
    ref = other.call("calculate", expressions=["40 + 2"])["ref"]
    assert talk.call("run_code", code="pass", toolResults=[ref])["error"]["code"] == "not_found"
    assert launcher.idle


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"code": ""},
        {"code": "x" * 200_001},
        {"code": "pass", "language": "cobol"},
        {"code": "pass", "timeoutSeconds": 0},
        {"code": "pass", "timeoutSeconds": 901},
        {"code": "pass", "toolResults": ["a", "b", "c", "d"]},
        {"code": "pass", "artifacts": [{"version": 1}]},
        {"code": "half \ud800 a character"},
    ],
)
def test_arguments_that_do_not_fit_run_nothing(talk: Talk, launcher: Launcher, arguments: dict[str, Any]) -> None:
    assert talk.send("run_code", arguments).json["outcome"] == "invalid_args"
    assert launcher.idle
