"""execute of the library: commands, hostile ones too, over a plain directory, in the real sandbox."""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501
from __future__ import annotations

import hashlib
import json
import logging
import os
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local import launcher
from local.library import SandboxBackend, ToolError, create_sandbox_backend
from sandbox_container import reap
from tests.sandbox.conftest import DENIED, PRELUDE, SHARED_FOLDERS, owner
from workbench.settings import MIB, Settings

CANARY = "canary-of-the-parent-7c1d"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def backend(root: Path, monkeypatch: pytest.MonkeyPatch) -> SandboxBackend:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    return create_sandbox_backend(root, timeout_ms=60_000)


def limited(root: Path, **settings: Any) -> SandboxBackend:
    return create_sandbox_backend(root, timeout_ms=60_000, settings=Settings.model_validate(settings))


def tree(root: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(root)): None if path.is_dir() else path.read_bytes()
        for path in root.rglob("*")
        if not path.is_symlink()
    }


def python(backend: SandboxBackend, code: str) -> dict[str, Any]:
    """The JSON object that a Python program printed, run from a file that is not kept."""
    backend.write_file("program.py", PRELUDE + textwrap.dedent(code))
    answer = backend.execute("python3 program.py; status=$?; rm program.py; exit $status")
    assert answer.error is None, answer.text
    return dict(json.loads(answer.structured["stdout"]))


def failed(code: str, backend: SandboxBackend, command: str) -> ToolError:
    with pytest.raises(ToolError) as caught:
        backend.execute(command)
    assert caught.value.code == code, caught.value
    return caught.value


@pytest.fixture(autouse=True)
def nothing_left(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No process and no file of a sandbox outlives its command. The users are this process's alone."""
    first = 300_000 + 2 * launcher.SLOTS * (os.getpid() % 10_000)
    monkeypatch.setattr(launcher, "FIRST_UID", first)
    monkeypatch.setattr(launcher, "_SLOT_FOLDER", tmp_path_factory.getbasetemp() / "slots")
    yield
    uids = range(first, first + 2 * launcher.SLOTS)
    assert [one.pid for one in reap.processes() if any(uid in uids for uid in one.uids)] == []
    assert [path for folder in SHARED_FOLDERS for path in Path(folder).iterdir() if owner(path) in uids] == []


# ---------------------------------------------------------------- what a command does and sees


def test_a_command_runs_in_the_root_and_its_changes_are_taken_over(backend: SandboxBackend, root: Path) -> None:
    (root / "d").mkdir()
    (root / "d/old.txt").write_text("old\n")
    (root / "gone.txt").write_text("x")
    (root / "same.txt").write_text("same")
    before = (root / "same.txt").stat()
    answer = backend.execute(
        "pwd; cat d/old.txt; echo more >> d/old.txt; rm gone.txt; mkdir -p new/deep; echo n > new/deep/n.txt; "
        "mkdir hollow; printf same > same.txt; printf '#!/bin/sh\\n' > run.sh; chmod 755 run.sh; echo err >&2; exit 7"
    )
    facts = answer.structured
    assert (facts["exitCode"], facts["stdout"], facts["stderr"]) == (7, "/sandbox/workspace\nold\n", "err\n")
    assert answer.error is not None and answer.error.code == "SANDBOX_ERROR" and "Exit status 7" in answer.text
    assert facts["created"] == ["hollow", "new/deep/n.txt", "run.sh"]
    assert (facts["modified"], facts["deleted"]) == (["d/old.txt"], ["gone.txt"])
    assert tree(root) == {
        "d": None,
        "d/old.txt": b"old\nmore\n",
        "same.txt": b"same",
        "new": None,
        "new/deep": None,
        "new/deep/n.txt": b"n\n",
        "hollow": None,
        "run.sh": b"#!/bin/sh\n",
    }
    assert (root / "run.sh").stat().st_mode & 0o777 == 0o755
    # What has the same bytes as before is not even touched.
    assert (root / "same.txt").stat().st_ino == before.st_ino


def test_folders_and_files_may_take_each_others_place(backend: SandboxBackend, root: Path) -> None:
    (root / "folder").mkdir()
    (root / "folder/x").write_text("x")
    (root / "file").write_text("f")
    assert (
        backend.execute("rm -r folder && echo now > folder && rm file && mkdir file && echo in > file/in").error is None
    )
    assert tree(root) == {"folder": b"now\n", "file": None, "file/in": b"in\n"}


def test_large_files_travel_both_ways(backend: SandboxBackend, root: Path) -> None:
    """Over several parts each way; what only moved is not sent back."""
    data = os.urandom(9_000_001)
    (root / "big").write_bytes(data)
    answer = backend.execute(
        "sha256sum big | cut -c1-64; mv big moved; head -c 9000001 moved | tail -c 8999999 > tail; chmod 600 tail"
    )
    assert answer.structured["stdout"].strip() == hashlib.sha256(data).hexdigest()
    assert tree(root) == {"moved": data, "tail": data[2:]} and (root / "tail").stat().st_mode & 0o777 == 0o600


def test_a_mode_alone_is_a_change(backend: SandboxBackend, root: Path) -> None:
    (root / "run.sh").write_text("echo ran\n")
    (root / "d").mkdir()
    answer = backend.execute("chmod 755 run.sh; chmod 700 d; ./run.sh")
    assert answer.structured["modified"] == ["d", "run.sh"] and answer.structured["stdout"] == "ran\n"
    assert [(root / name).stat().st_mode & 0o777 for name in ("run.sh", "d")] == [0o755, 0o700]


def test_a_decomposed_name_stays_the_file_it_is(backend: SandboxBackend, root: Path) -> None:
    (root / "U\u0308ber.txt").write_text("old\n")
    answer = backend.execute("echo more >> Über.txt")
    assert answer.structured["modified"] == ["Über.txt"]
    assert {path.name: path.read_text() for path in root.iterdir()} == {"U\u0308ber.txt": "old\nmore\n"}


def test_nothing_of_the_parents_environment_is_inherited(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", CANARY)
    monkeypatch.setenv("HTTPS_PROXY", f"http://{CANARY}")
    backend = create_sandbox_backend(root, env={"MODE": "test; $(touch x) 'q'", "TZ": "Europe/Vienna"})
    answer = backend.execute("env; echo; cat /proc/*/environ /proc/*/cmdline 2>/dev/null | tr '\\0' '\\n'")
    assert CANARY not in answer.text and "WORKBENCH" not in answer.structured["stdout"]
    first = answer.structured["stdout"].split("\n\n")[0].splitlines()
    names = {line.split("=")[0] for line in first}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == {
        *("PATH", "HOME", "LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "MPLCONFIGDIR", "MODE"),
    }
    assert "MODE=test; $(touch x) 'q'" in first and "TZ=Europe/Vienna" in first


def test_a_command_is_passed_on_as_it_is(backend: SandboxBackend) -> None:
    for command, printed in (
        ('echo "it\'s $0 $#"', "it's /bin/sh 0\n"),
        ("printf '%s\\n' 'a\\nb' \"$(echo \\\\\\\\n)\"", "a\\nb\n\\n\n"),
        ("cat <<'END'\n'$x' \"y\"\nEND\n", "'$x' \"y\"\n"),
        ("echo ünïcödé 🦊 | wc -m", "10\n"),
    ):
        assert backend.execute(command).structured["stdout"] == printed
    assert "unexpected" in backend.execute("if").structured["stderr"]


@pytest.mark.parametrize("command", ["", "  \n", "echo a\0b", "echo \ud800", "x" * 200_000])
def test_what_is_no_command_is_refused_before_anything_runs(backend: SandboxBackend, command: str) -> None:
    with pytest.raises(ToolError) as caught:
        backend.execute(command)
    assert caught.value.code in ("invalid_args", "too_large")


# ---------------------------------------------------------------- output


def test_long_output_goes_whole_to_a_spill_file(backend: SandboxBackend, root: Path) -> None:
    (root / ".spill-1.txt").write_text("earlier")
    answer = backend.execute("seq 1 5000; seq 1 3 >&2")
    spill = answer.structured["spill"]
    assert spill == ".spill-2.txt" and spill in answer.structured["created"]
    assert (root / spill).read_text() == (
        "== stdout ==\n" + "".join(f"{n}\n" for n in range(1, 5001)) + "\n== stderr ==\n1\n2\n3\n"
    )
    assert len(answer.structured["stdout"]) + len(answer.structured["stderr"]) == 12_000
    assert answer.structured["stdout"].endswith("4999\n5000\n")
    assert f"read {spill} with read_file" in answer.text
    assert "1\t== stdout ==" in backend.read_file(spill).text


def test_the_caps_are_the_backends_own(root: Path) -> None:
    backend = create_sandbox_backend(root, max_output_chars=100, max_buffer=2_000)
    answer = backend.execute("seq 1 100")
    assert answer.structured["truncated"] and len(answer.structured["stdout"]) == 100
    error = failed("SANDBOX_OUTPUT_TOO_LARGE", backend, "echo kept > kept.txt; yes")
    assert not error.retryable and "2,000 bytes" in error.message and "file" in error.message
    assert (root / "kept.txt").read_text() == "kept\n"
    large = create_sandbox_backend(root, max_output_chars=50_000)
    assert len(large.execute("seq 1 8000").structured["stdout"]) == 38_893


def test_a_flood_without_newlines_is_stopped(backend: SandboxBackend) -> None:
    began = time.monotonic()
    error = failed("SANDBOX_OUTPUT_TOO_LARGE", backend, "cat /dev/zero & cat /dev/zero >&2")
    assert time.monotonic() - began < 60 and len(error.message) < 20_000


def test_a_spill_never_goes_through_a_link(backend: SandboxBackend, root: Path, tmp_path: Path) -> None:
    (tmp_path / "target").write_text("target")
    (root / ".spill-1.txt").symlink_to(tmp_path / "target")
    answer = backend.execute("seq 1 5000")
    assert answer.structured["spill"] is None and "the rest was not kept" in answer.text
    assert (tmp_path / "target").read_text() == "target" and (root / ".spill-1.txt").is_symlink()
    assert answer.structured["conflicts"][0]["path"] == ".spill-1.txt"


# ---------------------------------------------------------------- how it ends


def test_past_the_time_limit_everything_is_killed_and_changes_are_kept(root: Path) -> None:
    backend = create_sandbox_backend(root, timeout_ms=1_500)
    began = time.monotonic()
    error = failed(
        "SANDBOX_TIMEOUT",
        backend,
        "echo before > a.txt; trap '' TERM; (setsid sleep 600 &) ; echo said; while :; do :; done",
    )
    assert error.retryable and "1.5 s" in error.message and time.monotonic() - began < 60
    assert error.details["created"] == ["a.txt"] and error.details["stdout"] == "said\n"
    assert (root / "a.txt").read_text() == "before\n"


def test_memory_disk_and_processes_have_limits(root: Path) -> None:
    backend = limited(root, run_memory_bytes=150 * MIB, run_disk_bytes=24 * MIB, run_processes=40)
    failed(
        "SANDBOX_MEMORY",
        backend,
        "for n in 1 2 3 4; do python3 -c 'import time; x = bytearray(60 << 20); time.sleep(30)' & done; wait",
    )
    failed("SANDBOX_DISK", backend, "for n in $(seq 40); do head -c 4000000 /dev/zero > big-$n; done; sleep 5")
    assert tree(root) == {} or all(path.startswith("big-") for path in tree(root))
    answer = backend.execute("for n in $(seq 200); do sleep 30 & done; echo on")
    assert answer.structured["seconds"] < 28


def test_a_fork_bomb_ends_with_its_command(root: Path) -> None:
    backend = create_sandbox_backend(root, timeout_ms=2_000)
    with pytest.raises(ToolError) as caught:
        answer = backend.execute("bomb() { bomb | bomb & }; bomb; sleep 600")
        raise AssertionError(answer.text)
    assert caught.value.code == "SANDBOX_TIMEOUT"


def test_a_program_that_kills_itself_is_reported_as_that(backend: SandboxBackend) -> None:
    answer = backend.execute('echo \'{"outcome": "finished", "exitCode": 0}\'; kill -9 $$')
    assert answer.structured["signal"] == 9 and answer.error is not None and answer.error.code == "SANDBOX_ERROR"


# ---------------------------------------------------------------- ways out


def test_there_is_no_way_out(backend: SandboxBackend, root: Path, tmp_path: Path) -> None:
    (tmp_path / "loot").write_text(CANARY)
    results = python(
        backend,
        f"""
        outside = {str(tmp_path)!r}
        found = {{}}
        found["connect"] = attempt(socket.create_connection, ("127.0.0.1", 80), 1)
        found["socket"] = attempt(socket.socket, socket.AF_INET, socket.SOCK_STREAM)
        found["setuid"] = attempt(os.setuid, 0)
        found["chroot"] = attempt(os.chroot, ".")
        found["ptrace"] = call(101, 16, os.getppid(), 0, 0)
        found["mount"] = attempt(lambda: None) if libc.mount(b"x", b"/", b"tmpfs", 0, None) == 0 else name(ctypes.get_errno())
        for label, path in (("loot", outside + "/loot"), ("outside", outside), ("shadow", "/etc/shadow"), ("init", "/proc/1/environ"),
                            ("project", {str(Path(__file__).resolve())!r}), ("home", "/root")):
            found[label] = attempt(lambda: os.listdir(path) if os.path.isdir(path) else open(path, "rb").read())
        for label, path in (("write-root", "/sandbox/x"), ("write-up", "../x"), ("write-usr", "/usr/x"), ("write-etc", "/etc/x")):
            found[label] = attempt(open, path, "w")
        print(json.dumps(found))
        """,
    )
    allowed = {"EAFNOSUPPORT", *DENIED}
    assert {name: outcome for name, outcome in results.items() if outcome not in allowed} == {}
    assert tree(root) == {}


def test_links_it_makes_are_left_out_and_lead_nowhere(backend: SandboxBackend, root: Path) -> None:
    (root / "kept.txt").write_text("k")
    answer = backend.execute(
        "ln -s /etc/passwd passwd; ln -s / slash; ln -s kept.txt inner; mkfifo pipe; ln kept.txt hard; "
        "mkdir d; ln -s ../../.. d/up; rm kept.txt; ln -s /etc/hostname kept.txt"
    )
    assert answer.error is None
    assert {one["name"] for one in answer.structured["leftOut"]} >= {"passwd", "slash", "inner", "d/up", "kept.txt"}
    assert tree(root) == {"d": None, "hard": b"k"} and not any(path.is_symlink() for path in root.rglob("*"))


def test_a_link_of_the_directory_is_neither_seen_nor_replaced(
    backend: SandboxBackend, root: Path, tmp_path: Path
) -> None:
    """The command makes entries where links stand that it was not given."""
    (tmp_path / "outside").mkdir()
    (root / "link").symlink_to(tmp_path / "outside")
    (root / "notes").symlink_to(tmp_path / "outside/notes")
    os.mkfifo(root / "pipe")
    (root / "d").mkdir()
    (root / "d/inner").symlink_to("/etc")
    (root / "d/a").write_text("a")
    answer = backend.execute(
        "ls; mkdir link; echo x > link/x; echo y > notes; echo z > pipe; rm -r d; echo free > free.txt"
    )
    assert answer.structured["stdout"] == "d\n"
    assert {"link", "notes", "pipe", "d/inner"} <= {one["name"] for one in answer.structured["leftOut"]}
    assert {one["path"] for one in answer.structured["conflicts"]} == {"link", "link/x", "notes", "pipe", "d"}
    assert list((tmp_path / "outside").iterdir()) == []
    assert (root / "link").is_symlink() and (root / "notes").is_symlink() and (root / "d/inner").is_symlink()
    assert (root / "free.txt").read_text() == "free\n" and not (root / "d/a").exists()


def test_a_journal_that_a_command_forges_is_left_out(backend: SandboxBackend, root: Path, tmp_path: Path) -> None:
    """The next writer would take it for its own and go back by it, out of the root even."""
    (tmp_path / "outside.txt").write_text("outside")
    (root / "a.txt").write_text("a")
    steps = json.dumps([["put", "a.txt", 0], ["drop", "../outside.txt", 0], ["make", "d"]])
    name = ".workbench-tmp-0123456789abcdef"
    answer = backend.execute(
        f"mkdir {name}; echo '{steps}' > {name}/journal; echo forged > {name}/old-0; echo b > b.txt"
    )
    assert f"{name}/journal" in {one["name"] for one in answer.structured["leftOut"]}
    backend.write_file("c.txt", "c")
    assert tree(root) == {"a.txt": b"a", "b.txt": b"b\n", "c.txt": b"c"}
    assert (tmp_path / "outside.txt").read_text() == "outside"


def test_removing_everything_is_told_and_the_next_call_works(backend: SandboxBackend, root: Path) -> None:
    (root / "a").mkdir()
    (root / "a/b.txt").write_text("b")
    (root / ".hidden").write_text("h")
    answer = backend.execute("rm -rf /sandbox/workspace ./* ./.[!.]* .. ; cd /; rmdir /sandbox/workspace")
    assert answer.structured["deleted"] == [".hidden", "a/b.txt"]
    assert tree(root) == {} and root.is_dir()
    assert backend.execute("echo back > again.txt").structured["created"] == ["again.txt"]


def test_modes_that_keep_everybody_out_lose_nothing(backend: SandboxBackend, root: Path) -> None:
    (root / "a.txt").write_text("a")
    answer = backend.execute("echo more >> a.txt; mkdir d; echo x > d/x; chmod 000 d a.txt .")
    assert answer.structured["changesKept"] and tree(root) == {"a.txt": b"amore\n", "d": None, "d/x": b"x\n"}
    # Open to their owner, or the next command could not even be given them.
    assert [(root / name).stat().st_mode & 0o777 for name in ("a.txt", "d")] == [0o400, 0o700]
    assert root.stat().st_mode & 0o700 == 0o700
    assert backend.execute("chmod 644 a.txt; cat a.txt").structured["stdout"] == "amore\n"


@pytest.mark.parametrize(
    "command",
    [
        "python3 -c \"import os\nfor n in range(1500): os.mkdir('d'); os.chdir('d')\"",
        "for n in $(seq 400); do : > f$n; done",
        "head -c 6000000 /dev/urandom > big",
    ],
)
def test_a_tree_that_cannot_be_kept_changes_nothing_and_says_so(root: Path, command: str) -> None:
    backend = limited(root, workspace_files=300, workspace_bytes=5_000_000)
    (root / "a.txt").write_text("a")
    answer = backend.execute(f"echo changed > a.txt; {command}; true")
    assert answer.structured["changesKept"] is False and answer.error is not None
    assert answer.error.code == "limit_exceeded"
    assert "300 files and 5,000,000 bytes" in answer.text or "does not fit" in answer.text
    assert tree(root) == {"a.txt": b"a"}


def test_spill_files_are_the_first_to_go(root: Path) -> None:
    backend = limited(root, workspace_files=2)
    (root / "a.txt").write_text("a")
    answer = backend.execute("echo b > b.txt; seq 1 5000")
    assert answer.error is None and answer.structured["spill"] is None
    assert tree(root) == {"a.txt": b"a", "b.txt": b"b\n"}


def test_a_directory_too_large_for_a_sandbox_runs_nothing(root: Path) -> None:
    backend = limited(root, workspace_files=2, workspace_bytes=MIB)
    for number in range(3):
        (root / f"{number}").write_text("x")
    error = failed("limit_exceeded", backend, "touch ran")
    assert "2 files" in error.message and not (root / "ran").exists()


# ---------------------------------------------------------------- others at work in the directory


def test_what_somebody_else_changed_meanwhile_stays_and_is_named(backend: SandboxBackend, root: Path) -> None:
    """Everything changes under it between the look at the directory and the command."""
    for name in ("both", "theirs", "mine", "deleted-here", "deleted-there", "same"):
        (root / name).write_text("old\n")
    (root / "folder").mkdir()
    (root / "folder/x").write_text("x")
    original = launcher.start_sandbox

    def start(*arguments: Any, **named: Any) -> Any:
        other.start()  # the snapshot is taken, the command has not reported
        other.join()
        return original(*arguments, **named)

    def interfere() -> None:
        (root / "both").write_text("newer\n")
        (root / "theirs").write_text("newer\n")
        (root / "deleted-there").unlink()
        (root / "deleted-here").write_text("newer\n")
        (root / "created").write_text("newer\n")
        (root / "same").write_text("agreed\n")
        (root / "folder/y").write_text("y")
        backend.write_file("from-a-tool.txt", "not locked out\n")

    other = threading.Thread(target=interfere)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(launcher, "start_sandbox", start)
        answer = backend.execute(
            "for f in both mine created; do echo command > $f; done; rm deleted-here; echo x >> deleted-there; "
            "echo agreed > same; rm -r folder; echo f > folder"
        )
    assert {one["path"] for one in answer.structured["conflicts"]} == {
        "both",
        "created",
        "deleted-here",
        "deleted-there",
        "folder",
    }
    assert "Not taken over" in answer.text
    assert tree(root) == {
        "both": b"newer\n",
        "theirs": b"newer\n",
        "mine": b"command\n",
        "created": b"newer\n",
        "deleted-here": b"newer\n",
        "same": b"agreed\n",
        "folder": None,
        "folder/y": b"y",
        "from-a-tool.txt": b"not locked out\n",
    }


def test_commands_at_once_do_not_meet(root: Path) -> None:
    backend = create_sandbox_backend(root)
    (root / "counter").write_text("0\n")
    outcomes: list[Any] = []

    def run(name: str) -> None:
        outcomes.append(backend.execute(f"ls; echo {name} > {name}.txt; kill -9 -1 2>/dev/null; true"))

    threads = [threading.Thread(target=run, args=(name,)) for name in ("one", "two")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(outcomes) == 2
    assert tree(root) == {"counter": b"0\n", "one.txt": b"one\n", "two.txt": b"two\n"}


# ---------------------------------------------------------------- never silently weaker


def test_without_a_boundary_nothing_runs_unless_it_was_asked_for(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def impossible(payload: object, boundary: str) -> dict[str, object]:
        raise launcher.SandboxUnavailable("This machine lacks what a sandbox needs: install it.")

    monkeypatch.setattr(launcher, "verify", impossible)
    monkeypatch.setattr(launcher, "_boundaries", {})
    error = failed("SANDBOX_UNAVAILABLE", create_sandbox_backend(root), "touch ran")
    assert "install it" in error.message and error.retryable and tree(root) == {}
    with caplog_of("workbench.local") as said:
        answer = create_sandbox_backend(root, unsafe=True).execute("echo ran > ran.txt")
    assert answer.error is None and tree(root) == {"ran.txt": b"ran\n"}
    assert any("WITHOUT a boundary" in line for line in said)


class caplog_of:
    """What a logger says meanwhile."""

    def __init__(self, name: str) -> None:
        self._logger, self._said = logging.getLogger(name), list[str]()

    def __enter__(self) -> list[str]:
        self._handler = logging.Handler()
        self._handler.emit = lambda record: self._said.append(record.getMessage())  # type: ignore[method-assign]
        self._logger.addHandler(self._handler)
        return self._said

    def __exit__(self, *_: object) -> None:
        self._logger.removeHandler(self._handler)


def test_a_sandbox_that_dies_changes_nothing(
    backend: SandboxBackend, root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (root / "a.txt").write_text("a")
    original = launcher.start_sandbox

    def start(*arguments: Any, **named: Any) -> Any:
        process = original(*arguments, **named)
        process.stop()
        return process

    monkeypatch.setattr(launcher, "start_sandbox", start)
    error = failed("SANDBOX_UNAVAILABLE", backend, "echo b > a.txt")
    assert "as it was" in error.message and tree(root) == {"a.txt": b"a"}


def test_the_readmes_example_runs(tmp_path: Path) -> None:
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    section = readme.partition("## As a library")[2]
    example = section.partition("```python\n")[2].partition("```")[0]
    assert "create_sandbox_backend" in example
    ran = subprocess.run(
        [sys.executable, "-c", example],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    assert "2 rows" in ran.stdout
