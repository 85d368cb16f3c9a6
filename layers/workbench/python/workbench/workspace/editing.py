"""What edit_file does around the engine: which file, what the turn has seen of it, and how the answer is worded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from workbench.errors import ToolError
from workbench.tools.answer import Answer
from workbench.workspace.desk import Desk, Offers, code_tool, version_words
from workbench.workspace.file_arguments import Edit
from workbench.workspace.looking import NoSuchFile, file_at
from workbench.workspace.paths import check_path, printable
from workbench.workspace.storage.manifest import Entry
from workbench.workspace.text import edit as engine
from workbench.workspace.text.edit import Edited
from workbench.workspace.text.freshness import Freshness
from workbench.workspace.text.lines import parse
from workbench.workspace.text.refusals import ChangedSinceRead, NotRead, Refusal
from workbench.workspace.text.seen import Range, Sight, shift
from workbench.workspace.text.visible import counted

ARTIFACT_PREFIX = "art_"
ARGUMENT_FAULTS = frozenset(
    {"no_edits", "too_many_edits", "mixed_forms", "empty_text", "range_reversed", "invalid_text"}
)

Earlier = Callable[[str], bytes | None]


class StoredArtifact(ToolError):
    """There is no text in the workspace to match: a stored artifact is changed by a copy."""

    code = "unsupported_type"

    def __init__(self, artifact: str, offers: Offers) -> None:
        way = "This turn cannot change it."
        if offers("run_code"):
            way = (
                f'Name it in run_code (artifacts: [{{"id": "{artifact}"}}]) and change the copy under '
                "inputs/artifacts/ into a file in workspace/"
            )
            publish = f", then add that file as a new version with export_artifact (artifact: {artifact})."
            way += publish if offers("export_artifact") else ". The artifact itself stays as it is in this turn."
        super().__init__(
            f"{printable(artifact)} is a stored artifact, not a file of the workspace; edit_file cannot change it. "
            f"{way}",
            artifact=artifact,
        )


def edit(turn: Desk, text: str, edits: Sequence[Edit] | None, append: str | None) -> Answer:
    """Apply the call's edits to the file as it is now, and stage the result."""
    if (edits is None) == (append is None):
        raise ToolError("Give either edits or append. Nothing was changed.", code="invalid_args")
    path = check_path(text)
    try:
        return _edit(turn, path, edits, append)
    except Refusal as refusal:
        raise _as_told_to(turn, refusal) from refusal


def _as_told_to(turn: Desk, refusal: Refusal) -> ToolError:
    """The engine's refusal as this turn can use it: what is wrong with the arguments alone is ``invalid_args``."""
    if refusal.code in ARGUMENT_FAULTS:
        return ToolError(refusal.message, code="invalid_args", reason=refusal.code, **refusal.details)
    code = code_tool(turn.offers)
    if refusal.advice == "do_something_else" and code:
        refusal.message += f" Change it with {code}."
    return refusal


def _edit(turn: Desk, path: str, edits: Sequence[Edit] | None, append: str | None) -> Answer:
    entry = _editable(turn, path)
    data = turn.workspace.read(entry)
    sight = turn.seen.sight(path)
    earlier = partial(turn.workspace.blob, place=sight.place if sight else "")
    known = _still_seen(path, data, entry, sight, earlier)
    try:
        if append is not None:
            edited = engine.append(path, data, append)
        else:
            # Mixed forms are the engine's to refuse, hence no narrower type.
            wanted: list[Any] = [one.as_engine(number) for number, one in enumerate(edits or (), 1)]
            edited = engine.apply_edits(path, data, wanted, sight, entry.sha256, earlier)
    except (ChangedSinceRead, NotRead) as refusal:
        # The refusal shows these lines and says that the edit may be sent again.
        shown = Sight(entry.sha256, known, entry.place).and_also(refusal.details["shown"])
        turn.seen.replace(path, shown, turn.clock.now())
        raise
    new = turn.workspace.write(path, edited.data)
    turn.seen.replace(path, Sight(new.sha256, shift(known, edited.spans)), turn.clock.now())
    answer = Answer.of(
        "\n".join([*_words(path, edited, new), *version_words(turn)]),
        path=path,
        **({} if turn.next_version is None else {"version": turn.next_version}),
        changed=[{"startLine": first, "endLine": last} for first, last in edited.changed],
        notes=edited.notes,
    )
    answer.effects["files"] = [{"path": path, "mode": f"{new.mode:04o}", "created": False, "bytes": new.bytes}]
    return answer


def _still_seen(path: str, data: bytes, entry: Entry, sight: Sight | None, earlier: Earlier) -> tuple[Range, ...]:
    """What the turn has seen of the file as it is now: of one that somebody else changed, the lines that are left."""
    if sight is None or sight.blob == entry.sha256:
        return sight.ranges if sight else ()
    return Freshness(parse(data, path), sight, entry.sha256, earlier).carried_over()


def _editable(turn: Desk, path: str) -> Entry:
    try:
        entry = file_at(turn, path)
    except NoSuchFile:
        # A plain directory, which keeps no versions, has no artifacts either.
        if path.startswith(ARTIFACT_PREFIX) and turn.next_version is not None:
            raise StoredArtifact(path, turn.offers) from None
        raise
    if entry.bytes > engine.FILE_BYTES:
        raise engine.too_large(path, entry.bytes)
    return entry


def _words(path: str, edited: Edited, new: Entry) -> list[str]:
    places = len(edited.changed)
    what = "Edited" if places == 1 else f"Made {places} edits in"
    said = [f"{what} `{printable(path)}` ({counted(new.bytes, 'byte')})."]
    said += [f"Note: {note}" for note in edited.notes]
    if edited.moved:
        direction = "down" if edited.moved > 0 else "up"
        count = abs(edited.moved)
        said.append(f"Lines behind the last edit moved {direction} by {count}.")
    return said + edited.shown
