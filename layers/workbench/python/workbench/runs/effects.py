"""From a sandbox's report to a new version of the workspace: contents are hashed and measured again, then staged.

Nothing is believed: a hash, a size or a place that does not hold voids all of the run's changes. What cannot be kept
is said in :class:`Effects`, which the answer words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from workbench.errors import ToolError
from workbench.runs import changes
from workbench.runs.changes import EMPTY_SHA256, Untrusted, Wanted
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.workspace.desk import limit_exceeded
from workbench.workspace.paths import printable
from workbench.workspace.storage.manifest import Entry, blob_key, pack_key
from workbench.workspace.storage.store import BlobGone, Commit, WorkingCopy
from workbench.workspace.text.lines import measure

# The call's record, which holds at most 400 KB, names the files for receipt and audit; the version names them all.
LISTED_BYTES, FACTS_BYTES = 60_000, 60


@dataclass(frozen=True, slots=True)
class Pack:
    """A pack that the route stored, by its content's hash."""

    sha256: str
    bytes: int


@dataclass
class Effects:
    """What became of the run's files. ``void`` says why none were taken; then the lists are empty."""

    version: int
    commit: Commit | None = None
    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    left_out_count: int = 0
    void: ToolError | None = None
    files: list[dict[str, object]] = field(default_factory=list)


def void(version: int, message: str, code: str = "SANDBOX_ERROR", **details: object) -> Effects:
    """The effects of a run whose changes are not taken."""
    return Effects(version, void=ToolError(message, code=code, **details))


def no_tree(version: int, report: Mapping[str, Any], settings: Settings) -> Effects:
    """The effects of a run whose sandbox could not read the workspace back, or found more than it may hold."""
    reason = f" ({printable(report['reason'])})" if report["reason"] else ""
    if report["tree"] == "too_large":
        return void(
            version,
            f"The program left more than a workspace may hold{reason}: it holds at most {settings.workspace_files:,} "
            f"files and {settings.workspace_bytes:,} bytes. The workspace is as it was before the run. Leave less, or "
            "remove what is no longer needed before the program ends.",
            "limit_exceeded",
        )
    return void(
        version,
        f"The sandbox left no readable tree{reason}. The workspace is as it was before the run. Run the program again.",
    )


def take(
    runtime: Runtime, copy: WorkingCopy, stream: bytes, packs: Mapping[int, Pack], tool: str, turn: str
) -> Effects:
    """Stage what the run left and prepare its commit; a run that changed nothing has none."""
    version, settings = copy.head.version, runtime.settings
    base = {entry.path: entry for entry in copy.manifest.entries()}
    try:
        sizes = {part: pack.bytes for part, pack in packs.items()}
        proposal = changes.read(stream, changes.lines_allowed(len(base), settings.workspace_files), sizes)
        after = changes.weigh(base, proposal)
        problem = _over(copy, after, settings)
        if problem is not None:
            given_up = after.changes
            after = changes.weigh(base, proposal, without_spills=True)
            for path in sorted(given_up.keys() - after.changes.keys()):
                proposal.leave_out(path, "the workspace has no room for it")
            problem = _over(copy, after, settings)
        if problem is not None:
            return Effects(version, left_out=proposal.left_out, left_out_count=proposal.left_out_count, void=problem)
        _stage(runtime, copy, base, after.changes, packs)
    except Untrusted as fault:
        return void(
            version,
            f"The sandbox's account of the files {fault}, so none of its changes were taken. "
            "The workspace is as it was before the run.",
        )
    return _prepared(copy, proposal, tool, turn, sum(pack.bytes for pack in packs.values()))


def _prepared(copy: WorkingCopy, proposal: changes.Proposal, tool: str, turn: str, sent_bytes: int) -> Effects:
    effects = Effects(copy.head.version, left_out=proposal.left_out, left_out_count=proposal.left_out_count)
    if not copy.staged:
        return effects
    commit = copy.prepare(tool, turn, sent_bytes=sent_bytes)
    applied = commit.applied
    if not (applied.created or applied.modified or applied.deleted):
        return effects
    effects.commit, effects.version = commit, commit.version
    effects.created, effects.modified, effects.deleted = applied.created, applied.modified, applied.deleted
    listed = 0
    for path, created in [*((path, True) for path in applied.created), *((path, False) for path in applied.modified)]:
        entry = copy.staged[path]
        if entry is not None and entry.kind == "file":
            listed += len(path.encode()) + FACTS_BYTES
            if listed > LISTED_BYTES:
                break
            facts = {"path": path, "mode": f"{entry.mode:04o}", "created": created, "bytes": entry.bytes}
            effects.files.append(facts)
    return effects


def _over(copy: WorkingCopy, after: changes.After, settings: Settings) -> ToolError | None:
    """The limit that the tree would exceed, worded as every write words it; a run may always shrink a full tree."""
    head = copy.head
    for what, used, would, allowed in (
        ("files", head.files, after.files, settings.workspace_files),
        ("folders", 0, after.folders, settings.workspace_files),
        ("bytes", head.bytes, after.bytes, settings.workspace_bytes),
    ):
        if would > allowed and would > used:
            return limit_exceeded(what, used, would - used, allowed)
    return None


# ---------------------------------------------------------------- contents


def _stage(
    runtime: Runtime,
    copy: WorkingCopy,
    base: Mapping[str, Entry],
    wanted: Mapping[str, Wanted | None],
    packs: Mapping[int, Pack],
) -> None:
    contents = _Contents(runtime, copy, base, packs)
    # In the order of the packs, so that each is read once.
    for path, change in sorted(wanted.items(), key=lambda item: _first_place(item[1])):
        if change is None:
            copy.delete(path)
        elif change.kind == "folder":
            copy.stage(Entry(path, "folder", mode=change.mode))
        else:
            copy.stage(contents.entry(change))


def _first_place(change: Wanted | None) -> tuple[int, int]:
    return (change.pieces[0].part, change.pieces[0].offset) if change and change.pieces else (-1, -1)


class _Contents:
    """Entries for files whose bytes lie in packs, or lay in the tree before."""

    def __init__(
        self, runtime: Runtime, copy: WorkingCopy, base: Mapping[str, Entry], packs: Mapping[int, Pack]
    ) -> None:
        self._store = runtime.workspaces
        self._conversation = copy.head.conversation
        self._known = {entry.sha256: entry for entry in base.values() if entry.kind == "file"}
        self._packs = packs

    def entry(self, wanted: Wanted) -> Entry:
        """The entry for ``wanted``; raises :class:`Untrusted` when its bytes are not what it says."""
        if wanted.sha256 == EMPTY_SHA256:
            return self._entry(wanted, b"", blob_key(EMPTY_SHA256), 0)
        if not wanted.pieces:
            return self._known_entry(wanted)
        data = b"".join(map(self._bytes_of, wanted.pieces))
        if hashlib.sha256(data).hexdigest() != wanted.sha256:
            raise Untrusted(f"gives {wanted.path} a hash that its bytes do not have")
        if len(wanted.pieces) == 1:
            piece = wanted.pieces[0]
            return self._entry(wanted, data, pack_key(self._packs[piece.part].sha256), piece.offset)
        # An entry names one stretch of one object, so a file that spans packs gets an object of its own.
        self._store.put(self._conversation, blob_key(wanted.sha256), data)
        return self._entry(wanted, data, blob_key(wanted.sha256), 0)

    def _known_entry(self, wanted: Wanted) -> Entry:
        known = self._known.get(wanted.sha256)
        if known is None or known.bytes != wanted.bytes:
            raise Untrusted(f"gives {wanted.path} a content that was never sent")
        return Entry(
            wanted.path,
            "file",
            known.sha256,
            known.key,
            known.offset,
            known.length,
            known.bytes,
            known.lines,
            known.characters,
            wanted.mode,
        )

    def _bytes_of(self, piece: changes.Piece) -> bytes:
        pack = self._packs[piece.part]
        whole = Entry("", key=pack_key(pack.sha256), offset=piece.offset, length=piece.length, bytes=piece.length)
        try:
            return self._store.read_whole_pack(self._conversation, whole)
        except BlobGone as error:
            raise Untrusted("names a pack that was never stored") from error

    def _entry(self, wanted: Wanted, data: bytes, key: str, offset: int) -> Entry:
        lines, characters = measure(data) or (None, None)
        size = len(data)
        return Entry(wanted.path, "file", wanted.sha256, key, offset, size, size, lines, characters, wanted.mode)
