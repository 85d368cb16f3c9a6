"""One mutation for each guard: with it removed, what it guards against comes through, so its own tests can fail.

And the other way round: with a guard missing, the probe lets the supervisor take no job.
"""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local.payload import Payload
from sandbox_container import reap
from tests.sandbox.conftest import PRELUDE, Started
from tests.sandbox.route_server import MIB, Answer, RouteServer, Run

MUTANT = Path(__file__).with_name("mutant.py")
UID = 290_000 + 2 * (os.getpid() % 10_000)

Mutant = Callable[..., Run]


@pytest.fixture
def start(payload: Payload, route: RouteServer) -> Callable[..., Started]:
    def begin(*guards: str) -> Started:
        inherited = os.open("/dev/null", os.O_RDONLY)
        environment = {
            "PATH": "/usr/bin:/bin",
            "WORKBENCH_SANDBOX": "mutant",
            "WORKBENCH_SECRET": route.new_secret("mutant"),
            "WORKBENCH_ROUTE": route.url,
            "WORKBENCH_ROOT": "/sandbox",
            "WORKBENCH_UID": str(UID),
            "WORKBENCH_INTERPRETER": str(payload.interpreter),
            "WORKBENCH_NODE": str(payload.node),
            "WORKBENCH_VISIBLE": str(payload.folder),
        }
        process = subprocess.Popen(
            [str(payload.base), "-I", "-S", str(MUTANT), *guards], env=environment, pass_fds=[inherited]
        )
        os.close(inherited)
        return Started(process, UID)

    return begin


@pytest.fixture
def mutant(start: Callable[..., Started], route: RouteServer) -> Mutant:
    """Run a program in a supervisor without these guards (and without the probe, which would notice)."""

    def run(code: str, *guards: str, **job: Any) -> Run:
        started = start("probe", *guards)
        submitted = route.submit(code, **job)
        assert started.wait() == 0
        return submitted

    return run


def results(run: Run) -> dict[str, Any]:
    assert run.report["exitCode"] == 0, run.report
    return dict(json.loads(run.report["stdout"]))


FACTS = """
status = dict(line.rstrip("\\n").split(":\\t", 1) for line in open("/proc/self/status") if ":\\t" in line)
opened = [n for n in range(3, 64) if attempt(os.fstat, n) == "ok"]
def many():
    children = []
    try:
        for _ in range(90):
            pid = os.fork()
            if pid == 0:
                time.sleep(30)
                os._exit(0)
            children.append(pid)
    finally:
        for pid in children:
            os.kill(pid, 9)
print(json.dumps({"uid": os.getuid(), "caps": int(status["CapEff"], 16), "bounding": int(status["CapBnd"], 16), "new": status["NoNewPrivs"], "filter": status["Seccomp"],
    "opened": opened, "socket": call(41, 2, 1, 0), "root": attempt(open, "x", "w"), "session": os.getsid(0) == os.getpid(), "forks": attempt(many),
    "pipe": signal.getsignal(signal.SIGPIPE) is not None and "0000000000001000" not in status["SigIgn"], "nice": os.nice(0), "oom": open("/proc/self/oom_score_adj").read().strip(),
    "groups": status["Groups"].split(), "cwd": os.getcwd(), "interfaces": open("/proc/net/dev").read().count(":")}))
"""
SOUND = {
    "uid": UID,
    "caps": 0,
    "bounding": 0,
    "new": "1",
    "filter": "2",
    "opened": [],
    "socket": "EAFNOSUPPORT",
    "root": "EACCES",
    "session": True,
    "forks": "EAGAIN",
    "nice": min(os.nice(0) + 5, 19),
    "oom": "1000",
    "cwd": "/sandbox",
}


def facts(run: Run) -> dict[str, Any]:
    found = results(run)
    return {name: found[name] for name in SOUND}


def test_with_every_guard_in_place_all_is_as_it_should_be(mutant: Mutant) -> None:
    assert facts(mutant(PRELUDE + FACTS)) == SOUND


@pytest.mark.parametrize(
    ("guards", "broken"),
    [
        (["step:change_user", "step:restrict_files"], {"uid": 0, "root": "ok", "forks": "ok"}),
        # Without the user, Landlock still holds the root, and the capabilities are gone all the same.
        (["step:change_user"], {"uid": 0, "forks": "ok"}),
        (["step:change_user", "step:drop_capabilities", "step:empty_bounding_set"], {"uid": 0, "caps": -1, "bounding": -1, "forks": "ok"}),
        (["step:empty_bounding_set"], {"bounding": -1}),
        (["step:filter_calls"], {"filter": "0", "socket": "ok"}),
        (["step:gain_nothing", "step:restrict_files", "step:filter_calls"], {"new": "0", "filter": "0", "socket": "ok"}),
        (["step:limit_resources"], {"forks": "ok"}),
        (["step:own_session"], {"session": False}),
        (["step:stand_back"], {"nice": os.nice(0), "oom": "0"}),
        (["closing"], {"opened": [0]}),
        (["call:socket"], {"socket": "ok"}),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)  # fmt: skip
def test_without_a_guard_its_fact_changes(mutant: Mutant, guards: list[str], broken: dict[str, Any]) -> None:
    found = facts(mutant(PRELUDE + FACTS, *guards))
    changed = {name: value for name, value in found.items() if value != SOUND[name]}
    assert set(changed) == set(broken)
    for name, value in broken.items():
        # -1 and [0] stand for anything but nothing.
        assert bool(changed[name]) if value in (-1, [0]) else changed[name] == value


def test_a_guard_that_others_depend_on_ends_the_start(mutant: Mutant) -> None:
    report = mutant("print('ran')", "step:gain_nothing").report
    assert (report["outcome"], report["stdout"]) == ("failed", "")
    assert "restrict_files" in report["reason"]


CALLS = {
    "socketpair": "call(53, 1, 2, 0, (ctypes.c_int * 2)())",
    "clone": "call(56, 0x10000000 | 17, 0, 0, 0, 0)",
    "clone3": "call(435, 0, 0)",
    "ioctl": "call(16, 0, 0x5412, b'x')",
    "prlimit64": "call(302, 1, 7, 0, 0)",
    "setpriority": "call(141, 0, os.getpid(), 19)",
    "sched_setaffinity": "call(203, os.getpid(), 8, (ctypes.c_long * 1)(1))",
    "personality": "call(135, 0x0020000)",
    "unshare": "call(272, 0)",
    "setns": "call(308, -1, 0)",
    "mount": "call(165, 0, 0, 0, 0, 0)",
    "chroot": "call(161, 0)",
    "ptrace": "call(101, 16, -1, 0, 0)",
    "process_vm_readv": "call(310, os.getpid(), 0, 0, 0, 0, 0)",
    "pidfd_getfd": "call(438, -1, 0, 0)",
    "kcmp": "call(312, os.getpid(), os.getpid(), 0, 0, 0)",
    "io_uring_setup": "call(425, 0, 0)",
    "userfaultfd": "call(323, 1)",
    "keyctl": "call(250, 0, -3, 0)",
    "bpf": "call(321, 99, 0, 0)",
    "perf_event_open": "call(298, 0, 0, -1, -1, 0)",
    "open_by_handle_at": "call(304, -1, 0, 0)",
    "mknodat": "call(259, -100, b'workspace/fifo', 0o010644, 0)",
    "memfd_create": "call(319, b'x', 0)",
    "shmget": "call(29, 0, 4096, 0o1600)",
    "semget": "call(64, 0, 1, 0o1600)",
    "msgget": "call(68, 0, 0o1600)",
    "mq_open": "call(240, b'q', 0o102, 0o600, 0)",
    "bind": "call(49, -1, 0, 0)",
    "connect": "call(42, -1, 0, 0)",
    "seccomp": "call(317, 99, 0, 0)",
    "iopl": "call(172, 9)",
}
# What a filter answers; with the rule gone the kernel answers something else to the same call.
FILTERED = {"socketpair": "EAFNOSUPPORT", "clone3": "ENOSYS"}


@pytest.mark.parametrize("name", CALLS)
def test_without_a_call_s_rule_the_kernel_itself_answers(payload: Payload, name: str) -> None:
    """In a child with only the filter, so that a whole supervisor is not needed for each of them."""
    answers = [_under_filter(payload, CALLS[name], without) for without in ([], [name])]
    assert answers[0] == FILTERED.get(name, "EPERM")
    assert answers[1] != answers[0]


UNDER_FILTER = """
import sys
sys.path.append(sys.argv[1])
from sandbox_container import kernel, seccomp
kernel.unshare(kernel.CLONE_NEWIPC)  # what is made in there goes with it
kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
seccomp.load(seccomp.program(without=sys.argv[2:]))
"""


def _under_filter(payload: Payload, expression: str, without: list[str]) -> str:
    code = UNDER_FILTER + PRELUDE + f"answer = {expression}\nos.write(1, answer.encode() + b' ')\nos._exit(0)\n"
    project = str(Path(__file__).resolve().parents[2])
    ran = subprocess.run(
        [payload.base, "-I", "-S", "-c", code, project, *without], capture_output=True, text=True, timeout=60
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.split()[0]


SLOW = {"seconds": 2.0}


@pytest.mark.parametrize(
    ("guard", "code", "job", "sound", "mutated"),
    [
        ("memory", "import os, time\nb = bytearray(os.urandom(1024)) * (80 * 1024)\nif os.fork() == 0: b[::4096] = bytes(len(b[::4096]))\ntime.sleep(60)",
         {"memoryBytes": 120 * MIB, **SLOW}, "memory", "timeout"),
        ("disk", "import time\nopen('workspace/x', 'wb').write(b'x' * 2**24)\ntime.sleep(60)", {"diskBytes": 8 * MIB, **SLOW}, "disk", "timeout"),
        ("output", "print('x' * 9000, flush=True)\nimport time; time.sleep(60)", {"outputBytes": 4000, **SLOW}, "output", "timeout"),
        ("wall clock", "import time; time.sleep(1.5)", {"seconds": 0.5}, "timeout", "finished"),
    ],
    ids=["memory", "disk", "output", "wall clock"],
)  # fmt: skip
def test_without_a_limit_the_program_goes_on(
    mutant: Mutant, guard: str, code: str, job: dict[str, Any], sound: str, mutated: str
) -> None:
    # What must end it has time to, and what must not never comes to its own end.
    patient = job if sound == "timeout" else job | {"seconds": 60.0}
    assert mutant(code.replace("sleep(1.5)", "sleep(60)"), **patient).report["outcome"] == sound
    assert mutant(code, guard, **job).report["outcome"] == mutated


@pytest.mark.parametrize(
    ("guard", "code", "seen"),
    [
        ("no follow", "import os\nos.symlink('/etc/passwd', 'workspace/x')", lambda run: "x" in run.left_out),
        ("kinds", "import os\nos.symlink('/etc/passwd', 'workspace/x')", lambda run: run.report["tree"] == "ok"),
        ("depth", "import os\nos.chdir('workspace')\nfor _ in range(200):\n os.mkdir('d')\n os.chdir('d')", lambda run: run.report["tree"] == "too_large"),
        ("size", "import os\nfor n in range(2100): open(f'workspace/{n}', 'w')", lambda run: run.report["tree"] == "too_large"),
        ("names", "import os\nopen(b'workspace/bad\\x1bname', 'w')", lambda run: "bad\\x1bname" in run.left_out),
        ("modes", "import os\nopen('workspace/x', 'w')\nos.chmod('workspace/x', 0o4755)", lambda run: run.changed["x"]["mode"] == "0755"),
    ],
    ids=["no follow", "kinds", "depth", "size", "names", "modes"],
)  # fmt: skip
def test_without_a_rule_of_the_scan_its_case_fails(
    mutant: Mutant, guard: str, code: str, seen: Callable[[Run], bool]
) -> None:
    assert seen(mutant(code))
    assert not seen(mutant(code, guard))


@pytest.mark.parametrize(("guards", "left"), [([], False), (["reaping"], True)], ids=["sound", "without"])
def test_without_reaping_a_program_is_still_there_at_the_report(
    mutant: Mutant, route: RouteServer, guards: list[str], left: bool
) -> None:
    alive: list[int] = []

    def look(body: dict[str, Any], count: int) -> Answer | None:
        if body["op"] == "report":
            alive.extend(process.pid for process in reap.processes() if process.uids == {UID})
        return None

    route.fault = look
    mutant("import os, time\nif os.fork() == 0:\n os.setsid()\n time.sleep(60)", *guards)
    assert bool(alive) is left


@pytest.mark.parametrize(("guards", "shown"), [([], False), (["erase"], True)], ids=["sound", "without"])
def test_without_erasing_the_secret_stands_in_proc(
    start: Callable[..., Started], route: RouteServer, guards: list[str], shown: bool
) -> None:
    started = start(*guards)
    seen: list[bytes] = []

    def look(body: dict[str, Any], count: int) -> Answer | None:
        if body["op"] == "claim":
            table = {process.pid: process.parent for process in reap.processes()}
            inside = [pid for pid, parent in table.items() if parent == started.process.pid]
            inside += [pid for pid, parent in table.items() if parent in inside]
            seen.extend(Path(f"/proc/{pid}/environ").read_bytes() for pid in inside)
            return 200, {"status": "leave"}
        return None

    route.fault = look
    assert started.wait() == 0
    assert len(seen) >= 3  # the supervisor, the launch that waits, the process that ends the sandbox
    assert (route.secrets["mutant"].encode() in b"".join(seen)) is shown


@pytest.mark.parametrize(
    "guards",
    [
        ["step:change_user"],
        ["step:change_user", "step:restrict_files"],
        ["step:filter_calls"],
        ["step:gain_nothing"],
        ["step:gain_nothing", "step:restrict_files", "step:filter_calls"],
        ["step:own_session"],
        ["closing"],
        ["call:socket"],
    ],
    ids=" ".join,
)
def test_a_missing_guard_means_that_no_job_is_taken(
    start: Callable[..., Started], route: RouteServer, guards: list[str]
) -> None:
    assert start(*guards).wait() == 3
    assert route.calls["claim"] == 0
