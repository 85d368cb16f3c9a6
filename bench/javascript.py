"""What evaluating JavaScript in a process of its own costs, from the code to the outcome.

The child waits already, as it does in the function between two calls; making the next one is part of every call.
"""

from __future__ import annotations

import subprocess

from bench.measure import Row, in_turns
from local.payload import payload_environment
from workbench.javascript.evaluator import Evaluator

PROGRAM = "console.log([3, 1, 2].sort().join()); 6 * 7"


def against_node() -> Row:
    """A few lines, against starting Node.js for them, which isolates nothing."""
    evaluator, node = Evaluator(), str(payload_environment().node)

    def ours() -> None:
        assert evaluator.evaluate(PROGRAM).text == "42"

    def theirs() -> None:
        assert subprocess.run([node, "-e", PROGRAM], capture_output=True, check=True).stdout == b"1,2,3\n"

    try:
        mine, peer = in_turns(ours, theirs)
    finally:
        evaluator.close()
    return Row(mine, "node -e", peer, "faster", most=1.0)
