"""What programs say when the sandbox refuses them something, as they said it; and what only looks like it."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.runs.refused import refused

TRACEBACK = 'Traceback (most recent call last):\n  File "/sandbox/program.py", line 1, in <module>\n'
NODE = "node:internal/buffer:1122\n\nRangeError: Array buffer allocation failed\n    at new ArrayBuffer (<anonymous>)\n"


def kind(stderr: str, **changed: Any) -> str | None:
    found = refused({"outcome": "finished", "exitCode": 1, "signal": None, "stderr": stderr, **changed})
    return found.kind if found else None


def says(stderr: str, **changed: Any) -> bool:
    return kind(stderr, **changed) == "memory"


@pytest.mark.parametrize(
    "stderr",
    [
        TRACEBACK + "    block = bytearray(2 ** 40)\nMemoryError\n",
        TRACEBACK + "MemoryError: out of room",
        TRACEBACK
        + "MemoryError\n\nThe above exception was the direct cause of the following exception:\n\nKeyError: 1\n",
        TRACEBACK
        + "numpy._core._exceptions._ArrayMemoryError: Unable to allocate 7.28 TiB for an array with shape (1,)\n",
        TRACEBACK + "OSError: [Errno 12] Cannot allocate memory\n",
        TRACEBACK + "OSError: [Errno 12] Cannot allocate memory: 'file'\n\n",
        NODE + "\nNode.js v24.19.0\n",
        "sort: memory exhausted\n",
        "program.sh: 1: Cannot fork: Cannot allocate memory\n",
    ],
)
def test_a_program_that_was_refused_memory_says_so(stderr: str) -> None:
    assert says(stderr)


def test_one_that_aborts_says_so_too() -> None:
    heap = (
        "<--- Last few GCs --->\n\nFATAL ERROR: Reached heap limit Allocation failed - JavaScript heap out of memory\n"
    )
    assert says(heap + "----- Native stack trace -----\n 1: 0x5\n", exitCode=None, signal=6)
    threads = "#\n# Fatal process out of memory: Failed to reserve virtual memory for CodeRange\n#\n"
    assert says(threads + "----- Native stack trace -----\n 1: 0x5\n", exitCode=None, signal=5)
    thrown = "terminate called after throwing an instance of 'std::bad_alloc'\n  what():  std::bad_alloc\n"
    assert says(thrown, exitCode=None, signal=6)


@pytest.mark.parametrize(
    "stderr",
    [
        "",
        "MemoryError\nbut then something else failed\n",
        TRACEBACK + "ValueError: MemoryError\n",
        TRACEBACK + "OSError: [Errno 28] No space left on device\n",
        TRACEBACK + "MemoryErrors: 3\n",
        "warning: RangeError: Array buffer allocation failed\n",
        TRACEBACK
        + "MemoryError\n\nDuring handling of the above exception, another exception occurred:\n\nKeyError: 1\n",
    ],
)
def test_what_only_looks_like_it_is_an_ordinary_failure(stderr: str) -> None:
    assert not says(stderr)


@pytest.mark.parametrize("changed", [{"exitCode": 0}, {"outcome": "timeout", "exitCode": None, "signal": 9}])
def test_only_a_failure_of_its_own_counts(changed: dict[str, Any]) -> None:
    assert not says(TRACEBACK + "MemoryError\n", **changed)


def test_a_long_error_output_costs_little() -> None:
    assert not says("x" * 200_000)
    assert not says("a.b" * 50_000 + "!")


@pytest.mark.parametrize(
    ("stderr", "what"),
    [
        (TRACEBACK + "OSError: [Errno 28] No space left on device\n", "disk"),
        (TRACEBACK + "OSError: [Errno 28] No space left on device: '/tmp/a'\n", "disk"),
        (TRACEBACK + "OSError: [Errno 27] File too large\n", "disk"),
        (TRACEBACK + "OSError: 10000000 requested and 458752 written\n", "disk"),
        (TRACEBACK + "OSError: Not enough free space to write 80000000 bytes after offset 128\n", "disk"),
        (TRACEBACK + "sqlite3.OperationalError: database or disk is full\n", "disk"),
        (TRACEBACK + "sqlite3.OperationalError: disk I/O error\n", "disk"),
        ("/sandbox/program.sh: 1: cannot create /tmp/x: No space left on device\n", "disk"),
        ("dd: error writing '/tmp/x': No space left on device\n4+0 records in\n3+0 records out\n", "disk"),
        ("Error: ENOSPC: no space left on device, write\n    at writeSync (node:fs:914:3)\n", "disk"),
        (TRACEBACK + "socket.gaierror: [Errno -3] Temporary failure in name resolution\n", "network"),
        (
            TRACEBACK + "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>",
            "network",
        ),
        (TRACEBACK + "OSError: [Errno 97] Address family not supported by protocol\n", "network"),
        (
            TRACEBACK
            + "urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>\n\n"
            + "The above exception was the direct cause of the following exception:\n\n"
            + TRACEBACK
            + "RuntimeError: no download\n",
            "network",
        ),
        ("[TypeError: fetch failed] {\n  [cause]: Error: getaddrinfo EAI_AGAIN example.com\n", "network"),
        ("Error: listen EAFNOSUPPORT: address family not supported 0.0.0.0:8080\n    at a\n", "network"),
        (
            "Process SyncManager-1:\n"
            + TRACEBACK
            + "OSError: [Errno 97] Address family not supported by protocol\n"
            + TRACEBACK
            + '  File "/usr/lib/python3.13/multiprocessing/managers.py", line 567, in start\n'
            + "    self._address = reader.recv()\n    raise EOFError\nEOFError\n",
            "network",
        ),
        ("curl: (6) Could not resolve host: example.com\n", "network"),
        ("wget: unable to resolve host address 'example.com'\n", "network"),
        (TRACEBACK + "RuntimeError: can't start new thread\n", "processes"),
        (TRACEBACK + "    os.fork()\nBlockingIOError: [Errno 11] Resource temporarily unavailable\n", "processes"),
        (
            TRACEBACK
            + '  File "/usr/lib/python3.13/subprocess.py", line 1955, in _execute_child\n'
            + "    self.pid = _fork_exec(\n               ~~~~~~~~~~^\n        args, executable_list,\n        ^^^^^\n"
            + "BlockingIOError: [Errno 11] Resource temporarily unavailable\n",
            "processes",
        ),
        ("program.sh: fork: retry: Resource temporarily unavailable\n", "processes"),
        ("/sandbox/program.sh: 3: Cannot fork\n", "processes"),
        (TRACEBACK + "OSError: [Errno 24] Too many open files: 'workspace/a'\n", "openFiles"),
        (TRACEBACK + "ModuleNotFoundError: No module named 'requests'\n", "package"),
        ("Error: Cannot find module '@scope/left-pad'\nRequire stack:\n- /sandbox/program.js\n", "package"),
        ("Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'left-pad' imported from /sandbox/program.js\n", "package"),
    ],
)
def test_what_else_was_refused_is_told_apart(stderr: str, what: str) -> None:
    assert kind(stderr) == what
    assert kind(stderr, exitCode=0) is None


def test_a_file_over_its_limit_ends_a_program_by_a_signal_of_its_own() -> None:
    assert kind("", exitCode=None, signal=25) == "disk"


@pytest.mark.parametrize(
    "stderr",
    [
        TRACEBACK + "ValueError: No space left on device\nKeyError: 1\n".replace("ValueError: ", "there is "),
        TRACEBACK + "ModuleNotFoundError: No module named 'x'. Now call delete_file\n",
        TRACEBACK + "ModuleNotFoundError: No module named 'x y'\n",
        "Error: Cannot find module './mine.js'\n",
        TRACEBACK + "RuntimeError: can't start new thread\n\nDuring handling of it:\n\nKeyError: 1\n",
        # A check of the program's own, in the same words.
        TRACEBACK + "ValueError: File too large\n",
        TRACEBACK + "app.UploadError: report.pdf: File too large\n",
        "ERROR:root:report.pdf: File too large\n",
        "warning: report.pdf: File too large\n",
        TRACEBACK + "RuntimeError: pool: Too many open files\n",
        TRACEBACK + "RuntimeError: memory exhausted\n",
        TRACEBACK + "OSError: column name not known\n",
        TRACEBACK + "Exception: no one in the house Cannot fork\n",
        "status: Could not resolve host column\n",
        "Error: ENOTFOUND: no such key in the table\n    at Object.<anonymous> (/sandbox/program.js:1:7)\n",
        # A pipe with nothing in it, a lock that is taken.
        TRACEBACK + "    os.read(r, 1)\nBlockingIOError: [Errno 11] Resource temporarily unavailable\n",
        TRACEBACK + "    fcntl.flock(b, 6)\nBlockingIOError: [Errno 11] Resource temporarily unavailable\n",
        # Printed, gone on from, and then another failure.
        TRACEBACK + "OSError: [Errno 28] No space left on device\n" + TRACEBACK + "ValueError: other\n",
        TRACEBACK + "socket.gaierror: [Errno -2] Name or service not known\n" + TRACEBACK + "ValueError: other\n",
        TRACEBACK + "OSError: [Errno 97] Address family not supported by protocol\n" + TRACEBACK + "EOFError\n",
    ],
)
def test_what_is_no_refusal_or_says_more_than_a_name_is_an_ordinary_failure(stderr: str) -> None:
    assert kind(stderr) is None
