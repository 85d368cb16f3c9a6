"""What a call adds to the turn's record of what it has seen, as one write of the call's transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from workbench.keys import seen_key
from workbench.operations import Condition, Operation, Update, update
from workbench.tools.turn import Turn

# A condition may hold 4 KB: of more files none is checked.
PATHS_CHECKED = 20


def seen_operations(turn: Turn, item: Mapping[str, Any], same: bool) -> list[Operation]:
    """The write that the turn's SEEN item needs, none when nothing is new; ``item`` is that item as it was read.

    With ``same``, the write fails when another call of the turn saw more of the same files meanwhile. Done again, the
    call then adds to that instead of replacing it.
    """
    changed, removed = turn.seen.changes()
    if not changed and not removed:
        return []
    change = Update()
    for path, value in changed.items():
        change.set(path, value)
    for gone in removed:
        change.remove(gone)
    condition = _as_before(item.get("paths", {}), turn.seen.changed_paths()) if same else None
    return [update(seen_key(turn.id), change, condition)]


def _as_before(known: Mapping[str, Any], paths: Sequence[str]) -> Condition | None:
    """What the item says of ``paths`` is what was read."""
    if not 0 < len(paths) <= PATHS_CHECKED:
        return None
    names: dict[str, str] = {"#paths": "paths"}
    values: dict[str, Any] = {}
    texts = []
    for number, path in enumerate(paths):
        names[f"#p{number}"] = path
        if path in known:
            values[f":p{number}"] = known[path]
            texts.append(f"#paths.#p{number} = :p{number}")
        else:
            texts.append(f"attribute_not_exists(#paths.#p{number})")
    return Condition(" AND ".join(texts), names, values)
