"""ls, glob and grep over a plain directory, by the workspace's own listing, patterns and matching."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass

from local.library.desk import Memory
from local.library.directory import Found, Top, Visit, Walk, read_file
from workbench.clock import Clock
from workbench.errors import ToolError
from workbench.settings import Settings
from workbench.tools.answer import Answer
from workbench.workspace.paths import check_folder, printable
from workbench.workspace.text.lines import is_text, parse
from workbench.workspace.text.seen import Range
from workbench.workspace.views.excerpts import PLACES_SHOWN, WHOLE_LINE_CHARACTERS, excerpt
from workbench.workspace.views.globs import Glob, compile_glob
from workbench.workspace.views.listing import LIST_BUDGET_CHARACTERS, NoSuchFolder, list_entries, select_files
from workbench.workspace.views.matching import Matcher, check_queries

MATCHES_SHOWN = 50
GREP_SECONDS = 20.0
NAMES_SHOWN = 3
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def ls(top: Top, path: str | None, depth: int, after: str | None) -> Answer:
    """The entries below a folder, and by name what was left out of them."""
    folder = _folder(path)
    walk = top.walk(folder)
    listing = list_entries(_with_itself(top, walk), folder, None, depth, after)
    notes = _left_out(walk)
    return Answer.of("\n".join([listing.text, *notes]), **listing.structured(), leftOut=_facts(walk))


def glob(top: Top, pattern: str, path: str | None, after: str | None) -> Answer:
    """The files below a folder whose paths match, as many as an answer has room for."""
    folder, compiled = _folder(path), compile_glob(pattern, what="pattern")
    walk = top.walk(folder)
    paths = [found.path for found in select_files(_with_itself(top, walk), folder, compiled)]
    left = [one for one in paths if not after or one > after]
    shown, room = list[str](), LIST_BUDGET_CHARACTERS
    for one in left:
        room -= len(printable(one)) + 1
        if room < 0 and shown:
            break
        shown.append(one)
    following = shown[-1] if len(shown) < len(left) else None
    said = [printable(one) for one in shown] or [_nothing(compiled, paths, after)]
    if following is not None:
        said.append(f"[{len(left) - len(shown):,} more; to go on, use glob again with after: {printable(following)}]")
    facts = {"paths": shown, "total": len(paths), "leftOut": _facts(walk)}
    return Answer.of("\n".join([*said, *_left_out(walk)]), **facts, **({"next": following} if following else {}))


@dataclass
class _Hits:
    """The matching lines of one file, as many as could be shown; ``more`` when there are others."""

    path: str
    lines: list[tuple[int, str]]
    whole: list[Range]
    total: int
    more: bool
    shown: int = 0


def grep(
    top: Top,
    query: str,
    pattern: str | None,
    path: str | None,
    memory: Memory,
    settings: Settings,
    clock: Clock,
    *,
    ignore_case: bool = False,
) -> Answer:
    """Lines that hold ``query``, as ``path:line: text``, at most ``MATCHES_SHOWN`` and some of every file that fits."""
    matcher = Matcher(check_queries([query]), ignore_case=ignore_case)
    folder = _folder(path)
    search = _Grep(top.walk(folder), matcher, memory, settings, clock)
    search.run(_files(top, search.walk, folder, compile_glob(pattern) if pattern else None))
    _share(search.files)
    matches = []
    for file in search.files:
        shown = [line for line, _ in file.lines[: file.shown]]
        whole = [one for one in file.whole if one[0] in shown]
        if whole:
            memory.seen.saw(file.path, search.digests[file.path], whole, clock.now())
        matches += [{"path": file.path, "line": line, "text": text} for line, text in file.lines[: file.shown]]
    said = [f"{printable(str(match['path']))}:{match['line']}: {match['text']}" for match in matches]
    complete = search.complete
    facts = {
        "matches": matches,
        "searched": search.searched,
        "matchingFiles": search.matching,
        "skipped": len(search.binary) + len(search.unread),
        "truncated": not complete,
        "leftOut": _facts(search.walk),
    }
    return Answer.of("\n".join([*(said or [f"Nothing found in {search.searched:,} files."]), *search.notes()]), **facts)


class _Grep:
    """One pass over the files: hits of as many as could be shown, counts of the rest."""

    def __init__(self, walk: Walk, matcher: Matcher, memory: Memory, settings: Settings, clock: Clock) -> None:
        self.walk = walk
        self._matcher, self._memory, self._settings, self._clock = matcher, memory, settings, clock
        self.files: list[_Hits] = []
        self.digests: dict[str, str] = {}
        self.searched = self.matching = 0
        self.binary: list[str] = []
        self.unread: list[str] = []
        self._stopped = False

    def run(self, visits: Iterator[Visit]) -> None:
        give_up = self._clock.monotonic() + GREP_SECONDS
        for visit in visits:
            # The first file is searched in any case.
            if self.searched and self._clock.monotonic() > give_up:
                self._stopped = True
                return
            data = self._load(visit)
            if data is None:
                continue
            self.searched += 1
            # UTF-16 has other bytes for the same text.
            if self._matcher.may_match(data) or data[:2] in _UTF16_MARKS:
                self._take(visit.found.path, data)

    def _load(self, visit: Visit) -> bytes | None:
        """The text of a file; None when it is binary, cannot be read or is gone."""
        try:
            read = read_file(visit.parent, visit.name, visit.found.path, self._settings.workspace_bytes)
        except (ToolError, OSError):
            self.unread.append(visit.found.path)
            return None
        if read is not None and not is_text(read[1]):
            self.binary.append(visit.found.path)
            return None
        return read[1] if read is not None else None

    def _take(self, path: str, data: bytes) -> None:
        document = parse(data)
        found = self._matcher.find(document)
        if not found.lines:
            return
        self.matching += 1
        if len(self.files) == MATCHES_SHOWN:
            return
        hits = _Hits(path, [], [], len(found.lines), found.more)
        for hit in found.lines[:MATCHES_SHOWN]:
            text = document.text(hit.line)
            if len(text) <= WHOLE_LINE_CHARACTERS:
                hits.whole.append((hit.line, hit.line))
            else:
                text = excerpt(text, self._matcher.positions(text, PLACES_SHOWN))
            hits.lines.append((hit.line, text))
        self.files.append(hits)
        self.digests[path] = digest = hashlib.sha256(data).hexdigest()
        self._memory.keep(digest, data)

    @property
    def complete(self) -> bool:
        """True when every matching line is shown."""
        shown = all(file.shown == file.total and not file.more for file in self.files)
        return shown and not self._stopped and len(self.files) == self.matching

    def notes(self) -> list[str]:
        notes: list[str] = []
        cut = [file for file in self.files if file.shown and (file.shown < file.total or file.more)]
        rest = self.matching - sum(file.shown > 0 for file in self.files)
        if cut or rest:
            more = [
                f"{printable(file.path)} has {file.total:,}{' or more' if file.more else ''} matching lines"
                for file in cut[:NAMES_SHOWN]
            ]
            more += [f"{len(cut) - NAMES_SHOWN:,} other files above have more"] if len(cut) > NAMES_SHOWN else []
            more += [f"{rest:,} further files match"] if rest else []
            notes.append(
                f"At most {MATCHES_SHOWN} lines are shown: {'; '.join(more)}. Give a longer query, a path or a glob."
            )
        if self._stopped:
            notes.append(f"Time was up after {self.searched:,} files. Give a path or a glob.")
        for why, paths in (("binary", self.binary), ("cannot be read", self.unread)):
            if paths:
                names = ", ".join(map(printable, paths[:NAMES_SHOWN]))
                more_names = f" and {len(paths) - NAMES_SHOWN:,} more" if len(paths) > NAMES_SHOWN else ""
                notes.append(f"Not searched ({why}): {names}{more_names}.")
        return [*(f"[{note}]" for note in notes), *_left_out(self.walk)]


def _share(files: list[_Hits]) -> None:
    """Give every file its first line, in order, and then again and again one more, so that no file starves another."""
    room = MATCHES_SHOWN
    waiting = list(files)
    while waiting and room:
        for file in waiting[:room]:
            file.shown += 1
        room -= len(waiting[:room])
        waiting = [file for file in waiting if file.shown < len(file.lines)]


def _folder(path: str | None) -> str:
    return check_folder(path) if path is not None else ""


def _with_itself(top: Top, walk: Walk) -> Iterator[Found]:
    """The entry at the path of the walk, if one stands there, and everything below it."""
    here = top.look(walk.folder) if walk.folder else None
    if here is not None:
        yield here
    yield from walk


def _files(top: Top, walk: Walk, folder: str, pattern: Glob | None) -> Iterator[Visit]:
    """The files that a path (a folder, or one file) and a pattern relative to it select, ready to be opened."""
    here = top.look(folder)
    if here is None:
        raise NoSuchFolder(folder)
    if here.kind == "file":
        with top.place(folder) as place:
            if place is not None and (pattern is None or pattern.matches(folder.rpartition("/")[2])):
                yield Visit(here, *place)
        return
    prefix = f"{folder}/" if folder else ""
    for visit in walk.visits():
        if visit.found.kind == "file" and (pattern is None or pattern.matches(visit.found.path[len(prefix) :])):
            yield visit


def _nothing(pattern: Glob, paths: list[str], after: str | None) -> str:
    if after and paths:
        return "Nothing follows."
    shown = printable(pattern.pattern)
    hint = "" if "/" in shown or shown == "**" else f" To look in all folders, use `**/{shown}`."
    return f"No file matches `{shown}`.{hint}"


def _facts(walk: Walk) -> list[dict[str, str]]:
    return [{"name": name, "reason": reason} for name, reason in walk.left_out]


def _left_out(walk: Walk) -> list[str]:
    """What a reader has to know of entries that cannot be shown as files, and of a walk that was cut short."""
    notes = [f"[Left out: {name}: {reason}]" for name, reason in walk.left_out]
    if walk.left_out_count > len(walk.left_out):
        notes.append(f"[Left out: {walk.left_out_count - len(walk.left_out):,} more]")
    if not walk.complete:
        notes.append("[This directory holds too many entries: the rest of them was not looked at.]")
    return notes
