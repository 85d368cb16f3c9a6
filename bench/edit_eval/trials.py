"""One trial after another: a conversation with the task's file, a model's calls through the real tools, the outcome.

``measurements.json`` holds a list ``runs``; a run has ``model``, ``at``, ``kinds`` (for each kind of task: trials,
successes, slips that the tool's rules saved, trials that left the file wrong, failures by class) and every trial.
"""

from __future__ import annotations

import json
import secrets
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from http.client import HTTPConnection
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

from bench.edit_eval import judging
from bench.edit_eval.models import Call, Conversation, Model
from bench.edit_eval.tasks import TASKS, TRIES, Kind, Task

TOOLS = ["read_file", "edit_file"]
WISH = "{ask} The file is {path}; you have just read it. Make the change with one call of edit_file."


@dataclass(frozen=True)
class Trial:
    """One try of one task. ``saved``: the calls had a slip and the file is right all the same; ``wrong``: it changed
    into something that nobody asked for; ``blindly_wrong``: so it would have without the tool's rules."""

    task: str
    kind: Kind
    attempt: int
    success: bool
    slips: list[str]
    failure: str | None
    outcomes: list[str]
    saved: bool
    wrong: bool
    blindly_wrong: bool


class Workbench:
    """The API, as little of it as a trial needs."""

    def __init__(self, url: str) -> None:
        self._host = urlsplit(url).netloc

    def send(self, method: str, path: str, body: Any = None, headers: dict[str, str] | None = None) -> Any:
        connection = HTTPConnection(self._host, timeout=120)
        try:
            data = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
            connection.request(method, path, data, headers or {})
            answer = connection.getresponse()
            raw = answer.read()
        finally:
            connection.close()
        if answer.status >= 400:
            raise RuntimeError(f"{method} {path}: HTTP {answer.status} {raw[:300]!r}")
        return json.loads(raw) if "json" in (answer.getheader("content-type") or "") else raw

    def put(self, conversation: str, path: str, data: bytes) -> None:
        self.send("PUT", f"/v1/conversations/{conversation}/file?path={quote(path)}", data)

    def get(self, conversation: str, path: str) -> bytes:
        found: bytes = self.send("GET", f"/v1/conversations/{conversation}/file?path={quote(path)}")
        return found

    def open_turn(self, conversation: str) -> dict[str, Any]:
        self.send("POST", "/v1/conversations", {"owner": "eval", "department": "eval", "id": conversation})
        body = {"caller": {"user": "eval", "department": "eval"}, "tools": TOOLS}
        opened: dict[str, Any] = self.send("POST", f"/v1/conversations/{conversation}/turns", body)
        return opened

    def call(self, opened: dict[str, Any], identifier: str, call: Call) -> dict[str, Any]:
        turn = opened["turn"]["id"]
        body = {"callId": identifier, "arguments": call.arguments}
        path = f"/v1/turns/{turn}/tools/{quote(call.tool, safe='')}"
        answer: dict[str, Any] = self.send("POST", path, body, {"X-Turn-Token": opened["token"]})
        return answer


def run(url: str, model: Model, tasks: Iterable[Task] = TASKS, tries: int = TRIES) -> list[Trial]:
    """Every task, ``tries`` times each, against the system at ``url``; raises EndpointFailed."""
    workbench = Workbench(url)
    return [trial(workbench, model, task, attempt) for task in tasks for attempt in range(tries)]


def trial(workbench: Workbench, model: Model, task: Task, attempt: int) -> Trial:
    """One conversation: the file is read, the model answers once, its calls are made, the bytes are compared."""
    conversation = f"eval-{secrets.token_hex(8)}"
    opened = workbench.open_turn(conversation)
    workbench.put(conversation, task.path, task.before)
    read_arguments = {"path": task.path}
    read = workbench.call(opened, "read_1", Call("read_file", read_arguments))
    catalogue = {
        name: workbench.send("GET", f"/v1/catalogue?format={name}&turn={opened['turn']['id']}")["tools"]
        for name in ("openai", "bedrock")
    }
    calls = model.calls(
        Conversation(
            task=task,
            attempt=attempt,
            instructions=opened["turn"]["instructions"],
            wish=WISH.format(ask=task.ask, path=task.path),
            read_arguments=read_arguments,
            read_result="\n".join(part["text"] for part in read["content"]),
            catalogue=catalogue,
        )
    )
    now = task.pushed_down(getattr(model, "meanwhile", ()))
    if now.before != task.before:
        # Somebody else has written the file since.
        workbench.put(conversation, task.path, now.before)
    answers = [workbench.call(opened, f"call_{number}", call) for number, call in enumerate(calls, 1)]
    return judged(
        task, now, attempt, calls, [_outcome(answer) for answer in answers], workbench.get(conversation, task.path)
    )


def judged(task: Task, now: Task, attempt: int, calls: Sequence[Call], outcomes: list[str], result: bytes) -> Trial:
    """The trial whose calls met the file as ``now`` has it and left ``result``."""
    found, success = judging.slips(now, calls), result == now.after
    return Trial(
        task=task.name,
        kind=task.kind,
        attempt=attempt,
        success=success,
        slips=found,
        failure=None if success else judging.failure(now, calls),
        outcomes=outcomes,
        saved=success and bool(set(found) - {judging.SEVERAL_CALLS}),
        wrong=result not in (now.before, now.after),
        blindly_wrong=judging.blindly(now, calls) not in (now.before, now.after),
    )


def summary(trials: Sequence[Trial]) -> dict[str, dict[str, Any]]:
    """For each kind of task: how many trials, successes, slips saved, files left wrong, and failures by class."""
    kinds: dict[str, dict[str, Any]] = {}
    for kind in dict.fromkeys(trial.kind for trial in trials):
        own = [trial for trial in trials if trial.kind == kind]
        failures = Counter(trial.failure for trial in own if trial.failure)
        kinds[kind] = {
            "trials": len(own),
            "successes": sum(trial.success for trial in own),
            "saved": sum(trial.saved for trial in own),
            "wrong": sum(trial.wrong for trial in own),
            "blindlyWrong": sum(trial.blindly_wrong for trial in own),
            "failures": {name: failures[name] for name in judging.CLASSES if failures[name]},
        }
    return kinds


def record(path: Path, model: str, trials: Sequence[Trial]) -> None:
    """Add the run to the measurements at ``path``, which is made when it is not there."""
    held: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {"runs": []}
    at = datetime.now(UTC).isoformat(timespec="seconds")
    held["runs"].append({"model": model, "at": at, "kinds": summary(trials), "trials": [asdict(one) for one in trials]})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(held, ensure_ascii=False, indent=1) + "\n")


def _outcome(answer: dict[str, Any]) -> str:
    return f"{answer['outcome']}:{answer['error']['code']}" if answer["error"] else str(answer["outcome"])
