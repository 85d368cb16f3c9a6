"""What a command's end is in words and facts: how it ended, what it changed, what it printed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from local.library.taking import Taken
from workbench.errors import ToolError
from workbench.runs.phrases import PATHS_NAMED, paths_named, signal_named, streams
from workbench.runs.refused import refused
from workbench.tools.answer import Answer
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from local.library.commands import Options

NAMES_LISTED = 2_000


def answer_of(
    report: Mapping[str, Any],
    tails: tuple[str, str],
    taken: Taken,
    unseen: Sequence[tuple[str, str]],
    options: Options,
) -> Answer:
    """The answer, whatever became of the program. ``unseen`` is what the command was not given of the directory."""
    stdout, stderr = tails
    # A spill that was given up, or that somebody was in the way of, is no file to point to.
    spill = report["spill"] if report["spill"] in taken.created else None
    lines = [_ending(report, options)]
    if taken.void is not None:
        lines.append(taken.void.message)
    for what, paths in (("created", taken.created), ("modified", taken.modified), ("deleted", taken.deleted)):
        if paths:
            lines.append(f"Files {what}: {paths_named(paths)}")
    lines += _named("Not taken over, because of somebody else's changes", taken.conflicts)
    lines += _named("Left out, not kept", taken.left_out)
    lines += _named("Not given to the command", unseen)
    lines += streams(stdout, stderr, printed_by="command")
    if report["truncated"]:
        lines.append(_cut(report, spill))
    structured = {
        "exitCode": report["exitCode"],
        "signal": report["signal"],
        "seconds": report["seconds"],
        "stdout": stdout,
        "stderr": stderr,
        "outputBytes": report["outputBytes"],
        "truncated": report["truncated"],
        "spill": spill,
        "created": taken.created[:NAMES_LISTED],
        "modified": taken.modified[:NAMES_LISTED],
        "deleted": taken.deleted[:NAMES_LISTED],
        "conflicts": [{"path": path, "reason": reason} for path, reason in taken.conflicts[:NAMES_LISTED]],
        "leftOut": [{"name": name, "reason": reason} for name, reason in [*taken.left_out, *unseen]],
        "changesKept": taken.void is None,
    }
    return Answer.of("\n".join(lines), **structured)


def error_of(report: Mapping[str, Any], taken: Taken, options: Options) -> ToolError | None:
    """What the end means for the caller; None for exit status 0 with every change kept."""
    outcome = report["outcome"]
    reason = f" ({printable(report['reason'])})" if report["reason"] else ""
    if outcome == "timeout":
        return ToolError(
            f"The command did not end within {options.timeout_seconds:g} s and was killed with all that it had "
            "started. Make it do less at a time.",
            code="SANDBOX_TIMEOUT",
        )
    if outcome == "output":
        return ToolError(
            f"The command printed more than {options.output_bytes:,} bytes and was killed. Write the output to a "
            "file and read that in parts with read_file.",
            code="SANDBOX_OUTPUT_TOO_LARGE",
        )
    if outcome == "memory":
        return ToolError(
            f"The command used more memory than it may{reason} and was killed. Work on the data in chunks.",
            code="SANDBOX_MEMORY",
        )
    if outcome == "disk":
        return ToolError(
            f"The command wrote more than it may{reason} and was killed. Write less, or remove what is not needed.",
            code="SANDBOX_DISK",
        )
    if outcome != "finished":
        return ToolError(f"The sandbox could not run the command{reason}. Try again.", code="SANDBOX_UNAVAILABLE")
    if taken.void is not None:
        return taken.void
    if report["exitCode"] == 0 and not report["signal"]:
        return None
    if found := refused(report):
        return ToolError(
            f"The command {found.fact} {found.advice} Changes that it made are kept.",
            code=found.code,
            refused=found.kind,
        )
    return ToolError("The command failed; its output says why. Changes that it made are kept.", code="SANDBOX_ERROR")


def _ending(report: Mapping[str, Any], options: Options) -> str:
    seconds = f"{report['seconds']:.2f} s"
    if report["outcome"] == "timeout":
        return f"Killed at the time limit of {options.timeout_seconds:g} s."
    if report["outcome"] == "failed":
        return "Nothing was run."
    if report["signal"]:
        return f"Ended by {signal_named(report['signal'])} after {seconds}."
    if report["exitCode"] is None:
        return f"Killed after {seconds}."
    return f"Exit status {report['exitCode']} after {seconds}."


def _cut(report: Mapping[str, Any], spill: str | None) -> str:
    if spill is None:
        return f"[truncated: {report['outputBytes']:,} bytes were printed, the end is shown, the rest was not kept]"
    return f"[truncated: {report['outputBytes']:,} bytes were printed, the end is shown → read {spill} with read_file]"


def _named(what: str, named: Iterable[tuple[str, str]]) -> list[str]:
    entries = [f"- {printable(name)}: {reason}" for name, reason in named]
    more = [f"- and {len(entries) - PATHS_NAMED:,} more"] if len(entries) > PATHS_NAMED else []
    return [f"{what}:", *entries[:PATHS_NAMED], *more] if entries else []
