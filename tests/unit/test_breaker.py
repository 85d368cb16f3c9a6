"""The breaker tells looping from exploring, and lets exactly one call through after the wait."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.tools import breaker
from workbench.tools.answer import Answer
from workbench.tools.contract import Tool, tool

NOW = 1_800_000_000.0

# A busy machine takes its time over drawing examples, which says nothing about the code.
calmly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def made(name: str, **promises: Any) -> Tool:
    return tool(step="read", name=name, **promises)(lambda turn: Answer.of(str(turn)))


calculate = made("calculate")
read_file = made("read_file", breaker=8, budget=5.0)


class Conversation:
    """The state as the call path keeps it: every change is stored."""

    def __init__(self) -> None:
        self.state: dict[str, Any] = {}

    def call(self, used: Tool, outcome: str, digest: str = "d", code: str | None = None, now: float = NOW) -> None:
        message = f"{code} happened" if code else ""
        after = breaker.after(self.state, used, outcome, digest, code, message, now)
        self.state = self.state if after is None else after

    def open(self, used: Tool, now: float = NOW) -> bool:
        return breaker.check(self.state, used, now) is not None

    def probe(self, used: Tool, now: float, digest: str = "probe") -> bool:
        """True when this caller wins the one call."""
        claimed = breaker.probe(self.state, used, now, digest)
        if claimed is not None:
            self.state = claimed
        return claimed is not None


@pytest.fixture
def conversation() -> Conversation:
    return Conversation()


def fail(conversation: Conversation, used: Tool, times: int, now: float = NOW) -> None:
    for _ in range(times):
        conversation.call(used, "error", "same", "not_found", now)


def test_three_times_the_same_call_with_the_same_error_opens_it(conversation):
    fail(conversation, read_file, 2)
    assert not conversation.open(read_file)
    fail(conversation, read_file, 1)
    opened = breaker.check(conversation.state, read_file, NOW)
    assert opened is not None
    assert opened.until == NOW + breaker.COOLDOWN_SECONDS
    assert "2027-01-15T08:00:30.000Z" in opened.reason
    assert "not_found happened" in opened.reason
    assert "the same call failed 3 times" in opened.reason


def test_a_model_that_tries_other_paths_is_working_until_the_tools_own_number(conversation):
    for number in range(7):
        conversation.call(read_file, "error", f"path {number}", "not_found")
    assert not conversation.open(read_file)
    conversation.call(read_file, "error", "path 8", "not_found")
    assert conversation.open(read_file)


def test_the_same_arguments_with_another_error_are_not_the_same_call(conversation):
    for code in ("not_found", "is_folder", "not_found", "is_folder"):
        conversation.call(read_file, "error", "same", code)
    assert not conversation.open(read_file)


@pytest.mark.parametrize("outcome", ["error", "timeout", "invalid_args"])
def test_what_counts(conversation, outcome):
    for number in range(3):
        conversation.call(calculate, outcome, str(number), outcome)
    assert conversation.open(calculate)


@pytest.mark.parametrize(
    ("outcome", "code"),
    [
        ("denied", "denied"),
        ("unknown_tool", "unknown_tool"),
        ("error", "workspace_busy"),
        ("error", "throttled"),
        ("approval_required", "approval_required"),
        ("running", None),
        ("error", "SANDBOX_ERROR"),
        ("error", "SANDBOX_MEMORY"),
    ],
)
def test_what_does_not_count(conversation, outcome, code):
    for _ in range(20):
        conversation.call(calculate, outcome, "same", code)
    assert conversation.state == {}


def test_somebody_elses_load_does_not_end_a_row_but_a_program_that_ran_does(conversation):
    fail(conversation, calculate, 2)
    conversation.call(calculate, "error", "same", "workspace_busy")
    fail(conversation, calculate, 1)
    assert conversation.open(calculate)
    other = Conversation()
    fail(other, calculate, 2)
    other.call(calculate, "error", "same", "SANDBOX_ERROR")
    fail(other, calculate, 1)
    assert not other.open(calculate)


def test_a_success_ends_the_row_and_writes_nothing_when_there_was_none(conversation):
    assert breaker.after({}, calculate, "ok", "d", None, "", NOW) is None
    fail(conversation, calculate, 2)
    conversation.call(calculate, "ok")
    assert conversation.state == {}
    fail(conversation, calculate, 2)
    assert not conversation.open(calculate)


def test_other_tools_are_not_affected(conversation):
    fail(conversation, calculate, 3)
    fail(conversation, read_file, 1)
    assert conversation.open(calculate)
    assert not conversation.open(read_file)
    conversation.call(read_file, "ok")
    assert conversation.open(calculate)


def test_after_the_wait_exactly_one_call_is_let_through(conversation):
    fail(conversation, calculate, 3)
    later = NOW + breaker.COOLDOWN_SECONDS
    assert not conversation.open(calculate, later)
    before = dict(conversation.state)
    assert conversation.probe(calculate, later)
    assert before["calculate"]["openUntil"] != conversation.state["calculate"]["openUntil"], "the write is conditional"
    assert conversation.open(calculate, later)
    assert not conversation.probe(calculate, later)


def test_a_probe_that_succeeds_closes_it(conversation):
    fail(conversation, calculate, 3)
    later = NOW + breaker.COOLDOWN_SECONDS
    conversation.probe(calculate, later)
    conversation.call(calculate, "ok", "probe", None, later)
    assert conversation.state == {}


def test_a_probe_that_fails_opens_it_for_another_wait(conversation):
    fail(conversation, calculate, 3)
    later = NOW + breaker.COOLDOWN_SECONDS
    conversation.probe(calculate, later)
    conversation.call(calculate, "error", "probe", "other", later)
    assert conversation.open(calculate, later + breaker.COOLDOWN_SECONDS - 1)
    assert not conversation.open(calculate, later + breaker.COOLDOWN_SECONDS)


def test_a_probe_that_says_nothing_makes_room_for_the_next(conversation):
    fail(conversation, calculate, 3)
    later = NOW + breaker.COOLDOWN_SECONDS
    conversation.probe(calculate, later)
    conversation.call(calculate, "error", "probe", "workspace_busy", later)
    assert not conversation.open(calculate, later)
    assert conversation.probe(calculate, later)


def test_a_probe_that_died_gives_way_after_the_tools_budget(conversation):
    fail(conversation, read_file, 3)
    later = NOW + breaker.COOLDOWN_SECONDS
    conversation.probe(read_file, later)
    assert conversation.open(read_file, later + read_file.budget_seconds - 0.1)
    assert conversation.probe(read_file, later + read_file.budget_seconds)


@pytest.mark.parametrize("outcome", ["circuit_open", "invalid_args", "error", "denied"])
def test_calls_that_are_turned_away_neither_prolong_nor_end_the_wait(conversation, outcome):
    fail(conversation, calculate, 3)
    before = dict(conversation.state)
    for digest in ("same", "other"):
        conversation.call(calculate, outcome, digest, outcome, NOW + 10)
    assert conversation.state == before


def test_a_closed_breaker_needs_no_probe(conversation):
    assert breaker.probe(conversation.state, calculate, NOW, "d") is None
    fail(conversation, calculate, 2)
    assert breaker.probe(conversation.state, calculate, NOW, "d") is None


def test_a_long_message_is_kept_short():
    after = breaker.after({}, calculate, "error", "d", "internal", "x" * 100_000, NOW)
    assert after is not None
    assert len(after["calculate"]["message"]) == breaker.MESSAGE_CHARACTERS


steps = st.tuples(
    st.sampled_from(["ok", "error", "timeout", "invalid_args", "denied", "running"]),
    st.sampled_from(["a", "b"]),
    st.sampled_from([None, "not_found", "workspace_busy", "SANDBOX_ERROR"]),
    st.integers(0, 40),
)


@calmly
@given(st.lists(steps, max_size=40))
def test_no_history_opens_it_without_a_row_of_failures_or_for_longer_than_the_wait(history):
    conversation, now, row = Conversation(), NOW, 0
    for outcome, digest, code, seconds in history:
        now += seconds
        if conversation.open(calculate, now):
            conversation.call(calculate, "circuit_open", digest, "circuit_open", now)
            assert row >= 3
            assert conversation.state["calculate"]["openUntil"] <= now + breaker.COOLDOWN_SECONDS
            continue
        conversation.probe(calculate, now, digest)
        conversation.call(calculate, outcome, digest, code, now)
        if outcome == "ok" or code == "SANDBOX_ERROR":
            row = 0
        elif outcome in ("error", "timeout", "invalid_args") and code != "workspace_busy":
            row += 1
