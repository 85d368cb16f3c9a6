"""What edit_file does around the engine: which file, what the turn has seen of it, and how the answer is worded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from workbench.errors import ToolError
from workbench.tools.answer import Answer
from workbench.tools.turn import Turn
from workbench.workspace import edit as engine
from workbench.workspace.edit import Edited
from workbench.workspace.file_arguments import Edit
from workbench.workspace.looking import NoSuchFile, file_at
from workbench.workspace.manifest import Entry
from workbench.workspace.paths import check_path, printable
from workbench.workspace.seen import Sight, shift

ARTIFACT_PREFIX = "art_"


class StoredArtifact(ToolError):
    """There is no text in the workspace to match: a stored artifact is changed by a copy."""

    code = "unsupported_type"

    def __init__(self, artifact: str, *, offers_code: bool) -> None:
        way = (
            f'Name it in run_code (artifacts: [{{"id": "{artifact}"}}]), change the copy under inputs/artifacts/ into '
            f"a file in workspace/, then add that file as a new version with export_artifact (artifact: {artifact})."
            if offers_code
            else "This turn cannot change it."
        )
        super().__init__(
            f"{artifact} is a stored artifact, not a file of the workspace; edit_file cannot change it. {way}",
            artifact=artifact,
        )


def edit(turn: Turn, text: str, edits: Sequence[Edit] | None, append: str | None) -> Answer:
    """Apply the call's edits to the file as it is now, and stage the result."""
    if (edits is None) == (append is None):
        raise ToolError("Give either edits or append. Nothing was changed.", code="invalid_args")
    path = check_path(text)
    entry = _editable(turn, path)
    data = turn.workspace.read(entry)
    sight = turn.seen.sight(path)
    if append is not None:
        edited = engine.append(path, data, append)
        known = sight.ranges if sight and sight.blob == entry.sha256 else ()
        seen = shift(known, edited.spans)
    else:
        # Mixed forms are the engine's to refuse, hence no narrower type.
        wanted: list[Any] = [one.as_engine(number) for number, one in enumerate(edits or (), 1)]
        edited = engine.apply_edits(path, data, wanted, sight, entry.sha256, turn.workspace.blob)
        seen = edited.seen
    new = turn.workspace.write(path, edited.data)
    turn.seen.replace(path, Sight(new.sha256, seen), turn.clock.now())
    version = turn.head.version + 1
    answer = Answer.of(
        _words(path, edited, new, version),
        path=path,
        version=version,
        changed=[{"startLine": first, "endLine": last} for first, last in edited.changed],
        notes=edited.notes,
    )
    answer.effects["files"] = [{"path": path, "mode": f"{new.mode:04o}", "created": False, "bytes": new.bytes}]
    return answer


def _editable(turn: Turn, path: str) -> Entry:
    try:
        entry = file_at(turn, path)
    except NoSuchFile:
        if path.startswith(ARTIFACT_PREFIX):
            raise StoredArtifact(path, offers_code=turn.offers("run_code")) from None
        raise
    if entry.bytes > engine.FILE_BYTES:
        raise engine.too_large(path, entry.bytes)
    return entry


def _words(path: str, edited: Edited, new: Entry, version: int) -> str:
    places = len(edited.changed)
    what = "Edited" if places == 1 else f"Made {places} edits in"
    said = [f"{what} `{printable(path)}` ({new.bytes:,} bytes)."]
    said += [f"Note: {note}" for note in edited.notes]
    if edited.moved:
        direction = "down" if edited.moved > 0 else "up"
        count = abs(edited.moved)
        said.append(f"Lines behind the last edit moved {direction} by {count}.")
    said += edited.shown
    said.append(f"The workspace is now at version {version}.")
    return "\n".join(said)
