"""After a crash anywhere and the next reconciling, the buckets hold what the items name, all of it and nothing else."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from local.system import LocalSystem
from tests.local import changed
from tests.local.conftest import Api
from tests.local.reconciled import (
    DAY_SECONDS,
    ShiftedClock,
    assert_exact,
    reconcile,
    wait_for_deletions,
)
from tests.local.runs.sandbox import Killed, killed_after
from tests.local.talk import Talk
from workbench.conversations import api as conversation_api
from workbench.conversations import deletion, erasure, finishing, lifecycle
from workbench.http import Request
from workbench.ids import TurnId
from workbench.keys import head_key
from workbench.runs.items import admission_key, at_work_key
from workbench.tools.path import call_tool
from workbench.workspace import api as files_api
from workbench.workspace.storage import history

STEPS = ("fence", "stop_runs", "remove_workspace", "remove_records", "retire_artifacts", "settle")


def days_later(world: LocalSystem, clock: ShiftedClock) -> dict[str, dict[str, int]]:
    """Two days pass, then reconciling until nothing is left to do; what was found in the first round, by kind."""
    clock.ahead += 2 * DAY_SECONDS
    first = reconcile(world)
    for _ in range(4):
        wait_for_deletions(world)
        state = reconcile(world)
        if not state["counts"]:
            return dict(first["counts"])
        clock.ahead += DAY_SECONDS
    raise AssertionError(f"something is found again and again: {state['listed']}")


# ---------------------------------------------------------------- operations that are killed


class Scene:
    """A conversation with files, an exported file and a stored picture, in which one operation is killed."""

    def __init__(self, world: LocalSystem, api: Api, operation: str = "write") -> None:
        self.world, self.runtime, self.operation = world, world.runtime, operation
        self.user = f"p-{secrets.token_hex(4)}"
        who = {"user": self.user, "department": "d"}
        made = api("POST", "/v1/conversations", {"owner": self.user, "department": "d"}).json["conversation"]["id"]
        self.talk = Talk.open(api, made, create=False, caller=who)
        self.talk.ok("write_file", path="a.txt", content="kept\n")
        self.artifact = self.talk.ok("export_artifact", path="a.txt")["structured"]["artifact"]

    def tool(self, name: str, /, **arguments: Any) -> None:
        body = json.dumps({"callId": "killed", "arguments": arguments, "wait": 0}).encode()
        headers = {"x-turn-token": self.talk.token}
        call_tool(self.runtime, name, Request("POST", "", "", {"turn": self.talk.turn}, {}, headers, body))

    def request(self, target: Callable[..., Any], body: bytes = b"", **query: str) -> None:
        parameters = {"conversation": self.talk.conversation, "n": "1"}
        target(self.runtime, Request("", "", "", parameters, query, {}, body))

    def step(self, name: str) -> None:
        head = self.runtime.table.get(head_key(self.talk.conversation))
        assert head is not None
        event = {"conversation": self.talk.conversation, "person": "", "deletion": head.get("deletion", "")}
        lifecycle.do_step(self.runtime, {**event, "step": name})

    # ------------------------------------------------------------ what is killed

    def write(self) -> None:
        self.tool("write_file", files=[{"path": f"{n}.txt", "content": f"never named {n}\n"} for n in range(3)])

    def write_many(self) -> None:
        changed.store_many(self.world, self.talk.conversation, {f"m/{n}": b"%d" % n for n in range(250)})

    def put(self) -> None:
        self.request(files_api.put_file, b"raw bytes", path="raw.bin")

    def restore_version(self) -> None:
        self.request(files_api.restore_version)

    def large_answer(self) -> None:
        with changed.settings(self.world, read_budget_characters=2_000_000, output_cap_characters=2_000_000):
            self.tool("read_file", paths=["noise.txt"])

    def export(self) -> None:
        self.tool("export_artifact", content="never committed", name="lost.txt")

    def add_version(self) -> None:
        self.tool("export_artifact", content="second", artifact=self.artifact)

    def finish(self) -> None:
        finishing.finish(self.runtime, TurnId.parse(self.talk.turn), "completed", "done")

    def thin(self) -> None:
        with changed.settings(self.world, history_versions=1):
            history.thin(self.runtime, self.talk.conversation)

    def run(self) -> None:
        self.tool("run_code", code="print(1)")

    def delete(self) -> None:
        self.request(conversation_api.delete)

    def delete_by_hand(self) -> None:
        deletion._entomb(self.runtime, self.talk.conversation)
        for name in STEPS:
            self.step(name)

    def restore(self) -> None:
        self.request(conversation_api.restore)

    def erase(self) -> None:
        erasure.begin(self.runtime, self.user)

    # ------------------------------------------------------------ around it

    def prepare(self) -> None:
        """What the operation needs to be there."""
        if self.operation == "large_answer":
            self.talk.put("noise.txt", secrets.token_hex(450_000).encode())
        elif self.operation == "thin":
            for number in range(2):
                self.talk.put("b.txt", b"%d" % number)
        elif self.operation == "restore":
            deletion._entomb(self.runtime, self.talk.conversation)

    def killed_after(self, requests: int) -> bool:
        """Do the operation; True when it was killed before it was over."""
        with suppress(Killed), killed_after(self.runtime.clients, requests):
            getattr(self, self.operation)()
            return False
        return True


# Each is killed after 0, s, 2s, … requests. Deletion and restore have tests of their own, which meet more of them.
STRIDES = {
    "write": 1,
    "write_many": 1,
    "put": 1,
    "restore_version": 1,
    "large_answer": 1,
    "export": 1,
    "add_version": 1,
    "finish": 1,
    "thin": 1,
    "run": 1,
    "delete": 1,
    "delete_by_hand": 5,
    "restore": 7,
    "erase": 1,
}


def test_whatever_a_crash_left_is_removed_and_nothing_else(world: LocalSystem, api: Api, clock: ShiftedClock) -> None:
    scenes = []
    for operation, stride in STRIDES.items():
        requests, killed = 0, True
        while killed:
            scene = Scene(world, api, operation)
            scene.prepare()
            killed = scene.killed_after(requests)
            scenes.append(scene)
            requests += stride
        assert requests > 2 * stride, operation
    seen = days_later(world, clock)
    # The crashes left something of every kind; what no operation here can leave is found below.
    left = {"workspace_objects", "results", "artifacts", "stalled_deletions", "stalled_erasures", "lost_runs"}
    assert left <= set(seen)
    assert all(numbers["failed"] == 0 for numbers in seen.values()), seen
    assert "damaged_conversations" not in seen
    assert_exact(world)
    assert not (world.runtime.table.get(admission_key()) or {}).get("runs")
    for scene in scenes:
        assert_usable(world, api, scene)


def assert_usable(world: LocalSystem, api: Api, scene: Scene) -> None:
    """Deleted and swept, or gone, or it still reads and takes the next write and the next run."""
    conversation = scene.talk.conversation
    head = world.runtime.table.get(head_key(conversation))
    if head is None or head["status"] != "active":
        assert scene.operation in ("delete", "delete_by_hand", "restore", "erase")
        assert head is None or head["swept"] == head["deletion"]
        return
    assert head["leaseUntil"] <= world.runtime.clock.now()
    assert world.runtime.table.get(at_work_key(conversation)) is None
    talk = Talk.open(api, conversation, create=False)
    assert talk.bytes_of("a.txt") == (b"kept\n" if scene.operation != "restore" else None)
    talk.put("next.txt", b"next")
    assert talk.bytes_of("next.txt") == b"next"
    assert api("GET", f"/v1/artifacts/{scene.artifact}/versions/1/content").body == b"kept\n"
