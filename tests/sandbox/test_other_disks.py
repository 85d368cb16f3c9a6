"""What a program writes outside its workspace counts too. Only where its disks are its own.

A disk that other processes use as well shows what they remove at the same time, which hides what was added.
"""

from __future__ import annotations

from tests.sandbox.conftest import Sandbox

RUNGS = ("local", "bundle")
MIB = 1024 * 1024


def test_other_disks_count_as_well(sandbox: Sandbox) -> None:
    run = sandbox.run(
        """
import os, time
for number in range(6):
    with open(f"{os.environ['HOME']}/big-{number}", "wb") as file:
        file.write(b"x" * 8 * 2**20)
time.sleep(60)
""",
        diskBytes=24 * MIB,
    )
    assert run.report["outcome"] == "disk"
