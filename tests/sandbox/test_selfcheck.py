"""The self-check's program on every rung: in a container with Fargate's constraints all is as it must be in AWS."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.sandbox.conftest import Sandbox
from tests.sandbox.route_server import MIB
from workbench.selfcheck import facts, program

# No deployment's network is here, and the users are this test's own.
ELSEWHERE = {
    "the program is one ordinary user",
    "it has no other group",
    "Python is the image's",
    "it reaches no address but its own, and no other name",
}
# The bare process runs on the machine's own root and disk.
BARE = {"the root is read-only", "what is written lives in memory, without devices or setuid"}


def test_every_fact_holds(sandbox: Sandbox, request: pytest.FixtureRequest) -> None:
    run = sandbox.run(Path(program.__file__).read_text(), seconds=60, memoryBytes=2048 * MIB)
    assert run.report["exitCode"] == 0, run.report["stderr"]
    # Nobody asked this supervisor to look around.
    verified = {"reach": {}, **run.report["verified"]}
    found = facts.judge(json.loads(run.report["stdout"]), verified, local=True)
    assert facts.failed(found) == []
    bare = "process" in request.node.callspec.id
    assert {fact.fact for fact in found if fact.note} <= ELSEWHERE | (BARE if bare else set())
