"""A skill's files in a run: authorised when the run is asked for, laid out under ``skills/<name>/`` when it begins."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from workbench.operations import Item
from workbench.runs.plan import Mount, Source
from workbench.runtime import Runtime
from workbench.skills import permission, store

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

ROOT = "skills"


def inputs(turn: Turn, names: Sequence[str]) -> list[Item]:
    """The skills as a run's record keeps them: one entry each, however many files it has. No byte of them is read.

    Raises ToolError ``not_allowed``.
    """
    found = permission.require(turn, names, "skills") if names else []
    return [
        {
            "root": ROOT,
            "path": f"{item['name']}/",
            "place": "workspace",
            "key": item["key"],
            "bytes": item["bytes"],
            "tableBytes": item["tableBytes"],
        }
        for item in found
    ]


def mounts(runtime: Runtime, stored: Mapping[str, Any]) -> list[Mount]:
    """Every file of such an entry, as the sandbox lays it out: read-only, programs stay programs. One request.

    Raises BytesGone when the skill was withdrawn since.
    """
    return [
        Mount(
            "skills",
            f"{stored['path']}{file.path}",
            file.mode & 0o555,
            file.sha256,
            Source("workspace", stored["key"], file.offset, file.bytes),
        )
        for file in store.read_files(runtime, stored["key"], stored["tableBytes"])
    ]
