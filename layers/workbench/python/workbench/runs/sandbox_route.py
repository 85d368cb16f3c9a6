"""``POST /v1/sandbox``: the only address that a sandbox can reach. One method, the operation stands in the body.

A session secret, known to one sandbox only, opens one run: its inputs, its output, and one proposal for its report.
Every operation may be sent again.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Any

from workbench import ids
from workbench import runtime as runtimes
from workbench.errors import Conflict, InvalidRequest, Unauthorized
from workbench.http import Event, Request, Response, respond
from workbench.keys import run_key, run_output_key, turn_key
from workbench.operations import Condition, Item, Update, all_of
from workbench.runs import protocol, verdict
from workbench.runs.claiming import claim, plan_key
from workbench.runs.items import RECORD_SECONDS, pack_item_key, secret_matches, staging_prefix, status_in
from workbench.runs.plan import PART_BYTES, Plan, Source
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.storage import head as lease
from workbench.workspace.storage.head import Fenced
from workbench.workspace.storage.manifest import Entry, pack_key

# The lease and the turn are looked at on every third beat; the workflow hears of each.
BEATS_PER_LOOK = 3
CONTINUE, STOP = {"do": "continue"}, {"do": "stop"}
ENDED_TURNS = ("failed", "cancelled")
PLANS_KEPT = 8

Operation = Callable[[Runtime, dict[str, Any]], dict[str, Any]]

_plans: OrderedDict[tuple[str, int], Plan] = OrderedDict()
_plans_lock = threading.Lock()


def handler(event: Event, _context: Any) -> dict[str, Any]:
    """The Lambda behind the private API."""
    return respond(event, lambda request: answer(runtimes.current(), request))


def answer(runtime: Runtime, request: Request) -> Response:
    """Answer one operation; raises RequestError (400, 401, 409)."""
    body = request.json()
    operation = OPERATIONS.get(str(body.get("op")))
    if operation is None:
        raise InvalidRequest(f"op must be one of {', '.join(OPERATIONS)}.")
    return Response(operation(runtime, body))


# ---------------------------------------------------------------- sessions


def _running(runtime: Runtime, body: dict[str, Any]) -> Item:
    """The record of the running run that the session opens; raises Unauthorized, or Conflict when it is over."""
    record = _record(runtime, body)
    if record["status"] != "running":
        raise _over()
    return record


def _record(runtime: Runtime, body: dict[str, Any]) -> Item:
    run, session = protocol.word(body, "run"), protocol.word(body, "session")
    record = runtime.table.get(run_key(run))
    if record is None or not secret_matches(session, record.get("sessionHash")):
        raise Unauthorized("The run or its session is unknown.")
    return record


def _of_session(body: dict[str, Any]) -> Condition:
    digest = ids.digest(protocol.word(body, "session"))
    return Condition("sessionHash = :session", {}, {":session": digest})


def _over() -> Conflict:
    return Conflict("This run is over.")


# ---------------------------------------------------------------- inputs


def send_input(runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
    """One part of the plan or of the data stream."""
    stream = protocol.choice(body, "stream", protocol.STREAMS_IN)
    part = protocol.whole(body, "part", 1_000_000)
    record = _running(runtime, body)
    made = _plan(runtime, record)
    try:
        if stream == "plan":
            return dict(protocol.packed(made.plan_part(part)))
        sources = made.part(part)
    except IndexError as error:
        raise InvalidRequest(f"There is no part {part} of {stream}.") from error
    read = [partial(_read, runtime, record["conversation"], source) for source in sources]
    return dict(protocol.packed(b"".join(runtime.clients.together(*read))))


def _plan(runtime: Runtime, record: Item) -> Plan:
    name = record["run"], record["fence"]
    with _plans_lock:
        made = _plans.get(name)
    if made is None:
        key = plan_key(record["conversation"], *name)
        stored = runtime.clients.s3.get_object(Bucket=runtime.settings.workspace_bucket, Key=key)
        made = Plan.decode(stored["Body"].read())
        with _plans_lock:
            _plans[name] = made
            while len(_plans) > PLANS_KEPT:
                _plans.popitem(last=False)
    return made


def _read(runtime: Runtime, conversation: str, source: Source) -> bytes:
    """A source's bytes: through the cache where they are whole, as a range otherwise. The sandbox checks hashes."""
    if source.place == "conversation":
        digest = source.key.rpartition("/")[2]
        entry = Entry("", "file", digest, source.key, source.offset, source.length, source.length)
        if source.key == pack_key(digest):
            return runtime.workspaces.read_whole_pack(conversation, entry)
        if source.offset == 0 and source.length < PART_BYTES:
            return runtime.workspaces.read(conversation, entry)[: source.length]
        bucket, key = runtime.settings.workspace_bucket, f"conversations/{conversation}/{source.key}"
    else:
        artifacts = source.place == "artifacts"
        bucket = runtime.settings.artifact_bucket if artifacts else runtime.settings.workspace_bucket
        key = source.key
    last = source.offset + source.length - 1
    stored = runtime.clients.s3.get_object(Bucket=bucket, Key=key, Range=f"bytes={source.offset}-{last}")
    data: bytes = stored["Body"].read()
    return data


# ---------------------------------------------------------------- beats


def heartbeat(runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
    """Keep the run, its token and its lease alive, show its output, and say whether to go on."""
    run = protocol.word(body, "run")
    output = _output_item(runtime, body)
    try:
        record = runtime.table.update(
            run_key(run),
            Update().set("lastBeat", runtime.clock.now()).add("beats", 1),
            all_of(status_in(["running"]), _of_session(body)),
        )
    except ConditionFailed:
        _record(runtime, body)
        return STOP
    works: list[Callable[[], Any]] = [lambda: _show_while_at_work(runtime, output | {"fence": record["fence"]})]
    token = record.get("runToken")
    works.append((lambda: verdict.beat(runtime, token)) if token else (lambda: True))
    if record["beats"] % BEATS_PER_LOOK == 0:
        works.append(lambda: _why_to_stop(runtime, record))
    _stored, waited_for, *reasons = runtime.clients.together(*works)
    for reason in reasons:
        if reason:
            verdict.stop_run(runtime, run, reason)
            return STOP
    return CONTINUE if waited_for else STOP


def _why_to_stop(runtime: Runtime, record: Item) -> str | None:
    """Extend the lease and look at the turn; None to go on."""
    try:
        lease.extend(runtime, record["conversation"], record["fence"])
    except Fenced:
        return "its workspace was taken by another writer or deleted"
    turn = ids.TurnId.parse(record["turn"])
    item = runtime.table.get(turn_key(turn)) if turn else None
    if item is None or item["state"] in ENDED_TURNS:
        return f"its turn was {item['state'] if item else 'removed'}"
    return None


def _show_while_at_work(runtime: Runtime, output: Item) -> None:
    """A beat that arrives after the report, or after another attempt has begun, tells nothing new."""
    latest = Condition(
        "attribute_not_exists(fence) OR fence < :fence OR (fence = :fence AND attribute_not_exists(reported))",
        {},
        {":fence": output["fence"]},
    )
    with suppress(ConditionFailed):
        runtime.table.put(output, latest)


def _output_item(runtime: Runtime, body: dict[str, Any]) -> Item:
    stdout, stderr = protocol.tail(body, "stdout"), protocol.tail(body, "stderr")
    seen = protocol.whole(body, "outputBytes", 2**53)
    pk, sk = run_output_key(protocol.word(body, "run"))
    return {
        "PK": pk,
        "SK": sk,
        "stdout": stdout,
        "stderr": stderr,
        "truncated": seen > len(stdout.encode()) + len(stderr.encode()),
        "ttl": int(runtime.clock.now()) + RECORD_SECONDS,
    }


# ---------------------------------------------------------------- outputs


def take_output(runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
    """Store one part of what the run leaves; nothing of it is visible before the commit."""
    stream = protocol.choice(body, "stream", protocol.STREAMS_OUT)
    allowed = protocol.pack_parts_allowed(runtime.settings.workspace_bytes)
    part = protocol.whole(body, "part", (allowed if stream == "packs" else protocol.CHANGE_PARTS) - 1)
    record = _running(runtime, body)
    raw, digest = protocol.unpack(body)
    if not raw:
        raise InvalidRequest("A part is never empty.")
    if stream == "changes":
        runtime.clients.s3.put_object(
            Bucket=runtime.settings.workspace_bucket,
            Key=changes_key(record["conversation"], record["run"], part),
            Body=raw,
        )
        return {}
    pk, sk = pack_item_key(record["run"], part)
    ttl = int(runtime.clock.now()) + RECORD_SECONDS
    item = {"PK": pk, "SK": sk, "part": part, "sha256": digest, "bytes": len(raw), "ttl": ttl}
    try:
        # First the item: a part is stored once, so that sending it again and again cannot fill the bucket.
        runtime.table.put(item, Condition("attribute_not_exists(PK) OR sha256 = :same", {}, {":same": digest}))
    except ConditionFailed as error:
        raise Conflict(f"Part {part} was sent before with other bytes.") from error
    runtime.workspaces.put(record["conversation"], pack_key(digest), raw)
    return {}


def changes_key(conversation: str, run: str, part: int) -> str:
    """Where a part of the changes stream lies."""
    return f"{staging_prefix(conversation, run)}changes-{part}"


def take_report(runtime: Runtime, body: dict[str, Any]) -> dict[str, Any]:
    """The run's one report. The same one again repeats the news to the workflow; another one is refused."""
    record = _record(runtime, body)
    report = protocol.report(body, runtime.settings.workspace_bytes)
    digest = protocol.report_digest(report)
    if record["status"] == "running":
        output = _output_item(runtime, {**report, "run": record["run"]}) | {"fence": record["fence"], "reported": True}
        runtime.clients.together(lambda: runtime.table.put(output), lambda: _extend(runtime, record))
        won = verdict.settle(runtime, record["run"], "report", {"report": report, "digest": digest}, _of_session(body))
        record = won or _record(runtime, body)
    told = record.get("verdict") or {}
    if told.get("kind") != "report" or told.get("digest") != digest:
        raise _over()
    if record["status"] == "reported":
        verdict.act_on(runtime, record)
    return {}


def _extend(runtime: Runtime, record: Item) -> None:
    """The commit gets a whole lease; a lost one is the commit's to find."""
    try:
        lease.extend(runtime, record["conversation"], record["fence"])
    except Fenced:
        return


OPERATIONS: dict[str, Operation] = {
    "claim": claim,
    "input": send_input,
    "heartbeat": heartbeat,
    "output": take_output,
    "report": take_report,
}
