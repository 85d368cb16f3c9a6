"""The file tools' desk over a plain directory: one call's tree, and what this backend has seen of the files so far."""

from __future__ import annotations

import copy
import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field

from local.library.applying import Change, Drop, Put, apply
from local.library.directory import Found, NotFollowed, Top, is_staging
from workbench.clock import Clock
from workbench.errors import ToolError, WorkspaceBusy
from workbench.settings import Settings
from workbench.tools.answer import Answer
from workbench.workspace.desk import limit_exceeded, refuse_in_the_way
from workbench.workspace.paths import InvalidPath, printable
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.text.edit import FILE_BYTES
from workbench.workspace.text.lines import measure
from workbench.workspace.text.seen import Seen

# Of files that changed since they were read, so that an edit by line can be told whether its lines did.
REMEMBERED_BYTES = 16 * 1024 * 1024
_NEW_FILE_MODE = 0o644


@dataclass
class Memory:
    """What one backend's model has seen: lines by file, and the bytes they were lines of, the latest first to stay."""

    seen: Seen = field(default_factory=Seen)
    _blobs: OrderedDict[str, bytes] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def keep(self, digest: str, data: bytes) -> None:
        """Remember the bytes of a file that was shown."""
        if len(data) > FILE_BYTES:
            return  # too large to be edited anyway
        if digest in self._blobs:
            self._blobs.move_to_end(digest)
            return
        self._blobs[digest] = data
        self._bytes += len(data)
        while self._bytes > REMEMBERED_BYTES:
            self._bytes -= len(self._blobs.popitem(last=False)[1])

    def blob(self, digest: str) -> bytes | None:
        return self._blobs.get(digest)


class DirectoryTree:
    """The tree that the file tools read and write (:class:`workbench.workspace.desk.Tree`), over an open root."""

    def __init__(self, top: Top, memory: Memory, settings: Settings) -> None:
        self._top, self._memory, self._settings = top, memory, settings
        self._read: dict[str, Entry | None] = {}
        self._contents: dict[str, bytes] = {}
        self._staged: dict[str, Entry | None] = {}

    def entry(self, path: str) -> Entry | None:
        """The file or folder at ``path``; a file is read for it. Raises for links, devices and files too large."""
        if path in self._staged:
            return self._staged[path]
        if path not in self._read:
            self._read[path] = self._looked_up(path)
        return self._read[path]

    def entries(self, folder: str = "") -> Iterator[Entry]:
        """Names, kinds and sizes; read are only those that the whole-file guard has an eye on."""
        for found in self._top.walk(folder):
            guarded = self.entry(found.path) if self._memory.seen.flag(found.path) is not None else None
            yield guarded or Entry(found.path, found.kind, bytes=found.bytes, mode=found.mode)

    def is_folder(self, path: str) -> bool:
        if any(entry is not None and staged.startswith(f"{path}/") for staged, entry in self._staged.items()):
            return True
        found = self._top.look(path)
        return found is not None and found.kind == "folder"

    def read(self, entry: Entry) -> bytes:
        return self._contents[entry.sha256]

    def blob(self, digest: str, place: str = "") -> bytes | None:  # noqa: ARG002 - only stored bytes have one
        return self._contents[digest] if digest in self._contents else self._memory.blob(digest)

    def write(self, path: str, data: bytes) -> Entry:
        """Stage a file; :meth:`commit` writes it."""
        if is_staging(path):
            raise InvalidPath(f"`{printable(path)}` is a name that this library keeps for itself. Use another.")
        old = self.entry(path)
        refuse_in_the_way(self, path, old)
        mode = old.mode if old is not None else _NEW_FILE_MODE
        staged = self._described(Found(path, "file", mode, len(data)), data)
        self._staged[path] = staged
        return staged

    def delete(self, path: str) -> None:
        """Stage the removal of a file, or of a folder that is empty by then; :meth:`commit` removes it."""
        self._staged[path] = None

    def commit(self) -> None:
        """Write what was staged, all of it or nothing. Raises WorkspaceBusy when somebody changed a file since."""
        if not self._staged:
            return
        for path in self._staged.keys() & self._read.keys():
            self._refuse_changed(path)
        self._refuse_over_limit()
        apply(self._top, [self._change(path, entry) for path, entry in self._staged.items()])

    def _change(self, path: str, entry: Entry | None) -> Change:
        if entry is not None:
            return Put(path, entry.mode, entry.sha256, lambda: (self._contents[entry.sha256],))
        found = self._top.look(path)
        return Drop(path, found.kind if found is not None else "file")

    def remember(self) -> None:
        """Keep the bytes of what was read and written, of which lines may have been shown."""
        for entry in (*self._read.values(), *self._staged.values()):
            if entry is not None and entry.is_text and self._memory.seen.sight(entry.path) is not None:
                self._memory.keep(entry.sha256, self._contents[entry.sha256])

    def _looked_up(self, path: str) -> Entry | None:
        read = self._top.read(path, self._settings.workspace_bytes)
        if read is None:
            return None
        found, data = read
        return Entry(path, "folder", mode=found.mode) if found.kind == "folder" else self._described(found, data)

    def _described(self, found: Found, data: bytes) -> Entry:
        digest = hashlib.sha256(data).hexdigest()
        self._contents[digest] = data
        entry = Entry(found.path, "file", digest, bytes=len(data), mode=found.mode)
        counts = measure(data)
        return entry._replace(lines=counts[0], characters=counts[1]) if counts else entry

    def _refuse_changed(self, path: str) -> None:
        """The lock keeps this library's writers apart; anybody else's change is found by looking again."""
        before = self._read[path]
        with suppress(NotFollowed):
            now = self._looked_up(path)
            if (now and (now.kind, now.sha256)) == (before and (before.kind, before.sha256)):
                return
        raise WorkspaceBusy(
            f"Somebody else changed `{printable(path)}` while it was being written. Nothing was written. Read it "
            "again before you send the call again.",
            path=path,
        )

    def _refuse_over_limit(self) -> None:
        olds = {path: self._read.get(path) for path in self._staged}
        new = [path for path, entry in self._staged.items() if entry is not None]
        more_files = sum(olds[path] is None for path in new)
        more_bytes = sum(entry.bytes for entry in self._staged.values() if entry)
        more_bytes -= sum(old.bytes for old in olds.values() if old)
        if more_files <= 0 and more_bytes <= 0:
            return
        sizes = [found.bytes for found in self._top.walk() if found.kind == "file"]
        for what, used, more, allowed in (
            ("files", len(sizes), more_files, self._settings.workspace_files),
            ("bytes", sum(sizes), more_bytes, self._settings.workspace_bytes),
        ):
            if more > 0 and used + more > allowed:
                raise limit_exceeded(what, used, more, allowed)


class DirectoryDesk:
    """One call's desk (:class:`workbench.workspace.desk.Desk`). A directory keeps no versions and no results."""

    next_version = None

    def __init__(
        self, top: Top, memory: Memory, settings: Settings, clock: Clock, tools: frozenset[str], *, vision: bool
    ) -> None:
        self._memory, self._tools = memory, tools
        self.workspace = DirectoryTree(top, memory, settings)
        self.settings, self.clock, self.vision = settings, clock, vision

    @property
    def seen(self) -> Seen:
        return self._memory.seen

    def offers(self, tool: str) -> bool:
        return tool in self._tools

    def stored_text(self, ref: str, pointer: str | None) -> str:  # noqa: ARG002 - there is none to pick from
        raise ToolError(
            "There are no stored results here. Nothing was written. Send the text itself.", code="not_found"
        )


def look(desk: DirectoryDesk, work: Callable[[DirectoryDesk], Answer]) -> Answer:
    """A call that changes nothing."""
    try:
        return work(desk)
    finally:
        desk.workspace.remember()


def change(desk: DirectoryDesk, work: Callable[[DirectoryDesk], Answer], memory: Memory) -> Answer:
    """A call that writes what it staged. What it learned counts, unless what it wrote did not come to stand."""
    before = copy.deepcopy(memory.seen)
    try:
        answer = work(desk)
        try:
            desk.workspace.commit()
        except BaseException:
            memory.seen = before
            raise
        return answer
    finally:
        desk.workspace.remember()
