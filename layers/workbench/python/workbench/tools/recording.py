"""A finished call as its record: the contract's tool answer, the trace step, and the item that holds both.

Exactly-once, trace and stored result are one item, so they can never disagree. Answers over about 300 KB, pictures
among them, lie in S3 and the item names their key.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from workbench.clock import iso
from workbench.errors import ToolError
from workbench.ids import CallId
from workbench.keys import call_key
from workbench.logs import audit
from workbench.operations import Condition, Item, Operation, put
from workbench.runtime import Runtime
from workbench.settings import Settings
from workbench.tools.answer import Answer, ImagePart, TextPart
from workbench.workspace.views.cuts import cut_after, cut_before

INLINE_BYTES = 300_000
# Room in a preview for saying what was left out; a ref alone may have 270 characters.
NOTE_CHARACTERS = 600
CLIPPED = " ... [clipped]"

State = Literal["done", "open", "running"]

# These may be sent again under the same id: their record keeps the trace and makes way for the next try.
OPEN_OUTCOMES = frozenset({"approval_required", "circuit_open"})
OPEN_CODES = frozenset({"workspace_busy", "throttled"})

# Two identical calls race: only the first record stands. A record that may be sent again gives way.
NOT_DONE = Condition("attribute_not_exists(PK) OR #state = :open", {"#state": "state"}, {":open": "open"})
# The workflow finishes a call whose record says that its run is at work.
STILL_RUNNING = Condition("#state = :running", {"#state": "state"}, {":running": "running"})


@dataclass(frozen=True)
class CallFacts:
    """What is known of a call besides its answer. Times in Unix seconds and milliseconds.

    ``requests`` is None where nobody counts all of them: a run's are sent by several functions.
    """

    call: CallId
    tool: str
    step: str
    digest: str
    started_at: float
    milliseconds: float
    attempts: int = 1
    requests: int | None = None
    conversions: tuple[dict[str, Any], ...] = ()
    exact: bool = False
    may_page: bool = False


@dataclass(frozen=True)
class Record:
    """The wire answer, the item to commit, and the object to PUT before it when the answer is large."""

    wire: dict[str, Any]
    item: Item
    object_key: str | None
    object_body: bytes

    def operation(self, condition: Condition = NOT_DONE) -> Operation:
        return put(self.item, condition)


def outcome_of(answer: Answer) -> str:
    """The contract's outcome for what a tool returned."""
    return answer.outcome or ("error" if answer.error else "ok")


def failed(error: ToolError, outcome: str = "error") -> Answer:
    """The answer for a refusal: its words are the content."""
    return Answer([TextPart(error.message)], error=error, outcome=outcome)


def dress(answer: Answer, facts: CallFacts, settings: Settings) -> tuple[dict[str, Any], str | None]:
    """The contract's tool answer, and the whole text when the model got only a preview of it."""
    content, whole = [part.as_dict() for part in answer.content], None
    text = answer.text
    if not facts.exact and len(text) > settings.output_cap_characters:
        whole = text
        pictures = [part.as_dict() for part in answer.content if isinstance(part, ImagePart)]
        content = [{"type": "text", "text": _preview(text, facts, settings)}, *pictures]
    size = sum(len(part.get("text", "").encode(errors="replace")) + len(part.get("data", "")) for part in content)
    wire: dict[str, Any] = {
        "callId": facts.call.call,
        "tool": facts.tool,
        "outcome": outcome_of(answer),
        "content": content,
        "line": one_line(text, settings.line_form_characters),
        "structured": answer.structured,
        "error": answer.error.as_dict() if answer.error else None,
        "conversions": list(facts.conversions),
        "ref": facts.call.ref,
        "truncated": whole is not None,
        "cost": {"milliseconds": round(facts.milliseconds, 2), "attempts": facts.attempts, "bytes": size},
    }
    if facts.requests is not None:
        wire["cost"]["requests"] = facts.requests
    return wire, whole


def record(answer: Answer, facts: CallFacts, settings: Settings) -> Record:
    """Everything to store of a finished call."""
    wire, whole = dress(answer, facts, settings)
    error_code = answer.error.code if answer.error else None
    state: State = "open" if wire["outcome"] in OPEN_OUTCOMES or error_code in OPEN_CODES else "done"
    pk, sk = call_key(facts.call.turn, facts.call.call)
    item: Item = {
        "PK": pk,
        "SK": sk,
        "tool": facts.tool,
        "digest": facts.digest,
        "state": state,
        "step": {
            "callId": facts.call.call,
            "tool": facts.tool,
            "step": facts.step,
            "outcome": wire["outcome"],
            "code": error_code,
            "at": iso(facts.started_at),
            "milliseconds": wire["cost"]["milliseconds"],
            "bytes": wire["cost"]["bytes"],
            "refs": [facts.call.ref, *answer.refs],
        },
        "effects": answer.effects,
        "finishedAt": facts.started_at + facts.milliseconds / 1000,
    }
    stored = {"answer": wire} if whole is None else {"answer": wire, "output": whole}
    body = _packed(stored)
    if len(body) <= INLINE_BYTES:
        item["answer"] = body
        return Record(wire, item, None, b"")
    # The answer says what it cost, its own object included.
    if facts.requests is not None:
        wire["cost"]["requests"] += 1
    body = _packed(stored)
    key = f"results/{facts.call.turn.conversation}/{facts.call.turn.part}/{facts.call.call}"
    item["answerKey"] = key
    return Record(wire, item, key, body)


def audit_effects(call: CallId, answer: Answer) -> None:
    """One audit event for each file that the call wrote or deleted and each artifact that it stored."""
    who = {"turn": str(call.turn), "callId": call.call}
    for file in answer.effects.get("files", ()):
        audit("file.write", **who, **file)
    for path in answer.effects.get("deleted", ()):
        audit("file.delete", **who, path=path)
    for made in answer.effects.get("artifacts", ()):
        # Its name is what the model chose.
        audit("artifact.export", **who, **{fact: made[fact] for fact in ("artifact", "version", "bytes")})


def _packed(stored: dict[str, Any]) -> bytes:
    text = json.dumps(stored, ensure_ascii=False, separators=(",", ":"))
    return gzip.compress(text.encode(errors="replace"), 5, mtime=0)


def load_answer(runtime: Runtime, item: Mapping[str, Any]) -> dict[str, Any]:
    """The stored tool answer of a finished call, exactly as it was first given."""
    answer: dict[str, Any] = _stored(runtime, item)["answer"]
    return answer


def full_output(runtime: Runtime, item: Mapping[str, Any]) -> str:
    """The whole text of a stored call, also when the model was given a preview."""
    stored = _stored(runtime, item)
    if "output" in stored:
        return str(stored["output"])
    return "\n".join(part["text"] for part in stored["answer"]["content"] if part["type"] == "text")


def _stored(runtime: Runtime, item: Mapping[str, Any]) -> dict[str, Any]:
    body = item.get("answer")
    if body is None:
        answer = runtime.clients.s3.get_object(Bucket=runtime.settings.workspace_bucket, Key=item["answerKey"])
        body = answer["Body"].read()
    stored: dict[str, Any] = json.loads(gzip.decompress(body))
    return stored


def one_line(text: str, limit: int) -> str:
    """The single line an assistant may be given instead of the whole text."""
    line = " ".join(text.split())
    return line if len(line) <= limit else line[: cut_before(line, limit)] + CLIPPED


def _preview(text: str, facts: CallFacts, settings: Settings) -> str:
    """The head and the tail of a long text, within the cap, and how to read what lies between them."""
    half = max(0, settings.output_cap_characters - NOTE_CHARACTERS) // 2
    start, end = cut_before(text, half), cut_after(text, len(text) - half)
    how = (
        f'Read the rest with read_result(ref="{facts.call.ref}", offset={start}).'
        if facts.may_page
        else "The whole output is stored."
    )
    note = f"[… {end - start:,} of {len(text):,} characters left out here. {how} …]"
    return f"{text[:start]}\n\n{note}\n\n{text[end:]}"
