"""Which tools exist, in which versions, and where each is written. Every function, route and format derives from this.

The table is static and names modules instead of importing them, so that a function loads the code of one tool only.
"""

from __future__ import annotations

from importlib import import_module

from workbench.tools.arguments import nearest as nearest_of
from workbench.tools.contract import Tool

_FILES = "workbench.workspace.file_tools"
_ARITHMETIC = "workbench.arithmetic.tools"
_ARTIFACTS = "workbench.artifacts.tools"

# name -> version -> "module:attribute"; the order is the one in which tools are listed.
TABLE: dict[str, dict[str, str]] = {
    "list_files": {"1.0.0": f"{_FILES}:list_files"},
    "read_file": {"1.0.0": f"{_FILES}:read_file"},
    "search_files": {"1.0.0": f"{_FILES}:search_files"},
    "write_file": {"1.0.0": f"{_FILES}:write_file"},
    "edit_file": {"1.0.0": f"{_FILES}:edit_file"},
    "delete_file": {"1.0.0": f"{_FILES}:delete_file"},
    "run_code": {"1.0.0": "workbench.runs.run_tool:run_code"},
    "run_javascript": {"1.0.0": "workbench.javascript.tool:run_javascript"},
    "calculate": {"1.0.0": f"{_ARITHMETIC}:calculate"},
    "convert_units": {"1.0.0": f"{_ARITHMETIC}:convert_units"},
    "current_time": {"1.0.0": f"{_ARITHMETIC}:current_time"},
    "search_docs": {"1.0.0": "workbench.retrieval.tools:search_docs"},
    "read_result": {"1.0.0": "workbench.tools.results:read_result"},
    "export_artifact": {"1.0.0": f"{_ARTIFACTS}:export_artifact_1", "2.0.0": f"{_ARTIFACTS}:export_artifact"},
    "list_artifacts": {"1.0.0": f"{_ARTIFACTS}:list_artifacts"},
    "read_artifact": {"1.0.0": f"{_ARTIFACTS}:read_artifact"},
    "load_skill": {"1.0.0": "workbench.skills.tools:load_skill"},
}

_loaded: dict[tuple[str, str], Tool] = {}


def names() -> list[str]:
    """Every tool's name, without loading any."""
    return list(TABLE)


def versions(name: str) -> list[str]:
    """The registered versions of ``name``, oldest first; empty when no tool has that name."""
    return sorted(TABLE.get(name, ()), key=_order)


def get(name: str, version: str | None = None) -> Tool | None:
    """The tool at ``version`` (the latest when None), or None. Loads its module at the first use."""
    known = versions(name)
    chosen = version or (known[-1] if known else None)
    if chosen is None or chosen not in known:
        return None
    found = _loaded.get((name, chosen))
    if found is None:
        where = TABLE[name][chosen]
        module, _, attribute = where.partition(":")
        found = getattr(import_module(module), attribute)
        assert isinstance(found, Tool)
        if (found.name, found.version) != (name, chosen):
            raise RuntimeError(f"{where} is {found.id}, the catalogue says {name}@{chosen}")
        _loaded[name, chosen] = found
    return found


def tools() -> list[Tool]:
    """The latest version of every tool, in listing order. Loads all modules."""
    return [found for name in TABLE if (found := get(name)) is not None]


def nearest(name: str) -> str | None:
    """The tool name most like ``name``, if any is close."""
    return nearest_of(name, TABLE)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))
