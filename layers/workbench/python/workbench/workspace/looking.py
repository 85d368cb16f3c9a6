"""What read_file does with each path: lines under one budget, pictures as pictures, other binaries in words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from workbench.errors import ToolError
from workbench.tools.answer import Answer, ImagePart, TextPart
from workbench.workspace.desk import Desk
from workbench.workspace.paths import check_path, printable
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.text.lines import is_text
from workbench.workspace.views import images, reading
from workbench.workspace.views.reading import Page, ReadRequest

SUGGESTED_NAMES = 3
COMPARED_NAMES = 2_000
COMPARED_CHARACTERS = 60
# The pictures of one answer, which a function must be able to return: 6 MB with everything else, base64 included.
PICTURES_BYTES = 4_000_000


class NoSuchFile(ToolError):
    """There is no file of that path; names that come near are given, or the way to all of them."""

    code = "not_found"

    def __init__(self, path: str, near: Sequence[str], *, empty: bool, offers_list: bool) -> None:
        if near:
            hint = f" Did you mean {' or '.join(f'`{name}`' for name in near)}?"
        elif empty:
            hint = " The workspace holds no files yet."
        else:
            hint = " list_files shows what is there." if offers_list else ""
        super().__init__(f"There is no file `{printable(path)}`.{hint}", path=path, near=list(near))


class IsFolder(ToolError):
    """A file was asked for and a folder stands there."""

    code = "is_folder"

    def __init__(self, path: str, *, offers_list: bool) -> None:
        way = " See what is in it with list_files." if offers_list else ""
        super().__init__(f"`{printable(path)}` is a folder, not a file.{way}", path=path)


def file_at(turn: Desk, path: str) -> Entry:
    """The file's entry; raises NoSuchFile with near names, or IsFolder. ``path`` is checked and normalised already."""
    entry = turn.workspace.entry(path)
    if entry is not None and entry.kind == "file":
        return entry
    if turn.workspace.is_folder(path):
        raise IsFolder(path, offers_list=turn.offers("list_files"))
    names = _names(turn)
    raise NoSuchFile(path, _near(names, path), empty=not names, offers_list=turn.offers("list_files"))


def _names(turn: Desk) -> list[str]:
    """The first files of the workspace."""
    names = []
    for entry in turn.workspace.entries():
        if entry.kind == "file":
            names.append(entry.path)
        if len(names) == COMPARED_NAMES:
            break
    return names


def _near(names: Sequence[str], path: str) -> list[str]:
    base = _last_name(path)
    same = [name for name in names if _last_name(name).casefold() == base.casefold()]
    if same:
        return same[:SUGGESTED_NAMES]
    import difflib  # needed on refusals only

    # Only the ends are compared, and only of so many: comparing whole long names takes minutes.
    ends: dict[str, str] = {}
    for name in names:
        ends.setdefault(_last_name(name)[-COMPARED_CHARACTERS:], name)
    near = difflib.get_close_matches(base[-COMPARED_CHARACTERS:], ends, SUGGESTED_NAMES, 0.75)
    return [ends[end] for end in near]


def _last_name(path: str) -> str:
    return path.rpartition("/")[2]


def read(turn: Desk, requests: Sequence[ReadRequest]) -> Answer:
    """The answer of read_file; what was shown counts as seen by this turn."""
    entries: dict[str, Entry] = {}
    pictures: list[ImagePart] = []

    def load(path: str) -> bytes:
        entry = entries[path] = file_at(turn, path)
        data = turn.workspace.read(entry)
        if not is_text(data) or images.begins_as_picture(data):
            raise _Shown(_shown_otherwise(turn, path, data, pictures))
        return data

    checked = [replace(request, path=check_path(request.path)) for request in requests]
    try:
        pages = reading.share_budget(
            checked, load, turn.settings.read_budget_characters, turn.settings.read_line_cap, offers=turn.offers
        )
    except _Shown as shown:
        pages = [Page(checked[0].path, notes=(shown.message,))]
    pages = [_without_refusal(page) for page in pages]
    for page in pages:
        if page.seen and page.path in entries:
            entry = entries[page.path]
            turn.seen.saw(page.path, entry.sha256, [page.seen], turn.clock.now(), place=entry.place)
    structured: dict[str, Any] = {"files": [page.structured() for page in pages]}
    return Answer([TextPart(reading.render(pages)), *pictures], structured)


class _Shown(ToolError):
    """Not text: what is said of the file instead of its lines. The reader takes it for one path's refusal."""


def _without_refusal(page: Page) -> Page:
    return replace(page, refusal=None) if isinstance(page.refusal, _Shown) else page


def _shown_otherwise(turn: Desk, path: str, data: bytes, pictures: list[ImagePart]) -> str:
    kind = images.sniff(data)
    if kind is None or not kind.is_picture:
        return images.describe_binary(path, data, offers=turn.offers)
    from workbench.workspace.views import decoding  # for pictures only: it starts processes

    if not turn.vision:
        width, height = decoding.picture_size(data, path, kind)
        return _left_out(path, data, kind, (width, height), "because this model cannot look at pictures.")
    picture = decoding.prepare(data, path, kind)
    if sum(len(other.data) for other in pictures) + len(picture.data) > PICTURES_BYTES:
        reason = "because this answer cannot carry any more. Read this path by itself."
        return _left_out(path, data, kind, picture.source_size, reason)
    pictures.append(ImagePart(picture.media_type, picture.data))
    return picture.describe(path)


def _left_out(path: str, data: bytes, kind: images.Kind, size: tuple[int, int], reason: str) -> str:
    return (
        f"{printable(path)} is a {kind.name}, {size[0]} x {size[1]} pixels, {len(data):,} bytes. "
        f"The picture is left out, {reason}"
    )
