"""Any mix of writers, leases and thinning, with crashes, conflicts, throttling and clock jumps between AWS requests.

The model is a dict of files and a dict of versions. After each step the workspace is the model's old or new state,
never anything else, every kept version can be read, and the next writer gets in.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from botocore.exceptions import ClientError
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from local.system import LocalSystem
from tests.local import changed
from tests.local.changed import Crashed
from workbench.clock import SystemClock
from workbench.conversations import opening
from workbench.errors import WorkbenchError, WorkspaceBusy
from workbench.http import Request
from workbench.runtime import Runtime
from workbench.table import ConditionFailed, Contended
from workbench.tools.path import call_tool
from workbench.workspace import api as files_api
from workbench.workspace.storage import head as heads
from workbench.workspace.storage import history
from workbench.workspace.storage.manifest import Manifest, PageTable
from workbench.workspace.storage.store import BlobGone, WorkingCopy

Files = dict[str, bytes]

paths = st.sampled_from(["a.txt", "b.txt", "d/a.txt", "d/e/b.txt", "Ü.txt"])
contents = st.sampled_from(["", "one\n", "two\r\nlines", "three\nlines\nhere\n", "x" * 300])
faults = st.one_of(
    st.none(),
    st.tuples(st.sampled_from(["crash", "conflict", "throttle", "lost", "jump"]), st.integers(1, 7)),
)


class JumpingClock(SystemClock):
    """A clock that jumps when told to; waiting takes no time, and no time passes when the machine stands still."""

    def __init__(self) -> None:
        self.began = super().now()
        self.offset = 0.0

    def now(self) -> float:
        # A look takes a moment.
        self.offset += 0.001
        return self.began + self.offset

    def monotonic(self) -> float:
        return self.now()

    def sleep(self, seconds: float) -> None:
        self.offset += seconds


def throttled(service: str, operation: str) -> ClientError:
    code = "SlowDown" if service == "s3" else "ProvisionedThroughputExceededException"
    return ClientError({"Error": {"Code": code, "Message": "slow down"}}, operation)


def conflict(operation: str) -> ClientError | None:
    if operation == "TransactWriteItems":
        reasons = [{"Code": "TransactionConflict"}, {"Code": "None"}]
        error = {"Error": {"Code": "TransactionCanceledException", "Message": ""}, "CancellationReasons": reasons}
        return ClientError(error, operation)  # type: ignore[arg-type]
    if operation in ("UpdateItem", "PutItem", "DeleteItem"):
        return ClientError({"Error": {"Code": "TransactionConflictException", "Message": ""}}, operation)
    return None


class Workspace(RuleBasedStateMachine):
    """``system`` is set by the test."""

    system: LocalSystem

    @initialize()
    def begin(self) -> None:
        self.runtime: Runtime = self.system.runtime
        self.conversation = f"machine-{secrets.token_hex(6)}"
        self.runtime.table.transact([_put(heads.empty_head(self.conversation)), _put(_meta(self.conversation))])
        body = {"caller": {"user": "ada", "department": "research"}, "tools": "all"}
        asked = opening.read_request(body, self.conversation)
        self.turns = [opening.open_turn(self.runtime, self.conversation, asked) for _ in range(2)]
        self.calls = 0
        self.files: Files = {}
        self.versions: dict[int, Files] = {0: {}}
        self.version = 0
        self.held: heads.Head | None = None
        self.abandoned: list[heads.Head] = []

    # ------------------------------------------------------------ doing something that may fail on the way

    def attempt(self, fault: tuple[str, int] | None, new: Files, work: Callable[[], Any]) -> str:
        """Do ``work`` under ``fault``; it leads to ``new`` or changes nothing. Returns done, refused or failed."""
        sent = 0

        def meet(service: str, operation: str) -> None:
            nonlocal sent
            sent += 1
            if fault is None or sent != fault[1]:
                # A crash ends everything that comes after it, too.
                if fault is not None and fault[0] == "crash" and sent > fault[1]:
                    raise Crashed
                return
            if fault[0] == "crash":
                raise Crashed
            if fault[0] == "throttle":
                raise throttled(service, operation)
            if fault[0] == "jump":
                self.clock.offset += 3
            if fault[0] == "conflict" and (error := conflict(operation)):
                raise error

        outcome = "failed"
        with changed.hooked(self.system, meet):
            try:
                outcome = "refused" if work() is False else "done"
            except (WorkbenchError, ConditionFailed, BlobGone):
                # The version that somebody began with may be gone by now.
                outcome = "refused"
            except (Crashed, ClientError, Contended, heads.Fenced):
                outcome = "failed"
        if fault is not None and fault[0] == "lost" and outcome == "done":
            # It was done and nobody heard of it: whoever asked may ask again.
            outcome = "failed"
        self.settle(outcome, new)
        return outcome

    def settle(self, outcome: str, new: Files) -> None:
        """What the workspace is now must be the old or the new state, and the new one when the work was done."""
        changed.cold(self.system)
        head = heads.read_head(self.runtime, self.conversation)
        now = self.read(Manifest(head.table, self.page))
        assert head.version in (self.version, self.version + 1)
        if head.version == self.version:
            assert now == self.files
            assert outcome != "done" or new == self.files
        else:
            assert now == new and outcome != "refused"
            self.files, self.version = new, head.version
            self.versions[self.version] = dict(new)
        assert (head.files, head.bytes) == (len(self.files), sum(map(len, self.files.values())))

    def page(self, digest: str) -> bytes:
        return self.runtime.workspaces.page(self.conversation, digest)

    def read(self, manifest: Manifest) -> Files:
        return {entry.path: self.runtime.workspaces.read(self.conversation, entry) for entry in manifest.entries()}

    def tool(self, turn: int, name: str, arguments: dict[str, Any], fault: Any, new: Files) -> None:
        opened = self.turns[turn]
        self.calls += 1
        body = json.dumps({"callId": f"c{self.calls}", "arguments": arguments}).encode()
        request = Request(
            "POST", "", "", {"turn": str(opened.turn), "tool": name}, {}, {"x-turn-token": opened.token}, body
        )

        def work() -> bool:
            answer = call_tool(self.runtime, name, request).body
            self.outcome = answer["error"]["code"] if answer["error"] else "ok"
            return self.outcome == "ok"

        leased = self.leased()
        outcome = self.attempt(fault, new, work)
        if outcome == "refused":
            expected = {"workspace_busy"} if leased else {"internal", "workspace_busy"}
            if fault is not None and fault[0] == "throttle":
                expected.add("throttled")
            assert self.outcome in expected, self.outcome
            assert leased or fault is not None
        if outcome == "failed" and not leased:
            # The same call again: done once, whether or not it had been done before.
            assert self.attempt(None, new, work) in ("done", "refused")
            assert self.outcome in ("ok", "internal", "workspace_busy")
            assert self.outcome != "ok" or self.files == new

    def leased(self) -> bool:
        head = heads.read_head(self.runtime, self.conversation)
        return head.leased(self.runtime.clock.now(), self.runtime.settings.skew_seconds)

    @property
    def clock(self) -> JumpingClock:
        assert isinstance(self.runtime.clock, JumpingClock)
        return self.runtime.clock

    # ------------------------------------------------------------ what writers do

    @rule(turn=st.integers(0, 1), path=paths, content=contents, fault=faults)
    def write(self, turn: int, path: str, content: str, fault: Any) -> None:
        self.tool(turn, "write_file", {"path": path, "content": content}, fault, {**self.files, path: content.encode()})

    @rule(turn=st.integers(0, 1), content=contents, fault=faults)
    def write_three(self, turn: int, content: str, fault: Any) -> None:
        batch = {"a.txt": content, "d/a.txt": content + "2", "new.txt": "three\n"}
        files = [{"path": path, "content": text} for path, text in batch.items()]
        new = self.files | {path: text.encode() for path, text in batch.items()}
        self.tool(turn, "write_file", {"files": files}, fault, new)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), turn=st.integers(0, 1), fault=faults)
    def append(self, data: st.DataObject, turn: int, fault: Any) -> None:
        path = data.draw(st.sampled_from(sorted(self.files)))
        new = {**self.files, path: self.files[path] + b"more\n"}
        self.tool(turn, "edit_file", {"path": path, "append": "more\n"}, fault, new)

    @precondition(lambda self: self.files)
    @rule(data=st.data(), turn=st.integers(0, 1), fault=faults)
    def delete(self, data: st.DataObject, turn: int, fault: Any) -> None:
        path = data.draw(st.sampled_from(sorted(self.files)))
        self.tool(turn, "delete_file", {"path": path}, fault, {k: v for k, v in self.files.items() if k != path})

    @precondition(lambda self: any(path.startswith("d/") for path in self.files))
    @rule(turn=st.integers(0, 1), fault=faults)
    def delete_folder(self, turn: int, fault: Any) -> None:
        new = {path: data for path, data in self.files.items() if not path.startswith("d/")}
        self.tool(turn, "delete_file", {"path": "d", "recursive": True}, fault, new)

    @rule(path=paths, content=contents, fault=faults)
    def put(self, path: str, content: str, fault: Any) -> None:
        request = Request("PUT", "", "", {"conversation": self.conversation}, {"path": path}, {}, content.encode())
        new = {**self.files, path: content.encode()}
        self.attempt(fault, new, lambda: files_api.put_file(self.runtime, request))

    @rule(data=st.data(), fault=faults)
    def restore(self, data: st.DataObject, fault: Any) -> None:
        number = data.draw(st.sampled_from(sorted(self.versions)))
        request = Request("POST", "", "", {"conversation": self.conversation, "n": str(number)}, {}, {}, b"")
        new = dict(self.versions[number])
        self.attempt(fault, new, lambda: files_api.restore_version(self.runtime, request))

    # ------------------------------------------------------------ what holders of the lease do

    @rule(fault=faults)
    def thin(self, fault: Any) -> None:
        self.attempt(fault, self.files, lambda: history.thin(self.runtime, self.conversation))
        kept = {item["version"]: item for item in self.runtime.table.query(f"C#{self.conversation}", "V#")}
        assert kept.keys() <= self.versions.keys()
        assert not self.version or self.version in kept
        self.versions = {0: {}} | {number: self.versions[number] for number in kept}
        for number, item in kept.items():
            assert self.read(Manifest(PageTable.decode(item["pages"]), self.page)) == self.versions[number]

    @precondition(lambda self: self.held is None)
    @rule()
    def take_the_lease(self) -> None:
        leased = self.leased()
        try:
            self.held = heads.acquire(self.runtime, self.conversation, f"run-{secrets.token_hex(4)}", "run_code")
        except WorkspaceBusy:
            assert leased
        else:
            assert not leased

    @precondition(lambda self: self.held is not None)
    @rule(path=paths, content=contents, fault=faults)
    def commit_under_the_lease(self, path: str, content: str, fault: Any) -> None:
        assert self.held is not None
        held, self.held = self.held, None
        self.abandoned.append(held)
        self.attempt(fault, {**self.files, path: content.encode()}, lambda: self.commit(held, path, content))

    def commit(self, held: heads.Head, path: str, content: str) -> None:
        copy = WorkingCopy(self.runtime, held)
        copy.write(path, content.encode())
        commit = copy.prepare("run_code", None)
        self.runtime.clients.together(*commit.uploads())
        self.runtime.table.transact(commit.operations(lease_fence=held.fence))

    @precondition(lambda self: self.held is not None)
    @rule(how=st.sampled_from(["release", "vanish", "extend"]))
    def end_the_lease(self, how: str) -> None:
        assert self.held is not None
        if how == "extend":
            heads.extend(self.runtime, self.conversation, self.held.fence)
            return
        if how == "release":
            heads.release(self.runtime, self.conversation, self.held.fence)
        else:
            # It died; nobody can write until the lease is over, and then everybody can.
            self.clock.offset += self.runtime.settings.lease_seconds + 2 * self.runtime.settings.skew_seconds
            assert not self.leased()
        self.abandoned.append(self.held)
        self.held = None

    @precondition(lambda self: self.abandoned)
    @rule(data=st.data(), path=paths, content=contents)
    def a_stale_holder_wakes_up(self, data: st.DataObject, path: str, content: str) -> None:
        """It cannot commit once somebody else was let in; until then it may, and its base is the current state."""
        stale = data.draw(st.sampled_from(self.abandoned))
        head = heads.read_head(self.runtime, self.conversation)
        mine = head.fence == stale.fence and head.lease_until > 0
        base = self.files if mine else {}
        outcome = self.attempt(None, {**base, path: content.encode()}, lambda: self.commit(stale, path, content))
        assert outcome == ("done" if mine else "refused")

    @invariant()
    def counters_never_fall_behind(self) -> None:
        """The counters that make a pass due are never below what there is."""
        if getattr(self, "version", 0):
            head = heads.read_head(self.runtime, self.conversation)
            assert head.history_versions >= len(self.versions) - 1


def _put(item: dict[str, Any]) -> Any:
    from workbench.operations import put

    return put(item)


def _meta(conversation: str) -> dict[str, Any]:
    from workbench.keys import meta_key

    pk, sk = meta_key(conversation)
    return {
        "PK": pk,
        "SK": sk,
        "owner": "ada",
        "department": "research",
        "createdAt": 0,
        "gsi1pk": "P#ada",
        "gsi1sk": pk,
    }


@contextmanager
def jumping(runtime: Runtime) -> Iterator[None]:
    """The runtime, and the table made with it, on a clock that jumps."""
    before = runtime.clock
    runtime.clock, runtime.table = JumpingClock(), None  # type: ignore[assignment]
    del runtime.table
    try:
        yield
    finally:
        runtime.clock = before
        del runtime.table


def test_the_workspace_is_always_the_old_or_the_new_state(system: LocalSystem) -> None:
    Workspace.system = system
    limits = {"history_versions": 4, "busy_wait_seconds": 1.0, "breaker_cooldown_seconds": 0.0}
    # Shrinking a failure would take minutes; its steps are printed as they were.
    plan = settings(
        max_examples=12,
        stateful_step_count=16,
        deadline=None,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    with jumping(system.runtime), changed.settings(system, **limits):
        run_state_machine_as_test(Workspace, settings=plan)
