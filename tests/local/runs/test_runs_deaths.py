"""Sandboxes that die or fall silent, turns and conversations that end while a program runs."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import Begin, final, free, record, settled_admission
from tests.local.runs.sandbox import PATIENCE_SECONDS, Launcher
from tests.local.runs.waiting import tuned
from tests.local.talk import Talk, text
from workbench.keys import head_key
from workbench.runs import task_stopped
from workbench.runs.sandbox_route import BEATS_PER_LOOK


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
    with tuned(system, heartbeat_seconds=0.2):
        answer = begin()
        started = launcher.next(api).claimed()
        made = final(answer)
    assert made["error"]["code"] == "SANDBOX_UNAVAILABLE"
    assert started.task.ended
    free(system, talk)


def test_a_sandbox_that_never_claims_is_given_up(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    with tuned(system, claim_seconds=5):
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
    deadline = system.runtime.clock.monotonic() + PATIENCE_SECONDS
    while started.op("heartbeat", stdout="", stderr="", outputBytes=0)[1].get("do") == "continue":
        assert system.runtime.clock.monotonic() < deadline
        system.runtime.clock.sleep(0.05)
    assert started.report()[0] in (401, 409)
    answer.exception(timeout=PATIENCE_SECONDS)
    settled_admission(system, started.run)


def test_beats_keep_the_lease_for_longer_than_it_lasts(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    clock = system.runtime.clock
    with tuned(system, lease_seconds=1.0):
        answer = begin()
        started = launcher.next(api).claimed()
    claimed_for = system.runtime.table.get(head_key(talk.conversation))
    assert claimed_for is not None
    # What the beats add lasts, so that only the first lease can run out before the other writer comes.
    for _ in range(BEATS_PER_LOOK):
        assert started.good("heartbeat", stdout="", stderr="", outputBytes=0) == {"do": "continue"}
    clock.sleep(claimed_for["leaseUntil"] + 2 * system.runtime.settings.skew_seconds - clock.now())
    refused = talk.api("PUT", f"/v1/conversations/{talk.conversation}/file?path=a", b"x")
    assert refused.status == 429
    started.file("mine.txt", b"kept")
    started.finish()
    assert final(answer)["structured"]["created"] == ["mine.txt"]
