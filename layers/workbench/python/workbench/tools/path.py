"""The path of a tool call, from the HTTP event to the one final write.

Four questions, once, arguments, breaker, gate, work, record: each stage is a function below, in this order. The work
runs against the state that one batch read found. When its final write meets a newer head, the call is done again on
that head, so that an edit is applied or refused on its merits.
"""

from __future__ import annotations

import contextvars
import random
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from dataclasses import dataclass, replace
from typing import Any

from workbench import runtime as runtimes
from workbench.clients import counting
from workbench.clock import iso
from workbench.conversations.turns import unauthorized, verify_token
from workbench.errors import Conflict, InvalidRequest, ToolError, ToolInternal
from workbench.http import Event, Request, Response, respond
from workbench.ids import CallId, TurnId, is_part
from workbench.logs import audit, logger
from workbench.runtime import Runtime
from workbench.table import (
    Condition,
    ConditionFailed,
    Contended,
    Item,
    Key,
    Operation,
    Update,
    breaker_key,
    call_key,
    head_key,
    seen_key,
    turn_key,
    update,
)
from workbench.tools import breaker, catalogue, recording
from workbench.tools.answer import Answer
from workbench.tools.approvals import pass_gate
from workbench.tools.arguments import Given
from workbench.tools.contract import Bound, Tool
from workbench.tools.recording import CallFacts, failed, record
from workbench.tools.sights import seen_operations
from workbench.tools.turn import Turn
from workbench.workspace.head import Head
from workbench.workspace.seen import Seen
from workbench.workspace.store import BlobGone, Commit

# Conflicts are rare and short; this many losses in a row mean that somebody writes without pause.
COMMIT_TRIES = 8
UNFINISHED_CODES = frozenset({"timeout", "internal"})

_workers = ThreadPoolExecutor(max_workers=64, thread_name_prefix="tool")


def tool_route(name: str) -> Callable[[Event, Any], dict[str, Any]]:
    """The Lambda handler of the tool ``name``."""

    def handler(event: Event, _context: Any) -> dict[str, Any]:
        return respond(event, lambda request: call_tool(runtimes.current(), name, request))

    return handler


def call_unknown_tool(runtime: Runtime, request: Request) -> Response:
    """The route for names that have no function: the same path, which answers ``unknown_tool`` or ``denied``."""
    return call_tool(runtime, request.parameters.get("tool", ""), request)


def call_tool(runtime: Runtime, name: str, request: Request) -> Response:
    """Answer one tool call; raises RequestError for what is wrong with the request itself."""
    with counting() as requests:
        started = runtime.clock.monotonic()
        asked = _read_request(runtime, name, request)
        state = _read_state(runtime, asked)
        verify_token(state.turn, asked.token, runtime.clock.now())
        head = Head.from_item(asked.call.turn.conversation, state.head)
        call = _Call(runtime, asked, state, head, started, lambda: requests.total)
        return Response(call.answer())


# ---------------------------------------------------------------- the request


@dataclass(frozen=True)
class Asked:
    """A well-formed request for a tool call."""

    name: str
    call: CallId
    token: str | None
    arguments: Given
    wait_seconds: float


def _read_request(runtime: Runtime, name: str, request: Request) -> Asked:
    turn = TurnId.parse(request.parameters.get("turn"))
    body = request.json()
    if unknown := sorted(set(body) - {"callId", "arguments", "wait"}):
        raise InvalidRequest(f"Unknown field {unknown[0]!r}. A tool call has callId, arguments and wait.")
    if not is_part(body.get("callId")):
        raise InvalidRequest("callId is required: 1 to 64 characters of A-Z, a-z, 0-9, _ and -.")
    if turn is None:
        raise unauthorized()
    settings = runtime.settings
    wait = body.get("wait", settings.default_wait_seconds)
    if isinstance(wait, bool) or not isinstance(wait, int | float) or wait < 0:
        raise InvalidRequest("wait must be a number of seconds, 0 or more.")
    return Asked(
        name,
        CallId(turn, body["callId"]),
        request.headers.get("x-turn-token"),
        Given.read(body.get("arguments", {})),
        min(float(wait), settings.longest_wait_seconds),
    )


@dataclass
class State:
    """What one batch read found."""

    head: Item | None
    turn: Item | None
    call: Item | None
    breaker: Item
    seen: Item


def _read_state(runtime: Runtime, asked: Asked) -> State:
    turn = asked.call.turn
    keys: list[Key] = [
        head_key(turn.conversation),
        turn_key(turn),
        call_key(turn, asked.call.call),
        breaker_key(turn.conversation),
        seen_key(turn),
    ]
    found = runtime.table.get_many(keys)
    head, turn_item, call, broken, seen = (found.get(key) for key in keys)
    return State(head, turn_item, call, broken or {}, seen or {})


# ---------------------------------------------------------------- the call


class _Stored(Exception):
    """This call has been answered before; the answer is the stored one."""

    def __init__(self, wire: dict[str, Any]) -> None:
        super().__init__()
        self.wire = wire


class _Call:
    """One call on its way. Its state may be read again when a commit meets a newer head."""

    def __init__(
        self, runtime: Runtime, asked: Asked, state: State, head: Head, started: float, requests: Callable[[], int]
    ) -> None:
        assert state.turn is not None
        self.runtime = runtime
        self.asked = asked
        self.state = state
        self.turn_item: Item = state.turn
        self.head = head
        self.started = started
        self.started_at = runtime.clock.now()
        self.requests = requests
        self.attempts = 0
        self.bound: Bound | None = None
        version = self.turn_item["tools"].get(asked.name)
        self.tool: Tool | None = catalogue.get(asked.name, version) if version else None

    def answer(self) -> dict[str, Any]:
        """The wire answer, whatever happens on the way."""
        try:
            stored = self._once()
            if stored is not None:
                return stored
            self._require_open()
            refusal = self._reach()
            if refusal is not None:
                return self._commit_refusal(refusal)
            assert self.tool is not None
            return self._work_until_committed(self.tool)
        except _Stored as stored_meanwhile:
            return stored_meanwhile.wire

    # ------------------------------------------------------------ once

    def _once(self) -> dict[str, Any] | None:
        """The answer of an earlier call with this id, or None when there is work to do."""
        item = self.state.call
        if item is None or item["state"] == "open":
            return None
        if item["digest"] != self.asked.arguments.digest:
            return self._dress(
                failed(
                    ToolError(
                        f"The call id {self.asked.call.call} was used in this turn with other arguments. "
                        "Send new arguments under a new call id.",
                        code="invalid_args",
                    ),
                    "invalid_args",
                )
            )
        if item["state"] == "running":
            return self._resume(item)
        return recording.load_answer(self.runtime, item)

    def _resume(self, item: Item) -> dict[str, Any]:
        # Only run_code leaves a call at work; its module is needed here and in its own function.
        from workbench.runs.run_tool import resume

        answer = resume(self._turn(), item)
        return answer.wire if answer.wire is not None else self._dress(answer)

    # ------------------------------------------------------------ four questions, arguments, breaker, gate

    def _reach(self) -> Answer | None:
        """Why this call may not be made or cannot be understood, as an answer; None to go on."""
        name = self.asked.name
        if self.tool is None:
            if name in catalogue.names():
                return failed(ToolError(f"This turn was not offered {name}.", code="denied"), "denied")
            return failed(ToolError(f"There is no tool named {name!r}.", code="unknown_tool"), "unknown_tool")
        try:
            self.bound = self.tool.bind(self.asked.arguments)
        except ToolError as error:
            return failed(error, "invalid_args")
        return self._breaker()

    def _breaker(self) -> Answer | None:
        """The answer while the tool is out of service. Half-open, one caller wins the conditional write and works."""
        assert self.tool is not None
        now = self.runtime.clock.now()
        opened = breaker.check(self.state.breaker, self.tool, now)
        digest = self.asked.arguments.digest
        probe = None if opened else breaker.probe(self.state.breaker, self.tool, now, digest)
        if probe is not None:
            before = self.state.breaker[self.tool.name]["openUntil"]
            change = Update().set(self.tool.name, probe[self.tool.name])
            unchanged = Condition("#tool.openUntil = :before", {"#tool": self.tool.name}, {":before": before})
            try:
                self.runtime.table.update(breaker_key(self.head.conversation), change, unchanged)
            except ConditionFailed:
                opened = breaker.Open(now + self.tool.budget_seconds, "Another call is trying it right now.")
        if opened is None:
            return None
        wait = round(max(0.1, opened.until - now), 1)
        error = ToolError(opened.reason, code="circuit_open", until=iso(opened.until), retryAfterSeconds=wait)
        return failed(error, "circuit_open")

    # ------------------------------------------------------------ work

    def _work_until_committed(self, tool: Tool) -> dict[str, Any]:
        assert self.bound is not None
        settings, clock = self.runtime.settings, self.runtime.clock
        waited_until = clock.monotonic() + settings.busy_wait_seconds
        gone: BlobGone | None = None
        for attempt in range(COMMIT_TRIES):
            turn = self._turn()
            gate = pass_gate(turn, tool, self.bound.values)
            if isinstance(gate, Answer):
                return self._commit(gate, turn, None)
            try:
                answer = self._work(tool, turn, self.bound)
            except BlobGone as error:
                # Thinning dropped the version that this call began to read: the present one has what it needs.
                gone = error
                self._read_again()
                continue
            if answer.error is not None and answer.error.code in UNFINISHED_CODES:
                # What such an attempt noted half-way, or notes even now, does not count.
                turn = self._turn()
            if gate.approvals:
                answer.effects["approvals"] = gate.approvals
            if answer.wire is not None:
                return self._recorded(answer.wire)
            if answer.outcome == "running":
                return self._dress(answer)
            try:
                commit = self._prepare(turn, answer)
            except BlobGone as error:
                gone = error
                self._read_again()
                continue
            except ToolError as error:
                # Nothing of this attempt stands, what it had seen included.
                answer, commit, turn = failed(error), None, self._turn()
            if commit is not None and self.head.leased(clock.now(), settings.skew_seconds):
                if clock.monotonic() >= waited_until:
                    return self._commit(failed(self.head.busy(clock.now())), self._turn(), None)
                clock.sleep(random.uniform(0.05, 0.25))  # noqa: S311
            else:
                try:
                    return self._commit(answer, turn, commit, same_sight=attempt < COMMIT_TRIES // 2)
                except (ConditionFailed, Contended):
                    clock.sleep(random.uniform(0, 0.02 * 2**attempt))  # noqa: S311
            self._read_again()
        if gone is not None:
            raise gone
        return self._commit(failed(self.head.busy(clock.now())), self._turn(), None)

    def _turn(self) -> Turn:
        return Turn(
            self.runtime,
            self.asked.call,
            self.turn_item,
            self.head,
            Seen.from_item(self.state.seen),
            self._label,
            self.asked.arguments.digest,
            self.asked.wait_seconds,
            tuple(self.bound.conversions) if self.bound else (),
        )

    def _work(self, tool: Tool, turn: Turn, bound: Bound) -> Answer:
        """Run the tool within its budget; retryable failures of an idempotent tool are tried again."""
        context = contextvars.copy_context()
        future = _workers.submit(context.run, self._attempts, tool, turn, bound)
        try:
            return future.result(timeout=tool.budget_seconds + (turn.wait_seconds if tool.step == "run" else 0))
        except FutureTimeout:
            # The worker may go on, but it cannot commit: only this thread does, and it moves on.
            error = ToolError(
                f"{tool.name} did not finish within {tool.budget_seconds:g} seconds. Nothing was changed. "
                "Ask for less at once.",
                code="timeout",
            )
            return failed(error, "timeout")

    def _attempts(self, tool: Tool, turn: Turn, bound: Bound) -> Answer:
        for left in range(tool.retries, -1, -1):
            self.attempts += 1
            try:
                return tool.function(turn, **bound.values)
            except BlobGone:
                raise
            except ToolError as error:
                if not (left and error.retryable):
                    return failed(error, "invalid_args" if error.code == "invalid_args" else "error")
            except Exception as error:  # noqa: BLE001 - the model gets an answer whatever a tool does
                logger.exception("tool failed", extra={"tool": tool.name})
                if not left:
                    return failed(ToolInternal(f"{tool.name} failed on our side ({type(error).__name__})."))
            turn.operations.clear()
        raise AssertionError("unreachable")

    # ------------------------------------------------------------ record

    def _prepare(self, turn: Turn, answer: Answer) -> Commit | None:
        """The new version, when the call staged changes and did not fail."""
        if "workspace" not in turn.__dict__ or not turn.workspace.staged or answer.error is not None:
            return None
        commit = turn.workspace.prepare(self.asked.name, str(turn.id))
        answer.structured = {"version": commit.version, **answer.structured}
        return commit

    def _commit_refusal(self, answer: Answer) -> dict[str, Any]:
        try:
            return self._commit(answer, self._turn(), None)
        except ConditionFailed:
            self._read_again()
            raise Conflict("The turn changed while this call was answered. Send it again.") from None

    def _commit(self, answer: Answer, turn: Turn, commit: Commit | None, *, same_sight: bool = False) -> dict[str, Any]:
        """The call's one final write. Raises ConditionFailed when head or record changed meanwhile.

        With ``same_sight`` also when another call of the turn saw more of the same files: what both saw counts.
        """
        facts = self._facts(planned_requests=1 + (len(commit.uploads()) if commit else 0))
        made = record(answer, facts, self.runtime.settings)
        operations: list[Operation] = [made.operation()]
        if commit is not None:
            operations += commit.operations()
        if answer.error is None:
            operations += turn.operations
        operations += seen_operations(turn, self.state.seen, same_sight)
        code, message = (answer.error.code, answer.error.message) if answer.error else (None, "")
        operations += self._breaker_operations(made.wire["outcome"], code, message)
        uploads = commit.uploads() if commit else []
        if made.object_key is not None:
            uploads.append(lambda: self._put_answer(made))
        if uploads:
            self.runtime.clients.together(*uploads)
        self.runtime.table.transact(operations)
        self._audit(answer, made.wire)
        return made.wire

    def _put_answer(self, made: recording.Record) -> None:
        self.runtime.clients.s3.put_object(
            Bucket=self.runtime.settings.workspace_bucket, Key=made.object_key, Body=made.object_body
        )

    def _recorded(self, wire: dict[str, Any]) -> dict[str, Any]:
        """The answer of a run, whose workflow has recorded the call; the streak of failures is kept here."""
        error = wire["error"] or {}
        operations = self._breaker_operations(wire["outcome"], error.get("code"), error.get("message", ""))
        if operations:
            self.runtime.table.transact(operations)
        return wire

    def _breaker_operations(self, outcome: str, code: str | None, message: str) -> list[Operation]:
        if self.tool is None:
            return []
        after = breaker.after(
            self.state.breaker,
            self.tool,
            outcome,
            self.asked.arguments.digest,
            code,
            message,
            self.runtime.clock.now(),
            self.runtime.settings.breaker_cooldown_seconds,
        )
        if after is None:
            return []
        change, name = Update(), self.tool.name
        change = change.set(name, after[name]) if name in after else change.remove(name)
        return [update(breaker_key(self.head.conversation), change)]

    def _read_again(self) -> None:
        """Fresh state for another try; a twin of this call may have finished meanwhile."""
        self.state = _read_state(self.runtime, self.asked)
        self.head = Head.from_item(self.head.conversation, self.state.head)
        stored = self._once()
        if stored is not None:
            raise _Stored(stored)
        # What a tool commits may count on the turn's record: see what it says now.
        self.turn_item = self.state.turn or self.turn_item
        self._require_open()

    def _require_open(self) -> None:
        if self.turn_item["state"] != "open":
            raise Conflict("This turn is finished. Open a new turn to call tools.", state=self.turn_item["state"])

    def _dress(self, answer: Answer) -> dict[str, Any]:
        return recording.dress(answer, self._facts(), self.runtime.settings)[0]

    @property
    def _label(self) -> str:
        return f"{self.tool.name}@{self.tool.version}" if self.tool else self.asked.name

    @property
    def _step(self) -> str:
        known = self.tool or catalogue.get(self.asked.name)
        return known.step if known else "unknown"

    def _facts(self, planned_requests: int = 0) -> CallFacts:
        facts = CallFacts(
            call=self.asked.call,
            tool=self._label,
            step=self._step,
            digest=self.asked.arguments.digest,
            started_at=self.started_at,
            milliseconds=(self.runtime.clock.monotonic() - self.started) * 1000,
            attempts=max(1, self.attempts),
            requests=self.requests() + planned_requests,
            may_page="read_result" in self.turn_item["tools"],
        )
        if self.tool is None or self.bound is None:
            return facts
        return replace(facts, conversions=tuple(self.bound.conversions), exact=self.tool.exact)

    def _audit(self, answer: Answer, wire: dict[str, Any]) -> None:
        who = {"turn": str(self.asked.call.turn), "callId": self.asked.call.call}
        for file in answer.effects.get("files", ()):
            audit("file.write", **who, **file)
        for path in answer.effects.get("deleted", ()):
            audit("file.delete", **who, path=path)
        logger.info("tool call", extra={**who, "tool": self._label, "outcome": wire["outcome"], "cost": wire["cost"]})
