"""The routes for a workspace's raw files and its history: list, get, put, versions, diff, restore.

They start no sandbox. Writes obey the same paths, limits and lease as the tools.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from workbench import links, uploads
from workbench.clock import iso
from workbench.errors import InvalidRequest, NotFound, TooLarge
from workbench.http import Request, Response
from workbench.keys import version_key
from workbench.logs import audit
from workbench.objects import code_of
from workbench.operations import PRESENT, Item, Operation, check
from workbench.runtime import Runtime
from workbench.workspace.differing import unified
from workbench.workspace.paths import check_path, printable
from workbench.workspace.storage.head import Head, read_head
from workbench.workspace.storage.manifest import Entry, Manifest, PageTable, differences
from workbench.workspace.storage.store import BlobGone, WorkingCopy
from workbench.workspace.storage.writing import write

LISTED_AT_ONCE = 1_000
LISTED_AT_MOST = 5_000
# A function's answer has 6 MB: what does not fit is reached with `after`.
ANSWER_BYTES = 3 * 1024 * 1024
# Beyond these a difference is reported without its text.
DIFFED_BYTES = 256 * 1024
DIFF_TEXTS_BYTES = 2 * 1024 * 1024
DIFF_SECONDS = 8
PATHS_OF_A_VERSION = 5_000
PATH_LISTS_AT_ONCE = 32
READ_TRIES = 3

NOTE_FULL = "left out: this answer is full; ask for fewer versions apart, or read the file"
CHANGES = ("created", "modified", "deleted")
# The fixed part of a file's or a version's facts.
FACTS_BYTES = 200

T = TypeVar("T")


def list_files(runtime: Runtime, request: Request) -> Response:
    """``GET …/files?limit=&after=``: the current version's files in path order."""
    limit = _number(request.query.get("limit", str(LISTED_AT_ONCE)), "limit", 1, LISTED_AT_MOST)
    return _on_the_head(runtime, request, partial(_listed, runtime, limit, request.query.get("after", "")))


def _listed(runtime: Runtime, limit: int, after: str, head: Head) -> Response:
    files: list[dict[str, Any]] = []
    following, room = None, ANSWER_BYTES
    for entry in runtime.workspaces.manifest(head).entries(after=after):
        if entry.kind != "file":
            continue
        room -= _size(entry.path) + FACTS_BYTES
        if len(files) == limit or room < 0:
            following = files[-1]["path"]
            break
        files.append(file_facts(entry))
    settings = runtime.settings
    answer: dict[str, Any] = {
        "version": head.version,
        "files": files,
        "totals": {"files": head.files, "bytes": head.bytes},
        "limits": {"files": settings.workspace_files, "bytes": settings.workspace_bytes},
    }
    if following is not None:
        answer["next"] = following
    return Response(answer)


def get_file(runtime: Runtime, request: Request) -> Response:
    """``GET …/file?path=P``: the raw bytes, always as an attachment; a short-lived link when they are large."""
    path = check_path(request.query.get("path"))
    return _on_the_head(runtime, request, partial(_download, runtime, path))


def _download(runtime: Runtime, path: str, head: Head) -> Response:
    manifest = runtime.workspaces.manifest(head)
    entry = manifest.entry(path)
    if entry is None or entry.kind != "file":
        if entry is not None or manifest.has_below(path):
            raise NotFound(f"`{printable(path)}` is a folder, not a file. GET …/files lists what is in it.")
        raise NotFound(f"There is no file `{printable(path)}` in this workspace.")
    name = path.rsplit("/", 1)[-1]
    if entry.bytes > runtime.settings.raw_body_bytes and not entry.place:
        key = f"conversations/{head.conversation}/{entry.key}"
        return links.redirect(runtime, runtime.settings.workspace_bucket, key, name)
    return Response(runtime.workspaces.read(head.conversation, entry), headers=links.headers(name))


def put_file(runtime: Runtime, request: Request) -> Response:
    """``PUT …/file?path=P``: store the body as that file, whatever it holds, or the upload that it names."""
    path = check_path(request.query.get("path"))
    allowed = runtime.settings.raw_body_bytes
    if len(request.body) > allowed:
        raise TooLarge(
            f"The body has {len(request.body):,} bytes; this route carries up to {allowed:,}. "
            "Larger files go through a signed upload: POST /v1/uploads.",
            allowed=allowed,
        )
    upload = uploads.named_in(request)
    data = request.body if upload is None else uploads.read(runtime, upload, "file")

    def stage(copy: WorkingCopy) -> list[Operation]:
        if upload is not None and staged:
            # The commit failed: perhaps because the upload was used elsewhere meanwhile.
            uploads.require_usable(runtime, upload, "file")
        staged.append(copy.write(path, data))
        return [] if upload is None else [uploads.used(runtime, upload)]

    staged: list[Entry] = []
    commit = write(runtime, request.parameters["conversation"], "put_file", stage)
    if upload is not None:
        uploads.discard(runtime, upload)
    facts = file_facts(staged[-1])
    written = {fact: facts[fact] for fact in ("path", "mode", "bytes")}
    audit("file.write", conversation=request.parameters["conversation"], version=commit.version, **written)
    return Response({"version": commit.version, "file": facts})


def list_versions(runtime: Runtime, request: Request) -> Response:
    """``GET …/versions?after=``: newest first, with the paths each version created, modified and deleted.

    Of a version with very many paths the first are listed and ``more`` counts the others. ``next`` is given when older
    versions did not fit.
    """
    conversation = request.parameters["conversation"]
    read_head(runtime, conversation)
    items = runtime.table.query(f"C#{conversation}", "V#", newest_first=True)
    if "after" in request.query:
        after = _number(request.query["after"], "after", 0, 10**10)
        items = [item for item in items if item["version"] < after]
    listed: list[dict[str, Any]] = []
    room = ANSWER_BYTES
    for start in range(0, len(items), PATH_LISTS_AT_ONCE):
        batch = items[start : start + PATH_LISTS_AT_ONCE]
        for facts in runtime.clients.together(*(partial(_version_facts, runtime, item) for item in batch)):
            room -= FACTS_BYTES + sum(_size(path) for change in CHANGES for path in facts[change])
            if room < 0 and listed:
                return Response({"versions": listed, "next": listed[-1]["version"]})
            listed.append(facts)
    return Response({"versions": listed})


def diff_versions(runtime: Runtime, request: Request) -> Response:
    """``GET …/versions/{a}/diff/{b}?after=``: what changed from a to b, with unified diffs of text files.

    Where ``diff`` is null, ``note`` says why. ``next`` is given when further paths did not fit.
    """
    conversation = request.parameters["conversation"]
    read_head(runtime, conversation)
    numbers = [_number(request.parameters[name], f"version {name}", 0, 10**10) for name in ("a", "b")]
    old, new = (_version(runtime, conversation, number) for number in numbers)
    until, after = runtime.clock.monotonic() + DIFF_SECONDS, request.query.get("after", "")
    room, text_room = ANSWER_BYTES, DIFF_TEXTS_BYTES
    changes: list[dict[str, Any]] = []
    try:
        for path, before, now in differences(old, new):
            if path <= after:
                continue
            room -= _size(path) + FACTS_BYTES
            if room < 0:
                return Response({"changes": changes, "next": changes[-1]["path"]})
            change = "created" if before is None else "deleted" if now is None else "modified"
            fits = text_room > 0 and runtime.clock.monotonic() < until
            text, note = _difference(runtime, conversation, path, before, now) if fits else (None, NOTE_FULL)
            if text is not None and _size(text) > text_room:
                text, note = None, NOTE_FULL
            text_room -= _size(text or "")
            changes.append({"path": path, "change": change, "diff": text, **({"note": note} if note else {})})
    except BlobGone as error:
        raise NotFound("One of these versions was dropped from the history just now.") from error
    return Response({"changes": changes})


def restore_version(runtime: Runtime, request: Request) -> Response:
    """``POST …/versions/{n}/restore``: a new version equal to n."""
    conversation = request.parameters["conversation"]
    number = _number(request.parameters["n"], "version", 0, 10**10)

    def stage(copy: WorkingCopy) -> list[Operation]:
        wanted = _version(runtime, conversation, number)
        for path, _now, then in differences(copy.manifest, wanted):
            if then is None:
                copy.delete(path)
            else:
                copy.stage(then)
        # The version must still be kept when its blobs are named again.
        return [check(version_key(conversation, number), PRESENT)] if number else []

    commit = write(runtime, conversation, "restore", stage)
    audit("version.restore", conversation=conversation, version=commit.version, restored=number)
    return Response({"version": commit.version})


def file_facts(entry: Entry) -> dict[str, Any]:
    """A file as the API lists it."""
    return {"path": entry.path, "bytes": entry.bytes, "sha256": entry.sha256, "mode": f"{entry.mode:04o}"}


def _version(runtime: Runtime, conversation: str, number: int) -> Manifest:
    def load(digest: str) -> bytes:
        return runtime.workspaces.page(conversation, digest)

    if number == 0:
        return Manifest(PageTable(), load)
    item = runtime.table.get(version_key(conversation, number))
    if item is None:
        raise NotFound(f"This workspace has no version {number}, or keeps it no longer.")
    return Manifest(PageTable.decode(item["pages"]), load)


def _version_facts(runtime: Runtime, item: Item) -> dict[str, Any]:
    paths = item.get("paths")
    if paths is None:
        paths = _stored_paths(runtime, item)
    facts = {"version": item["version"], "at": iso(item["at"]), "turn": item["turn"], "tool": item["tool"]}
    room = PATHS_OF_A_VERSION
    for change in CHANGES:
        facts[change] = paths[change][:room]
        room -= len(facts[change])
    more = sum(item[change] for change in CHANGES) - PATHS_OF_A_VERSION + room
    return {**facts, "more": more} if more else facts


def _stored_paths(runtime: Runtime, item: Item) -> dict[str, list[str]]:
    try:
        answer = runtime.clients.s3.get_object(Bucket=runtime.settings.workspace_bucket, Key=item["pathsKey"])
    except ClientError as error:
        if code_of(error) != "NoSuchKey":
            raise
        # The version is being dropped; its counts are all that is left.
        return {change: [] for change in CHANGES}
    stored: dict[str, list[str]] = json.loads(gzip.decompress(answer["Body"].read()))
    return stored


def _difference(
    runtime: Runtime, conversation: str, path: str, before: Entry | None, after: Entry | None
) -> tuple[str | None, str | None]:
    """(unified diff, None), or None and the reason why there is none."""
    entries = [entry for entry in (before, after) if entry is not None]
    if any(entry.kind == "folder" for entry in entries):
        return None, "a folder"
    if not all(entry.is_text for entry in entries):
        return None, "not text"
    if max(entry.bytes for entry in entries) > DIFFED_BYTES:
        return None, f"longer than {DIFFED_BYTES:,} bytes"
    texts = runtime.clients.together(*(partial(_bytes, runtime, conversation, entry) for entry in (before, after)))
    text = unified(path, *texts)
    if text:
        return text, None
    modes = [f"{entry.mode:04o}" for entry in entries]
    if len(set(modes)) > 1:
        return None, f"mode {modes[0]} became {modes[1]}"
    return None, "empty" if len(entries) == 1 else "the same text in other bytes"


def _bytes(runtime: Runtime, conversation: str, entry: Entry | None) -> bytes | None:
    return None if entry is None else runtime.workspaces.read(conversation, entry)


def _on_the_head(runtime: Runtime, request: Request, answer: Callable[[Head], T]) -> T:
    """``answer`` on the current version, anew when thinning dropped that version while it was being read."""
    for _ in range(READ_TRIES - 1):
        try:
            return answer(read_head(runtime, request.parameters["conversation"]))
        except BlobGone:
            continue
    return answer(read_head(runtime, request.parameters["conversation"]))


def _size(text: str) -> int:
    """About the bytes that a text takes in an answer; quotes and backslashes are escaped."""
    return len(text.encode()) + text.count('"') + text.count("\\") + text.count("\n")


def _number(text: str, what: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 11 and least <= int(text) <= most):
        raise InvalidRequest(f"{what} must be a whole number from {least} to {most}.")
    return int(text)
