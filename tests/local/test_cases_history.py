"""History: every version is there until it is thinned out, and thinning never takes what a kept version needs."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.changed import Crashed
from tests.local.talk import Talk
from workbench.errors import WorkspaceBusy
from workbench.settings import Settings
from workbench.workspace.storage import head as heads
from workbench.workspace.storage import history
from workbench.workspace.storage.manifest import Manifest, PageTable


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def versions(talk: Talk) -> list[int]:
    """The kept versions, oldest first."""
    answer = talk.api("GET", f"/v1/conversations/{talk.conversation}/versions")
    assert answer.status == 200, answer.body
    return [version["version"] for version in reversed(answer.json["versions"])]


def restore(talk: Talk, version: int) -> Any:
    return talk.api("POST", f"/v1/conversations/{talk.conversation}/versions/{version}/restore", {})


def finish(talk: Talk) -> None:
    answer = talk.api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""})
    assert answer.status == 200, answer.body


def stored(system: LocalSystem, talk: Talk) -> dict[str, int]:
    """Sizes of the conversation's workspace objects by key."""
    runtime = system.runtime
    listed = runtime.clients.s3.list_objects_v2(
        Bucket=runtime.settings.workspace_bucket, Prefix=f"conversations/{talk.conversation}/"
    )
    return {found["Key"]: found["Size"] for found in listed.get("Contents", ())}


def write(talk: Talk, number: int, path: str = "f.txt") -> None:
    talk.put(path, f"{path} as of write {number}\n".encode())


# ---------------------------------------------------------------- versions, diff, restore


def test_versions_say_who_changed_what(talk: Talk) -> None:
    talk.ok("write_file", files=[{"path": "a.txt", "content": "1\n"}, {"path": "b/c.txt", "content": "2\n"}])
    talk.ok("edit_file", path="a.txt", append="3\n")
    talk.put("raw.bin", b"\0\1")
    talk.ok("delete_file", path="b", recursive=True)
    listed = talk.api("GET", f"/v1/conversations/{talk.conversation}/versions").json["versions"]
    told = [
        (one["version"], one["tool"], one["turn"] == talk.turn, one["created"], one["modified"], one["deleted"])
        for one in listed
    ]
    assert told == [
        (4, "delete_file", True, [], [], ["b/c.txt"]),
        (3, "put_file", False, ["raw.bin"], [], []),
        (2, "edit_file", True, [], ["a.txt"], []),
        (1, "write_file", True, ["a.txt", "b/c.txt"], [], []),
    ]


def test_a_diff_is_between_any_two_versions_in_either_direction(talk: Talk) -> None:
    talk.ok("write_file", path="a.txt", content="one\ntwo\nthree\n")
    talk.ok("edit_file", path="a.txt", edits=[{"find": "two", "replace": "2"}])
    talk.put("b.bin", b"\0")
    url = f"/v1/conversations/{talk.conversation}/versions"
    there = talk.api("GET", f"{url}/1/diff/3").json["changes"]
    assert there == [
        {
            "path": "a.txt",
            "change": "modified",
            "diff": "--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n",
        },
        {"path": "b.bin", "change": "created", "diff": None, "note": "not text"},
    ]
    back = talk.api("GET", f"{url}/3/diff/1").json["changes"]
    assert [(one["path"], one["change"]) for one in back] == [("a.txt", "modified"), ("b.bin", "deleted")]
    assert "-2\n+two" in back[0]["diff"]
    assert talk.api("GET", f"{url}/2/diff/2").json["changes"] == []
    created = talk.api("GET", f"{url}/0/diff/1").json["changes"]
    assert created[0]["change"] == "created"
    assert created[0]["diff"] == "--- /dev/null\n+++ b/a.txt\n@@ -0,0 +1,3 @@\n+one\n+two\n+three\n"
    assert talk.api("GET", f"{url}/1/diff/9").status == 404
    assert talk.api("GET", f"{url}/x/diff/1").status == 400


def test_a_diff_shows_what_differs_only_in_endings(talk: Talk) -> None:
    talk.put("a.txt", b"one\ntwo\n")
    talk.put("a.txt", b"one\r\ntwo")
    (change,) = talk.api("GET", f"/v1/conversations/{talk.conversation}/versions/1/diff/2").json["changes"]
    assert change["diff"] == (
        "--- a/a.txt\n+++ b/a.txt\n@@ -1,2 +1,2 @@\n-one\n-two\n+one\r\n+two\n\\ No newline at end of file\n"
    )


def test_a_diff_is_a_patch_that_git_takes(talk: Talk, tmp_path: Path) -> None:
    old, new = b"one\ntwo\nthree\n", b"one\n2\nthree\nfour"
    talk.put("a.txt", old)
    talk.put("a.txt", new)
    (change,) = talk.api("GET", f"/v1/conversations/{talk.conversation}/versions/1/diff/2").json["changes"]
    (tmp_path / "a.txt").write_bytes(old)
    subprocess.run(["git", "apply"], input=change["diff"].encode(), cwd=tmp_path, check=True)
    assert (tmp_path / "a.txt").read_bytes() == new


def test_a_restored_version_is_a_new_one_equal_to_the_old(talk: Talk) -> None:
    talk.ok("write_file", path="a.txt", content="first\n")
    talk.ok("write_file", path="b/c.txt", content="x")
    before = talk.files()
    talk.ok("delete_file", path="b/c.txt")
    talk.ok("write_file", path="b", content="now a file\n")
    talk.ok("edit_file", path="a.txt", append="more\n")
    answer = restore(talk, 2)
    assert (answer.status, answer.json["version"]) == (200, 6)
    assert talk.files() == before
    assert restore(talk, 0).json["version"] == 7
    assert talk.files() == {}
    assert restore(talk, 99).status == 404
    assert versions(talk) == [1, 2, 3, 4, 5, 6, 7]


def test_a_restore_obeys_the_limits_and_the_lease(talk: Talk, system: LocalSystem) -> None:
    talk.put("big.bin", b"\0" * 5_000)
    talk.put("big.bin", b"")
    with changed.settings(system, workspace_bytes=4_000):
        answer = restore(talk, 1)
        assert (answer.status, answer.json["error"]["details"]["reason"]) == (413, "limit_exceeded")
    held = heads.acquire(system.runtime, talk.conversation, "somebody", "run_code")
    with changed.settings(system, busy_wait_seconds=0.1):
        answer = restore(talk, 1)
    assert (answer.status, answer.json["error"]["details"]["reason"]) == (429, "workspace_busy")
    assert int(answer.headers["retry-after"]) >= 1
    heads.release(system.runtime, talk.conversation, held.fence)
    assert talk.bytes_of("big.bin") == b""


# ---------------------------------------------------------------- thinning


def test_thinning_drops_the_oldest_and_keeps_the_first_and_last_of_each_turn(talk: Talk, system: LocalSystem) -> None:
    for number in range(4):
        talk.ok("write_file", path="f.txt", content=f"turn one {number}\n")
    second = talk.again()
    for number in range(3):
        second.ok("write_file", path="f.txt", content=f"turn two {number}\n")
    for number in range(3):
        write(talk, number)
    with changed.settings(system, history_versions=6):
        assert history.thin(system.runtime, talk.conversation) == history.Thinned(4, 8, True)
    assert versions(talk) == [1, 4, 5, 7, 9, 10]
    with changed.settings(system, history_versions=1):
        history.thin(system.runtime, talk.conversation)
    assert versions(talk) == [1, 4, 5, 7, 10]
    assert restore(talk, 2).status == 404
    for number, content in ((4, b"turn one 3\n"), (7, b"turn two 2\n")):
        assert restore(talk, number).status == 200
        changed.cold(system)
        assert talk.bytes_of("f.txt") == content


def test_thinning_by_bytes_counts_what_is_really_stored(talk: Talk, system: LocalSystem) -> None:
    talk.put("large.bin", b"\0" * 50_000)
    for number in range(4):
        talk.put("other.bin", bytes([0, number]) * 5_000)
    # Dropping the first version frees next to nothing: its large file is still there.
    with changed.settings(system, history_bytes=75_000):
        history.thin(system.runtime, talk.conversation)
    assert versions(talk) == [4, 5]
    assert sum(stored(system, talk).values()) <= 75_000
    changed.cold(system)
    assert talk.bytes_of("large.bin") == b"\0" * 50_000


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_thinning_removes_what_a_crash_left_and_nothing_else(talk: Talk, system: LocalSystem) -> None:
    talk.ok("write_file", path="kept.txt", content="kept\n")
    named = stored(system, talk)

    def crash(_service: str, operation: str) -> None:
        if operation == "TransactWriteItems":
            raise Crashed

    with changed.hooked(system, crash), contextlib.suppress(OSError):
        talk.send("write_file", {"path": "lost.txt", "content": "never committed\n"})
    assert len(stored(system, talk)) == len(named) + 2
    assert history.thin(system.runtime, talk.conversation).objects == 2
    assert stored(system, talk) == named


def test_a_packed_history_and_long_lists_of_paths_survive_thinning(talk: Talk, system: LocalSystem) -> None:
    for generation in range(3):
        files = {f"many/{number:03}.txt": f"{generation} {number}\n".encode() for number in range(250)}
        changed.store_many(system, talk.conversation, files)
    assert any("/packs/" in key for key in stored(system, talk))
    with changed.settings(system, history_versions=2):
        assert history.thin(system.runtime, talk.conversation).versions == 1
    changed.cold(system)
    listed = talk.api("GET", f"/v1/conversations/{talk.conversation}/versions").json["versions"]
    assert [len(one["modified"]) for one in listed] == [250, 250]
    assert restore(talk, 2).status == 200
    changed.cold(system)
    assert talk.bytes_of("many/007.txt") == b"1 7\n"


def test_thinning_waits_for_nobody_and_gives_the_lease_back(talk: Talk, system: LocalSystem) -> None:
    write(talk, 1)
    held = heads.acquire(system.runtime, talk.conversation, "somebody", "run_code")
    with pytest.raises(WorkspaceBusy):
        history.thin(system.runtime, talk.conversation)
    heads.release(system.runtime, talk.conversation, held.fence)
    history.thin(system.runtime, talk.conversation)
    assert talk.ok("write_file", path="next.txt", content="in")


def test_a_crash_anywhere_in_thinning_loses_no_named_object(api: Any, unique: str, system: LocalSystem) -> None:
    """Killed between any two requests, everything kept can be read, and the next pass finishes the work."""
    crashed_at = 0
    for number in range(1, 30):
        talk = Talk.open(api, f"{unique}-{number}")
        for one in range(3):
            write(talk, one)
        with changed.settings(system, history_versions=2, lease_seconds=0.05, skew_seconds=0.0):
            with changed.crashing(system.runtime.clients, number - 1) as crash:
                history.thin(system.runtime, talk.conversation)
            changed.cold(system)
            readable(system, talk)
            write(talk, 3)
            assert history.thin(system.runtime, talk.conversation).finished
            assert versions(talk) == [3, 4]
            assert len(stored(system, talk)) == 4
        if not crash.happened:
            break
        crashed_at = number
    assert crashed_at >= 8


def readable(system: LocalSystem, talk: Talk) -> None:
    """Every kept version's pages and files are there."""
    runtime = system.runtime
    for item in runtime.table.query(f"C#{talk.conversation}", "V#"):
        load = partial(runtime.workspaces.page, talk.conversation)
        for entry in Manifest(PageTable.decode(item["pages"]), load).entries():
            assert len(runtime.workspaces.read(talk.conversation, entry)) == entry.bytes


def test_writers_and_thinning_at_once_lose_nothing(talk: Talk, system: LocalSystem) -> None:
    """What is written while old versions go, also the very bytes of a version that goes, can be read afterwards."""
    stop, passed = threading.Event(), threading.Event()

    def keep_thinning() -> None:
        while not stop.is_set():
            with contextlib.suppress(WorkspaceBusy, heads.Fenced):
                if history.thin(system.runtime, talk.conversation).versions:
                    passed.set()

    with changed.settings(system, history_versions=2, busy_wait_seconds=30):
        thinner = threading.Thread(target=keep_thinning)
        thinner.start()
        try:
            for number in range(9):
                # Three contents take turns, so that a writer names what a pass is about to remove.
                talk.put(f"{number % 2}.txt", f"content {number % 3}\n".encode())
                # Of three versions one is dropped: from here on there is a thread that does so.
                assert number != 2 or passed.wait(60)
        finally:
            stop.set()
            thinner.join()
    changed.cold(system)
    readable(system, talk)
    assert talk.files() == {"0.txt": b"content 2\n", "1.txt": b"content 1\n"}


def test_a_finished_turn_tidies_up_when_the_history_is_past_its_limits(talk: Talk, system: LocalSystem) -> None:
    for number in range(3):
        write(talk, number)
    with changed.settings(system, history_versions=3):
        finish(talk)
        assert versions(talk) == [1, 2, 3]
        for number in range(3, 5):
            write(talk, number)
        finish(talk.again())
        assert versions(talk) == [3, 4, 5]


def test_a_history_that_cannot_shrink_is_not_gone_through_at_every_turn() -> None:
    """The first and last version of each turn stay, so a pass may find nothing to drop: the next one waits a while."""
    settings = Settings(history_versions=1_000)

    def due(versions: int, size: int, then: tuple[int, int] = (0, 0)) -> bool:
        head = heads.Head("c", "active", 9, 1, 0.0, None, PageTable(), 1, 1, versions, size, *then)
        return history.is_due(head, settings)

    assert not due(1_000, 2**30)
    assert due(1_001, 1)
    assert due(3, 2**30 + 1)
    assert not due(1_049, 1, then=(1_000, 1))
    assert due(1_050, 1, then=(1_000, 1))
    assert not due(1_200, 2**30 + 1, then=(1_190, 2**30))
    assert due(9, 2**30 + 2**26, then=(8, 2**30))


def test_finishing_does_not_fail_because_tidying_up_does(talk: Talk, system: LocalSystem) -> None:
    for number in range(3):
        write(talk, number)

    def fail(service: str, _operation: str) -> None:
        if service == "s3":
            raise OSError("no such host")

    with changed.settings(system, history_versions=1), changed.hooked(system, fail):
        finish(talk)
    assert versions(talk) == [1, 2, 3]


def test_who_reads_while_its_version_is_dropped_gets_the_present_one(talk: Talk, system: LocalSystem) -> None:
    """A call that began on a version which thinning removes is done on the newest, whatever route or tool it is."""
    works: list[Callable[[], Any]] = [
        lambda: talk.ok("read_file", path="f.txt"),
        lambda: talk.ok("edit_file", path="f.txt", append="more\n"),
        lambda: talk.put("other.txt", b"x"),
        lambda: talk.bytes_of("f.txt"),
        lambda: talk.api("GET", f"/v1/conversations/{talk.conversation}/files").json["files"],
    ]
    for number, work in enumerate(works):
        write(talk, number)
        changed.cold(system)
        begun = False

        def overtake(service: str, operation: str, number: int = number) -> None:
            # Right before the first object is read: the head is known by then.
            nonlocal begun
            if operation == "GetObject" and not begun:
                begun = True
                for one in range(3):
                    write(talk, 100 * number + one)
                history.thin(system.runtime, talk.conversation)
                changed.cold(system)

        with changed.settings(system, history_versions=1), changed.hooked(system, overtake):
            work()
        assert begun
        assert (talk.bytes_of("f.txt") or b"").startswith(f"f.txt as of write {100 * number + 2}\n".encode())
