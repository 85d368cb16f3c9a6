"""What a turn did, read from the records of its calls: the trace step by step, and the receipt of what it left."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from workbench.ids import TurnId
from workbench.keys import call_key
from workbench.operations import Item
from workbench.runtime import Runtime

_STEP = ("callId", "tool", "step", "outcome", "code", "at", "milliseconds", "bytes", "refs")
# What the receipt says of each kind of effect; a record may note more for other purposes.
_RECEIPT = {
    "files": ("path", "mode", "created", "bytes"),
    "artifacts": ("artifact", "version", "name", "bytes"),
    "runs": ("run", "exitCode", "seconds"),
    "approvals": ("id", "pattern", "decision", "by"),
}


def calls(runtime: Runtime, turn: TurnId) -> list[Item]:
    """The records of a turn's calls that have a step, in the order in which the calls began."""
    pk, prefix = call_key(turn, "")
    recorded = [item for item in runtime.table.query(pk, prefix) if "step" in item]
    return sorted(recorded, key=lambda item: (item["step"]["at"], item.get("finishedAt", 0), item["SK"]))


def trace(recorded: Iterable[Item]) -> list[dict[str, Any]]:
    """One step for each call, and for each prompt that was filled in.

    Its tool, kind of step, outcome, error code, start, milliseconds, bytes and refs.
    """
    return [_step(item["step"]) for item in recorded]


def _step(step: Mapping[str, Any]) -> dict[str, Any]:
    # Which prompt a turn was given stands among its calls.
    named = {"prompt": step["prompt"]} if "prompt" in step else {}
    return {name: step.get(name) for name in _STEP} | named


def receipt(recorded: Iterable[Item]) -> dict[str, list[dict[str, Any]]]:
    """Files that the turn wrote and that it left there, artifacts, runs and approvals, each in order.

    A file written several times stands once, as it was left; it counts as created when the turn created it.
    """
    files: dict[str, dict[str, Any]] = {}
    others: dict[str, list[dict[str, Any]]] = {kind: [] for kind in _RECEIPT if kind != "files"}
    for item in recorded:
        effects: Mapping[str, Any] = item.get("effects") or {}
        for path in effects.get("deleted", ()):
            below = [name for name in files if name.startswith(path)] if path.endswith("/") else [path]
            for name in below:
                files.pop(name, None)
        for effect in effects.get("files", ()):
            entry = _facts("files", effect)
            before = files.pop(entry["path"], None)
            entry["created"] = bool(entry["created"] or (before and before["created"]))
            files[entry["path"]] = entry
        for kind, listed in others.items():
            listed += [_facts(kind, effect) for effect in effects.get(kind, ())]
    return {"files": list(files.values()), **others}


def _facts(kind: str, effect: Mapping[str, Any]) -> dict[str, Any]:
    return {name: effect.get(name) for name in _RECEIPT[kind]}
