"""A sandbox that lies about the tree changes nothing; what it honestly leaves is kept whole."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local.conftest import Api
from tests.local.runs.following import Begin, final, free
from tests.local.runs.sandbox import Launcher, Sandbox, packed
from tests.local.talk import Talk, text
from workbench.workspace.storage import head as lease

Lie = Callable[[Sandbox], dict[str, Any]]


def lie_wrong_hash(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true", sha256=packed(b"other")["sha256"])
    return sandbox.leave()


def lie_other_bytes(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    sandbox.file("c.txt", b"also", pieces=[{"part": 0, "offset": 0, "length": 4}])
    return sandbox.leave()


def lie_beyond_the_pack(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true", pieces=[{"part": 0, "offset": 1, "length": 4}])
    return sandbox.leave()


def lie_never_sent(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.line(path="b", kind="file", mode="0644", bytes=4, sha256=packed(b"true")["sha256"], pieces=[])
    return sandbox.leave()


def lie_a_file_below_a_file(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("a.txt/below", b"true")
    return sandbox.leave()


def lie_twice(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"one")
    sandbox.file("b.txt", b"two")
    return sandbox.leave()


def lie_no_packs(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    return sandbox.leave() | {"packParts": 3}


def lie_no_changes(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    return sandbox.leave() | {"changeParts": 2}


def lie_not_json(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    sandbox.lines.append(b"[" * 60_000 + b"\n")
    return sandbox.leave()


def lie_absurdly_many(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.lines += [b'{"path":"p%d","deleted":true}\n' % number for number in range(5_000)]
    return sandbox.leave()


def lie_deleted_everything_unreadably(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.line(path="a.txt", deleted=True)
    return sandbox.leave() | {"tree": "unreadable", "reason": "folders are nested more than 128 deep"}


def more_than_the_sandbox_reads(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("b.txt", b"true")
    return sandbox.leave() | {"tree": "too_large", "reason": "too many files"}


def too_many_files(sandbox: Sandbox) -> dict[str, Any]:
    for number in range(25):
        sandbox.file(f"n{number}", b"x%d" % number)
    return sandbox.leave()


def too_many_bytes(sandbox: Sandbox) -> dict[str, Any]:
    sandbox.file("huge.bin", os.urandom(13 * 1024 * 1024))
    return sandbox.leave()


def too_many_folders(sandbox: Sandbox) -> dict[str, Any]:
    for number in range(25):
        sandbox.line(path=f"f{number}", kind="folder", mode="0755")
    return sandbox.leave()


VOID: list[tuple[Lie, str]] = [
    (lie_wrong_hash, "SANDBOX_ERROR"),
    (lie_other_bytes, "SANDBOX_ERROR"),
    (lie_beyond_the_pack, "SANDBOX_ERROR"),
    (lie_never_sent, "SANDBOX_ERROR"),
    (lie_a_file_below_a_file, "SANDBOX_ERROR"),
    (lie_twice, "SANDBOX_ERROR"),
    (lie_no_packs, "SANDBOX_ERROR"),
    (lie_no_changes, "SANDBOX_ERROR"),
    (lie_not_json, "SANDBOX_ERROR"),
    (lie_absurdly_many, "SANDBOX_ERROR"),
    (lie_deleted_everything_unreadably, "SANDBOX_ERROR"),
    (more_than_the_sandbox_reads, "limit_exceeded"),
    (too_many_files, "limit_exceeded"),
    (too_many_bytes, "limit_exceeded"),
    (too_many_folders, "limit_exceeded"),
]


@pytest.mark.parametrize(("lie", "code"), VOID, ids=[lie.__name__ for lie, _code in VOID])
def test_a_tree_that_cannot_be_trusted_changes_nothing(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api, lie: Lie, code: str
) -> None:
    talk.put("a.txt", b"before\n")
    answer = begin()
    started = launcher.next(api).claimed()
    parts = lie(started)
    assert started.report(**parts, stdout="done\n", outputBytes=5)[0] == 200
    made = final(answer)
    assert (made["outcome"], made["error"]["code"]) == ("error", code)
    assert "No file changes were kept" in text(made)
    assert "done" in text(made)
    facts = made["structured"]
    assert (facts["created"], facts["modified"], facts["deleted"], facts["version"]) == ([], [], [], 1)
    assert talk.files() == {"a.txt": b"before\n"}
    free(system, talk)


@pytest.mark.parametrize("path", ["../../outside", "/etc/passwd", "a\\b", "x/../../y", "workspace/z", "n\0l"])
def test_a_hostile_path_reaches_nothing_and_the_rest_is_kept(
    talk: Talk, begin: Begin, launcher: Launcher, api: Api, path: str
) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file(path, b"evil")
    started.file("fine.txt", b"fine")
    started.finish()
    made = final(answer)
    assert made["structured"]["created"] == ["fine.txt"]
    assert len(made["structured"]["leftOut"]) == 1
    assert talk.files() == {"fine.txt": b"fine"}


def test_spill_files_go_first_when_the_rest_would_fit(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("result.bin", os.urandom(10 * 1024 * 1024))
    started.file(".spill-1.txt", b"x" * (3 * 1024 * 1024))
    started.finish(truncated=True, spill=".spill-1.txt", stdout="tail", outputBytes=3 * 1024 * 1024)
    made = final(answer)
    assert made["outcome"] == "ok"
    assert made["structured"]["created"] == ["result.bin"]
    assert made["structured"]["leftOut"] == [{"name": ".spill-1.txt", "reason": "the workspace has no room for it"}]
    assert made["structured"]["spill"] is None


def test_a_file_over_several_packs_arrives_whole_and_text_is_measured(
    system: LocalSystem, talk: Talk, begin: Begin, launcher: Launcher, api: Api
) -> None:
    large = os.urandom(9 * 1024 * 1024)
    answer = begin()
    started = launcher.next(api).claimed()
    started.file("first.txt", "zwei\nZeilen ä\n".encode())
    started.file("large.bin", large)
    started.file("again.txt", "zwei\nZeilen ä\n".encode())
    started.line(path="empty", kind="folder", mode="0755")
    started.finish()
    assert final(answer)["structured"]["created"] == ["again.txt", "empty", "first.txt", "large.bin"]
    head = lease.read_head(system.runtime, talk.conversation)
    entries = {entry.path: entry for entry in system.runtime.workspaces.manifest(head).entries()}
    assert system.runtime.workspaces.read(talk.conversation, entries["large.bin"]) == large
    assert (entries["first.txt"].lines, entries["first.txt"].characters) == (2, 14)
    assert (entries["large.bin"].lines, entries["large.bin"].mode) == (None, 0o644)
    assert entries["empty"].kind == "folder"


def test_a_mode_alone_and_a_copy_need_no_bytes(talk: Talk, begin: Begin, launcher: Launcher, api: Api) -> None:
    talk.put("tool.sh", b"#!/bin/sh\n")
    digest = packed(b"#!/bin/sh\n")["sha256"]
    answer = begin()
    started = launcher.next(api).claimed()
    for path, mode in (("tool.sh", "0755"), ("copy.sh", "0644")):
        started.line(path=path, kind="file", mode=mode, bytes=10, sha256=digest, pieces=[])
    started.finish()
    facts = final(answer)["structured"]
    assert (facts["created"], facts["modified"]) == (["copy.sh"], ["tool.sh"])
    assert talk.files() == {"tool.sh": b"#!/bin/sh\n", "copy.sh": b"#!/bin/sh\n"}
