"""The routes for a workspace's raw files and its history: list, get, put, versions, diff, restore.

They start no sandbox. Writes obey the same paths, limits and lease as the tools.
"""

from __future__ import annotations

import difflib
import gzip
import json
from typing import Any

from workbench import links
from workbench.clock import iso
from workbench.errors import InvalidRequest, NotFound, TooLarge
from workbench.http import Request, Response
from workbench.runtime import Runtime
from workbench.table import PRESENT, Item, Operation, check, version_key
from workbench.workspace import lines
from workbench.workspace.head import read_head
from workbench.workspace.manifest import Entry, Manifest, PageTable, differences
from workbench.workspace.paths import check_path
from workbench.workspace.store import WorkingCopy
from workbench.workspace.writing import write

LISTED_AT_ONCE = 1_000
LISTED_AT_MOST = 5_000
# Beyond this a difference is reported without its text.
DIFFED_BYTES = 256 * 1024
DIFF_ANSWER_BYTES = 2 * 1024 * 1024


def list_files(runtime: Runtime, request: Request) -> Response:
    """``GET …/files?limit=&after=``: the current version's files in path order."""
    limit = _number(request.query.get("limit", str(LISTED_AT_ONCE)), "limit", 1, LISTED_AT_MOST)
    head = read_head(runtime, request.parameters["conversation"])
    manifest = runtime.workspaces.manifest(head)
    files: list[dict[str, Any]] = []
    following = None
    for entry in manifest.entries(after=request.query.get("after", "")):
        if entry.kind != "file":
            continue
        if len(files) == limit:
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
    head = read_head(runtime, request.parameters["conversation"])
    entry = runtime.workspaces.manifest(head).entry(path)
    if entry is None or entry.kind != "file":
        raise NotFound(f"There is no file `{path}` in this workspace.")
    name = path.rsplit("/", 1)[-1]
    if entry.bytes > runtime.settings.raw_body_bytes:
        key = f"conversations/{head.conversation}/{entry.key}"
        return links.redirect(runtime, runtime.settings.workspace_bucket, key, name)
    return Response(runtime.workspaces.read(head.conversation, entry), headers=links.headers(name))


def put_file(runtime: Runtime, request: Request) -> Response:
    """``PUT …/file?path=P``: store the body as that file, whatever it holds."""
    path = check_path(request.query.get("path"))
    allowed = runtime.settings.raw_body_bytes
    if len(request.body) > allowed:
        raise TooLarge(
            f"The body has {len(request.body):,} bytes; this route carries up to {allowed:,}. "
            "Larger files go through a signed upload: POST /v1/uploads.",
            allowed=allowed,
        )

    def stage(copy: WorkingCopy) -> None:
        staged.append(copy.write(path, request.body))

    staged: list[Entry] = []
    commit = write(runtime, request.parameters["conversation"], "put_file", stage)
    return Response({"version": commit.version, "file": file_facts(staged[-1])})


def list_versions(runtime: Runtime, request: Request) -> Response:
    """``GET …/versions``: newest first, with the paths each version created, modified and deleted."""
    conversation = request.parameters["conversation"]
    read_head(runtime, conversation)
    items = runtime.table.query(f"C#{conversation}", "V#", newest_first=True)
    return Response({"versions": [_version_facts(runtime, item) for item in items]})


def diff_versions(runtime: Runtime, request: Request) -> Response:
    """``GET …/versions/{a}/diff/{b}``: what changed from a to b, with unified diffs of text files."""
    conversation = request.parameters["conversation"]
    read_head(runtime, conversation)
    numbers = [_number(request.parameters[name], f"version {name}", 0, 10**10) for name in ("a", "b")]
    old, new = (_version(runtime, conversation, number) for number in numbers)
    room = DIFF_ANSWER_BYTES
    changes = []
    for path, before, after in differences(old, new):
        change = "created" if before is None else "deleted" if after is None else "modified"
        text = _unified(runtime, conversation, path, before, after) if room > 0 else None
        room -= len(text or "")
        changes.append({"path": path, "change": change, "diff": text})
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

    return Response({"version": write(runtime, conversation, "restore", stage).version})


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
        raise NotFound(f"This workspace has no version {number}.")
    return Manifest(PageTable.decode(item["pages"]), load)


def _version_facts(runtime: Runtime, item: Item) -> dict[str, Any]:
    paths = item.get("paths")
    if paths is None:
        body = runtime.clients.s3.get_object(Bucket=runtime.settings.workspace_bucket, Key=item["pathsKey"])["Body"]
        paths = json.loads(gzip.decompress(body.read()))
    return {
        "version": item["version"],
        "at": iso(item["at"]),
        "turn": item["turn"],
        "tool": item["tool"],
        **{change: paths[change] for change in ("created", "modified", "deleted")},
    }


def _unified(runtime: Runtime, conversation: str, path: str, before: Entry | None, after: Entry | None) -> str | None:
    texts: list[list[str]] = []
    for entry in (before, after):
        if entry is None or entry.kind == "folder":
            texts.append([])
            continue
        if not entry.is_text or entry.bytes > DIFFED_BYTES:
            return None
        document = lines.parse(runtime.workspaces.read(conversation, entry))
        texts.append(document.lines(1, len(document)))
    return "\n".join(difflib.unified_diff(texts[0], texts[1], f"a/{path}", f"b/{path}", lineterm=""))


def _number(text: str, what: str, least: int, most: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) <= 11 and least <= int(text) <= most):
        raise InvalidRequest(f"{what} must be a whole number from {least} to {most}.")
    return int(text)
