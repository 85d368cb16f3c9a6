"""What list_files and search_files do: which entries are meant, and what the turn has seen by it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from workbench.tools.answer import Answer
from workbench.tools.turn import Turn
from workbench.workspace.paths import check_folder, parents
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.views import search
from workbench.workspace.views.globs import Glob, compile_glob
from workbench.workspace.views.listing import list_entries, select_files

SEARCH_SECONDS = 20


def list_files(turn: Turn, path: str | None, glob: str | None, depth: int | None, after: str | None) -> Answer:
    """The listing below a folder. Reads no blob and starts nothing."""
    folder = _folder(path)
    written: dict[str, int] = {}
    entries = _noting_folders(_at_and_below(turn, folder), written)
    listing = list_entries(entries, folder, _glob(glob), depth, after, version=written.get)
    return Answer.of(listing.text, **listing.structured())


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
    folder, pattern = _folder(path), _glob(glob)
    found: dict[str, Entry] = {}

    def files() -> Iterator[tuple[str, search.Loader]]:
        for entry in select_files(_at_and_below(turn, folder), folder, pattern):
            if not after or entry.path > after:
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
        turn.seen.saw(shown, found[shown].sha256, ranges, turn.clock.now(), place=found[shown].place)
    return Answer.of(result.text, **result.structured())


def _at_and_below(turn: Turn, folder: str) -> Iterator[Entry]:
    """The entry that stands at the path itself, if one does, and everything below it."""
    here = turn.workspace.entry(folder) if folder else None
    if here is not None:
        yield here
    yield from turn.workspace.entries(folder)


def _noting_folders(entries: Iterator[Entry], written: dict[str, int]) -> Iterator[Entry]:
    """The entries as they are; ``written`` learns of each folder the last version that wrote something in it."""
    last, above = "", list[str]()
    for entry in entries:
        parent = entry.path.rpartition("/")[0]
        if parent != last:
            # Entries of one folder come together.
            last, above = parent, [*parents(entry.path)]
        for folder in [*above, entry.path] if entry.kind == "folder" else above:
            if written.get(folder, 0) < entry.version:
                written[folder] = entry.version
        yield entry


def _loader(turn: Turn, entry: Entry) -> Callable[[], bytes | None]:
    return lambda: turn.workspace.scan(entry) if entry.is_text else None


def _folder(path: str | None) -> str:
    return check_folder(path) if path is not None else ""


def _glob(pattern: str | None) -> Glob | None:
    return compile_glob(pattern) if pattern is not None else None
