"""What a run is given besides the workspace: every id is authorised before a byte is read, and one bad id refuses all.

Artifacts and documents are read where they lie. Stored results are staged by the workflow's first step, because they
have to be written as files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from workbench.artifacts import store
from workbench.artifacts.access import Viewer, may_read
from workbench.artifacts.model import EXTENSIONS, Artifact, Version
from workbench.errors import ToolError
from workbench.ids import RESULT_PREFIX, CallId
from workbench.keys import call_key
from workbench.knowledge import mounting as documents
from workbench.knowledge.permission import documents as usable_documents
from workbench.operations import Item
from workbench.runs.items import staging_prefix
from workbench.runtime import Runtime
from workbench.skills import mounting
from workbench.tools.recording import full_output
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from workbench.tools.turn import Turn

SHOWN_CHARACTERS = 120


class InputsTooLarge(Exception):
    """The inputs are larger than a run may get; the message is for the model."""


@dataclass(frozen=True, slots=True)
class Wish:
    """An artifact that the call names, at a version or the latest."""

    id: str
    version: int | None = None


def resolve(
    turn: Turn,
    artifacts: Sequence[Wish],
    results: Sequence[str],
    skills: Sequence[str] = (),
    files: Sequence[str] = (),
    passages: Sequence[str] = (),
) -> list[Item]:
    """The inputs as the run's record keeps them, authorised and with paths of their own. Raises ToolError."""
    uploaded = usable_documents(turn, files, "files") if files else []
    read = usable_documents(turn, passages, "passages") if passages else []
    found = _artifacts(turn, artifacts)
    _check_results(turn, results)
    stored: list[Item] = mounting.inputs(turn, skills)
    taken: set[str] = set()
    for item in [*documents.files(uploaded), *documents.passages(read)]:
        stored.append(item | {"path": _distinct(item["path"], taken)})
    for artifact, version in found:
        path = _distinct(_artifact_path(artifact, version), taken)
        stored.append(
            {
                "root": "inputs",
                "path": path,
                "place": "artifacts",
                "key": store.object_key(artifact.id, version.version),
                "bytes": version.bytes,
                "sha256": version.sha256,
            }
        )
    for number, ref in enumerate(results, 1):
        stored.append({"root": "inputs", "path": f"tool-results/{number}.json", "ref": ref, "bytes": 0, "sha256": ""})
    total = sum(item["bytes"] for item in stored)
    if total > turn.settings.run_input_bytes:
        raise too_large(total, turn.settings.run_input_bytes)
    return stored


def too_large(total: int, allowed: int) -> ToolError:
    """The refusal when inputs are over the limit that they share."""
    return ToolError(
        f"The inputs have {total:,} bytes together and {allowed:,} are allowed. Nothing was run. Name fewer of them.",
        code="too_large",
        bytes=total,
        allowed=allowed,
    )


# ---------------------------------------------------------------- artifacts


def _artifacts(turn: Turn, wishes: Sequence[Wish]) -> list[tuple[Artifact, Version]]:
    viewer = Viewer(turn.caller.user, turn.caller.department)
    unique = list(dict.fromkeys(wishes))
    loaded: list[Artifact] = store.load_many(turn.runtime, list(dict.fromkeys(wish.id for wish in unique)))
    readable = {artifact.id: artifact for artifact in store.usable(turn.runtime, loaded) if may_read(artifact, viewer)}
    way = "list_artifacts names those that it may." if turn.offers("list_artifacts") else "Take an earlier export's id."
    return [_version(wish, readable.get(wish.id), way) for wish in unique]


def _version(wish: Wish, artifact: Artifact | None, way: str) -> tuple[Artifact, Version]:
    shown = printable(wish.id[:SHOWN_CHARACTERS])
    if artifact is None:
        raise ToolError(
            f"There is no artifact `{shown}` that this turn may read. Nothing was run. {way}",
            code="not_found",
            argument="artifacts",
            id=shown,
        )
    version = artifact.latest if wish.version is None else artifact.version(wish.version)
    if version is None:
        numbers = ", ".join(str(known.version) for known in artifact.versions)
        raise ToolError(
            f"The artifact `{shown}` has no version {wish.version}; it has {numbers}. Nothing was run.",
            code="not_found",
            argument="artifacts",
            id=shown,
        )
    return artifact, version


def _artifact_path(artifact: Artifact, version: Version) -> str:
    extension = EXTENSIONS.get(artifact.kind)
    return f"artifacts/{artifact.id}{extension}" if extension else f"artifacts/{artifact.id}/{version.name}"


def _distinct(path: str, taken: set[str]) -> str:
    """``path``, or a numbered variant of it when another input has that name."""
    folder, slash, name = path.rpartition("/")
    stem, dot, extension = name.rpartition(".")
    number, chosen = 1, path
    while chosen in taken:
        number += 1
        numbered = f"{stem}-{number}.{extension}" if dot and stem else f"{name}-{number}"
        chosen = f"{folder}{slash}{numbered}"
    taken.add(chosen)
    return chosen


# ---------------------------------------------------------------- stored results


def _check_results(turn: Turn, refs: Sequence[str]) -> None:
    """Each ref is of this conversation and of a finished call."""
    keys = [_call_of(turn, ref) for ref in refs]
    found = turn.runtime.table.get_many([call_key(call.turn, call.call) for call in dict.fromkeys(keys)])
    for ref, call in zip(refs, keys, strict=True):
        item = found.get(call_key(call.turn, call.call))
        if item is None or item["state"] != "done":
            raise _no_result(ref)


def _call_of(turn: Turn, ref: str) -> CallId:
    call = CallId.parse(ref, RESULT_PREFIX)
    if call is None or call.turn.conversation != turn.conversation:
        raise _no_result(ref)
    return call


def _no_result(ref: str) -> ToolError:
    shown = printable(ref[:SHOWN_CHARACTERS])
    return ToolError(
        f"There is no stored result `{shown}` in this conversation. Nothing was run. Use an earlier answer's `ref`.",
        code="not_found",
        argument="toolResults",
        id=shown,
    )


# ---------------------------------------------------------------- staging


def stage(runtime: Runtime, record: Item) -> list[Item]:
    """Write the stored results as files; returns the inputs with every key known. Raises InputsTooLarge."""
    room = runtime.settings.run_input_bytes - sum(item["bytes"] for item in record["inputs"] if "ref" not in item)
    staged = []
    for number, stored in enumerate(record["inputs"]):
        if "ref" in stored:
            data = _result_file(runtime, stored["ref"])
            room -= len(data)
            if room < 0:
                allowed = runtime.settings.run_input_bytes
                raise InputsTooLarge(too_large(allowed - room, allowed).message)
            stored = _put(runtime, record, number, stored, data)
        staged.append(stored)
    return staged


def _result_file(runtime: Runtime, ref: str) -> bytes:
    call = CallId.parse(ref, RESULT_PREFIX)
    item = runtime.table.get(call_key(call.turn, call.call)) if call else None
    if item is None:
        raise LookupError(ref)
    result = {
        "ref": ref,
        "toolName": item["tool"].partition("@")[0],
        "isError": item["step"]["outcome"] != "ok",
        "output": full_output(runtime, item),
    }
    return json.dumps(result, ensure_ascii=False).encode("utf-8", "replace")


def _put(runtime: Runtime, record: Item, number: int, stored: Mapping[str, Any], data: bytes) -> Item:
    key = f"{staging_prefix(record['conversation'], record['run'])}input-{number}"
    runtime.clients.s3.put_object(Bucket=runtime.settings.workspace_bucket, Key=key, Body=data)
    described = {"place": "workspace", "key": key, "bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    return {**stored, **described}
