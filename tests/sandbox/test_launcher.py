"""Sandboxes on this machine: what the launcher gives them, what it hides, and when it refuses."""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501
from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from local import launcher
from local import payload as payloads
from local.payload import Payload
from sandbox_container import reap
from tests.sandbox.conftest import DENIED, PRELUDE, Sandbox, Started
from tests.sandbox.route_server import Answer, RouteServer

PROJECT = Path(__file__).resolve().parents[2]
STRANGER = 54_321
WAIT_SECONDS = 20.0


def test_the_strongest_boundary_proves_itself(payload: Payload) -> None:
    found = launcher.verify(payload, "user")
    assert (found["boundary"], found["seccomp"], found["descriptors"]) == ("user", 2, 0)
    assert found["python"] == payload.version


def test_the_project_and_the_machine_are_out_of_sight(local_sandbox: Sandbox) -> None:
    found = local_sandbox.results(f"""
hidden = {[str(PROJECT), str(Path.home()), "/home", "/mnt", "/run", "/root", "/etc/shadow", "/etc/hostname", "/sys", "/dev/vda"]!r}
mounts = [line.split()[:4] for line in open("/proc/mounts")]
writable = [mount[1] for mount in mounts if "rw" in mount[3].split(",")]
print(json.dumps({{"seen": [path for path in hidden if os.path.exists(path)], "root": sorted(os.listdir("/")), "writable": writable,
    "processes": [n for n in os.listdir("/proc") if n.isdigit()], "mine": str(os.getpid()),
    "interfaces": [line.split(":")[0].strip() for line in open("/proc/net/dev") if ":" in line]}}))
""")
    assert found["seen"] == []
    assert (
        {"usr", "sandbox", "tmp"}
        <= set(found["root"])
        <= {
            *("bin", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "sandbox", "sbin", "tmp", "usr", "var"),
            payloads.payload_environment().base.resolve().parts[1],
        }
    )
    devices = {f"/dev/{name}" for name in ("null", "zero", "full", "random", "urandom", "shm")}
    assert set(found["writable"]) == {"/sandbox", "/tmp", "/proc", *devices}
    assert found["processes"] == [found["mine"]]
    assert found["interfaces"] == ["lo"]


def test_two_sandboxes_have_users_of_their_own_and_cannot_reach_each_other(
    local_sandbox: Sandbox, route: RouteServer
) -> None:
    first, second = local_sandbox.start(), local_sandbox.start()
    code = PRELUDE + "print(os.getuid(), attempt(os.kill, -1, 9), flush=True)\ntime.sleep(0.5)\nprint('alive')"
    runs = [route.submit(code), route.submit(code)]
    assert (first.wait(), second.wait()) == (0, 0)
    lines = [run.report["stdout"].splitlines() for run in runs]
    assert [line[1] for line in lines] == ["alive", "alive"]
    users = {line[0].split()[0] for line in lines}
    assert len(users) == 2


def test_a_slot_is_free_again_only_when_its_sandbox_is_gone(payload: Payload) -> None:
    held = [launcher._free_slot() for _ in range(5)]
    try:
        assert len({uid for _, uid in held}) == 5
        assert all((uid - launcher.FIRST_UID) % 2 == 0 for _, uid in held)
    finally:
        for lock, _ in held:
            os.close(lock)


def test_the_secret_stays_out_of_what_other_processes_can_see(local_sandbox: Sandbox, route: RouteServer) -> None:
    shown: list[bytes] = []

    def look(body: dict[str, Any], count: int) -> Answer | None:
        # The supervisor waits for this answer and the program sleeps: all of them are there.
        if body["op"] == "heartbeat" and not shown:
            table = {process.pid: process.parent for process in reap.processes()}
            family = {started.process.pid}
            while grown := {pid for pid, parent in table.items() if parent in family} - family:
                family |= grown
            shown.extend(Path(f"/proc/{pid}/{part}").read_bytes() for pid in family for part in ("environ", "cmdline"))
        return None

    route.fault = look
    started = local_sandbox.start()
    route.submit("import time; time.sleep(30)", heartbeat=0.2, stop_at_beat=1)
    assert started.wait() == 0
    secret = route.secrets[route.claims[-1]["sandbox"]].encode()
    assert len(shown) >= 2 * 4  # around the supervisor, itself, the process that ends the sandbox, the program
    assert b"WORKBENCH_SANDBOX" in b"".join(shown)
    assert secret not in b"".join(shown)
    assert route.claims[-1]["ownSecret"].encode() not in b"".join(shown)


def test_a_machine_without_the_means_is_told_what_to_install(
    payload: Payload, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "confine.py"
    broken.write_text(
        "import sys\nprint('[Errno 1] unshare: Operation not permitted', file=sys.stderr)\nsys.exit(70)\n"
    )
    monkeypatch.setattr(launcher, "CONFINE", broken)
    monkeypatch.setattr(launcher, "_boundaries", {})
    with pytest.raises(launcher.SandboxUnavailable, match=r"unshare: Operation not permitted.*user namespaces"):
        launcher.start_sandbox("s", "secret", "http://127.0.0.1:1/v1/sandbox")


def test_unsafe_runs_without_a_boundary_only_where_there_is_none(
    route: RouteServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "confine.py"
    broken.write_text("import sys\nsys.exit(70)\n")
    monkeypatch.setattr(launcher, "CONFINE", broken)
    monkeypatch.setattr(launcher, "_boundaries", {})
    handles = []

    def start(sandbox: str, secret: str, url: str) -> Started:
        handles.append(launcher.start_sandbox(sandbox, secret, url, unsafe=True))
        return Started(handles[-1], None)

    run = Sandbox(route, start).run(
        "import os\nif os.fork() == 0:\n os.setsid()\n import time; time.sleep(600)\nopen('workspace/x', 'w').write('1')"
    )
    assert run.report["verified"]["boundary"] == "none"
    assert run.workspace() == {"x": b"1"}
    assert not list(Path(tempfile.gettempdir()).glob("workbench-sandbox-*"))


@pytest.fixture
def readable_copy() -> Iterator[Path]:
    """The few files of the project that a stranger needs, where a stranger can read them."""
    folder = Path(tempfile.mkdtemp(prefix="workbench-copy-"))
    folder.chmod(0o755)
    for name in ("local", "sandbox_container", "tests/sandbox"):
        shutil.copytree(PROJECT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "demo_files"))
    yield folder
    shutil.rmtree(folder)


# The launcher as somebody who is not root would use it, and what came back, as JSON.
AS_STRANGER = """
import json, sys
from pathlib import Path
from local import launcher, payload
from tests.sandbox.route_server import RouteServer
launcher._payload = lambda: payload.Payload(*map(Path, sys.argv[1:5]), sys.argv[5])
route = RouteServer()
reports = []
for code, job in json.load(sys.stdin):
    handle = launcher.start_sandbox("s", route.new_secret("s"), route.url)
    run = route.submit(code, **job)
    status = handle.wait()
    reports.append({"status": status, "reports": run.reports, "changes": run.changes if run.reports[0]["tree"] == "ok" else None})
print(json.dumps(reports))
"""


def test_without_root_a_namespace_is_the_boundary(payload: Payload, readable_copy: Path) -> None:
    attempts = """
found = {"uid": os.getuid(), "socket": call(41, 2, 1, 0), "mount": call(165, b"x", b"/mnt", b"tmpfs", 0, 0)}
for pid in [int(n) for n in os.listdir("/proc") if n.isdigit() and int(n) != os.getpid()]:
    found[f"kill {pid}"] = attempt(os.kill, pid, 9) if pid != 1 else "EPERM"
    for part in ("environ", "mem", "fd/0", "cwd"):
        found[f"{part} {pid}"] = attempt(open, f"/proc/{pid}/{part}", "rb")
attempt(os.kill, 1, 9)  # whatever it says: the init must outlive it
for path in ("x", "inputs/x", "inputs/a", "program.py", "/etc/x", "/usr/x"):
    found[path] = attempt(open, path, "a")
found["chmod"] = attempt(os.chmod, "inputs", 0o777) and attempt(open, "inputs/x", "w")
open("workspace/new", "w").write("x")
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
found["caps"] = int(status["CapEff"], 16) + int(status["CapPrm"], 16) + int(status["CapBnd"], 16)
print(json.dumps(found))
"""
    jobs = [
        (PRELUDE + attempts, {}),
        ("import os, signal\nif os.fork() == 0:\n os.setsid()\n import time; time.sleep(600)\nos.kill(os.getpid(), 9)", {}),
        ("import time\nwhile True: time.sleep(9)", {"seconds": 1}),
        ("import os, time\nfor _ in range(6):\n if os.fork() == 0:\n  b = bytearray(os.urandom(1024)) * 61440\n  time.sleep(60)\ntime.sleep(60)",
         {"memoryBytes": 200 * 2**20}),
        ("import os\nos.makedirs('workspace/shut/in')\nos.chmod('workspace/shut', 0)", {}),
    ]  # fmt: skip
    # Told to be somebody else before the interpreter starts, as a login would.
    ran = subprocess.run(
        ["setpriv", f"--reuid={STRANGER}", f"--regid={STRANGER}", "--clear-groups", str(payload.base), "-B", "-c", AS_STRANGER,
         *map(str, (payload.folder, payload.interpreter, payload.node, payload.base)), payload.version],
        input=json.dumps(jobs), capture_output=True, text=True, cwd=readable_copy, env={"PATH": "/usr/bin:/bin"}, timeout=300,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    outcomes = json.loads(ran.stdout)
    assert [outcome["status"] for outcome in outcomes] == [0] * len(jobs)
    (hostile,), (killed,), (slow,), (greedy,), (shut,) = [outcome["reports"] for outcome in outcomes]

    found = json.loads(hostile["stdout"])
    assert (found.pop("uid"), found.pop("caps"), found.pop("socket")) == (STRANGER, 0, "EAFNOSUPPORT")
    assert set(found.values()) <= DENIED, found
    assert [line["path"] for line in outcomes[0]["changes"]] == ["new"]
    assert hostile["verified"]["boundary"] == "namespace"
    assert (killed["outcome"], killed["signal"]) == ("finished", 9)
    assert (slow["outcome"], greedy["outcome"]) == ("timeout", "memory")
    assert [line["path"] for line in outcomes[4]["changes"]] == ["shut", "shut/in"], shut
    assert not any(STRANGER in process.uids for process in reap.processes())


def test_the_environment_is_built_once_and_found_at_once(payload: Payload, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("nothing is to be run when the environment stands")

    monkeypatch.setattr(subprocess, "run", never)
    assert payloads.payload_environment() == payload
    assert payloads.world_readable(payload.node.resolve())
    assert payloads.world_readable(payload.interpreter.resolve())


def test_builders_at_once_build_one_environment(
    payload: Payload, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    filled: list[Path] = []

    def fill(folder: Path, base: Path, version: str) -> None:
        folder.mkdir()
        filled.append(folder)

    tmp_path.chmod(0o755)
    monkeypatch.setattr(payloads, "world_readable", lambda path: True)
    monkeypatch.setattr(payloads, "_cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(payloads, "_fill", fill)
    with ThreadPoolExecutor(4) as pool:
        built = list(pool.map(lambda _: payloads.payload_environment(), range(4)))
    assert len(filled) == 1
    assert len(set(built)) == 1


def test_an_environment_that_was_left_half_built_is_built_anew(
    payload: Payload, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(payloads, "world_readable", lambda path: True)
    monkeypatch.setattr(payloads, "_cache_folder", lambda: tmp_path)

    def die_half_way(folder: Path, base: Path, version: str) -> None:
        folder.mkdir()
        (folder / "half").write_text("")
        raise payloads.PayloadUnavailable("out of disk")

    monkeypatch.setattr(payloads, "_fill", die_half_way)
    with pytest.raises(payloads.PayloadUnavailable):
        payloads.payload_environment()
    monkeypatch.setattr(payloads, "_fill", lambda folder, base, version: folder.mkdir())
    assert not (payloads.payload_environment().folder / "half").exists()


def test_a_machine_without_a_usable_python_is_told_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(payloads, "_cache_folder", lambda: tmp_path)
    monkeypatch.setattr(payloads, "_candidates", lambda: iter([tmp_path / "python3"]))
    with pytest.raises(payloads.PayloadUnavailable, match="python3-venv"):
        payloads.payload_environment()


def test_a_python_that_only_root_can_read_is_no_candidate(tmp_path: Path) -> None:
    hidden = tmp_path / "python3"
    shutil.copy(Path(sys.executable).resolve(), hidden)
    tmp_path.chmod(0o700)
    assert payloads._usable_version(hidden) is None
