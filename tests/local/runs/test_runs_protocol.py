"""The sandbox's route: one claim, one session, one report, whatever is sent twice or too early."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import Begin, final, free, record
from tests.local.runs.sandbox import Launcher, Sandbox, held, packed, report
from tests.local.talk import Talk, text
from workbench.keys import run_key
from workbench.runs import task_stopped, workflow

# ---------------------------------------------------------------- claiming


def test_a_wrong_secret_opens_nothing_and_spoils_nothing(begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api)
    for secret in ("wrong", started.secret[:-1], started.secret + "x"):
        assert started.claim(secret)[0] == 401
    assert started.claim("é" * 20)[0] == 400
    unknown = Sandbox(api, "sbx_unknown", started.secret, started.task)
    assert unknown.claim()[0] == 401
    started.claimed().finish()
    assert final(answer)["outcome"] == "ok"


def test_a_start_secret_claims_once(begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    assert started.good("heartbeat", stdout="", stderr="", outputBytes=0) == {"do": "continue"}
    # Its own secret is told to leave; the one that the task was started with opens nothing, with whatever beside it.
    assert started.send("claim", **started.claiming) == (200, {"status": "leave"})
    other = Sandbox(api, started.id, started.secret, started.task)
    assert started.send("claim", **other.claiming)[0] == 401
    started.finish()
    assert final(answer)["outcome"] == "ok"


@pytest.mark.parametrize("own", [None, 7, "", "short", "x" * 257, "é" * 40, "\ud800" * 40, "a" * 40 + "\n"])
def test_an_own_secret_that_is_none_is_refused_and_exchanges_nothing(
    begin: Begin, launcher: Launcher, api: Api, own: object
) -> None:
    answer = begin()
    started = launcher.next(api)
    assert started.send("claim", **started.claiming | {"ownSecret": own})[0] == 400
    started.claimed().finish()
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
        # The end of one that is not awaited is no news about the run.
        task_stopped.handler({"detail": {"lastStatus": "STOPPED", "startedBy": first.id}}, None)
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
