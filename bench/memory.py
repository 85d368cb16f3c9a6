"""The supervisor's memory while a program prints without end: bounded by the output's cap, not by the program."""

from __future__ import annotations

from bench.measure import Figures, Row
from bench.sandbox import Sandboxes
from workbench.runs.claiming import OUTPUT_BYTES

RUNS = 5
ENDLESS = "while True:\n    print('x' * 100_000)"
# Above the output itself: what is in the pipes, and its last characters as text for the report.
SLACK_MEBIBYTES = 8


def endless_output() -> Row:
    """Peak resident memory of the supervisor, against its peak around ``pass``; the output's cap may come on top."""
    ours, theirs = [], []
    with Sandboxes() as sandboxes:
        for _ in range(RUNS):
            _, peak, report = sandboxes.run(ENDLESS, outputBytes=OUTPUT_BYTES)
            if report["outcome"] != "output":
                raise AssertionError(report)
            ours.append(peak)
            theirs.append(sandboxes.run("pass", outputBytes=OUTPUT_BYTES)[1])
    more = OUTPUT_BYTES / 1024**2 + SLACK_MEBIBYTES
    return Row(
        Figures(tuple(ours), "MiB"),
        "its own for `pass`",
        Figures(tuple(theirs), "MiB"),
        f"{more:.0f} MiB more",
        more=more,
    )
