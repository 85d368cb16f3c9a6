"""What the buckets hold against what the items name, for a whole local system: nothing more and nothing less."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from local.system import LocalSystem
from workbench.clock import SystemClock
from workbench.operations import Item, unmarshal_item
from workbench.reconciling import engine
from workbench.workspace.storage.manifest import PageTable, object_keys, page_key

DAY_SECONDS = 86_400


class ShiftedClock(SystemClock):
    """The machine's clock, some time ahead; waiting takes no time."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def sleep(self, seconds: float) -> None:
        time.sleep(min(seconds, 0.002))


@contextmanager
def shifted(system: LocalSystem) -> Iterator[ShiftedClock]:
    """The system on a clock that the test moves."""
    runtime = system.runtime
    before, clock = runtime.clock, ShiftedClock()
    _use(runtime, clock)
    try:
        yield clock
    finally:
        _use(runtime, before)


def _use(runtime: Any, clock: Any) -> None:
    runtime.clock = clock
    # Made with the clock that was.
    runtime.__dict__.pop("table", None)


def reconcile(system: LocalSystem, *, dry: bool = False, slices: float = engine.SLICE_SECONDS) -> dict[str, Any]:
    """All slices, each with what the one before answered, as the state machine hands it on."""
    state: dict[str, Any] = {"dryRun": dry}
    for _ in range(10_000):
        state = json.loads(json.dumps(engine.reconcile(system.runtime, state, slices)))
        if state["done"]:
            return state
    raise AssertionError("reconciling does not end")


def found(state: dict[str, Any], *numbers: str) -> dict[str, int]:
    """How many of each kind were found, or as ``numbers`` say."""
    return {kind: sum(counts[name] for name in numbers or ("found",)) for kind, counts in state["counts"].items()}


def wait_for_deletions(system: LocalSystem) -> None:
    runtime = system.runtime
    machine, until = runtime.settings.delete_state_machine, time.monotonic() + 120
    while runtime.clients.stepfunctions.list_executions(stateMachineArn=machine, statusFilter="RUNNING")["executions"]:
        assert time.monotonic() < until, "a deletion does not end"
        time.sleep(0.02)


def everything(system: LocalSystem) -> list[Item]:
    """Every item of the table."""
    table: list[Item] = []
    request: dict[str, Any] = {"TableName": system.runtime.settings.table}
    while True:
        answer = system.runtime.clients.dynamodb.scan(**request)
        table += [unmarshal_item(raw) for raw in answer["Items"]]
        if "LastEvaluatedKey" not in answer:
            return table
        request["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


def stored_objects(system: LocalSystem) -> dict[str, int]:
    """Keys and sizes of the workspace bucket, what expires by itself apart."""
    pages = system.runtime.clients.s3.get_paginator("list_objects_v2").paginate(
        Bucket=system.runtime.settings.workspace_bucket
    )
    entries = [entry for page in pages for entry in page.get("Contents", [])]
    return {entry["Key"]: entry["Size"] for entry in entries if not entry["Key"].startswith("tmp/")}


def stored_versions(system: LocalSystem) -> list[dict[str, Any]]:
    """Every version with bytes in the artifact bucket."""
    pages = system.runtime.clients.s3.get_paginator("list_object_versions").paginate(
        Bucket=system.runtime.settings.artifact_bucket
    )
    return [entry for page in pages for entry in page.get("Versions", [])]


def named_objects(system: LocalSystem, items: list[Item]) -> set[str]:
    """Keys that kept versions and calls of active conversations name; reading every page on the way."""
    runtime, s3 = system.runtime, system.runtime.clients.s3
    active = {item["PK"] for item in items if item["SK"] == "HEAD" and item["status"] == "active"}
    named: set[str] = set()
    for item in items:
        if item["PK"] not in active:
            continue
        if "answerKey" in item:
            named.add(item["answerKey"])
        if item["SK"].startswith("V#"):
            folder = f"conversations/{item['PK'].removeprefix('C#')}/"
            named |= {item["pathsKey"]} if "pathsKey" in item else set()
            for ref in PageTable.decode(item["pages"]).refs:
                key = folder + page_key(ref.sha256)
                page = s3.get_object(Bucket=runtime.settings.workspace_bucket, Key=key)["Body"].read()
                named |= {key, *(folder + name for name in object_keys(page))}
    return named


def assert_exact(system: LocalSystem) -> None:
    """The buckets hold exactly what the items name, and every name's bytes are there."""
    items = everything(system)
    assert set(stored_objects(system)) == named_objects(system, items)
    files = {
        f"artifacts/{item['PK'].removeprefix('A#')}/{item['version']}": item["bytes"]
        for item in items
        if item["PK"].startswith("A#") and item["SK"] != "META" and "unbilledAt" not in item
    }
    assert {entry["Key"]: entry["Size"] for entry in stored_versions(system)} == files
