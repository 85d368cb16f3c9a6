"""The warm pool: single use, one sandbox for one run, another when one is dead, and a keeper that may die or be two."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import SETTINGS, Begin, final, free
from tests.local.runs.sandbox import PATIENCE_SECONDS, Killed, Launcher, Sandbox, held, killed_after
from tests.local.runs.waiting import Asking, Pool, tuned
from tests.local.talk import Talk, text
from workbench.clients import counting
from workbench.clock import ManualClock
from workbench.keys import run_key, sandbox_key
from workbench.runs import assignment, idling, keeper, pool, sandbox_route, task_stopped, workflow
from workbench.table import ConditionFailed
from workbench.workspace.storage import head as lease

# A run watches a warm sandbox for so long that only other news makes it take another, unless it is in a hurry.
WARM = {"warm_sandboxes": 1, "warm_sandboxes_most": 3, "warm_claim_seconds": PATIENCE_SECONDS}
HURRY_SECONDS = 0.5

Hurry = Callable[..., None]


@pytest.fixture(scope="module")
def system(alone: None, launcher: Launcher) -> Iterator[LocalSystem]:
    with LocalSystem().start(settings=SETTINGS, start_sandbox=launcher.start) as running:
        yield running


@pytest.fixture
def warm(system: LocalSystem, launcher: Launcher, api: Api, monkeypatch: pytest.MonkeyPatch) -> Iterator[Pool]:
    """A pool that keeps one sandbox waiting; it has none yet."""
    made = Pool(system, launcher, api)
    # What one test wants is wanted in one window, whatever the time is.
    monkeypatch.setattr(pool, "WINDOW_SECONDS", 10**7)
    with tuned(system, **WARM):
        yield made
    made.empty()
    launcher.forget()


@pytest.fixture
def hurry(system: LocalSystem, warm: Pool, monkeypatch: pytest.MonkeyPatch) -> Hurry:
    """``hurry(sandbox, once)``: a run soon stops watching this sandbox, but not before ``once()`` holds."""
    given: dict[str, Callable[[], bool]] = {}
    watch = assignment.Assignment._is_claimed

    def watched(self: assignment.Assignment, sandbox: str) -> bool:
        patient = self._runtime
        if sandbox in given:
            until(system, given[sandbox])
            self._runtime = copy.copy(patient)
            self._runtime.settings = patient.settings.model_copy(update={"warm_claim_seconds": HURRY_SECONDS})
        try:
            return watch(self, sandbox)
        finally:
            self._runtime = patient

    def hurry(sandbox: Sandbox, once: Callable[[], bool] = lambda: True) -> None:
        given[sandbox.id] = once

    monkeypatch.setattr(assignment.Assignment, "_is_claimed", watched)
    return hurry


def record(system: LocalSystem, talk: Talk) -> dict[str, Any]:
    """The record of the run of call ``run``; empty while there is none."""
    return system.runtime.table.get(run_key(f"run_{talk.turn}.run")) or {}


def left_to_itself(found: dict[str, Any]) -> bool:
    """The sandbox waits for the workspace, and nobody watches it do so."""
    return "busy" in found and "watchedUntil" not in found


def until(system: LocalSystem, holds: Callable[[], bool]) -> None:
    clock = system.runtime.clock
    deadline = clock.monotonic() + PATIENCE_SECONDS
    while not holds():
        assert clock.monotonic() < deadline
        clock.sleep(0.01)


# ---------------------------------------------------------------- a warm sandbox serves


def test_a_run_gets_a_sandbox_that_waits_and_the_pool_another(system: LocalSystem, warm: Pool, begin: Begin) -> None:
    warm.keep()
    first = warm.waiting()
    answer = begin()
    assert first.told == "job"
    assert warm.item(first.sandbox)["state"] == "claimed"
    # Nobody had to wait for the keeper's round.
    second = warm.waiting()
    first.sandbox.finish(stdout="warm")
    assert final(answer)["structured"]["stdout"] == "warm"
    assert second.sandbox.id != first.sandbox.id
    assert warm.kept() == [second.sandbox.id]


def test_a_sandbox_serves_one_run(warm: Pool, hurry: Hurry, begin: Begin, api: Api) -> None:
    warm.keep()
    first = warm.waiting()
    answer = begin()
    assert first.told == "job"
    first.sandbox.finish()
    final(answer)
    assert first.sandbox.claim()[1] == {"status": "leave"}
    # The next run finds its successor, which does not ask, and a cold one after that: never the first again.
    hurry(warm.deaf())
    answer = begin("next")
    warm.cold().claimed().finish(stdout="cold")
    assert final(answer)["structured"]["stdout"] == "cold"


def test_every_task_has_a_secret_of_its_own_that_is_stored_hashed(system: LocalSystem, warm: Pool) -> None:
    with tuned(system, warm_sandboxes=2):
        warm.keep()
    one, other = warm.started(), warm.started()
    assert one.secret != other.secret
    for mine, foreign in ((one, other), (other, one)):
        item = warm.item(mine)
        assert "run" not in item
        assert mine.secret not in str(item)
        status, _answer = mine.claim(foreign.secret)
        assert status == 401
        # A wrong secret does not make anybody wait for work.
        assert (warm.item(mine)["state"], "seenAt" in warm.item(mine)) == ("starting", False)


def test_the_start_secret_of_a_waiting_sandbox_opens_nothing_any_more(warm: Pool, begin: Begin, api: Api) -> None:
    """Whoever may describe tasks can read it for as long as the sandbox waits."""
    warm.keep()
    waiting = warm.waiting()
    before = warm.item(waiting.sandbox)
    thief = Sandbox(api, waiting.sandbox.id, waiting.sandbox.secret, waiting.sandbox.task)
    assert thief.claim()[0] == 401
    assert warm.item(waiting.sandbox) == before
    answer = begin()
    assert waiting.told == "job"
    waiting.sandbox.finish(stdout="mine")
    assert final(answer)["structured"]["stdout"] == "mine"


def test_an_exchange_of_secrets_whose_answer_is_lost_is_made_again(
    system: LocalSystem, warm: Pool, begin: Begin, api: Api
) -> None:
    warm.keep()
    sandbox = warm.started()
    for requests in range(3):
        with pytest.raises(Killed), killed_after(system.runtime.clients, requests):
            sandbox_route.OPERATIONS["claim"](system.runtime, sandbox.claiming)
    assert sandbox.secret not in str(warm.item(sandbox)) and sandbox.own not in str(warm.item(sandbox))
    asking = Asking(sandbox)
    warm.until(sandbox, "idle")
    answer = begin()
    assert asking.told == "job"
    sandbox.finish()
    assert final(answer)["outcome"] == "ok"


def test_of_two_that_exchange_one_start_secret_the_first_has_it(
    system: LocalSystem, warm: Pool, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm.keep()
    sandbox = warm.started()
    stale, table, key = warm.item(sandbox), system.runtime.table, sandbox_key(sandbox.id)
    monkeypatch.setattr(idling, "HOLD_SECONDS", 0.0)
    assert sandbox.claim()[1] == {"status": "wait"}
    read = table.get

    def late(asked: tuple[str, str]) -> Any:
        # What each of them saw before the first one's write.
        return views.pop() if asked == key and views else read(asked)

    monkeypatch.setattr(table, "get", late)
    views = [stale]
    assert Sandbox(api, sandbox.id, sandbox.secret, sandbox.task).claim()[0] == 401
    views = [stale]
    assert sandbox.claim() == (200, {"status": "wait"})


def test_whoever_was_faster_with_a_start_secret_loses_the_place_with_the_sandbox(
    system: LocalSystem, warm: Pool, api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    warm.keep()
    sandbox = warm.started()
    monkeypatch.setattr(idling, "HOLD_SECONDS", 0.0)
    thief = Sandbox(api, sandbox.id, sandbox.secret, sandbox.task)
    assert thief.claim()[1] == {"status": "wait"}
    assert sandbox.claim()[0] == 401
    # Refused, the supervisor leaves, and its task's end is told.
    task_stopped.stopped(system.runtime, sandbox.id, "its task stopped (exit code 3)")
    assert thief.claim()[1] == {"status": "leave"}


def test_two_runs_at_once_never_get_one_sandbox(
    system: LocalSystem, warm: Pool, api: Api, unique: str, threads: ThreadPoolExecutor
) -> None:
    warm.keep()
    only = warm.waiting()
    view = [slot for slot in warm.slots() if slot.state == "idle"]
    both = threading.Barrier(2, timeout=PATIENCE_SECONDS)

    def seen(_runtime: Any) -> list[pool.Slot]:
        both.wait()
        return view

    talks = [Talk.open(api, f"{unique}-{number}") for number in range(2)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(assignment, "_candidates", seen)
        answers = [threads.submit(each.call, "run_code", call="run", code="pass") for each in talks]
        assert only.told == "job"
        only.sandbox.finish(stdout="warm")
        cold = warm.cold().claimed()
        cold.finish(stdout="cold")
        outputs = sorted(final(answer)["structured"]["stdout"] for answer in answers)
    assert outputs == ["cold", "warm"]
    assert only.sandbox.run != cold.run


def test_a_question_that_was_held_through_the_assignment_claims_nothing(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin, threads: ThreadPoolExecutor
) -> None:
    warm.keep()
    sandbox = warm.started()
    held = threads.submit(sandbox.claim)
    warm.until(sandbox, "idle")
    answer = begin()
    # Whoever sent it may be dead: it is told to ask again, and that question claims.
    assert held.result(timeout=PATIENCE_SECONDS)[1] == {"status": "wait"}
    assert (record(system, talk)["status"], warm.item(sandbox)["state"]) == ("starting", "assigned")
    sandbox.claimed().finish()
    assert final(answer)["outcome"] == "ok"


def test_a_run_waits_for_whoever_writes_with_the_sandbox_it_has(
    system: LocalSystem, warm: Pool, hurry: Hurry, talk: Talk, begin: Begin, launcher: Launcher
) -> None:
    warm.keep()
    first = warm.waiting()
    hurry(first.sandbox, lambda: "busy" in record(system, talk))
    writing = lease.acquire(system.runtime, talk.conversation, owner="other", purpose="restore")
    answer = begin()
    until(system, lambda: left_to_itself(record(system, talk)))
    lease.release(system.runtime, talk.conversation, writing.fence)
    assert first.told == "job"
    first.sandbox.finish()
    assert final(answer)["outcome"] == "ok"
    # Only the pool's next one was started.
    warm.started()
    assert launcher.idle


# ---------------------------------------------------------------- one that does not serve


def test_one_that_does_not_claim_in_time_is_replaced_by_another_warm_one(
    system: LocalSystem, warm: Pool, hurry: Hurry, talk: Talk, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tuned(system, warm_sandboxes=2):
        warm.keep()
    deaf, good = warm.deaf(), warm.waiting()
    hurry(deaf)
    monkeypatch.setattr(
        "workbench.runs.assignment.random.shuffle", lambda slots: slots.sort(key=lambda slot: slot.sandbox != deaf.id)
    )
    answer = begin()
    assert good.told == "job"
    # The late one is refused, and its task ended.
    assert deaf.claim()[1] == {"status": "leave"}
    assert deaf.task.ended
    good.sandbox.finish(stdout="the other")
    assert final(answer)["structured"]["stdout"] == "the other"
    free(system, talk)


def test_with_no_other_warm_one_a_cold_one_is_started(
    system: LocalSystem, warm: Pool, hurry: Hurry, talk: Talk, begin: Begin
) -> None:
    warm.keep()
    deaf = warm.deaf()
    hurry(deaf)
    answer = begin()
    cold = warm.cold()
    assert record(system, talk)["awaited"] == cold.id
    cold.claimed()
    assert deaf.claim()[1] == {"status": "leave"}
    assert deaf.task.ended
    cold.finish()
    assert final(answer)["outcome"] == "ok"
    free(system, talk)


@pytest.fixture
def slow(system: LocalSystem) -> Iterator[SlowClaim]:
    """A claim that can be sent and stands still once it has the workspace's lease."""
    with ThreadPoolExecutor(1, thread_name_prefix="claims") as threads:
        claim = SlowClaim(system, threads)
        system.runtime.clients.hook = claim.hook
        try:
            yield claim
        finally:
            claim.go.set()
            system.runtime.clients.hook = None


class SlowClaim:
    def __init__(self, system: LocalSystem, threads: ThreadPoolExecutor) -> None:
        self._system, self._threads = system, threads
        self.reached, self.go = threading.Event(), threading.Event()

    def hook(self, _service: str, operation: str) -> None:
        # The plan is stored between the lease and the transaction that binds the run.
        mine = threading.current_thread().name.startswith("claims")
        if operation == "PutObject" and mine and not self.reached.is_set():
            self.reached.set()
            assert self.go.wait(PATIENCE_SECONDS)

    def send(self, sandbox: Sandbox) -> Future[dict[str, Any]]:
        """Returns when the claim stands still."""
        answer = self._threads.submit(sandbox_route.OPERATIONS["claim"], self._system.runtime, sandbox.claiming)
        assert self.reached.wait(PATIENCE_SECONDS)
        return answer


def test_a_claim_that_is_under_way_when_another_sandbox_gets_the_run_is_refused(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin, slow: SlowClaim
) -> None:
    warm.keep()
    first = warm.deaf()
    answer = begin()
    warm.until(first, "assigned")
    late = slow.send(first)
    # The Claim state is tried again with the token that it had.
    waiting = record(system, talk)
    with tuned(system, warm_sandboxes=0):
        workflow.claim(system.runtime, waiting, {"token": waiting["claimToken"]})
    cold = warm.cold()
    slow.go.set()
    assert late.result(timeout=PATIENCE_SECONDS) == {"status": "leave"}
    cold.claimed().finish()
    assert final(answer)["outcome"] == "ok"
    free(system, talk)


def test_a_claim_that_takes_long_is_let_be(
    system: LocalSystem, warm: Pool, hurry: Hurry, talk: Talk, begin: Begin, slow: SlowClaim
) -> None:
    warm.keep()
    first = warm.deaf()
    hurry(first, slow.reached.is_set)
    answer = begin()
    warm.until(first, "assigned")
    late = slow.send(first)
    until(system, lambda: "watchedUntil" not in record(system, talk))
    slow.go.set()
    claimed = late.result(timeout=PATIENCE_SECONDS)
    assert claimed["status"] == "job"
    first.run, first.session, first.job = claimed["run"], claimed["session"], claimed["job"]
    first.finish()
    assert final(answer)["outcome"] == "ok"


def test_one_that_is_killed_while_it_waits_is_not_given_a_run(
    system: LocalSystem, warm: Pool, begin: Begin, launcher: Launcher
) -> None:
    warm.keep()
    killed = warm.waiting()
    killed.sandbox.task.end()
    warm.until(killed.sandbox, "gone")
    assert killed.told == "leave"
    answer = begin()
    cold = warm.cold()
    cold.claimed().finish()
    assert final(answer)["outcome"] == "ok"
    # The other took the dead one's slot.
    assert [slot.number for slot in warm.slots() if slot.state in pool.WAITING] == [0]


def test_one_that_is_killed_right_after_it_was_given_a_run_is_replaced_at_once(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin
) -> None:
    warm.keep()
    killed = warm.deaf()
    answer = begin()
    warm.until(killed, "assigned")
    killed.task.end()
    cold = warm.cold()
    cold.claimed().finish()
    assert final(answer)["outcome"] == "ok"
    free(system, talk)


def test_one_that_dies_while_the_workspace_is_busy_loses_the_run_and_says_so(
    system: LocalSystem, warm: Pool, hurry: Hurry, talk: Talk, begin: Begin
) -> None:
    warm.keep()
    first = warm.waiting()
    hurry(first.sandbox, lambda: "busy" in record(system, talk))
    writing = lease.acquire(system.runtime, talk.conversation, owner="other", purpose="restore")
    answer = begin()
    until(system, lambda: left_to_itself(record(system, talk)))
    first.sandbox.task.end(9)
    made = final(answer)
    assert (made["error"]["code"], "exit code 9" in text(made)) == ("SANDBOX_UNAVAILABLE", True)
    lease.release(system.runtime, talk.conversation, writing.fence)
    free(system, talk)


def test_one_that_has_not_been_heard_of_lately_is_not_taken_but_replaced(
    system: LocalSystem, warm: Pool, begin: Begin
) -> None:
    warm.keep()
    silent = warm.deaf()
    warm.change(silent, seenAt=system.runtime.clock.now() - pool.SILENT_SECONDS - 1)
    answer = begin()
    cold = warm.cold()
    warm.until(silent, "gone")
    assert silent.task.ended
    cold.claimed().finish()
    assert final(answer)["outcome"] == "ok"


def test_news_of_an_end_changes_a_sandbox_once(warm: Pool, begin: Begin) -> None:
    def news(sandbox: str) -> dict[str, Any]:
        return {"detail": {"lastStatus": "STOPPED", "startedBy": sandbox}}

    warm.keep()
    first = warm.waiting()
    answer = begin()
    assert first.told == "job"
    first.sandbox.finish()
    final(answer)
    first.sandbox.task.end(0)
    for _ in range(2):
        task_stopped.handler(news(first.sandbox.id), None)
    assert warm.item(first.sandbox)["state"] == "claimed"
    second = warm.waiting()
    for _ in range(2):
        task_stopped.handler(news(second.sandbox.id), None)
    assert warm.item(second.sandbox)["state"] == "gone"


@pytest.mark.parametrize("requests", range(5))
def test_an_assignment_killed_between_any_two_requests_is_made_again(
    system: LocalSystem, warm: Pool, hurry: Hurry, talk: Talk, begin: Begin, requests: int
) -> None:
    warm.keep()
    first = warm.deaf()
    hurry(first)
    with held("claim") as claim:
        answer = begin()
        claim.wait()
        waiting = record(system, talk)
        with pytest.raises(Killed), killed_after(system.runtime.clients, requests):
            claim.step(system.runtime, waiting, {"token": "of the try that died"})
        given = warm.item(first)["state"] == "assigned"
        assert given == (requests >= 3)
    # The state is tried again, with a token of its own: the sandbox that was given the run, if it was, is spent.
    cold = warm.cold()
    assert first.claim()[1] == {"status": "leave"}
    cold.claimed().finish()
    assert final(answer)["outcome"] == "ok"
    free(system, talk)


# ---------------------------------------------------------------- the run ends first


def test_deleting_the_conversation_frees_everything_and_spends_the_sandbox(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin, api: Api
) -> None:
    warm.keep()
    given = warm.deaf()
    answer = begin()
    warm.until(given, "assigned")
    assert api("DELETE", f"/v1/conversations/{talk.conversation}").status == 202
    until(system, lambda: given.claim()[1] == {"status": "leave"})
    answer.exception(timeout=PATIENCE_SECONDS)
    assert record(system, talk).get("status", "failed") == "failed"
    assert given.id not in warm.kept()


def test_cancelling_the_turn_lets_the_sandbox_leave(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin, api: Api
) -> None:
    warm.keep()
    given = warm.deaf()
    answer = begin()
    warm.until(given, "assigned")
    assert api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "cancelled", "text": ""}).status == 200
    assert final(answer)["error"]["code"] == "SANDBOX_ERROR"
    assert given.claim()[1] == {"status": "leave"}
    free(system, talk)


def test_a_run_that_was_stopped_before_its_token_was_stored_takes_no_sandbox(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin
) -> None:
    warm.keep()
    first = warm.waiting()
    answer = begin()
    assert first.told == "job"
    running = record(system, talk)
    second = warm.waiting()
    with pytest.raises(ConditionFailed):
        assignment.Assignment(system.runtime, running, "a token that came late").carry_out()
    assert warm.item(second.sandbox)["state"] == "idle"
    first.sandbox.finish()
    assert final(answer)["outcome"] == "ok"


# ---------------------------------------------------------------- the keeper


def test_keepers_at_the_same_time_start_no_more_than_should_wait(
    system: LocalSystem, warm: Pool, launcher: Launcher, threads: ThreadPoolExecutor
) -> None:
    together = threading.Barrier(4, timeout=PATIENCE_SECONDS)
    real = pool.plan

    def plan(*arguments: Any) -> pool.Plan:
        # All have looked before any of them acts.
        made = real(*arguments)
        together.wait()
        return made

    with pytest.MonkeyPatch.context() as patch, tuned(system, warm_sandboxes=2):
        patch.setattr(pool, "plan", plan)
        for round_ in [threads.submit(warm.keep) for _ in range(4)]:
            round_.result(timeout=PATIENCE_SECONDS)
    one, other = warm.started(), warm.started()
    assert launcher.idle
    assert sorted(warm.kept()) == sorted([one.id, other.id])


def test_a_keeper_killed_between_any_two_requests_leaves_a_pool_that_recovers(
    system: LocalSystem, warm: Pool, launcher: Launcher
) -> None:
    survived = False
    requests = 0
    while not survived:
        try:
            with killed_after(system.runtime.clients, requests):
                warm.keep()
            survived = True
        except Killed:
            pass
        requests += 1
        # Time passes without a word from what may have been started.
        for slot in warm.slots():
            warm.change_slot(slot.number, startedAt=slot.started_at - 3600)
        warm.keep()
        (kept,) = warm.kept()
        # Only the last one that was started may still wait: whatever came before is told to leave.
        started = []
        while not launcher.idle:
            started.append(warm.started())
        assert started[-1].id == kept
        for earlier in started[:-1]:
            assert earlier.claim()[1] == {"status": "leave"}
        waiting = Asking(started[-1])
        warm.until(waiting.sandbox, "idle")
        warm.empty()
        assert waiting.told == "leave"
    assert requests >= 4


def test_a_start_is_told_ecs_as_slot_and_generation(system: LocalSystem, warm: Pool) -> None:
    tokens: list[str] = []

    def hear(params: dict[str, Any], **_more: Any) -> None:
        tokens.append(params["clientToken"])

    events = system.runtime.clients.ecs.meta.events
    events.register_first("provide-client-params.ecs.RunTask", hear)
    try:
        warm.keep()
        first = warm.started()
        first.task.end()
        warm.until(first, "gone")
        warm.change_slot(0, startedAt=0)
        warm.keep()
    finally:
        events.unregister("provide-client-params.ecs.RunTask", hear)
    generation = int(tokens[0].removeprefix("0-"))
    assert tokens[1] == f"0-{generation + 1}"
    # A table that is made anew goes on where time is, not where an earlier table began.
    assert abs(generation / 1000 - system.runtime.clock.now()) < 600


def test_a_deployment_without_room_for_tasks_pauses_and_says_why_to_runs(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin, launcher: Launcher
) -> None:
    launcher.refuse = "Capacity is unavailable at this time"
    warm.keep()
    assert warm.kept() == []
    # The next round comes too early; a run is refused with ECS's words.
    warm.keep()
    assert launcher.idle
    launcher.refuse = "Capacity is unavailable at this time"
    made = final(begin())
    assert (made["error"]["code"], made["error"]["retryable"]) == ("SANDBOX_UNAVAILABLE", True)
    assert "Capacity is unavailable" in text(made)
    free(system, talk)
    warm.settle()
    warm.change_slot(0, startedAt=system.runtime.clock.now() - 61)
    launcher.refuse = "Capacity is unavailable at this time"
    warm.keep()
    assert [slot.failures for slot in warm.slots()] == [1]
    warm.change_slot(0, startedAt=system.runtime.clock.now() - 61)
    warm.keep()
    assert launcher.idle
    warm.change_slot(0, startedAt=system.runtime.clock.now() - 121)
    warm.keep()
    back = warm.waiting()
    assert warm.kept() == [back.sandbox.id]


def test_a_pool_whose_sandboxes_have_all_died_is_filled_again(
    system: LocalSystem, warm: Pool, launcher: Launcher
) -> None:
    with tuned(system, warm_sandboxes=3):
        warm.keep()
        dead = [warm.waiting() for _ in range(3)]
        for each in dead:
            each.sandbox.task.end()
        for each in dead:
            warm.until(each.sandbox, "gone")
        warm.keep()
        alive = [warm.waiting().sandbox.id for _ in range(3)]
        assert sorted(warm.kept()) == sorted(alive)
        assert launcher.idle


def test_a_pool_that_is_turned_off_lets_everybody_leave(
    system: LocalSystem, warm: Pool, begin: Begin, launcher: Launcher
) -> None:
    with tuned(system, warm_sandboxes=2):
        warm.keep()
        waiting, coming = warm.waiting(), warm.started()
    with tuned(system, warm_sandboxes=0):
        # Those that ask need no keeper for it.
        assert waiting.told == "leave"
        assert coming.claim()[1] == {"status": "leave"}
        warm.keep()
        assert warm.kept() == []
        answer = begin()
        warm.cold().claimed().finish()
        assert final(answer)["outcome"] == "ok"
        assert launcher.idle


def test_one_whose_time_is_over_leaves_after_its_successor_has_come(
    system: LocalSystem, warm: Pool, launcher: Launcher
) -> None:
    warm.keep()
    old = warm.waiting()
    now = system.runtime.clock.now()
    assert 3 * 3600 - 60 < warm.item(old.sandbox)["expiresAt"] - now < 3.6 * 3600
    warm.change(old.sandbox, expiresAt=now + pool.RENEW_SECONDS - 1)
    warm.keep()
    successor = warm.waiting()
    assert sorted(warm.kept()) == sorted([old.sandbox.id, successor.sandbox.id])
    warm.change(old.sandbox, expiresAt=now)
    assert old.told == "leave"
    warm.keep()
    assert launcher.idle


def test_the_pool_grows_with_demand_to_its_maximum_and_shrinks_again(
    system: LocalSystem, warm: Pool, launcher: Launcher
) -> None:
    for _ in range(5):
        warm.keep(wanted=True)
    waiting = [warm.waiting() for _ in range(3)]
    warm.keep(wanted=True)
    assert launcher.idle
    demand = warm.table.get(pool.demand_key())
    assert demand is not None
    assert sum(pool.demand(demand).values()) == 6
    # What was wanted long ago is forgotten, and the attribute that counted it as well.
    (name,) = [name for name in demand if pool.demand({name: 1})]
    del demand[name]
    warm.table.put({**demand, "w12": 6})
    warm.keep(wanted=True)
    assert sorted(each.told == "leave" for each in waiting[1:]) == [True, True]
    assert warm.kept() == [waiting[0].sandbox.id]
    assert pool.demand(warm.table.get(pool.demand_key())) == {int(pool.window(system.runtime.clock.now())[1:]): 1}


def test_a_run_that_finds_no_warm_sandbox_makes_the_pool_larger(
    system: LocalSystem, warm: Pool, api: Api, unique: str, threads: ThreadPoolExecutor, launcher: Launcher
) -> None:
    talks = [Talk.open(api, f"{unique}-{number}") for number in range(2)]
    answers = [threads.submit(each.call, "run_code", call="run", code="pass") for each in talks]
    for _ in answers:
        warm.cold().claimed().finish()
    for answer in answers:
        assert final(answer)["outcome"] == "ok"
    until(system, lambda: len(warm.kept()) == 2)


def test_a_run_does_not_need_the_keeper(system: LocalSystem, warm: Pool, begin: Begin, launcher: Launcher) -> None:
    warm.keep()
    first = warm.waiting()
    with tuned(system, function_prefix="no_such_"):
        answer = begin()
        assert first.told == "job"
        first.sandbox.finish()
        assert final(answer)["outcome"] == "ok"
    assert launcher.idle
    warm.keep()
    assert warm.kept() == [warm.started().id]


# ---------------------------------------------------------------- requests


def test_what_waiting_costs_in_requests(system: LocalSystem, warm: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    warm.keep()
    sandbox = warm.started()
    monkeypatch.setattr(idling, "HOLD_SECONDS", 3.5 * idling.LOOK_SECONDS)
    # On a clock of its own: how many looks there are must not depend on how long each of them takes.
    runtime = copy.copy(system.runtime)
    runtime.clock = ManualClock(system.runtime.clock.now())
    with counting() as waiting:
        answer = sandbox_route.OPERATIONS["claim"](runtime, sandbox.claiming)
    assert answer == {"status": "wait"}
    # The first time its start secret is exchanged.
    assert waiting.operations[:3] == ["dynamodb:GetItem", "dynamodb:UpdateItem", "dynamodb:UpdateItem"]
    # One read for each look and nothing else, however long it lasts.
    assert waiting.operations[3:] == ["dynamodb:GetItem"] * 3
    with counting() as again:
        assert sandbox_route.OPERATIONS["claim"](runtime, sandbox.claiming) == {"status": "wait"}
    assert again.operations == ["dynamodb:GetItem", "dynamodb:UpdateItem", *["dynamodb:GetItem"] * 3]


def test_what_a_round_of_the_keeper_costs_in_requests(system: LocalSystem, warm: Pool) -> None:
    with counting() as starting:
        warm.keep()
    assert starting.operations == [
        "dynamodb:Query",
        "dynamodb:TransactWriteItems",
        "ecs:RunTask",
        "dynamodb:UpdateItem",  # which task it is
    ]
    warm.waiting()
    with counting() as quiet:
        warm.keep()
    assert quiet.operations == ["dynamodb:Query", "dynamodb:BatchGetItem"]


def test_what_an_assignment_costs_in_requests(
    system: LocalSystem, warm: Pool, talk: Talk, begin: Begin, monkeypatch: pytest.MonkeyPatch
) -> None:
    costs: list[list[str]] = []
    carry_out = assignment.Assignment.carry_out

    def counted(self: assignment.Assignment) -> None:
        with counting() as cost:
            carry_out(self)
        costs.append(cost.operations)

    monkeypatch.setattr(assignment.Assignment, "carry_out", counted)
    warm.keep()
    first = warm.waiting()
    answer = begin()
    assert first.told == "job"
    first.sandbox.finish()
    final(answer)
    (cost,) = costs
    assert cost[:3] == ["dynamodb:Query", "dynamodb:BatchGetItem", "dynamodb:TransactWriteItems"]
    # Beside it: one message to the keeper, and a read for each look at the claim.
    assert sorted({*cost[3:]}) == ["dynamodb:BatchGetItem", "lambda:Invoke"]
    assert cost.count("lambda:Invoke") == 1


def test_the_sandbox_of_a_slot_is_known_by_its_record(system: LocalSystem, warm: Pool) -> None:
    warm.keep()
    sandbox = warm.started()
    (slot,) = warm.slots()
    assert (slot.sandbox, warm.item(sandbox)["slot"]) == (sandbox.id, slot.number)
    assert system.runtime.table.get(sandbox_key(sandbox.id)) is not None
    assert keeper.known(system.runtime, []) == []
