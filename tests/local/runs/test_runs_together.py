"""Runs among writers and other runs, and callers that wait for them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import Begin, final, free, settled_admission
from tests.local.runs.sandbox import PATIENCE_SECONDS, Launcher, Sandbox, held
from tests.local.runs.waiting import tuned
from tests.local.talk import Talk, text
from workbench.keys import run_key
from workbench.operations import Update
from workbench.workspace.storage import head as lease

# ---------------------------------------------------------------- writers and other runs


def test_a_short_writer_waits_for_the_run_and_then_writes(
    system: LocalSystem, talk: Talk, sandbox: Sandbox, threads: ThreadPoolExecutor
) -> None:
    path = f"/v1/conversations/{talk.conversation}/file?path=other.txt"
    refused = talk.api("PUT", path, b"x")
    assert refused.status == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "run_code" in refused.json["error"]["message"]
    with tuned(system, busy_wait_seconds=PATIENCE_SECONDS):
        writing = threads.submit(talk.api, "PUT", path, b"patient")
        sandbox.file("mine.txt", b"run")
        sandbox.finish()
        assert writing.result(timeout=PATIENCE_SECONDS).status == 200
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
    claiming.result(timeout=PATIENCE_SECONDS).finish()
    assert final(answer)["outcome"] == "ok"


def test_a_run_that_never_gets_the_workspace_is_busy_and_may_be_sent_again(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, threads: ThreadPoolExecutor
) -> None:
    writing = lease.acquire(system.runtime, talk.conversation, owner="other", purpose="restore")
    with tuned(system, claim_seconds=5):
        answer = begin("again", "print(1)")
        claiming = threads.submit(launcher.next(api).claim)
        made = final(answer)
    assert (made["error"]["code"], made["error"]["details"]["retryAfterSeconds"]) == ("workspace_busy", 5)
    assert claiming.result(timeout=PATIENCE_SECONDS)[1] == {"status": "leave"}
    lease.release(system.runtime, talk.conversation, writing.fence)
    answer = begin("again", "print(1)")
    launcher.next(api).claimed().finish()
    assert final(answer)["outcome"] == "ok"
    assert begin("again", "print(1)").result(timeout=PATIENCE_SECONDS) == final(answer)


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


def test_a_full_deployment_ends_a_run_that_a_crash_left_behind_and_takes_its_place(
    system: LocalSystem, api: Api, unique: str, launcher: Launcher, threads: ThreadPoolExecutor
) -> None:
    """Not only its place: whoever waits for it gets an answer, and its conversation may be written to again."""
    talks = [Talk.open(api, f"{unique}-{number}") for number in range(4)]
    *full, late = talks
    answers = {f"run_{each.turn}.run": threads.submit(each.call, "run_code", call="run", code="pass") for each in full}
    lost, *others = [launcher.next(api).claimed() for _ in answers]
    with held("abort"):
        lost.task.end()
        table, past = system.runtime.table, system.runtime.clock.now() - 1
        table.update(run_key(lost.run), Update().set("deadline", past))
        answer = threads.submit(late.call, "run_code", call="run", code="pass")
        launcher.next(api).claimed().finish()
        assert final(answer)["outcome"] == "ok"
        assert final(answers.pop(lost.run))["error"]["code"] == "SANDBOX_UNAVAILABLE"
        free(system, next(each for each in full if lost.run == f"run_{each.turn}.run"))
    for other in others:
        other.finish()
        assert final(answers[other.run])["outcome"] == "ok"
        settled_admission(system, other.run)


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


def test_a_beat_that_comes_after_the_report_hides_nothing_of_what_was_printed(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, threads: ThreadPoolExecutor
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    late, go = threading.Event(), threading.Event()

    put = system.runtime.table.put

    def slow(item: dict[str, Any], *condition: Any) -> None:
        if item["SK"] == "OUT" and item["stdout"] == "half":
            late.set()
            assert go.wait(PATIENCE_SECONDS)
        put(item, *condition)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(system.runtime.table, "put", slow)
        beat = threads.submit(started.op, "heartbeat", stdout="half", stderr="", outputBytes=4)
        assert late.wait(PATIENCE_SECONDS)
        started.finish(stdout="half and whole", outputBytes=14)
        assert final(answer)["outcome"] == "ok"
        go.set()
        assert beat.result(timeout=PATIENCE_SECONDS)[0] == 200
    assert api("GET", f"/v1/runs/{started.run}").json["run"]["output"]["stdout"] == "half and whole"


def test_what_an_earlier_attempt_printed_is_not_shown_as_the_next_one_s(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    answer = begin("again", "print(1)")
    started = launcher.next(api).claimed()
    started.good("heartbeat", stdout="of the first", stderr="", outputBytes=12)
    # Somebody else takes the workspace, so that the call may be sent again.
    head = lease.read_head(system.runtime, talk.conversation)
    lease.release(system.runtime, talk.conversation, head.fence)
    writing = lease.acquire(system.runtime, talk.conversation, owner="other", purpose="restore")
    started.finish(stdout="of the first", outputBytes=12)
    assert final(answer)["error"]["code"] == "workspace_busy"
    lease.release(system.runtime, talk.conversation, writing.fence)
    answer = begin("again", "print(1)")
    second = launcher.next(api).claimed()
    assert api("GET", f"/v1/runs/{second.run}").json["run"]["output"]["stdout"] == ""
    second.good("heartbeat", stdout="of the second", stderr="", outputBytes=13)
    assert api("GET", f"/v1/runs/{second.run}").json["run"]["output"]["stdout"] == "of the second"
    second.finish()
    assert final(answer)["outcome"] == "ok"


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
