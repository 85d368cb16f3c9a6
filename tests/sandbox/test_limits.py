"""Programs that take too much: time, processes, memory, disk, output. Each is ended, or stopped by the kernel, and the
answer says the true reason."""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501
from __future__ import annotations

from typing import Any

import pytest

from tests.sandbox.conftest import Sandbox
from tests.sandbox.route_server import MIB, Answer, RouteServer

RUNGS = ("process", "bundle")
SECONDS = 2.0
# So long may a busy machine keep a supervisor from ending what it should; test_watch.py holds that it does not dawdle.
LATE_SECONDS = 30.0


def test_a_program_that_ignores_sigterm_ends_at_the_wall_limit(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import signal, time
for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
    signal.signal(number, signal.SIG_IGN)
open("workspace/kept.txt", "w").write("kept")
print("before", flush=True)
while True:
    time.sleep(60)
""",
        seconds=SECONDS,
    )
    assert (run.report["outcome"], run.report["exitCode"]) == ("timeout", None)
    assert SECONDS <= run.report["seconds"] < SECONDS + LATE_SECONDS
    assert run.report["stdout"] == "before\n"
    assert run.workspace() == {"kept.txt": b"kept"}


def test_busy_threads_in_native_code_end_at_the_limit(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import hashlib, threading
for _ in range(12):
    threading.Thread(target=hashlib.pbkdf2_hmac, args=("sha256", b"x", b"y", 2**31 - 1)).start()
""",
        seconds=SECONDS,
    )
    assert run.report["outcome"] == "timeout"
    assert run.report["seconds"] < SECONDS + LATE_SECONDS


def test_a_chain_that_replaces_itself_is_gone_before_the_scan(sandbox: Sandbox) -> None:
    run = sandbox.run("""
import os, time
for number in range(3):
    if os.fork() == 0:
        os.setsid()
        while True:
            if os.fork():
                os._exit(0)
            open("workspace/alive.txt", "w").write(str(time.time()))
print("left", flush=True)
""")
    assert (run.report["outcome"], run.report["exitCode"]) == ("finished", 0)
    assert run.report["tree"] == "ok"


def test_background_processes_end_with_the_program(sandbox: Sandbox) -> None:
    run = sandbox.run("(setsid nohup sleep 600 &) ; sleep 600 & echo started", "shell")
    assert (run.report["outcome"], run.report["exitCode"]) == ("finished", 0)
    assert run.report["seconds"] < LATE_SECONDS


def test_a_fork_loop_meets_its_limit_and_only_that(sandbox: Sandbox) -> None:
    found = sandbox.results("""
children, failed = [], ""
for _ in range(500):
    try:
        pid = os.fork()
    except OSError as error:
        failed = name(error.errno)
        break
    if pid == 0:
        time.sleep(60)
        os._exit(0)
    children.append(pid)
print(json.dumps({"failed": failed, "children": len(children)}))
""")
    assert found["failed"] == "EAGAIN"
    assert found["children"] < 64


def test_zombies_are_reaped(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, time
middle = os.fork()
if middle == 0:
    for _ in range(300):
        try:
            if os.fork() == 0:
                os._exit(0)
        except BlockingIOError:
            break
    time.sleep(0.2)
    os._exit(0)
os.waitpid(middle, 0)
free, until = 0, time.monotonic() + 20
while free < 30:
    try:
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
        free += 1
    except BlockingIOError:
        if time.monotonic() > until:
            raise
        time.sleep(0.02)
print(free)
""",
    )
    # The zombies were orphans by then; had nobody taken their status, the process limit would still count them.
    assert run.report["stdout"] == "30\n", run.report


def test_many_processes_each_under_the_limit_are_ended_for_memory(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, time
for _ in range(8):
    if os.fork() == 0:
        block = bytearray(os.urandom(1024)) * (60 * 1024)
        time.sleep(60)
time.sleep(60)
""",
        memoryBytes=256 * MIB,
    )
    assert (run.report["outcome"], run.report["exitCode"]) == ("memory", None)
    assert run.report["seconds"] < LATE_SECONDS


def test_pages_that_processes_share_are_counted_once(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, time
block = bytearray(os.urandom(1024)) * (100 * 1024)
children = [pid for pid in (os.fork() for _ in range(6)) if pid]
if len(children) < 6:
    time.sleep(1)
    os._exit(0)
for pid in children:
    os.waitpid(pid, 0)
print("done")
""",
        memoryBytes=400 * MIB,
    )
    assert (run.report["outcome"], run.report["stdout"]) == ("finished", "done\n")


def test_one_process_over_the_limit_gets_a_memory_error(sandbox: Sandbox) -> None:
    run = sandbox.run("block = bytearray(2 ** 30)", memoryBytes=256 * MIB)
    assert run.report["exitCode"] == 1
    assert "MemoryError" in run.report["stderr"]


def test_one_huge_file_is_refused_by_the_kernel(sandbox: Sandbox) -> None:
    found = sandbox.results(
        """
def write():
    with open("workspace/huge", "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 2**20)
print(json.dumps({"write": attempt(write), "sparse": attempt(os.truncate, "workspace/huge", 2**50)}))
os.remove("workspace/huge")
""",
        fileBytes=8 * MIB,
    )
    assert found == {"write": "EFBIG", "sparse": "EFBIG"}


@pytest.mark.parametrize("hidden", [False, True], ids=["named", "deleted but open"])
def test_many_big_files_end_the_program_for_disk(sandbox: Sandbox, hidden: bool) -> None:
    run = sandbox.run(
        f"""
import os, time
kept = []
for number in range(100):
    file = open(f"workspace/big-{{number}}", "wb")
    file.write(b"x" * 2**20)
    file.flush()
    kept.append(file)
    if {hidden}:
        os.remove(file.name)
time.sleep(60)
""",
        diskBytes=40 * MIB,
        workspaceBytes=150 * MIB,
    )
    assert (run.report["outcome"], run.report["exitCode"]) == ("disk", None)
    assert run.report["seconds"] < LATE_SECONDS


def test_countless_empty_files_end_the_program_for_disk(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, time
for number in range(5000):
    os.mkdir(f"workspace/{number}")
time.sleep(60)
""",
        workspaceFiles=100,
    )
    assert run.report["outcome"] == "disk"
    assert run.report["tree"] == "too_large"


def test_endless_output_is_cut_and_the_program_ended(sandbox: Sandbox) -> None:
    run = sandbox.run("""
import os, threading
def fill(descriptor):
    while True:
        os.write(descriptor, b"x" * 65536)
threading.Thread(target=fill, args=(2,), daemon=True).start()
fill(1)
""")
    report = run.report
    assert (report["outcome"], report["exitCode"], report["truncated"], report["spill"]) == ("output", None, True, None)
    assert len(report["stdout"]) + len(report["stderr"]) <= 12_000
    assert report["outputBytes"] > 4 * MIB


def test_output_of_a_program_that_ended_already_is_capped_too(sandbox: Sandbox) -> None:
    run = sandbox.run("import os\nos.write(1, b'x' * 60_000)\nos.write(2, b'y' * 60_000)\n", outputBytes=50_000)
    assert (run.report["outcome"], run.report["truncated"]) == ("output", True)


def test_long_output_goes_whole_to_a_spill_file(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import sys\nfor n in range(4000): print('line', n)\nprint('problem', file=sys.stderr)\n",
        files={".spill-1.txt": b"older"},
    )
    whole = "".join(f"line {n}\n" for n in range(4000))
    assert (run.report["spill"], run.report["truncated"]) == (".spill-2.txt", True)
    assert run.workspace()[".spill-2.txt"] == f"== stdout ==\n{whole}\n== stderr ==\nproblem\n".encode()
    assert run.workspace()[".spill-1.txt"] == b"older"
    assert whole.endswith(run.report["stdout"])
    assert run.report["stderr"] == "problem\n"
    assert len(run.report["stdout"]) == 12_000 - len("problem\n")


def test_output_at_the_limit_is_given_whole(sandbox: Sandbox) -> None:
    run = sandbox.run("print('ä' * 11_999)")
    assert (run.report["spill"], run.report["truncated"]) == (None, False)
    assert run.report["stdout"] == "ä" * 11_999 + "\n"


def test_bytes_that_are_no_text_make_a_valid_report(sandbox: Sandbox) -> None:
    run = sandbox.run(
        r"import os; os.write(1, b'\x00\x1b[31mred\xff\xfe' + b'\xf0\x9f\x98'); os.write(2, ('\U0001f600' * 20_000).encode())"
    )
    assert run.report["stdout"] == "\x00\x1b[31mred\ufffd\ufffd\ufffd"
    # The tail's cut went through four-byte characters; none of them shows as damaged.
    assert set(run.report["stderr"]) == {"\U0001f600"}


def test_a_program_without_an_end_of_line_is_streamed(sandbox: Sandbox, route: RouteServer) -> None:
    def stop_once_shown(body: dict[str, Any], count: int) -> Answer | None:
        shown = body["op"] == "heartbeat" and (body["stdout"], body["outputBytes"]) == ("so far", 6)
        return (200, {"do": "stop"}) if shown else None

    route.fault = stop_once_shown
    code = "print('so far', end='', flush=True)\nimport time; time.sleep(60)"
    assert sandbox.run(code, heartbeat=30).report["outcome"] == "stopped"
