"""What a command changed, taken over into the directory: only that, and only where nobody else was at work meanwhile.

A path that somebody changed while the command ran keeps their state and is named; everything else lands together.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from local.library.applying import Change, Drop, Put, Shape, apply
from local.library.directory import NotFollowed, Top, composed, names_in
from workbench.errors import ToolError
from workbench.runs.changes import After, Proposal, Wanted, weigh
from workbench.settings import Settings
from workbench.workspace.desk import limit_exceeded
from workbench.workspace.paths import parents
from workbench.workspace.storage.manifest import Entry

_USUAL_FOLDER_MODE = 0o755
# A mode that kept its owner out would keep out these tools, and the next command with its chmod.
_OWNER_READS, _OWNER_ENTERS = 0o400, 0o700

# The bytes of a file that the command wrote, verified against its hash.
Contents = Callable[[Wanted], Iterable[bytes]]


@dataclass
class Taken:
    """Paths by what became of them, as the command's answer tells it; ``void`` when nothing could be taken over."""

    created: list[str] = field(default_factory=list)
    modified: list[str] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    conflicts: list[tuple[str, str]] = field(default_factory=list)
    left_out: list[tuple[str, str]] = field(default_factory=list)
    left_out_count: int = 0
    void: ToolError | None = None


@dataclass(frozen=True, slots=True)
class _State:
    kind: str
    mode: int
    sha256: str = ""

    def is_like(self, other: Entry | Wanted | None) -> bool:
        return other is not None and (self.kind, self.sha256) == (other.kind, other.sha256)


def within_limits(base: Mapping[str, Entry], proposal: Proposal, settings: Settings) -> After | ToolError:
    """The tree that would follow, new spill files given up first where it would be too large; or why it cannot be.

    Raises Untrusted when no tree could look like that.
    """
    refusal: ToolError | None = None
    size, files = sum(entry.bytes for entry in base.values()), sum(entry.kind == "file" for entry in base.values())
    for without_spills in (False, True):
        after = weigh(base, proposal, without_spills=without_spills)
        refusal = None
        for what, used, would, allowed in (
            ("files", files, after.files, settings.workspace_files),
            ("bytes", size, after.bytes, settings.workspace_bytes),
        ):
            if would > allowed and would > used:
                refusal = refusal or limit_exceeded(what, used, would - used, allowed)
        if refusal is None:
            return after
    assert refusal is not None
    return refusal


class Taking:
    """One command's changes against the directory as it is now. The caller holds the directory's lock."""

    def __init__(
        self, top: Top, base: Mapping[str, Entry], proposal: Proposal, after: After, contents: Contents, most: int
    ) -> None:
        self._top, self._base, self._contents, self._most = top, base, contents, most
        self._named = after.changes
        self._wanted = {
            path: wanted
            for path, wanted in proposal.wanted.items()
            # Folders that hold something are none of the changes, but their modes are.
            if path in after.changes or (wanted is not None and wanted.kind == "folder")
        }
        self._changes: dict[tuple[str, str], Change] = {}
        self._blocked: set[str] = set()
        self.taken = Taken(left_out=proposal.left_out, left_out_count=proposal.left_out_count)

    def carry_out(self) -> Taken:
        """Apply what can be. Raises OSError, and then nothing was changed."""
        for path in sorted(self._wanted):
            try:
                self._consider(path, self._wanted[path])
            except NotFollowed as other:
                self._conflict(path, f"{other.details['path']} is no plain file or folder any more")
            except ToolError:
                self._conflict(path, "what stands there now is too large to be compared")
        self._keep_filled_folders()
        apply(self._top, list(self._changes.values()))
        self._name()
        return self.taken

    def _consider(self, path: str, wanted: Wanted | None) -> None:
        blocked = next((folder for folder in parents(path) if folder in self._blocked), None)
        if blocked is not None:
            self._conflict(path, f"it lies below {blocked}, which was changed meanwhile")
            return
        now, base = self._now(path), self._base.get(path)
        if now is None and wanted is None:
            return
        if now is not None and wanted is not None and now.is_like(wanted):
            self._shape(path, now, base, wanted)
            return
        if now is None and base is not None:
            self._conflict(path, "it was deleted while the command ran")
        elif now is not None and not now.is_like(base):
            what = "changed" if base is not None else "created"
            self._conflict(path, f"it was {what} by somebody else while the command ran")
        elif self._way_is_free(path, wanted):
            self._change(path, now, base, wanted)

    def _change(self, path: str, now: _State | None, base: Entry | None, wanted: Wanted | None) -> None:
        if now is not None and (wanted is None or wanted.kind != now.kind):
            self._changes[path, "drop"] = Drop(path, "folder" if now.kind == "folder" else "file")
        if wanted is None:
            return
        if wanted.kind == "folder":
            usual = wanted.mode == _USUAL_FOLDER_MODE
            self._changes[path, "shape"] = Shape(path, None if usual else wanted.mode | _OWNER_ENTERS)
        else:
            mode = now.mode if now is not None and base is not None and base.mode == wanted.mode else wanted.mode
            self._changes[path, "put"] = Put(path, mode | _OWNER_READS, wanted.sha256, lambda: self._contents(wanted))

    def _shape(self, path: str, now: _State, base: Entry | None, wanted: Wanted) -> None:
        """The content is as it shall be; the command may have changed the mode."""
        if base is not None and base.mode != wanted.mode != now.mode:
            if wanted.kind == "folder":
                self._changes[path, "shape"] = Shape(path, wanted.mode | _OWNER_ENTERS)
            else:
                mode = wanted.mode | _OWNER_READS
                self._changes[path, "put"] = Put(path, mode, wanted.sha256, lambda: self._contents(wanted))

    def _way_is_free(self, path: str, wanted: Wanted | None) -> bool:
        """Whether every folder above is one, or will be."""
        for folder in parents(path) if wanted is not None else ():
            found = self._top.look(folder)
            if found is not None and found.kind == "file" and (folder, "drop") not in self._changes:
                self._conflict(path, f"{folder} is a file now")
                return False
        return True

    def _now(self, path: str) -> _State | None:
        read = self._top.read(path, self._most)
        if read is None:
            return None
        found, data = read
        return _State(found.kind, found.mode, hashlib.sha256(data).hexdigest() if found.kind == "file" else "")

    def _keep_filled_folders(self) -> None:
        """A folder that holds what the command could not see or did not delete stays, and nothing takes its place."""
        drops = [change for change in self._changes.values() if isinstance(change, Drop) and change.kind == "folder"]
        for drop in sorted(drops, key=lambda one: one.path, reverse=True):
            with self._top.folder(drop.path) as folder:
                inside = [] if folder is None else [f"{drop.path}/{composed(name)}" for name in names_in(folder)]
            if all((path, "drop") in self._changes for path in inside):
                continue
            del self._changes[drop.path, "drop"]
            for change in [one for one in self._changes.values() if one.path == drop.path]:
                del self._changes[change.path, "put"]
            self._conflict(drop.path, "it holds what the command did not see, so it stays")

    def _conflict(self, path: str, reason: str) -> None:
        self._blocked.add(path)
        self.taken.conflicts.append((path, reason))

    def _name(self) -> None:
        changed = {change.path for change in self._changes.values()}
        files = {path for path, entry in self._base.items() if entry.kind == "file"}
        filled = {folder for path in files for folder in parents(path)}
        for path in sorted(changed & self._named.keys()):
            if self._named[path] is None:
                # A folder goes without saying when its files are named.
                if path not in filled:
                    self.taken.deleted.append(path)
            elif path in self._base:
                self.taken.modified.append(path)
            else:
                self.taken.created.append(path)
