"""Finishing a turn: one unit of work under the turn's record makes the reply and attaches its files.

An export counts up the turn's record in the transaction that makes it, and finishing is conditioned on that count:
no file can slip in between listing and reply.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from workbench.artifacts import store
from workbench.artifacts.model import ATTACHED_ORIGINS, Artifact, Version
from workbench.artifacts.retention import BytesGone, attach
from workbench.conversations.conversation import DELETED_STATUS, deleted_conflict
from workbench.conversations.turns import OPEN, STILL_OPEN
from workbench.errors import Conflict, NotFound
from workbench.ids import RUN_PREFIX, CallId, TurnId
from workbench.keys import head_key, turn_key
from workbench.logs import audit
from workbench.operations import ACTIVE, Condition, Item, Operation, Update, all_of, check, update
from workbench.runs.items import at_work_key
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage import history

COMPLETED, FAILED, CANCELLED = "completed", "failed", "cancelled"
OUTCOMES = (COMPLETED, FAILED, CANCELLED)
# What a reply's text may take of the turn's record, which holds 400 KB in all.
TEXT_BYTES = 256 * 1024
TRIES = 8


@dataclass(frozen=True)
class State:
    """The turn's record, its conversation's head and the run of this turn that is at work, if there is one."""

    item: Item
    head: Item
    run: str | None


def read_state(runtime: Runtime, turn: TurnId | None) -> State:
    """One batch read; raises NotFound for an unknown turn and Conflict when its conversation is deleted."""
    if turn is None:
        raise _no_turn()
    head, record, work = head_key(turn.conversation), turn_key(turn), at_work_key(turn.conversation)
    found = runtime.table.get_many([head, record, work])
    if head not in found:
        raise _no_turn()
    if found[head]["status"] == DELETED_STATUS:
        raise deleted_conflict(found[head].get("purgeAt"))
    if record not in found:
        raise _no_turn()
    run = found.get(work, {}).get("run")
    call = CallId.parse(run, RUN_PREFIX)
    return State(found[record], found[head], run if call and call.turn == turn else None)


def finish(runtime: Runtime, turn: TurnId | None, outcome: str, text: str) -> dict[str, Any]:
    """The reply of the turn, made now or, when it is finished already, as it was made then.

    Raises NotFound, and Conflict for a deleted conversation or when a completed turn still has a run at work.
    """
    gone: set[str] = set()
    for _attempt in range(TRIES):
        state = read_state(runtime, turn)
        assert turn is not None
        if state.item["state"] == OPEN:
            try:
                reply = _close(runtime, turn, state, outcome, text, gone)
            except BytesGone as lost:
                # A reply carries no file that nobody can open.
                gone.add(lost.artifact)
                continue
            except ConditionFailed:
                # Somebody finished it, exported to it or deleted the conversation meanwhile: look again.
                continue
            audit("turn.finish", turn=str(turn), outcome=outcome, files=len(reply["parts"]) - 1)
        else:
            outcome, reply = state.item["state"], state.item["reply"]
        if outcome != COMPLETED and state.run is not None:
            # Also when finishing again: the first attempt may have crashed before it stopped the run.
            _stop(runtime, state.run)
        history.tidy(runtime, turn.conversation, state.head)
        return dict(reply)
    raise Conflict("The turn keeps changing. Wait until its calls have ended and finish it again.", retryAfterSeconds=1)


def _close(
    runtime: Runtime, turn: TurnId, state: State, outcome: str, text: str, gone: AbstractSet[str]
) -> dict[str, Any]:
    parts: list[dict[str, Any]] = [{"type": "text", "text": text}]
    operations: list[Operation] = [check(head_key(turn.conversation), ACTIVE)]
    if outcome == COMPLETED:
        if state.run is not None:
            raise Conflict(
                "A run of this turn is still at work. Wait for it, or finish the turn as cancelled to stop it.",
                run=state.run,
                retryAfterSeconds=2,
            )
        chosen = _attachable(runtime, state.item["exports"].values(), gone)
        parts += [_file_part(artifact, version) for artifact, version in chosen]
        operations += attach(runtime, [(artifact, version.version) for artifact, version in chosen])
        homes = {artifact.conversation for artifact, _version in chosen} - {turn.conversation, None}
        operations += [check(head_key(str(home)), ACTIVE) for home in sorted(map(str, homes))]
        operations.append(check(at_work_key(turn.conversation), _no_run_of(turn)))
    reply = {"parts": parts}
    change = Update().set("state", outcome).set("reply", reply).set("finishedAt", runtime.clock.now())
    count = Condition("exportCount = :count", {}, {":count": state.item["exportCount"]})
    operations.append(update(turn_key(turn), change, all_of(STILL_OPEN, count)))
    runtime.table.transact(operations)
    return reply


def _attachable(
    runtime: Runtime, exports: Iterable[Mapping[str, Any]], gone: AbstractSet[str]
) -> list[tuple[Artifact, Version]]:
    """What the reply carries: artifacts in order of creation, each once in its latest version of this turn, and one
    for each name and content. Those of ``gone`` have no bytes any more."""
    latest: dict[str, int] = {}
    for export in sorted(exports, key=lambda entry: (entry["at"], entry["artifact"], entry["version"])):
        if export["origin"] in ATTACHED_ORIGINS and export["artifact"] not in gone:
            latest[export["artifact"]] = max(export["version"], latest.get(export["artifact"], 0))
    found = store.usable(runtime, store.load_many(runtime, list(latest)))
    chosen: dict[tuple[str, str], tuple[Artifact, Version]] = {}
    for artifact in found:
        version = artifact.version(latest[artifact.id])
        if version is not None:
            chosen.setdefault((version.name, version.sha256), (artifact, version))
    return list(chosen.values())


def _file_part(artifact: Artifact, version: Version) -> dict[str, Any]:
    return {
        "type": "file",
        "artifact": artifact.id,
        "version": version.version,
        "name": version.name,
        "mediaType": version.media_type,
        "bytes": version.bytes,
    }


def _no_run_of(turn: TurnId) -> Condition:
    """No run of this turn is at work; one of another turn may be."""
    return Condition(
        "attribute_not_exists(PK) OR NOT begins_with(#run, :mine)", {"#run": "run"}, {":mine": f"{RUN_PREFIX}{turn}."}
    )


def _stop(runtime: Runtime, run: str) -> None:
    # Only a turn that is given up needs the workflow's module.
    from workbench.runs.verdict import stop_run

    stop_run(runtime, run)


def _no_turn() -> NotFound:
    return NotFound("There is no such turn.")
