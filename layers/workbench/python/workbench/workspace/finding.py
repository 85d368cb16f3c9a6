"""What list_files and search_files do: which entries are meant, and what the answer says of the rest."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from workbench.tools.answer import Answer, TextPart
from workbench.tools.turn import Turn
from workbench.workspace import search
from workbench.workspace.globs import compile_glob
from workbench.workspace.looking import NoSuchFile
from workbench.workspace.manifest import Entry
from workbench.workspace.paths import check_folder

SEARCH_SECONDS = 20


def list_files(turn: Turn, path: str | None, glob: str | None, depth: int | None, after: str | None) -> Answer:
    """The listing below a folder. Reads no blob and starts nothing."""
    folder = _folder(turn, path)
    from workbench.workspace.listing import list_entries

    listing = list_entries(turn.workspace.entries(folder), folder, glob, depth, after)
    return Answer([TextPart(listing.text)], listing.structured())


def search_files(
    turn: Turn,
    queries: Sequence[str],
    path: str | None,
    glob: str | None,
    context: int,
    ignore_case: bool,
    after: str | None,
) -> Answer:
    """Search the files below a folder, or one file; what is shown counts as seen."""
    began = turn.clock.monotonic()
    found: dict[str, Entry] = {}

    def files() -> Iterator[tuple[str, search.Loader]]:
        for entry in _files(turn, path, glob, after):
            found[entry.path] = entry
            yield entry.path, _loader(turn, entry)

    result = search.search(
        files(),
        queries,
        context,
        ignore_case,
        turn.settings.read_budget_characters,
        lambda: turn.clock.monotonic() - began > SEARCH_SECONDS,
    )
    for shown, ranges in result.shown.items():
        turn.seen.saw(shown, found[shown].sha256, ranges, turn.clock.now())
    return Answer([TextPart(result.text)], result.structured())


def _files(turn: Turn, path: str | None, glob: str | None, after: str | None) -> Iterator[Entry]:
    folder = _folder(turn, path)
    matches = compile_glob(glob).matches if glob is not None else None
    alone = turn.workspace.entry(folder) if folder else None
    if alone is not None and alone.kind == "file":
        yield alone
        return
    skipped = len(folder) + 1 if folder else 0
    for entry in turn.workspace.entries(folder, after or ""):
        if entry.kind == "file" and (matches is None or matches(entry.path[skipped:])):
            yield entry


def _loader(turn: Turn, entry: Entry) -> Callable[[], bytes | None]:
    return lambda: turn.workspace.scan(entry) if entry.is_text else None


def _folder(turn: Turn, path: str | None) -> str:
    folder = check_folder(path) if path is not None else ""
    if folder and turn.workspace.entry(folder) is None and not turn.workspace.is_folder(folder):
        raise NoSuchFile(folder, [])
    return folder
