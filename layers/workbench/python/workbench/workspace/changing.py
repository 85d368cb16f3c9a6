"""What write_file and delete_file do: batches that land whole or not at all, and the guard on long files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import ToolError
from workbench.tools.answer import Answer
from workbench.workspace.desk import Desk, code_tool, version_words
from workbench.workspace.file_arguments import FileToWrite
from workbench.workspace.guard import DeleteGuarded, LongFileExists, is_long, may_be_edited
from workbench.workspace.looking import file_at
from workbench.workspace.paths import check_folder, check_path, printable
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.text.seen import Sight
from workbench.workspace.text.visible import counted

LISTED_BYTES = 200_000


def write(turn: Desk, files: Sequence[FileToWrite]) -> Answer:
    """Stage every file of the batch, or raise and stage nothing that could be committed."""
    paths = [check_path(file.path) for file in files]
    twice = next((path for path in paths if paths.count(path) > 1), None)
    if twice is not None:
        raise ToolError(
            f"`{printable(twice)}` stands twice in this call. Nothing was written. Send each path once.",
            code="invalid_args",
            path=twice,
        )
    for file in files:
        _refuse_both_or_neither(file)
    _refuse_whole_replacement(turn, paths)
    staged = []
    for file, path in zip(files, paths, strict=True):
        data = _content(turn, file)
        staged.append((file, turn.workspace.entry(path), turn.workspace.write(path, data)))
    said, facts, effects = [], [], []
    for file, old, new in staged:
        _note_seen(turn, file, new)
        created = old is None
        facts.append({"path": new.path, "created": created, "bytes": new.bytes})
        effects.append({"path": new.path, "mode": f"{new.mode:04o}", "created": created, "bytes": new.bytes})
        lines = "" if new.lines is None else f", {counted(new.lines, 'line')}"
        done = "Created" if created else "Replaced"
        said.append(f"{done} `{printable(new.path)}` ({counted(new.bytes, 'byte')}{lines}).")
    answer = Answer.of("\n".join([*said, *version_words(turn)]), files=facts)
    answer.effects["files"] = effects
    return answer


def _note_seen(turn: Desk, file: FileToWrite, new: Entry) -> None:
    """What the model wrote itself it has seen; a stored result it has not."""
    turn.seen.clear_flag(new.path)
    if file.content is not None and new.lines is not None:
        turn.seen.replace(new.path, Sight(new.sha256, ((1, new.lines),)), turn.clock.now())
    else:
        turn.seen.forget(new.path)


def _refuse_both_or_neither(file: FileToWrite) -> None:
    if (file.content is None) == (file.source is None):
        given = "has neither" if file.content is None else "has both"
        raise ToolError(
            f"`{printable(file.path)}` {given}: give exactly one of content and source. Nothing was written.",
            code="invalid_args",
            path=file.path,
        )


def _content(turn: Desk, file: FileToWrite) -> bytes:
    source = file.source
    text = turn.stored_text(source.ref, source.pointer) if source is not None else file.content or ""
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise ToolError(
            f"The text for `{printable(file.path)}` has half of a surrogate pair at character {error.start}, which no "
            "file can hold. Nothing was written. Send the character whole.",
            code="invalid_args",
            path=file.path,
        ) from None
    allowed = turn.settings.written_file_bytes
    if len(data) > allowed:
        code = code_tool(turn.offers)
        way = f" Write it in parts, or make it with {code}." if code else " Write it in parts."
        raise ToolError(
            f"`{printable(file.path)}` would have {len(data):,} bytes; one file written by a tool may have "
            f"{allowed:,}. Nothing was written.{way}",
            code="too_large",
            asked=len(data),
            allowed=allowed,
        )
    return data


def _refuse_whole_replacement(turn: Desk, paths: Sequence[str]) -> None:
    """Refuse for the first long file of the batch, and remember every one that this call was going to replace."""
    entries = [turn.workspace.entry(path) for path in paths]
    long = [entry for entry in entries if entry is not None and entry.kind == "file" and is_long(entry)]
    for entry in long:
        turn.seen.set_flag(entry.path, entry.sha256)
    if long:
        raise LongFileExists(long[0], editable=_editable(turn, long[0]), offers=turn.offers)


def _editable(turn: Desk, entry: Entry) -> bool:
    return may_be_edited(entry, turn.workspace.read, turn.settings.read_budget_characters)


def delete(turn: Desk, text: str, *, recursive: bool) -> Answer:
    """Stage the removal of a file, or of a folder with everything below it."""
    path = check_folder(text)
    if path == "":
        raise ToolError(
            "The root of the workspace is not deleted. Name a file, or a folder with recursive: true.",
            code="invalid_path",
            path=text,
        )
    entry = turn.workspace.entry(path)
    if entry is not None and entry.kind == "file":
        gone = [file_at(turn, check_path(text))]
    elif turn.workspace.is_folder(path):
        gone = list(turn.workspace.entries(path))
        if not recursive:
            raise ToolError(
                f"`{printable(path)}` is a folder with {counted(len(gone), 'entry')}. Nothing was deleted. "
                "Name one file, or say recursive: true to delete all of it.",
                code="is_folder",
                path=path,
            )
    else:
        # Says so, with the names that come near.
        gone = [file_at(turn, path)]
    for guarded in gone:
        if turn.seen.flag(guarded.path) is not None and is_long(guarded):
            raise DeleteGuarded(guarded, editable=_editable(turn, guarded), offers=turn.offers)
    for one in gone:
        turn.workspace.delete(one.path)
        turn.seen.forget(one.path)
    if entry is not None and entry.kind == "folder":
        turn.workspace.delete(path)
    folder = entry is None or entry.kind == "folder"
    files = [one for one in gone if one.kind == "file"]
    size = sum(one.bytes for one in files)
    listed = _listed([one.path for one in files] or [path])
    facts: dict[str, Any] = {"deleted": listed}
    if len(listed) < len(files):
        facts |= {"files": len(files), "truncated": True}
    what = f"`{printable(path)}/`" if folder else f"`{printable(path)}`"
    done = f"Deleted {what}: {counted(len(files), 'file')}, {counted(size, 'byte')}."
    answer = Answer.of(" ".join([done, *version_words(turn)]), **facts)
    # The version lists every path; a call's record is too small for them.
    answer.effects["deleted"] = [f"{path}/" if folder else path]
    return answer


def _listed(paths: Sequence[str]) -> list[str]:
    """As many of the paths as an answer carries."""
    room, listed = LISTED_BYTES, []
    for path in paths:
        room -= len(path.encode())
        if room < 0:
            break
        listed.append(path)
    return listed
