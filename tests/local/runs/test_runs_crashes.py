"""Whatever dies between any two requests leaves everything whole; and how many requests there are."""

from __future__ import annotations

import json

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import SETTINGS, Begin, final, free, record, settled_admission
from tests.local.runs.sandbox import Killed, Launcher, held, killed_after, report
from tests.local.runs.waiting import tuned
from tests.local.talk import Talk
from workbench.clients import counting
from workbench.http import Request
from workbench.keys import breaker_key
from workbench.runs import sandbox_route
from workbench.tools.path import call_tool

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
        # Lost sandboxes take the tool out of service, which is not what is looked at here.
        system.runtime.table.delete(breaker_key(talk.conversation))
        requests += 1
    assert requests >= 3


def test_a_claim_killed_between_any_two_requests_can_be_made_again(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    survived = False
    requests = 0
    while not survived:
        # Nothing waits until the time for a claim is over.
        with tuned(system, claim_seconds=SETTINGS["claim_seconds"] * 10):
            answer = begin(f"run{requests}")
            started = launcher.next(api)
        try:
            with killed_after(system.runtime.clients, requests):
                sandbox_route.claim(system.runtime, started.claiming)
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
        claimed = sandbox_route.claim(system.runtime, started.claiming)
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
        "dynamodb:UpdateItem",  # its start secret is exchanged
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
