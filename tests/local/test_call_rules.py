"""The rules around a tool's work, through HTTP: breaker, time budget, retries, output cap, and what is left of them."""

from __future__ import annotations

import logging
import random
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from infra.functions import ANSWER_SECONDS
from local.system import LocalSystem
from tests.local import odd_tools
from tests.local.odd_tools import BEHAVIOUR, Behaviour
from tests.local.talk import Talk, text
from workbench.clock import SystemClock
from workbench.errors import ToolError
from workbench.ids import TurnId
from workbench.keys import breaker_key, call_key, seen_key
from workbench.logs import logger
from workbench.tools import catalogue
from workbench.tools.answer import Answer
from workbench.tools.contract import tool
from workbench.workspace.storage import head as heads


class MovableClock(SystemClock):
    """The system's clock, as far ahead as a test says; the date stands still otherwise."""

    ahead = 0.0

    def __init__(self) -> None:
        self._made = super().now()

    def now(self) -> float:
        return self._made + self.ahead

    def monotonic(self) -> float:
        return super().monotonic() + self.ahead


@pytest.fixture
def clock(system: LocalSystem, monkeypatch: pytest.MonkeyPatch) -> MovableClock:
    moved = MovableClock()
    monkeypatch.setattr(system.runtime, "clock", moved)
    return moved


@pytest.fixture(autouse=True)
def odd(monkeypatch: pytest.MonkeyPatch) -> Iterator[Behaviour]:
    """The odd tools are in the catalogue, and whatever one of them waits for happens in the end."""
    for name, versions in odd_tools.TABLE.items():
        monkeypatch.setitem(catalogue.TABLE, name, versions)
    BEHAVIOUR.__dict__.update(Behaviour().__dict__)
    yield BEHAVIOUR
    BEHAVIOUR.go.set()
    # Otherwise they would do what the next test says.
    assert odd_tools.WAITING.wait(60)


def outcomes(answers: list[dict[str, Any]]) -> list[str]:
    return [answer["outcome"] for answer in answers]


# ---------------------------------------------------------------- the breaker


def test_three_times_the_same_failure_takes_a_tool_out_of_service(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    failed = [talk.call("other_fussy", word="no") for _ in range(3)]
    assert outcomes(failed) == ["error"] * 3
    answer = talk.call("other_fussy", word="fine")
    assert (answer["outcome"], answer["error"]["code"]) == ("circuit_open", "circuit_open")
    assert "no is refused" in text(answer) and answer["error"]["details"]["until"] in text(answer)
    assert 0 < answer["error"]["details"]["retryAfterSeconds"] <= 30
    assert talk.call("fussy")["outcome"] == "ok"


def test_exploring_is_not_looping(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    assert outcomes([talk.call("other_fussy", word=f"try {n}") for n in range(7)]) == ["error"] * 7
    assert talk.call("other_fussy")["outcome"] == "ok"
    assert outcomes([talk.call("other_fussy", word=f"try {n}") for n in range(9)])[-2:] == ["error", "circuit_open"]


def test_a_tool_of_its_own_number_opens_after_that_many_of_any_kind(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    assert outcomes([talk.call("fussy", word=str(n)) for n in range(4)]) == ["error", "error", "error", "circuit_open"]


def test_bad_arguments_count_and_what_is_not_the_calls_fault_does_not(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    for code in ("workspace_busy", "throttled"):
        assert outcomes([talk.call("fussy", word="no", code=code) for _ in range(5)]) == ["error"] * 5
    assert outcomes([talk.call("fussy", wrod="no") for _ in range(4)]) == ["invalid_args"] * 4
    assert talk.call("fussy")["outcome"] == "circuit_open"


def test_denied_and_unknown_calls_do_not_count(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique, ["fussy"])
    assert outcomes([talk.call("calculate", expressions=["1"]) for _ in range(5)]) == ["denied"] * 5
    assert outcomes([talk.call("no_such_tool") for _ in range(5)]) == ["unknown_tool"] * 5
    assert talk.again().call("calculate", expressions=["1"])["outcome"] == "ok"


def test_the_breaker_is_what_the_table_says_for_every_process(api: Any, unique: str, system: LocalSystem) -> None:
    """No process keeps a state of its own: what one has written, another obeys."""
    talk = Talk.open(api, unique)
    for _ in range(3):
        talk.call("fussy", word="no")
    state = system.runtime.table.get(breaker_key(unique))
    assert state is not None and state["fussy"]["streak"] == 3
    assert talk.again().call("fussy")["outcome"] == "circuit_open"
    system.runtime.table.delete(breaker_key(unique))
    assert talk.call("fussy")["outcome"] == "ok"
    system.runtime.table.put(state)
    assert talk.call("fussy")["outcome"] == "circuit_open"


def test_other_conversations_are_never_affected(api: Any, unique: str) -> None:
    talk, other = Talk.open(api, unique), Talk.open(api, f"{unique}-2")
    for _ in range(4):
        talk.call("fussy", word="no")
    assert talk.call("fussy")["outcome"] == "circuit_open"
    assert other.call("fussy")["outcome"] == "ok"


def test_after_the_wait_one_call_is_let_through_and_a_success_closes(
    api: Any, unique: str, clock: MovableClock, system: LocalSystem
) -> None:
    talk = Talk.open(api, unique)
    for _ in range(3):
        talk.call("fussy", word="no")
    clock.ahead = 29
    waiting = talk.call("fussy", call="waiting")
    assert waiting["outcome"] == "circuit_open"
    clock.ahead = 31
    assert talk.call("fussy", call="waiting")["outcome"] == "ok"
    assert outcomes([talk.call("fussy", word="no") for _ in range(2)]) == ["error"] * 2
    assert talk.call("fussy")["outcome"] == "ok"
    assert "fussy" not in (system.runtime.table.get(breaker_key(unique)) or {})


def test_a_failed_probe_opens_it_again_for_the_whole_wait(api: Any, unique: str, clock: MovableClock) -> None:
    talk = Talk.open(api, unique)
    for _ in range(3):
        talk.call("fussy", word="no")
    clock.ahead = 31
    assert talk.call("fussy", word="another")["outcome"] == "error"
    assert talk.call("fussy")["outcome"] == "circuit_open"
    clock.ahead = 60
    assert talk.call("fussy")["outcome"] == "circuit_open"
    clock.ahead = 62
    assert talk.call("fussy")["outcome"] == "ok"


def test_of_many_callers_after_the_wait_one_probes(api: Any, unique: str, clock: MovableClock, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    for _ in range(3):
        talk.call("fussy", word="no")
    clock.ahead = 31
    odd.calls = 0
    with ThreadPoolExecutor(1) as pool:
        probing = pool.submit(talk.call, "fussy", word="slow")
        assert odd.started.wait(30)
        assert outcomes([talk.call("fussy", word=f"other {n}") for n in range(4)]) == ["circuit_open"] * 4
        odd.go.set()
        assert probing.result()["outcome"] == "ok"
    assert odd.calls == 2  # the probe counts itself and its wait
    assert talk.call("fussy")["outcome"] == "ok"


def test_a_probe_whose_process_died_gives_way(api: Any, unique: str, clock: MovableClock, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    for _ in range(3):
        talk.call("fussy", word="no")
    clock.ahead = 31
    with pytest.MonkeyPatch.context() as dying:
        died = threading.Event()

        def die(_service: str, operation: str) -> None:
            if operation == "TransactWriteItems":
                died.set()
                raise OSError("the process is gone")

        dying.setattr(system.runtime.clients, "hook", die)
        assert talk.send("fussy", {}).status == 500 and died.is_set()
    assert talk.call("fussy")["outcome"] == "circuit_open"
    clock.ahead += odd_tools.PATIENCE + 0.1
    assert talk.call("fussy")["outcome"] == "ok"


def test_a_healthy_tool_costs_nothing_for_its_breaker(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    assert talk.ok("calculate", expressions=["1"])["cost"]["requests"] == 2
    talk.call("calculate", expressions=["1/0"])
    assert talk.ok("calculate", expressions=["1"])["cost"]["requests"] == 2


# ---------------------------------------------------------------- the time budget


@pytest.mark.parametrize("name", ["slow_write", "slow_read"])
def test_a_tool_that_overruns_answers_timeout_and_its_late_worker_changes_nothing(
    api: Any, unique: str, system: LocalSystem, odd: Behaviour, name: str
) -> None:
    for number in range(9):
        talk = Talk.open(api, f"{unique}-{number}")
        answer = talk.call(name, call="c")
        assert (answer["outcome"], answer["error"]["code"]) == ("timeout", "timeout")
        if odd.started.is_set():
            # A worker that the machine let begin too late has nothing to be late with.
            break
    assert answer["error"]["retryable"] is False
    assert "0.4 seconds" in text(answer) and "Nothing was changed" in text(answer)
    # It was not waited for: the work takes as long as the test lets it, at most 30 seconds.
    assert 350 <= answer["cost"]["milliseconds"] < 25_000
    odd.go.set()
    assert odd.woken.wait(30)
    assert talk.files() == {} and heads.read_head(system.runtime, talk.conversation).version == 0
    assert (system.runtime.table.get(seen_key(turn_of(talk))) or {})["paths"] == {}
    # It is stored like any other answer, and the work is not done again.
    assert talk.call(name, call="c") == answer and odd.calls == 1
    step = api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"][0]
    assert (step["outcome"], step["code"]) == ("timeout", "timeout")


def test_timeouts_count_for_the_breaker(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    assert outcomes([talk.call("slow_read") for _ in range(4)]) == ["timeout"] * 3 + ["circuit_open"]


def test_the_budget_is_for_all_tries_of_a_call_together(
    api: Any, unique: str, odd: Behaviour, clock: MovableClock
) -> None:
    """Each time somebody else commits first the work is done again, within the one budget.

    What took the time then was not the work: the workspace is busy, and the call may be sent again under its id.
    """
    talk = Talk.open(api, unique)
    odd.go.set()

    def lose_and_take_long(_turn: Any) -> None:
        talk.put(f"first-{odd.calls}.txt", b"x")
        clock.ahead += 0.6 * odd_tools.PATIENCE

    odd.at_work = lose_and_take_long
    beaten = talk.call("patient_write", call="again")
    assert (beaten["outcome"], beaten["error"]["code"]) == ("error", "workspace_busy")
    assert odd.calls <= 3 and talk.bytes_of("late.txt") is None
    # The last try may be at work still: nobody waited for it.
    assert odd_tools.WAITING.wait(60)
    odd.at_work = lambda _turn: None
    assert talk.call("patient_write", call="again")["outcome"] == "ok"


def test_an_edit_that_lost_against_another_is_done_again_on_its_result(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.go.set()
    odd.at_work = lambda _turn: talk.put("first.txt", b"x") if odd.calls == 1 else None
    answer = talk.call("patient_write")
    assert (answer["outcome"], answer["structured"]["version"], odd.calls) == ("ok", 2, 2)
    assert talk.files() == {"first.txt": b"x", "late.txt": b"after the wait"}


def test_no_tool_may_take_longer_than_the_function_it_runs_in() -> None:
    for name in catalogue.names():
        if name not in odd_tools.TABLE:
            for version in catalogue.versions(name):
                found = catalogue.get(name, version)
                assert found is not None and 0 < found.budget_seconds <= ANSWER_SECONDS - 4, name


# ---------------------------------------------------------------- retries


def test_a_read_is_tried_again_after_what_may_pass(api: Any, unique: str, odd: Behaviour, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    odd.failures = [ToolError("busy", code="throttled"), OSError("a hiccup")]
    answer = talk.call("flaky_read")
    assert (answer["outcome"], answer["cost"]["attempts"], odd.calls) == ("ok", 3, 3)
    # What the failed attempts noted as seen does not count.
    seen = system.runtime.table.get(seen_key(turn_of(talk))) or {}
    assert list(seen["paths"]) == ["seen-3.txt"]


def test_tries_end_and_the_answer_says_what_failed(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.failures = [OSError("down")] * 5
    answer = talk.call("flaky_read")
    assert (answer["outcome"], answer["error"]["code"], answer["cost"]["attempts"]) == ("error", "internal", 3)
    assert answer["error"]["retryable"] is True and "down" not in text(answer)


def test_a_refusal_is_not_tried_again(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.failures = [ToolError("no", code="not_found")]
    answer = talk.call("flaky_read")
    assert (answer["outcome"], answer["cost"]["attempts"]) == ("error", 1)


def test_a_write_is_never_tried_again(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.failures = [OSError("a hiccup")]
    answer = talk.call("flaky_write")
    assert (answer["outcome"], answer["cost"]["attempts"], odd.calls) == ("error", 1, 1)
    assert talk.files() == {}
    for step in ("write", "run", "export"):
        with pytest.raises(TypeError, match="must not be tried again"):
            tool(step=step, retries=1)(lambda turn: Answer.of(""))


# ---------------------------------------------------------------- the output cap


def long_text(characters: int) -> str:
    """Lines that are all different, so that a cut in the wrong place shows."""
    lines = "".join(f"{number:06d} the quick brown fox\n" for number in range(characters // 27 + 1))
    return lines[:characters]


def test_a_long_output_is_stored_whole_and_shown_in_part(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.text = long_text(100_000)
    answer = talk.ok("wordy")
    shown = text(answer)
    assert answer["truncated"] is True and len(shown) <= 16_000
    head, tail = shown.split("\n\n[… ")[0], shown.split(" …]\n\n")[1]
    assert odd.text.startswith(head) and odd.text.endswith(tail) and min(len(head), len(tail)) > 7_000
    assert f"{len(odd.text) - len(head) - len(tail):,} of 100,000 characters" in shown
    assert f'read_result(ref="{answer["ref"]}", offset={len(head)})' in shown
    assert talk.call("wordy", call=answer["callId"]) == answer


def test_the_pages_of_a_stored_result_are_its_very_text(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.text = long_text(50_000) + "👩‍👩‍👧" * 50
    ref, pages, offset = talk.ok("wordy")["ref"], [], 0
    while offset is not None:
        page = talk.ok("read_result", ref=ref, offset=offset, limit=7_001)
        pages.append(page["content"][0]["text"])
        assert not page["truncated"]
        offset = page["structured"].get("next")
    assert "".join(pages) == odd.text
    routed, offset = "", 0
    while offset is not None:
        part = api("GET", f"/v1/results/{ref}?offset={offset}", headers={"X-Turn-Token": talk.token}).json
        routed, offset = routed + part["output"], part.get("next")
    assert routed == odd.text
    found = talk.ok("read_result", ref=ref, query="000999 the")
    assert [match["offset"] for match in found["structured"]["matches"]] == [odd.text.index("000999 the")]


def test_a_turn_without_read_result_is_not_told_of_it(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique, ["wordy"])
    odd.text = long_text(20_000)
    shown = text(talk.ok("wordy"))
    assert "read_result" not in shown and "stored" in shown


def test_an_output_at_the_cap_is_whole(api: Any, unique: str, odd: Behaviour) -> None:
    talk = Talk.open(api, unique)
    odd.text = long_text(16_000)
    answer = talk.ok("wordy")
    assert text(answer) == odd.text and answer["truncated"] is False


@pytest.mark.parametrize("shift", range(5))
def test_a_preview_and_a_line_split_no_character(api: Any, unique: str, odd: Behaviour, shift: int) -> None:
    talk = Talk.open(api, unique)
    family = "👩‍👩‍👧"
    odd.text = "x" * shift + family * 6_000
    answer = talk.ok("wordy")
    head, tail = text(answer).split("\n\n[… ")[0], text(answer).split(" …]\n\n")[1]
    assert head == "x" * shift + family * ((len(head) - shift) // 5)
    assert tail == family * (len(tail) // 5)
    line = answer["line"].removesuffix(" ... [clipped]")
    assert line == "x" * shift + family * ((len(line) - shift) // 5)


def test_an_answer_too_large_for_an_item_costs_one_request_more_and_says_so(
    api: Any, unique: str, odd: Behaviour, system: LocalSystem
) -> None:
    talk = Talk.open(api, unique)
    odd.text = "".join(random.Random(7).choices("".join(map(chr, range(0x4E00, 0x9000))), k=300_000))
    sent: list[str] = []
    system.runtime.clients.hook = lambda _service, operation: sent.append(operation)
    try:
        answer = talk.ok("wordy")
    finally:
        system.runtime.clients.hook = None
    assert sorted(sent) == ["BatchGetItem", "PutItem", "PutObject"] and answer["cost"]["requests"] == 3
    item = system.runtime.table.get(call_key(turn_of(talk), answer["callId"]))
    assert item is not None and "answerKey" in item
    assert talk.call("wordy", call=answer["callId"]) == answer
    page = talk.ok("read_result", ref=answer["ref"], offset=299_990)
    assert page["content"][0]["text"] == odd.text[-10:]


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("one", "one"),
        ("one\ntwo\r\n\tthree  four\u2028five", "one two three four five"),
        ("x" * 300, "x" * 300),
        ("x" * 301, "x" * 300 + " ... [clipped]"),
        ("", ""),
    ],
)
def test_every_answer_has_one_line(api: Any, unique: str, odd: Behaviour, said: str, line: str) -> None:
    odd.text = said
    assert Talk.open(api, unique).ok("wordy")["line"] == line


# ---------------------------------------------------------------- ids and names


def test_an_id_belongs_to_one_call(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    first = talk.call("list_files", call="c")
    other = talk.call("current_time", call="c")
    assert other["outcome"] == "invalid_args" and "new call id" in text(other)
    assert talk.call("list_files", call="c") == first
    for _ in range(3):
        talk.call("fussy", word="no")
    assert talk.call("fussy", call="open", word="a")["outcome"] == "circuit_open"
    assert talk.call("fussy", call="open", word="b")["outcome"] == "invalid_args"
    assert talk.call("fussy", call="open", word="a")["outcome"] == "circuit_open"


def test_an_unknown_tool_names_the_nearest_that_the_turn_has(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique, ["read_file", "list_files"])
    assert "Did you mean read_file?" in text(talk.call("readFile"))
    # One that the turn was not offered is not named, and no other is taken for it.
    for near_one_it_lacks in ("write_files", "edit-file", "run_cod"):
        assert text(talk.call(near_one_it_lacks)).endswith("Call tools by the names you were given.")
    long = talk.call("x" * 500)
    assert long["outcome"] == "unknown_tool" and len(long["tool"]) == 64


@pytest.mark.parametrize("wait", [0, 0.5, 10**400, 1e300])
def test_any_wait_is_a_number_of_seconds(api: Any, unique: str, wait: float) -> None:
    talk = Talk.open(api, unique)
    assert talk.send("list_files", {}, wait=wait).json["outcome"] == "ok"


# ---------------------------------------------------------------- traces, receipts


def test_a_step_holds_no_contents(api: Any, unique: str, system: LocalSystem) -> None:
    talk = Talk.open(api, unique)
    talk.ok("write_file", path="a.txt", content="a secret sentence\n")
    talk.refused("no_match", "edit_file", path="a.txt", edits=[{"find": "another sentence", "replace": "x"}])
    steps = api("GET", f"/v1/turns/{talk.turn}/trace").json["steps"]
    assert [(step["tool"], step["step"], step["outcome"], step["code"]) for step in steps] == [
        ("write_file@1.0.0", "write", "ok", None),
        ("edit_file@1.0.0", "write", "error", "no_match"),
    ]
    assert "sentence" not in str(steps)
    assert all(step["milliseconds"] > 0 and step["refs"] for step in steps)


def test_audit_events_say_what_was_done_and_hold_no_contents(api: Any, unique: str) -> None:
    talk = Talk.open(api, unique)
    heard: list[logging.LogRecord] = []
    listener = logging.Handler()
    listener.emit = heard.append  # type: ignore[method-assign]
    logger.addHandler(listener)
    try:
        talk.ok("write_file", path="a.txt", content="a secret sentence\n")
        talk.ok("edit_file", path="a.txt", edits=[{"find": "secret", "replace": "hidden"}])
        talk.call("write_file", path=".env", content="KEY=a secret value")
        talk.ok("delete_file", path="a.txt")
    finally:
        logger.removeHandler(listener)
    events = [(record.getMessage(), vars(record)["facts"]) for record in heard if vars(record).get("audit")]
    assert [name for name, _facts in events] == ["file.write", "file.write", "approval.asked", "file.delete"]
    who = {"by": "ada", "turn": talk.turn, "callId": "call1"}
    assert events[0][1] == {**who, "path": "a.txt", "mode": "0644", "created": True, "bytes": 18}
    assert (events[1][1]["created"], events[3][1]["path"]) == (False, "a.txt")
    said = str([vars(record) for record in heard])
    assert not any(word in said for word in ("secret", "hidden", "KEY=", talk.token))


def test_a_run_that_a_person_allowed_says_so_on_the_receipt(
    api: Any, unique: str, system: LocalSystem, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(system.runtime, "settings", system.runtime.settings.model_copy(update={"ask_from": "high"}))
    talk = Talk.open(api, unique)
    code = {"code": "print(1)"}
    approval = talk.call("run_code", call="c", **code)["structured"]["approval"]
    api("POST", f"/v1/approvals/{approval}", {"decision": "allow", "scope": "once", "by": "grace"})
    assert talk.call("run_code", call="c", **code)["outcome"] == "ok"
    receipt = api("GET", f"/v1/turns/{talk.turn}/receipt").json["receipt"]
    assert [(line["id"], line["decision"]) for line in receipt["approvals"]] == [(approval, "allow")]
    assert len(receipt["runs"]) == 1


def turn_of(talk: Talk) -> TurnId:
    turn = TurnId.parse(talk.turn)
    assert turn is not None
    return turn
