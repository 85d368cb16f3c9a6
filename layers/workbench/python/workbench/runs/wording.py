"""The answer of a run in words and facts: how the program ended, what it printed, what became of its files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from workbench.errors import ToolError
from workbench.runs.effects import Effects
from workbench.runs.phrases import PATHS_NAMED, paths_named, signal_named, streams
from workbench.runs.refused import refused
from workbench.tools.answer import Answer, TextPart
from workbench.workspace.paths import printable
from workbench.workspace.text.visible import counted

PATHS_LISTED = 2_000


def finished(record: Mapping[str, Any], report: Mapping[str, Any], effects: Effects) -> Answer:
    """The answer of a run that reported, whatever became of the program and of its files."""
    error = program_error(record, report) or effects.void
    lines = [how_it_ended(record, report)]
    if error is not None and error is not effects.void:
        lines.append(error.message)
    lines += _files(effects)
    lines += _mounted(record)
    lines += _output(record, report, effects)
    structured = {
        "run": record["run"],
        "exitCode": report["exitCode"],
        "signal": report["signal"],
        "seconds": report["seconds"],
        "created": effects.created[:PATHS_LISTED],
        "modified": effects.modified[:PATHS_LISTED],
        "deleted": effects.deleted[:PATHS_LISTED],
        "counts": {
            "created": len(effects.created),
            "modified": len(effects.modified),
            "deleted": len(effects.deleted),
            "leftOut": effects.left_out_count,
        },
        "leftOut": [{"name": name, "reason": reason} for name, reason in effects.left_out],
        "version": effects.version,
        "changesKept": effects.void is None,
        "stdout": report["stdout"],
        "stderr": report["stderr"],
        "truncated": report["truncated"],
        "spill": report["spill"] if report["spill"] in effects.created else None,
        "mounted": mounted_paths(record),
    }
    outcome = "timeout" if error is not None and error.code == "SANDBOX_TIMEOUT" else None
    run = {"run": record["run"], "exitCode": report["exitCode"], "seconds": report["seconds"]}
    noted = {"runs": [run], "files": effects.files, "deleted": effects.deleted[:PATHS_LISTED]}
    return Answer([TextPart("\n".join(lines))], structured, error, outcome, effects=noted)


def aborted(record: Mapping[str, Any], error: ToolError) -> Answer:
    """The answer of a run that ended without a commit."""
    structured = {
        "run": record["run"],
        "exitCode": None,
        "seconds": None,
        "created": [],
        "modified": [],
        "deleted": [],
        "leftOut": [],
        # Not known of a run that no sandbox has claimed.
        "version": record.get("base"),
        "changesKept": False,
    }
    outcome = "timeout" if error.code == "SANDBOX_TIMEOUT" else None
    run = {"run": record["run"], "exitCode": None, "seconds": None}
    return Answer([TextPart(error.message)], structured, error, outcome, effects={"runs": [run]})


def at_work(run: str, status: str, output: Mapping[str, Any] | None) -> Answer:
    """The answer while the run goes on: its id, and what it printed so far."""
    lines = [
        f"The run is still at work (status: {status}). Send the same call again to wait for it further, "
        f"or ask for the run `{run}`."
    ]
    if output:
        lines += streams(output["stdout"], output["stderr"], "so far")
    return Answer([TextPart("\n".join(lines))], {"run": run, "status": status}, outcome="running")


# ---------------------------------------------------------------- how it ended


def how_it_ended(record: Mapping[str, Any], report: Mapping[str, Any]) -> str:
    """One sentence from the supervisor's own observation, never from what the program printed."""
    seconds = f"{report['seconds']:.2f} s"
    if report["outcome"] == "timeout":
        return f"The program was ended at its time limit of {record['job']['timeoutSeconds']} s."
    if report["outcome"] == "failed":
        return "The sandbox could not run the program."
    if report["signal"]:
        return f"The program was ended by {signal_named(report['signal'])} after {seconds}."
    if report["exitCode"] is None:
        return f"The program ended without an exit status after {seconds}."
    return f"The program ended with exit status {report['exitCode']} after {seconds}."


def program_error(record: Mapping[str, Any], report: Mapping[str, Any]) -> ToolError | None:
    """What the program's end means for the caller; None for exit status 0."""
    # There is one reason; where the tree could not be taken it says why not, and stands there.
    told = report["reason"] and (report["tree"] == "ok" or report["outcome"] == "failed")
    reason = f" ({printable(report['reason'])})" if told else ""
    outcome, details = report["outcome"], {"exitCode": report["exitCode"], "signal": report["signal"]}
    if outcome == "timeout":
        limit = record["job"]["timeoutSeconds"]
        return ToolError(
            f"It did not end within {counted(limit, 'second')} and was killed. Make it do less at a time, or ask for a "
            "longer `timeoutSeconds` (up to 900).",
            code="SANDBOX_TIMEOUT",
            timeoutSeconds=limit,
        )
    if outcome == "memory":
        return ToolError(
            f"It used more memory than a run may{reason} and was killed. Work on the data in chunks.",
            code="SANDBOX_MEMORY",
            **details,
        )
    if outcome == "disk":
        return ToolError(
            f"It wrote more than a run may{reason} and was killed. Write less, or remove what is no longer needed.",
            code="SANDBOX_DISK",
            **details,
        )
    if outcome == "output":
        return ToolError(
            "It printed more than 4 MiB and was killed. Write the data to a file below workspace/ and print a summary.",
            code="SANDBOX_OUTPUT_TOO_LARGE",
            **details,
        )
    if outcome == "stopped":
        return ToolError(f"It was stopped{reason}.", code="SANDBOX_ERROR", **details)
    if outcome == "failed":
        return ToolError(f"The sandbox failed{reason}. Try again.", code="SANDBOX_UNAVAILABLE", **details)
    if report["exitCode"] == 0 and not report["signal"]:
        return None
    if found := refused(report):
        return ToolError(
            f"It {found.fact} {found.advice} Files that it wrote are kept as said.",
            code=found.code,
            refused=found.kind,
            **details,
        )
    return ToolError(
        "The program failed. Read its output below, mend the code and run it again; files it wrote are kept as said.",
        code="SANDBOX_ERROR",
        **details,
    )


# ---------------------------------------------------------------- parts of the text


def _files(effects: Effects) -> list[str]:
    if effects.void is not None:
        lines = [f"No file changes were kept: {effects.void.message}"]
    else:
        named = (("created", effects.created), ("modified", effects.modified), ("deleted", effects.deleted))
        lines = [f"Files {what}: {paths_named(paths)}" for what, paths in named if paths] or ["No files changed."]
        if effects.commit is not None:
            lines.append(f"The workspace is now at version {effects.version}.")
    if effects.left_out:
        lines.append(f"Left out, not kept ({effects.left_out_count}):")
        lines += [f"- {name}: {reason}" for name, reason in effects.left_out[:PATHS_NAMED]]
    return lines


def mounted_paths(record: Mapping[str, Any]) -> list[str]:
    """The inputs as the code saw them."""
    return [f"{stored['root']}/{stored['path']}" for stored in record["inputs"]]


def _mounted(record: Mapping[str, Any]) -> list[str]:
    paths = mounted_paths(record)
    return [f"Inputs mounted: {paths_named(paths)}"] if paths else []


def _output(record: Mapping[str, Any], report: Mapping[str, Any], effects: Effects) -> list[str]:
    lines = streams(report["stdout"], report["stderr"], "the end of it" if report["truncated"] else "")
    if report["truncated"]:
        spill = report["spill"]
        if spill and spill in effects.created:
            readers = record.get("readers")
            way = f"read it with {' or '.join(readers)}" if readers else f"the next run finds it as workspace/{spill}"
            lines.append(f"The whole output ({report['outputBytes']:,} bytes) is in `{spill}`: {way}.")
        else:
            lines.append(f"The output had {report['outputBytes']:,} bytes; the rest of it was not kept.")
    return lines
