"""One write in a workspace of 50,000 files against one of 50: the same requests, about the same time."""

from __future__ import annotations

import itertools

from bench.measure import Row, in_turns
from bench.portal import Portal
from local.system import LocalSystem
from workbench.workspace.storage.store import WorkingCopy
from workbench.workspace.storage.writing import write

RUNS = 25


def large_against_small() -> Row:
    """Both workspaces in one system; a new file's content each time."""
    with LocalSystem().start(settings={"workspace_files": 60_000}, sandbox="off") as system:
        small, large = (_Writer(system, count) for count in (50, 50_000))
        ours, theirs = in_turns(large.write, small.write, runs=RUNS)
    fault = None
    if large.requests != small.requests:
        fault = f"{large.requests} requests at 50,000 files, {small.requests} at 50"
    return Row(ours, "the same at 50 files", theirs, "1.3x, same requests", most=1.3, fault=fault)


class _Writer:
    """One conversation with an open turn, writing one file again and again."""

    def __init__(self, system: LocalSystem, files: int) -> None:
        conversation = f"bench-{files}"
        self._portal = Portal(system.url, conversation, ["write_file"])
        self._numbers = itertools.count()
        self.requests: list[int] = []

        def stage(copy: WorkingCopy) -> None:
            for number in range(files):
                copy.write(f"folder{number // 100:04d}/file{number:05d}.txt", f"file {number}\n".encode())

        write(system.runtime, conversation, "fill", stage)

    def write(self) -> None:
        content = f"content {next(self._numbers)}\n"
        answer = self._portal.call("write_file", path="folder0000/file00025.txt", content=content)
        self.requests.append(answer["cost"]["requests"])
