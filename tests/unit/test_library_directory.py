"""The library's directory: nothing outside is reached, nothing is half written, nobody's newer state is overwritten."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from local.library import SandboxBackend, ToolError, applying, create_sandbox_backend
from local.library.applying import Drop, Put, Shape, apply, recover, writing
from local.library.desk import DirectoryTree, Memory
from local.library.directory import Directory
from workbench.clock import ManualClock, SystemClock
from workbench.settings import Settings
from workbench.workspace.file_arguments import FileToWrite

SETTINGS = Settings.from_environment({})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def backend(root: Path) -> SandboxBackend:
    return create_sandbox_backend(root)


def tree(root: Path) -> dict[str, bytes | None]:
    """Every path below with its bytes, None for a folder; links as what they point to."""
    return {
        str(path.relative_to(root)): str(path.readlink()).encode()
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in root.rglob("*")
    }


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def refused(code: str, work: Callable[..., Any], *arguments: Any, **named: Any) -> str:
    with pytest.raises(ToolError) as caught:
        work(*arguments, **named)
    assert caught.value.code == code, caught.value
    return caught.value.message


# ---------------------------------------------------------------- nothing outside is reached


@pytest.fixture
def outside(tmp_path: Path) -> Iterator[Path]:
    """A neighbour with a secret, whose tree must be the same afterwards."""
    folder = tmp_path / "root-secret"
    folder.mkdir()
    (folder / "loot").write_text("secret words\n")
    before = tree(folder)
    yield folder
    assert tree(folder) == before


NO_PATHS = [
    "../root-secret/loot",
    "sub/../../root-secret/loot",
    "{outside}/loot",
    "..",
    "a\0b",
    "a\\b",
    "a\nb",
    "\ud800",
]


@pytest.mark.parametrize("path", NO_PATHS)
def test_what_is_no_path_is_refused_by_every_tool(
    backend: SandboxBackend, root: Path, outside: Path, path: str
) -> None:
    path = path.replace("{outside}", str(outside))
    (root / "sub").mkdir()
    before = tree(root)
    for work in (
        lambda: backend.ls(path),
        lambda: backend.read_file(path),
        lambda: backend.write_file(path, "x"),
        lambda: backend.edit_file(path, append="x"),
        lambda: backend.delete_file(path, recursive=True),
        lambda: backend.glob("**", path),
        lambda: backend.grep("secret", path=path),
    ):
        assert "secret words" not in refused("invalid_path", work)
    assert tree(root) == before


def test_no_link_is_followed_wherever_it_stands(backend: SandboxBackend, root: Path, outside: Path) -> None:
    (root / "file-link").symlink_to(outside / "loot")
    (root / "folder-link").symlink_to(outside)
    (root / "inner-link").symlink_to("store")
    (root / "loop").symlink_to("loop")
    (root / "broken").symlink_to("nowhere")
    (root / "store").mkdir()
    (root / "store/n.md").write_text("inside\n")
    before = tree(root)
    for path in ("file-link", "folder-link/loot", "folder-link/new", "inner-link/n.md", "loop", "loop/x", "broken"):
        for work in (
            backend.read_file,
            lambda p: backend.write_file(p, "x"),
            lambda p: backend.edit_file(p, append="x"),
        ):
            assert "link" in refused("unsupported_type", work, path)
        refused("unsupported_type", backend.delete_file, path)
    refused("unsupported_type", backend.ls, "folder-link")
    refused("unsupported_type", backend.grep, "secret", path="folder-link")
    assert tree(root) == before
    listed = backend.ls(depth=9)
    assert [entry["path"] for entry in listed.structured["entries"]] == ["store", "store/n.md"]
    assert {one["name"] for one in listed.structured["leftOut"]} == {
        "broken",
        "file-link",
        "folder-link",
        "inner-link",
        "loop",
    }
    assert backend.glob("**").structured["paths"] == ["store/n.md"]
    assert backend.grep("secret").structured["matches"] == []
    # A folder that holds what the tools do not see is not deleted around it.
    (root / "store/link").symlink_to(outside)
    refused("not_allowed", backend.delete_file, "store", recursive=True)
    assert (root / "store/n.md").exists() and (root / "store/link").is_symlink()


def test_a_folder_that_becomes_a_link_is_not_followed_by_who_has_it_open(root: Path, outside: Path) -> None:
    """The descriptor stays on the folder that was checked."""
    (root / "d").mkdir(parents=True)
    with Directory(root, SystemClock()).opened() as top, top.place("d/loot") as place:
        assert place is not None
        (root / "d").rename(root / "away")
        (root / "d").symlink_to(outside)
        with pytest.raises(FileNotFoundError):
            os.open(place[1], os.O_RDONLY, dir_fd=place[0])
        apply_refused = [Put("d/loot", 0o644, "", lambda: (b"x",))]
        with pytest.raises(ToolError):
            apply(top, apply_refused)
    assert names(root / "away") == []


def test_pipes_sockets_and_devices_answer_at_once(backend: SandboxBackend, root: Path) -> None:
    os.mkfifo(root / "pipe")
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(root / "socket"))
    (root / "a.txt").write_text("needle\n")
    for path, what in (("pipe", "FIFO"), ("socket", "socket")):
        for work in (backend.read_file, lambda p: backend.write_file(p, "x"), backend.delete_file, backend.ls):
            assert what in refused("unsupported_type", work, path)
    assert [match["path"] for match in backend.grep("needle").structured["matches"]] == ["a.txt"]
    assert "pipe: a FIFO" in backend.ls().text and "socket: a socket" in backend.ls().text


def test_names_that_no_rule_allows_are_named_and_left_out(backend: SandboxBackend, root: Path) -> None:
    for name in (b"bad-\xff", b"new\nline", b"red\x1b[31m", b"back\\slash", b"fine"):
        Path(os.fsdecode(os.fsencode(root) + b"/" + name)).write_text("needle")
    (root / "workspace").mkdir()
    (root / "workspace/deck.html").write_text("needle")
    listed = backend.ls(depth=3)
    assert [entry["path"] for entry in listed.structured["entries"]] == ["fine"]
    assert len(listed.structured["leftOut"]) == 5
    assert len(listed.text.splitlines()) == 6 and "\x1b" not in listed.text
    assert [match["path"] for match in backend.grep("needle").structured["matches"]] == ["fine"]
    assert "deck.html" in refused("invalid_path", backend.read_file, "workspace/deck.html")


def test_a_decomposed_name_is_found_by_its_composed_form(backend: SandboxBackend, root: Path) -> None:
    decomposed, composed = "U\u0308bersicht.txt", "Übersicht.txt"
    (root / decomposed).write_text("old\n")
    assert "old" in backend.read_file(composed).text and "old" in backend.read_file(decomposed).text
    backend.edit_file(composed, [{"find": "old", "replace": "new"}])
    assert {name: (root / name).read_text() for name in names(root)} == {decomposed: "new\n"}
    # With both there, each path means exactly one of them.
    (root / composed).write_text("composed\n")
    assert "composed" in backend.read_file(decomposed).text
    listed = backend.ls().structured
    assert [entry["path"] for entry in listed["entries"]] == [composed] and len(listed["leftOut"]) == 1


def test_an_unreadable_folder_is_never_shown_as_empty(tmp_path: Path) -> None:
    """As somebody whom modes keep out."""
    root = tmp_path / "root"
    (root / "closed").mkdir(parents=True)
    (root / "closed/x").write_text("x")
    (root / "mine").write_text("x")
    (root / "closed").chmod(0)
    (root / "mine").chmod(0)

    def look() -> str:
        backend = create_sandbox_backend(root)
        said = [refused("not_allowed", backend.read_file, path) for path in ("closed/x", "mine")]
        return "\n".join([backend.ls(depth=5).text, backend.grep("x").text, *said])

    tmp_path.chmod(0o755)
    for above in tmp_path.parents[:3]:
        if above.stat().st_uid == os.geteuid() and above != Path("/tmp"):
            above.chmod(above.stat().st_mode | 0o055)
    said = in_child(look, user=65_534)
    (root / "closed").chmod(0o755)
    assert "closed: the folder cannot be opened (Permission denied)" in said
    assert "Not searched (cannot be read): mine" in said


def in_child(work: Callable[[], str], user: int | None = None) -> str:
    """What ``work`` returns in a process of its own, perhaps with another's rights. Raises what it raised, as text."""
    reading, writing_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if user is not None and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(user)
                os.setuid(user)
            text = "ok\n" + work()
        except BaseException as error:
            text = f"raised\n{error!r}"
        os.write(writing_end, text.encode())
        os._exit(0)
    os.close(writing_end)
    with os.fdopen(reading) as pipe:
        outcome, _, text = pipe.read().partition("\n")
    os.waitpid(child, 0)
    assert outcome == "ok", text
    return text


# ---------------------------------------------------------------- whole or not at all


def test_modes_and_owners_stay(backend: SandboxBackend, root: Path) -> None:
    file = root / "run.sh"
    file.write_text("echo 1\n")
    file.chmod(0o750)
    if os.geteuid() == 0:
        os.chown(file, 1234, 1235)
    before = file.stat()
    backend.edit_file("run.sh", [{"find": "1", "replace": "2"}])
    backend.write_file("run.sh", "echo 3\n")
    after = file.stat()
    assert (after.st_mode, after.st_uid, after.st_gid) == (before.st_mode, before.st_uid, before.st_gid)
    assert names(root) == ["run.sh"]


def test_a_reader_sees_the_old_file_or_the_new_one(backend: SandboxBackend, root: Path) -> None:
    states = {f"{letter * 3_000}\n" for letter in "ab"}
    backend.write_file("f.txt", "a" * 3_000 + "\n")
    seen: set[str] = set()
    done = threading.Event()

    def read() -> None:
        while not done.is_set():
            seen.add((root / "f.txt").read_text())

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(60):
        backend.write_file("f.txt", "ab"[number % 2] * 3_000 + "\n")
    done.set()
    reader.join()
    assert seen <= states


def changes() -> list[applying.Change]:
    """One of each kind: replaced, created below a new folder, deleted, a folder gone, a mode, kinds exchanged."""
    texts = {"a.txt": b"A2\n", "new/deep/b.txt": b"B\n", "was-folder": b"file now\n", "was-file/inner": b"I\n"}
    puts = [
        Put(path, 0o640, applying.hashlib.sha256(data).hexdigest(), lambda data=data: (data,))  # type: ignore[misc]
        for path, data in texts.items()
    ]
    drops = [
        Drop("gone.txt", "file"),
        Drop("empty", "folder"),
        Drop("was-folder/x", "file"),
        Drop("was-folder", "folder"),
        Drop("was-file", "file"),
    ]
    return [*puts, *drops, Shape("made", 0o700), Shape("kept", 0o711)]


BEFORE: dict[str, bytes | None] = {
    "a.txt": b"A\n",
    "gone.txt": b"G\n",
    "empty": None,
    "kept": None,
    "kept/other": b"O\n",
    "was-folder": None,
    "was-folder/x": b"X\n",
    "was-file": b"F\n",
}
AFTER: dict[str, bytes | None] = {
    "a.txt": b"A2\n",
    "new": None,
    "new/deep": None,
    "new/deep/b.txt": b"B\n",
    "kept": None,
    "kept/other": b"O\n",
    "was-folder": b"file now\n",
    "was-file": None,
    "was-file/inner": b"I\n",
    "made": None,
}


def fill(root: Path) -> None:
    for path, data in BEFORE.items():
        if data is None:
            (root / path).mkdir(parents=True)
        else:
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_bytes(data)
    (root / "kept").chmod(0o750)


def test_a_batch_makes_every_change(root: Path) -> None:
    fill(root)
    with writing(Directory(root, SystemClock())) as top:
        apply(top, changes())
    assert tree(root) == AFTER
    assert (root / "made").stat().st_mode & 0o777 == 0o700 and (root / "kept").stat().st_mode & 0o777 == 0o711
    assert (root / "a.txt").stat().st_mode & 0o777 == 0o640


STEPS = ("rename", "link", "mkdir", "rmdir", "chmod", "unlink")


def counted(monkeypatch: pytest.MonkeyPatch, at: int, action: Callable[[], None]) -> list[int]:
    """Do ``action`` in place of the ``at``-th step that changes a directory."""
    count = [0]
    for name in STEPS:
        real = getattr(os, name)

        def step(*arguments: Any, _real: Any = real, **named: Any) -> Any:
            count[0] += 1
            if count[0] == at:
                action()
            return _real(*arguments, **named)

        monkeypatch.setattr(applying.os, name, step)
    return count


def test_a_batch_that_fails_at_any_step_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for a hard link that cannot be made: the file itself is set aside then. And for what comes after all."""

    def fail() -> None:
        raise OSError(28, "No space left on device")

    at, reached, failures = 0, [1], 0
    while reached[0] >= at:
        at += 1
        root = tmp_path / str(at)
        fill(root)
        failed = False
        with monkeypatch.context() as patched, writing(Directory(root, SystemClock())) as top:
            reached = counted(patched, at, fail)
            try:
                apply(top, changes())
            except OSError:
                failed = True
                assert tree(root) == BEFORE, f"step {at}"
                assert (root / "kept").stat().st_mode & 0o777 == 0o750
        create_sandbox_backend(root)  # removes what could not be
        assert tree(root) == (BEFORE if failed else AFTER), f"step {at}"
        failures += failed
    assert failures > 15


def test_a_process_that_dies_at_any_step_leaves_all_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The next writer puts it right from the journal."""
    outcomes = []
    for at in range(1, 40):
        root = tmp_path / str(at)
        root.mkdir()
        fill(root)
        child = os.fork()
        if child == 0:
            counted(monkeypatch, at, lambda: os._exit(9))
            with writing(Directory(root, SystemClock())) as top:
                apply(top, changes())
            os._exit(0)
        died = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9
        backend = create_sandbox_backend(root)
        assert tree(root) in (BEFORE, AFTER), f"step {at}"
        outcomes.append((died, tree(root) == AFTER))
        backend.write_file("usable.txt", "x")
    assert (True, False) in outcomes and (False, True) in outcomes and (False, False) not in outcomes


def test_what_was_written_after_a_crash_is_not_taken_back(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fill(root)
    child = os.fork()
    if child == 0:
        monkeypatch.setattr(applying, "_flush", lambda *_: os._exit(9))
        with writing(Directory(root, SystemClock())) as top:
            apply(top, changes())
    os.waitpid(child, 0)
    (root / "a.txt").write_bytes(b"somebody's newer words\n")
    (root / "gone.txt").write_bytes(b"made anew\n")
    with Directory(root, SystemClock()).opened() as top:
        recover(top)
    assert (root / "a.txt").read_bytes() == b"somebody's newer words\n"
    assert (root / "gone.txt").read_bytes() == b"made anew\n"
    assert not (root / "new").exists()


@pytest.mark.parametrize(
    "journal",
    [
        [["drop", "../root-secret/loot", 0]],
        [["make", "../root-secret"]],
        [["put", "../root-secret/new", 0]],
        [["mode", "../root-secret", -1, "", 0, 0]],
        [["put", "{outside}/loot", 0]],
        [["drop", "kept.txt/..", 0]],
        [["none"]],
        [[1, 2, 3]],
        {"a": 1},
        None,
    ],
)
def test_a_journal_that_we_did_not_write_is_not_carried_out(root: Path, outside: Path, journal: Any) -> None:
    staging = root / ".workbench-tmp-0123456789abcdef"
    staging.mkdir(parents=True)
    (root / "kept.txt").write_text("kept")
    (staging / "journal").write_text(json.dumps(journal).replace("{outside}", str(outside)))
    (staging / "old-0").write_text("forged")
    create_sandbox_backend(root)
    assert tree(root) == {"kept.txt": b"kept"}


def test_no_path_leads_up_even_unchecked(root: Path, outside: Path) -> None:
    root.mkdir()
    with Directory(root, SystemClock()).opened() as top:
        for path in ("../root-secret/loot", "a/../../root-secret/loot", "..", "a//b", f"{outside}/loot"):
            refused("invalid_path", top.look, path)
            refused("invalid_path", lambda path=path: list(top.walk(path)))
            with pytest.raises(ToolError):
                apply(top, [Put(path, 0o644, "", lambda: (b"x",)), Drop(path, "file")])


def test_a_batch_of_writes_lands_whole_or_not_at_all(backend: SandboxBackend, root: Path) -> None:
    (root / "f").write_text("x")
    files = [FileToWrite(path="a/b.txt", content="1"), FileToWrite(path="f/below", content="2")]
    refused("not_folder", backend.write_file, files=files)
    assert tree(root) == {"f": b"x"}
    backend.write_file(files=[FileToWrite(path="a/b.txt", content="1"), FileToWrite(path="c", content="2")])
    assert tree(root) == {"f": b"x", "a": None, "a/b.txt": b"1", "c": b"2"}


# ---------------------------------------------------------------- one at a time, and never over a newer state


def test_two_edits_at_once_both_stand_across_threads_and_processes(root: Path) -> None:
    create_sandbox_backend(root).write_file("f.txt", "".join(f"line {n}\n" for n in range(1, 201)))

    def edit(lines: range) -> str:
        backend = create_sandbox_backend(root)
        for line in lines:
            backend.edit_file("f.txt", [{"find": f"line {line}\n", "replace": f"done {line}\n"}])
        return ""

    threads = [threading.Thread(target=edit, args=(range(first, 200, 8),)) for first in (1, 2, 3)]
    for thread in threads:
        thread.start()
    in_child(lambda: edit(range(4, 200, 8)))
    for thread in threads:
        thread.join()
    done = [line for line in (root / "f.txt").read_text().splitlines() if line.startswith("done")]
    assert len(done) == 100


def test_a_directory_that_stays_locked_is_busy(root: Path) -> None:
    root.mkdir()
    holder = os.open(root, os.O_RDONLY)
    fcntl.flock(holder, fcntl.LOCK_EX)
    clock = ManualClock()
    try:
        with pytest.raises(ToolError) as caught, Directory(root, clock).locked():
            raise AssertionError("two writers at once")
        assert caught.value.code == "workspace_busy" and caught.value.retryable
    finally:
        os.close(holder)
    with Directory(root, clock).locked():
        pass


@pytest.mark.parametrize("now", [b"theirs\n", None])
def test_a_file_that_somebody_else_changed_meanwhile_is_not_overwritten(root: Path, now: bytes | None) -> None:
    root.mkdir()
    (root / "f.txt").write_bytes(b"mine\n")
    with writing(Directory(root, SystemClock())) as top:
        files = DirectoryTree(top, Memory(), SETTINGS)
        assert files.entry("f.txt") is not None and files.entry("new.txt") is None
        files.write("f.txt", b"edited\n")
        files.write("new.txt", b"created\n")
        if now is None:
            (root / "f.txt").unlink()
        else:
            (root / "f.txt").write_bytes(now)
        assert "f.txt" in refused("workspace_busy", files.commit)
    assert tree(root) == ({} if now is None else {"f.txt": now})


def test_a_file_that_somebody_else_created_meanwhile_is_not_overwritten(root: Path) -> None:
    root.mkdir()
    with writing(Directory(root, SystemClock())) as top:
        files = DirectoryTree(top, Memory(), SETTINGS)
        files.write("new.txt", b"created\n")
        (root / "new.txt").symlink_to("elsewhere")
        refused("workspace_busy", files.commit)
    assert (root / "new.txt").is_symlink()


# ---------------------------------------------------------------- limits and the root


def test_limits_count_the_whole_directory(root: Path) -> None:
    small = create_sandbox_backend(root, settings=Settings(workspace_files=3, workspace_bytes=100))  # type: ignore[call-arg]
    small.write_file(files=[FileToWrite(path=name, content="x" * 30) for name in "abc"])
    assert "3 of 3 files" in refused("limit_exceeded", small.write_file, "d", "x")
    assert "90 of 100 bytes" in refused("limit_exceeded", small.write_file, "a", "x" * 50)
    small.write_file("a", "x" * 40)
    small.write_file("a", "")
    (root / "large.bin").write_bytes(b"x" * 101)
    refused("too_large", small.read_file, "large.bin")
    assert "Not searched (cannot be read): large.bin" in small.grep("zzz").text


def test_a_root_that_went_away_is_said_and_one_that_came_back_works(backend: SandboxBackend, root: Path) -> None:
    backend.write_file("a", "x")
    root.rename(root.with_name("elsewhere"))
    for work in (backend.ls, lambda: backend.write_file("b", "x"), lambda: backend.execute("true")):
        assert "root" in refused("not_found", work)
    root.mkdir()
    assert "empty" in backend.ls().text


def test_the_root_is_resolved_once(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    backend = create_sandbox_backend(tmp_path / "link")
    backend.write_file("a", "x")
    (tmp_path / "link").unlink()
    (tmp_path / "other").mkdir()
    (tmp_path / "link").symlink_to("other")
    assert "a (1 byte)" in backend.ls().text and backend.root == str(tmp_path / "real")


def test_a_writers_own_names_are_kept_from_the_tools(backend: SandboxBackend, root: Path) -> None:
    name = ".workbench-tmp-0123456789abcdef"
    refused("invalid_path", backend.write_file, f"{name}/x", "x")
    (root / name).mkdir()
    (root / name / "new-0").write_text("left by a crash")
    assert name not in backend.ls().text
    backend.write_file("a", "x")
    assert names(root) == ["a"]


@pytest.mark.parametrize(
    "named",
    [
        {"timeout_ms": 0},
        {"timeout_ms": 900_001},
        {"max_buffer": 0},
        {"max_output_chars": -1},
        {"env": {"A=B": "x"}},
        {"env": {"A": "x\0y"}},
        {"env": {"": "x"}},
        {"env": {"A": 1}},
    ],
)
def test_values_that_cannot_be_meant_are_refused_at_once(tmp_path: Path, named: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(named))):
        create_sandbox_backend(tmp_path / "root", **named)
    assert not (tmp_path / "root").exists()


def test_a_root_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(FileExistsError):
        create_sandbox_backend(tmp_path / "file")
