"""What a program leaves of its workspace: kept where it can be, left out and named, or refused as a whole."""

# Programs stand here as the sandbox gets them.
# ruff: noqa: E501
from __future__ import annotations

import hashlib

import pytest

from tests.sandbox.conftest import PRELUDE, Sandbox
from tests.sandbox.route_server import MIB

# Reading a tree back does not depend on what is around the supervisor.
RUNGS = ("process",)


BEFORE = {"a.txt": b"one", "folder": None, "folder/b.txt": b"two", "empty": None}


def test_a_run_that_changes_nothing_sends_nothing(sandbox: Sandbox) -> None:
    run = sandbox.run("pass", files=BEFORE)
    assert (run.report["tree"], run.changes, run.report["packParts"]) == ("ok", [], 0)


def test_created_modified_deleted_and_empty_folders(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, shutil
open("workspace/a.txt", "ab").write(b" more")
shutil.rmtree("workspace/folder")
os.makedirs("workspace/new/deep/empty")
open("workspace/new/nothing", "w")
os.rename("workspace/empty", "workspace/hollow")
""",
        files=BEFORE,
    )
    assert run.workspace() == {
        "a.txt": b"one more",
        "hollow": None,
        "new": None,
        "new/deep": None,
        "new/deep/empty": None,
        "new/nothing": b"",
    }
    assert run.deleted == {"folder", "folder/b.txt", "empty"}


def test_a_run_that_raised_keeps_its_changes(sandbox: Sandbox) -> None:
    run = sandbox.run("open('workspace/done', 'w').write('x')\nraise ValueError('later')", files=BEFORE)
    assert run.report["exitCode"] == 1
    assert run.report["stderr"].endswith("ValueError: later\n")
    assert run.workspace()["done"] == b"x"


def test_content_that_moved_is_not_sent_again(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import os, shutil\nos.rename('workspace/a.txt', 'workspace/z.txt')\nshutil.copy('workspace/z.txt', 'workspace/y.txt')",
        files={"a.txt": b"content"},
    )
    assert run.report["packParts"] == 0
    assert run.workspace() == {"z.txt": b"content", "y.txt": b"content"}


def test_equal_new_contents_travel_once(sandbox: Sandbox) -> None:
    run = sandbox.run("for n in range(5): open(f'workspace/{n}', 'wb').write(b'x' * 1000)")
    assert len(run.parts["packs", 0]) == 1000
    assert set(run.workspace().values()) == {b"x" * 1000}


def test_large_contents_continue_over_packs_and_small_ones_are_never_split(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import random
random.seed(1)
for name, size in (("a", 3), ("b", 2), ("c", 9), ("d", 1)):
    open(f"workspace/{name}", "wb").write(random.randbytes(size * 2**20 + 7))
""",
        diskBytes=100 * MIB,
    )
    assert {path: len(data or b"") for path, data in run.workspace().items()} == {
        "a": 3 * MIB + 7,
        "b": 2 * MIB + 7,
        "c": 9 * MIB + 7,
        "d": MIB + 7,
    }
    assert len(run.changed["b"]["pieces"]) == 1
    assert all(len(data) <= 4 * MIB for (stream, _), data in run.parts.items() if stream == "packs")


def test_inputs_that_span_parts_arrive_whole(sandbox: Sandbox) -> None:
    data = bytes(range(256)) * (9 * MIB // 256)
    run = sandbox.run(
        "import hashlib; print(hashlib.sha256(open('inputs/big', 'rb').read()).hexdigest(), len(open('workspace/x').read()))",
        files={"x": b"0" * (5 * MIB)},
        inputs={"big": data},
    )
    assert run.report["stdout"] == f"{hashlib.sha256(data).hexdigest()} {5 * MIB}\n"
    assert run.report["mounted"] == ["inputs/big"]


def test_what_was_mounted_is_named_and_read_only(sandbox: Sandbox) -> None:
    run = sandbox.run(
        PRELUDE
        + "print(open('skills/report/SKILL.md').read(), attempt(open, 'skills/report/SKILL.md', 'a'), attempt(open, 'inputs/files/new', 'w'))",
        inputs={"files": None, "files/a b.csv": b"1"},
        skills={"report/SKILL.md": b"how"},
    )
    assert run.report["stdout"] in {"how EACCES EACCES\n", "how EPERM EPERM\n"}
    assert run.report["mounted"] == ["inputs/files/a b.csv", "skills/report/SKILL.md"]


def test_links_fifos_and_sockets_are_left_out_and_named(sandbox: Sandbox) -> None:
    run = sandbox.run(
        PRELUDE
        + """
os.symlink("/etc/passwd", "workspace/outside")
os.symlink("kept.txt", "workspace/inside")
os.symlink("/proc/1", "workspace/folder-link")
attempt(os.mkfifo, "workspace/fifo")
s = socket.socketpair()[0]
attempt(s.bind, "workspace/socket")
open("workspace/kept.txt", "w").write("kept")
""",
    )
    assert run.workspace() == {"kept.txt": b"kept"}
    assert run.left_out == {"outside": "a link", "inside": "a link", "folder-link": "a link"}


def test_a_file_replaced_by_a_link_is_reported_deleted(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import os\nos.remove('workspace/a.txt')\nos.symlink('/etc/hostname', 'workspace/a.txt')", files=BEFORE
    )
    assert run.deleted == {"a.txt"}
    assert run.left_out == {"a.txt": "a link"}


def test_a_folder_that_became_a_file_and_the_reverse(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, shutil
shutil.rmtree("workspace/folder")
open("workspace/folder", "w").write("file")
os.remove("workspace/a.txt")
os.makedirs("workspace/a.txt/inner")
""",
        files=BEFORE,
    )
    assert run.workspace() == {"folder": b"file", "a.txt": None, "a.txt/inner": None, "empty": None}


def test_unusable_names_are_left_out_and_named(sandbox: Sandbox) -> None:
    run = sandbox.run(
        r"""
import os
for name in (b"bad\xff", b"new\nline", b"back\\slash", b"fine.txt", "e\u0301".encode(), b"bell\x07", "c1\x85".encode()):
    open(b"workspace/" + name, "w").write("x")
os.makedirs("workspace/workspace/inner")
os.makedirs("workspace/ok/workspace")
open("workspace/" + "d/" * 0 + "n" * 255, "w")
deep = "workspace/" + "/".join(["p" * 200] * 6)
os.makedirs(deep)
""",
    )
    after = run.workspace()
    assert {"fine.txt", "\u00e9", "ok", "ok/workspace", "n" * 255} <= set(after)
    left = run.left_out
    assert {"bad\\xff", "new\\nline", "back\\slash", "bell\\x07", "c1\\x85", "workspace"} <= set(left)
    assert any("longer than 1024 bytes" in reason for reason in left.values())
    assert all(reason for reason in left.values())


def test_two_spellings_of_one_name(sandbox: Sandbox) -> None:
    run = sandbox.run(
        r"""
for name in ("e\u0301", "\u00e9"):
    open("workspace/" + name, "w").write(ascii(name))
""",
    )
    assert run.workspace() == {"\u00e9": b"'\\xe9'"}
    assert len(run.left_out) == 1


def test_hard_links_count_by_name_and_none_reaches_outside(sandbox: Sandbox) -> None:
    run = sandbox.run(
        PRELUDE
        + """
open("workspace/a", "wb").write(b"x" * 2**20)
for number in range(30):
    os.link("workspace/a", f"workspace/a{number}")
print(attempt(os.link, "/etc/passwd", "workspace/outside"), attempt(os.link, "program.py", "workspace/program"))
""",
        workspaceBytes=20 * MIB,
    )
    assert run.report["tree"] == "too_large"
    assert "bytes" in run.report["reason"]
    assert "ok" not in run.report["stdout"].split()


def test_a_sparse_file_is_refused_before_it_is_read(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import os\nos.close(os.open('workspace/s', os.O_CREAT | os.O_WRONLY))\nos.truncate('workspace/s', 2**40)",
        fileBytes=2**50,
    )
    assert run.report["tree"] == "too_large"
    assert run.report["exitCode"] == 0


def test_a_tree_1500_deep_is_refused_and_still_cleaned_up(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import os\nos.chdir('workspace')\nfor _ in range(1500):\n os.mkdir('d')\n os.chdir('d')\nopen('bottom', 'w')",
        files=BEFORE,
    )
    assert run.report["tree"] == "too_large"
    assert "deep" in run.report["reason"]
    assert run.workspace() == BEFORE


def test_too_many_files_are_refused(sandbox: Sandbox) -> None:
    run = sandbox.run("for n in range(60): open(f'workspace/{n}', 'w')", workspaceFiles=50, files=BEFORE)
    assert run.report["tree"] == "too_large"
    assert "too many files" in run.report["reason"]
    assert run.workspace() == BEFORE


def test_spill_files_do_not_void_a_run(sandbox: Sandbox) -> None:
    spills = {f".spill-{n}.txt": b"old" for n in range(1, 9)}
    run = sandbox.run("open('workspace/new', 'w').write('x')", workspaceFiles=5, files=spills)
    assert run.report["tree"] == "ok"
    assert run.workspace()["new"] == b"x"


def test_a_folder_that_nobody_may_read_is_read_all_the_same(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os
os.mkdir("workspace/closed")
open("workspace/closed/file", "w").write("x")
os.chmod("workspace/closed/file", 0)
os.chmod("workspace/closed", 0)
os.chmod("workspace", 0)
"""
    )
    assert run.workspace() == {"closed": None, "closed/file": b"x"}
    assert run.changed["closed"]["mode"] == "0000"


def test_odd_modes_survive_to_the_next_run(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import os\nprint([oct(os.stat('workspace/' + p).st_mode & 0o7777) for p in ('a', 'a/b', 's.sh')])\nos.chmod('workspace/s.sh', 0o700)",
        files={"a": None, "a/b": None, "s.sh": b"#!/bin/sh\n"},
        modes={"a": 0o500, "a/b": 0o000, "s.sh": 0o755},
    )
    assert run.report["stdout"] == "['0o500', '0o0', '0o755']\n"
    assert run.changed == {
        "s.sh": {
            "path": "s.sh",
            "kind": "file",
            "mode": "0700",
            "bytes": 10,
            "sha256": run.changed["s.sh"]["sha256"],
            "pieces": [],
        }
    }


def test_everything_deleted_is_reported_deleted(sandbox: Sandbox) -> None:
    run = sandbox.run("rm -rf workspace/* workspace/.[a-z]*", "shell", files={**BEFORE, ".hidden": b"h"})
    assert run.workspace() == {}
    assert run.deleted == {*BEFORE, ".hidden"}


def test_a_rewrite_of_the_same_size_and_time_is_found(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os
before = os.stat("workspace/a.txt")
with open("workspace/a.txt", "r+b") as file:
    file.write(b"ONE")
os.utime("workspace/a.txt", ns=(before.st_atime_ns, before.st_mtime_ns))
""",
        files=BEFORE,
    )
    assert run.workspace()["a.txt"] == b"ONE"


def test_a_setuid_bit_is_dropped(sandbox: Sandbox) -> None:
    run = sandbox.run(
        "import os\nopen('workspace/s', 'w')\nos.chmod('workspace/s', 0o6755)\nos.chmod('workspace', 0o1777)"
    )
    assert run.changed["s"]["mode"] == "0755"


@pytest.mark.parametrize("name", ["json.py", "sitecustomize.py", "usercustomize.py", "os.py"])
def test_planted_modules_are_imported_by_nobody(sandbox: Sandbox, name: str) -> None:
    trap = b"import os\nos.write(1, b'TRAPPED')\n"
    run = sandbox.run(
        "import json, os\nopen('workspace/again.py', 'w')\nprint('fine')",
        files={name: trap},
        environment={"PYTHONPATH": "workspace", "PYTHONSTARTUP": f"workspace/{name}"},
    )
    assert run.report["stdout"] == "fine\n"


def test_the_root_is_not_writable_and_the_answer_says_where_files_go(sandbox: Sandbox) -> None:
    run = sandbox.run("open('report.csv', 'w')")
    assert "workspace/report.csv" in run.report["stderr"]
    assert run.report["stderr"].startswith("Traceback")


@pytest.mark.parametrize(
    ("language", "code"),
    [
        ("python", "open('workspace/a/b.txt', 'w')"),
        ("python", "print('PermissionError', file=__import__('sys').stderr)"),
        ("python", "open('/etc/x', 'w')"),
    ],
)
def test_other_failures_get_no_such_hint(sandbox: Sandbox, language: str, code: str) -> None:
    assert "hint" not in sandbox.run(code, language).report["stderr"]


@pytest.mark.parametrize(
    ("language", "code"),
    [("shell", "echo x > out.txt"), ("javascript", "require('fs').writeFileSync('out.txt', 'x')")],
)
def test_the_hint_speaks_to_every_language(local_sandbox: Sandbox, language: str, code: str) -> None:
    assert "workspace/out.txt" in local_sandbox.run(code, language).report["stderr"]
