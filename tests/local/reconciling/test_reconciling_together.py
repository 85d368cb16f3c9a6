"""The reconciler beside writers: what they begin or commit between any two of its requests is kept."""

from __future__ import annotations

import contextvars
import hashlib
import secrets
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.conftest import Api
from tests.local.reconciled import DAY_SECONDS, ShiftedClock, reconcile, wait_for_deletions
from tests.local.runs.sandbox import Killed, killed_after
from tests.local.talk import Talk
from workbench.conversations import restoring
from workbench.errors import WorkspaceBusy
from workbench.http import Request
from workbench.keys import head_key
from workbench.operations import Update
from workbench.reconciling import artifacts, engine
from workbench.reconciling.findings import Finding
from workbench.workspace import api as files_api
from workbench.workspace.storage import history
from workbench.workspace.storage.manifest import blob_key

# Who sends a request: contexts go with the work to the client's threads.
_who: contextvars.ContextVar[str] = contextvars.ContextVar("who", default="")

CONTENT = b"the very bytes that a crash left unnamed\n"


class Beside:
    """Calls ``act`` once, before the reconciler's request number ``at``."""

    def __init__(self, at: int, act: Callable[[], None]) -> None:
        self.at, self.act, self.sent, self.acted = at, act, 0, False

    def __call__(self, _service: str, _operation: str) -> None:
        if _who.get() != "reconciler":
            return
        self.sent += 1
        if self.sent > self.at and not self.acted:
            self.acted = True
            token = _who.set("")
            try:
                self.act()
            finally:
                _who.reset(token)


def reconciled(world: LocalSystem, beside: Beside, names: Sequence[str]) -> int:
    """Every sweep of ``names``, with ``beside`` hearing of each of their requests; returns how much was found."""
    token, count = _who.set("reconciler"), 0
    try:
        with changed.hooked(world, beside):
            for name in names:
                for step in engine.SWEEPS[name](world.runtime, ""):
                    count += repaired(step.findings)
                    for note in step.notes:
                        note()
    finally:
        _who.reset(token)
    return count


def repaired(findings: Iterable[Finding]) -> int:
    """Repair what was found, as the engine does: whoever was faster is no fault."""
    count = 0
    for finding in findings:
        assert engine._repair(finding) in ("repaired", "left")
        count += 1
    return count


def a_crash_left(world: LocalSystem, api: Api) -> Talk:
    """A conversation with a file, and a blob that a crash left unnamed two days ago by the world's clock."""
    talk = Talk.open(api, f"c-{secrets.token_hex(5)}")
    talk.put("a.txt", b"kept")
    key = f"conversations/{talk.conversation}/{blob_key(hashlib.sha256(CONTENT).hexdigest())}"
    world.runtime.clients.s3.put_object(Bucket=world.runtime.settings.workspace_bucket, Key=key, Body=CONTENT)
    return talk


def at_every_request(case: Callable[[int], tuple[Beside, int]]) -> list[int]:
    """``case`` for each request, until there are no more; how much was found each time."""
    seen = []
    for at in range(60):
        beside, count = case(at)
        if not beside.acted:
            return seen
        seen.append(count)
    raise AssertionError("there is no end of requests")


def test_what_a_writer_commits_between_any_two_requests_is_kept(
    world: LocalSystem, api: Api, clock: ShiftedClock
) -> None:
    clock.ahead += 2 * DAY_SECONDS
    talks: list[Talk] = []

    def case(at: int) -> tuple[Beside, int]:
        talk = a_crash_left(world, api)
        talks.append(talk)

        def write() -> None:
            # The reconciler may hold the lease: then nothing is named, and the caller is told so.
            talk.api("PUT", f"/v1/conversations/{talk.conversation}/file?path=b.txt", CONTENT)

        beside = Beside(at, write)
        return beside, reconciled(world, beside, ["workspaces"])

    with changed.settings(world, busy_wait_seconds=0.0):
        at_every_request(case)
    changed.cold(world)
    written = [talk.bytes_of("b.txt") for talk in talks]
    assert set(written) == {None, CONTENT}
    assert written.count(CONTENT) > 5
    assert {talk.bytes_of("a.txt") for talk in talks} == {b"kept"}


def test_a_write_under_way_while_the_reconciler_works_names_nothing_that_is_gone(
    world: LocalSystem, api: Api, clock: ShiftedClock
) -> None:
    """The writer has stored its bytes before the reconciler looks, and commits between any two of its requests."""
    clock.ahead += 2 * DAY_SECONDS
    talks: list[Talk] = []
    workers: list[threading.Thread] = []
    stored, go_on = threading.Event(), threading.Event()

    def writer(talk: Talk) -> None:
        _who.set("writer")
        request = Request("PUT", "", "", {"conversation": talk.conversation}, {"path": "b.txt"}, {}, CONTENT)
        # Refused when the reconciler holds the lease at that moment.
        with suppress(WorkspaceBusy):
            files_api.put_file(world.runtime, request)

    class Held(Beside):
        def __call__(self, service: str, operation: str) -> None:
            if _who.get() == "writer" and operation == "TransactWriteItems" and not stored.is_set():
                stored.set()
                assert go_on.wait(30)
            super().__call__(service, operation)

    def case(at: int) -> tuple[Beside, int]:
        talk = a_crash_left(world, api)
        talks.append(talk)
        stored.clear()
        go_on.clear()
        worker = threading.Thread(target=writer, args=(talk,))
        workers.append(worker)

        def finish() -> None:
            go_on.set()
            worker.join()

        beside = Held(at, finish)
        world.runtime.clients.hook = beside
        worker.start()
        assert stored.wait(30)
        return beside, reconciled(world, beside, ["workspaces"])

    with changed.settings(world, busy_wait_seconds=0.0):
        at_every_request(case)
    go_on.set()
    for worker in workers:
        worker.join()
    changed.cold(world)
    written = [talk.bytes_of("b.txt") for talk in talks]
    assert set(written) == {None, CONTENT}
    assert {talk.bytes_of("a.txt") for talk in talks} == {b"kept"}


@pytest.mark.parametrize("sweep", ["artifacts", "records"])
def test_a_version_that_is_added_between_any_two_requests_is_kept(
    world: LocalSystem, api: Api, clock: ShiftedClock, sweep: str
) -> None:
    """To an artifact of which a crash left bytes, or of which all bytes are gone: it stays, or adding it is refused."""
    clock.ahead += 2 * DAY_SECONDS
    s3, bucket = world.runtime.clients.s3, world.runtime.settings.artifact_bucket
    added: list[tuple[str, int]] = []
    refused = 0

    def case(at: int) -> tuple[Beside, int]:
        talk = Talk.open(api, f"c-{secrets.token_hex(5)}")
        artifact = str(talk.ok("export_artifact", content="first")["structured"]["artifact"])
        if sweep == "artifacts":
            s3.put_object(Bucket=bucket, Key=f"artifacts/{artifact}/2", Body=b"never named")
        else:
            # Its bytes are gone, and today it is looked for: nothing of it would be left.
            (version,) = s3.list_object_versions(Bucket=bucket, Prefix=f"artifacts/{artifact}/")["Versions"]
            s3.delete_object(Bucket=bucket, Key=version["Key"], VersionId=version["VersionId"])

        def add() -> None:
            nonlocal refused
            answer = talk.call("export_artifact", content="second", artifact=artifact)
            if answer["outcome"] == "ok":
                added.append((artifact, answer["structured"]["version"]))
            else:
                refused += 1

        beside = Beside(at, add)
        if sweep == "artifacts":
            return beside, reconciled(world, beside, ["artifacts"])
        token = _who.set("reconciler")
        try:
            with changed.hooked(world, beside):
                return beside, repaired(artifacts.look(world.runtime, [artifact]))
        finally:
            _who.reset(token)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(artifacts, "DAYS_OF_A_ROUND", 1)
        seen = at_every_request(case)
    assert any(seen)
    assert added and (sweep == "artifacts" or refused)
    for artifact, number in added:
        assert api("GET", f"/v1/artifacts/{artifact}/versions/{number}/content").body == b"second"


def test_a_deletion_and_a_restore_between_any_two_requests_are_harmless(
    world: LocalSystem, api: Api, clock: ShiftedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind the restore the same bytes are written again, under the same key and the same version number.

    Where the reconciler holds the lease, its request to remove objects may be on its way: the restore has to wait.
    """
    clock.ahead += 2 * DAY_SECONDS
    monkeypatch.setattr(restoring, "WAIT_SECONDS", 0.1)
    talks: list[Talk] = []
    restored: list[int] = []

    def restore(talk: Talk) -> int:
        status = int(api("POST", f"/v1/conversations/{talk.conversation}/restore").status)
        if status == 200:
            talk.put("a.txt", CONTENT)
        return status

    def case(at: int) -> tuple[Beside, int]:
        talk = a_crash_left(world, api)
        talks.append(talk)

        def begin_anew() -> None:
            assert api("DELETE", f"/v1/conversations/{talk.conversation}").status == 202
            restored.append(restore(talk))

        beside = Beside(at, begin_anew)
        count = reconciled(world, beside, ["workspaces"])
        wait_for_deletions(world)
        if beside.acted and restored[-1] != 200:
            assert restore(talk) == 200
        return beside, count

    with changed.settings(world, lease_seconds=600.0):
        at_every_request(case)
    changed.cold(world)
    assert {talk.bytes_of("a.txt") for talk in talks[:-1]} == {CONTENT}
    assert set(restored) == {200, 409}


def test_what_was_noted_as_clean_is_looked_at_again_after_a_crash_in_thinning(
    world: LocalSystem, api: Api, clock: ShiftedClock
) -> None:
    """Dropping versions leaves old objects unnamed: a crash right behind it must not hide them."""
    clock.ahead += 2 * DAY_SECONDS
    killed, requests = True, 0
    while killed:
        talk = Talk.open(api, f"c-{secrets.token_hex(5)}")
        for number in range(3):
            talk.put("a.txt", b"%d" % number)
        # As found clean in the far future: what these writes stored is older than that.
        world.runtime.table.update(head_key(talk.conversation), Update().set("tidiedAt", clock.now() + DAY_SECONDS))
        with changed.settings(world, history_versions=1):
            try:
                with killed_after(world.runtime.clients, requests):
                    history.thin(world.runtime, talk.conversation)
                killed = False
            except Killed:
                requests += 1
        clock.ahead += DAY_SECONDS
        kept = len(talk.api("GET", f"/v1/conversations/{talk.conversation}/versions").json["versions"])
        if kept == 1:
            reconcile(world)
            prefix = f"conversations/{talk.conversation}/"
            bucket = world.runtime.settings.workspace_bucket
            left = world.runtime.clients.s3.list_objects_v2(Bucket=bucket, Prefix=prefix)["Contents"]
            assert len(left) == 2
    assert requests > 6
