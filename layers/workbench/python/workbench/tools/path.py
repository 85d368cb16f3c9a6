"""The path of a tool call, from the HTTP event to the one final write.

Four questions, once, arguments, breaker, gate, work, record: each stage is a function below, in this order. The work
runs against the state that one batch read found. When its final write meets a newer head, the call is done again on
that head, so that an edit is applied or refused on its merits.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from typing import Any

from botocore.exceptions import ClientError

from workbench import runtime as runtimes
from workbench.clients import counting
from workbench.conversations.turns import STILL_OPEN, verify_token
from workbench.errors import Conflict, ToolError, ToolThrottled, WorkspaceBusy, is_throttling
from workbench.http import Event, Request, Response, respond
from workbench.keys import turn_key
from workbench.logs import acting, logger
from workbench.operations import Item, Operation, check
from workbench.runtime import Runtime
from workbench.table import ConditionFailed, Contended
from workbench.tools import catalogue, recording, service
from workbench.tools.answer import Answer
from workbench.tools.approvals import pass_gate
from workbench.tools.arguments import nearest
from workbench.tools.asking import Asked, State, read_request, read_state
from workbench.tools.classifier import judge_for
from workbench.tools.contract import Bound, Tool
from workbench.tools.recording import CallFacts, failed, record
from workbench.tools.sights import seen_operations
from workbench.tools.turn import Turn
from workbench.tools.working import Work
from workbench.workspace.storage.head import Head
from workbench.workspace.storage.store import BlobGone, Commit
from workbench.workspace.storage.writing import COMMIT_TRIES, Tries
from workbench.workspace.text.seen import Seen

# What an attempt that ended so noted half-way, or notes even now, does not count.
UNFINISHED_CODES = frozenset({"timeout", "internal", "throttled"})


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
        asked = read_request(runtime, name, request)
        state = read_state(runtime, asked)
        verify_token(state.turn, asked.token, runtime.clock.now())
        head = Head.from_item(asked.call.turn.conversation, state.head)
        call = _Call(runtime, asked, state, head, started, lambda: requests.total)
        # What a deletion leaves of a turn says only that it is over.
        with acting(call.turn_item.get("caller", {}).get("user")):
            return Response(call.answer())


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
        self.work = Work(runtime, self._turn)
        self.judge = judge_for(runtime, asked.arguments.values)
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
                return self._record_refusal(refusal)
            assert self.tool is not None
            return self._work_until_committed(self.tool)
        except _Stored as stored_meanwhile:
            return stored_meanwhile.wire
        except (ClientError, Contended) as error:
            if isinstance(error, ClientError) and not is_throttling(error):
                raise
            # Not even a refusal could be recorded; the same call may be sent again under its id.
            return self._dress(failed(ToolThrottled()))

    # ------------------------------------------------------------ once

    def _once(self) -> dict[str, Any] | None:
        """The answer of an earlier call with this id, or None when there is work to do."""
        item = self.state.call
        if item is None:
            return None
        # Also where the first may be sent again: an approval was asked for its arguments, not for these.
        if item["digest"] != self.asked.arguments.digest or item["tool"].partition("@")[0] != self.asked.name:
            return self._dress(
                failed(
                    ToolError(
                        f"The call id {self.asked.call.call} was used in this turn for another call. "
                        "Send another tool or other arguments under a new call id.",
                        code="invalid_args",
                    ),
                    "invalid_args",
                )
            )
        if item["state"] == "open":
            return None
        if item["state"] == "running":
            return self._resume(item)
        return recording.load_answer(self.runtime, item)

    def _resume(self, item: Item) -> dict[str, Any]:
        # Only run_code leaves a call at work; its module is needed here and in its own function.
        from workbench.runs.run_tool import resume

        try:
            answer = resume(self._turn(), item)
        except ToolError as error:
            return self._dress(failed(error))
        return answer.wire if answer.wire is not None else self._dress(answer)

    # ------------------------------------------------------------ four questions, arguments, breaker

    def _reach(self) -> Answer | None:
        """Why this call may not be made or cannot be understood, as an answer; None to go on."""
        name = self.asked.name
        if self.tool is None:
            if name in catalogue.names():
                words = f"This turn was not offered {name}. Go on with the tools that it was offered."
                return failed(ToolError(words, code="denied"), "denied")
            # Of all tools, so that another one is never taken for a tool that this turn was not offered.
            near = nearest(name, catalogue.names())
            offered = near in self.turn_item["tools"]
            way = f"Did you mean {near}?" if offered else "Call tools by the names you were given."
            return failed(ToolError(f"There is no tool named {name!r}. {way}", code="unknown_tool"), "unknown_tool")
        try:
            self.bound = self.tool.bind(self.asked.arguments)
        except ToolError as error:
            return failed(error, "invalid_args")
        self.state.breaker, out_of_service = service.admit(
            self.runtime, self.head.conversation, self.state.breaker, self.tool, self.asked.arguments.digest
        )
        return out_of_service

    def _record_refusal(self, answer: Answer) -> dict[str, Any]:
        tries = Tries(self.runtime)
        for attempt in tries:
            try:
                return self._commit(answer, self._turn(), None)
            except (ConditionFailed, Contended):
                tries.pause(attempt)
                self._read_again()
        return self._dress(answer)

    # ------------------------------------------------------------ gate and work

    def _work_until_committed(self, tool: Tool) -> dict[str, Any]:
        clock = self.runtime.clock
        deadline = clock.monotonic() + tool.budget_seconds + (self.asked.wait_seconds if tool.step == "run" else 0)
        gone: BlobGone | None = None
        tries = Tries(self.runtime)
        for attempt in tries:
            try:
                answer, turn, commit = self._attempt(tool, deadline)
            except BlobGone as error:
                # Thinning dropped the version that this call began to read: the present one has what it needs.
                gone = error
                self._read_again()
                continue
            gone = None
            if attempt and answer.outcome == "timeout":
                # The work was done in time once. Losing to others took the rest: it may be sent again.
                break
            if answer.wire is not None:
                return self._recorded(answer.wire)
            if answer.outcome == "running":
                return self._dress(answer)
            if commit is not None:
                try:
                    if tries.unleased(self.head) is not self.head:
                        self._read_again()
                        continue
                except WorkspaceBusy as busy:
                    answer, turn, commit = failed(busy), self._turn(), None
            try:
                return self._commit(answer, turn, commit, same_sight=attempt < COMMIT_TRIES // 2)
            except (ConditionFailed, Contended):
                tries.pause(attempt)
                self._read_again()
        if gone is not None:
            raise gone
        return self._record_refusal(failed(self.head.busy(clock.now())))

    def _attempt(self, tool: Tool, deadline: float) -> tuple[Answer, Turn, Commit | None]:
        """One try on the state as it was read: the answer, what was seen, and the new version if there is one."""
        assert self.bound is not None
        turn = self._turn()
        gate = pass_gate(turn, tool, self.bound.values, self.judge)
        if isinstance(gate, Answer):
            if gate.outcome == "invalid_args":
                # The id belongs to another call, whose record this one must not take.
                raise _Stored(self._dress(gate))
            return gate, self._turn(), None
        turn.approvals = tuple(gate.approvals)
        answer, turn = self.work.do(tool, turn, self.bound, deadline)
        if answer.error is not None and answer.error.code in UNFINISHED_CODES:
            turn = self._turn()
        if gate.approvals:
            answer.effects["approvals"] = gate.approvals
        try:
            return answer, turn, self._prepare(turn, answer)
        except ToolError as error:
            # Nothing of this attempt stands, what it had seen included.
            return failed(error), self._turn(), None

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

    def _prepare(self, turn: Turn, answer: Answer) -> Commit | None:
        """The new version, when the call staged changes and did not fail."""
        if "workspace" not in turn.__dict__ or not turn.workspace.staged or answer.error is not None:
            return None
        commit = turn.workspace.prepare(self.asked.name, str(turn.id))
        answer.structured = {"version": commit.version, **answer.structured}
        return commit

    def _read_again(self) -> None:
        """Fresh state for another try; a twin of this call may have finished meanwhile."""
        self.state = read_state(self.runtime, self.asked)
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

    # ------------------------------------------------------------ record

    def _commit(self, answer: Answer, turn: Turn, commit: Commit | None, *, same_sight: bool = False) -> dict[str, Any]:
        """The call's one final write. Raises ConditionFailed when head or record changed meanwhile.

        With ``same_sight`` also when another call of the turn saw more of the same files: what both saw counts.
        """
        facts = self._facts(planned_requests=1 + (len(commit.uploads()) if commit else 0))
        made = record(answer, facts, self.runtime.settings)
        operations: list[Operation] = [made.operation()]
        if commit is not None:
            operations += commit.operations()
            # No write may come behind the reply of its turn, also not one that was under way when it was made.
            operations.append(check(turn_key(self.asked.call.turn), STILL_OPEN))
        if answer.error is None:
            operations += turn.operations
        operations += seen_operations(turn, self.state.seen, same_sight)
        operations += self._breaker_operations(made.wire)
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
        operations = self._breaker_operations(wire)
        if operations:
            # A lost count must not cost the answer.
            with suppress(Contended, ClientError):
                self.runtime.table.transact(operations)
        return wire

    def _breaker_operations(self, wire: dict[str, Any]) -> list[Operation]:
        if self.tool is None:
            return []
        error = wire["error"] or {}
        return service.after_call(
            self.runtime,
            self.head.conversation,
            self.state.breaker,
            self.tool,
            self.asked.arguments.digest,
            wire["outcome"],
            (error.get("code"), error.get("message", "")),
        )

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
            attempts=max(1, self.work.attempts),
            requests=self.requests() + planned_requests,
            may_page="read_result" in self.turn_item["tools"],
        )
        if self.tool is None or self.bound is None:
            return facts
        return replace(facts, conversions=tuple(self.bound.conversions), exact=self.tool.exact)

    def _audit(self, answer: Answer, wire: dict[str, Any]) -> None:
        recording.audit_effects(self.asked.call, answer)
        who = {"turn": str(self.asked.call.turn), "callId": self.asked.call.call}
        logger.info("tool call", extra={**who, "tool": self._label, "outcome": wire["outcome"], "cost": wire["cost"]})
