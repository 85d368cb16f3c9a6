"""EventBridge's news that a sandbox task stopped. Looked up by sandbox id; what is settled already stays as it is."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench import runtime as runtimes
from workbench.keys import run_key, sandbox_key
from workbench.operations import Condition, Item, Update, all_of
from workbench.runs import pool, verdict
from workbench.runs.items import attempt_is
from workbench.runtime import Runtime
from workbench.table import ConditionFailed
from workbench.workspace.paths import printable

REASON_CHARACTERS = 300


def handler(event: Mapping[str, Any], _context: Any) -> dict[str, Any]:
    """The Lambda behind the rule for stopped tasks."""
    detail = event.get("detail") or {}
    sandbox = detail.get("startedBy")
    if isinstance(sandbox, str) and detail.get("lastStatus") == "STOPPED":
        stopped(runtimes.current(), sandbox, why(detail))
    return {}


def stopped(runtime: Runtime, sandbox: str, reason: str) -> None:
    """A sandbox is gone: its run, unless it reported before, is lost. Duplicates change nothing.

    One of the pool that has claimed nothing yet is crossed off; a run that it was given to gets another.
    """
    item = runtime.table.get(sandbox_key(sandbox))
    if item is not None and "slot" in item:
        item = _cross_off(runtime, item)
    run = item.get("run") if item else None
    if item is None or run is None:
        return
    record = runtime.table.get(run_key(run))
    if record is None or record["status"] not in ("starting", "running"):
        return
    if record["status"] == "starting" and record.get("watchedUntil", 0) > runtime.clock.now():
        return
    # The run may wait for another sandbox by now: the end of this one is then no news.
    ours = Condition("awaited = :sandbox", {}, {":sandbox": sandbox})
    settled = verdict.settle(runtime, run, "lost", {"reason": reason}, all_of(ours, attempt_is(item["attempt"])))
    if settled is not None:
        verdict.act_on(runtime, settled)


def _cross_off(runtime: Runtime, item: Item) -> Item | None:
    key = item["PK"], item["SK"]
    try:
        return runtime.table.update(key, Update().set("state", "gone"), pool.state_is(*pool.WAITING, "assigned"))
    except ConditionFailed:
        return runtime.table.get(key)


def why(detail: Mapping[str, Any]) -> str:
    """ECS's reasons in one line."""
    containers = detail.get("containers") or []
    reasons = [detail.get("stoppedReason"), *(container.get("reason") for container in containers)]
    codes = [container["exitCode"] for container in containers if container.get("exitCode") is not None]
    text = "; ".join(str(reason) for reason in reasons if reason) or "its task stopped"
    if codes:
        text += f" (exit code {codes[0]})"
    return printable(text[:REASON_CHARACTERS])
