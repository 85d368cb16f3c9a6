"""execute: one shell command in a sandbox, on a copy of the directory; what it changed is taken over afterwards.

The launcher, the supervisor and the protocol are those of the local system. Where no boundary can be had, nothing runs.
"""

from __future__ import annotations

import hashlib
import os
import shlex
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from local import launcher
from local.library.applying import writing
from local.library.directory import Directory, is_staging
from local.library.route import JobRoute
from local.library.snapshot import Snapshot, Streams, take
from local.library.taking import Taken, Taking, within_limits
from local.library.wording import answer_of, error_of
from sandbox_container.job import Limits
from workbench.errors import ToolError
from workbench.runs import changes
from workbench.runs.changes import EMPTY_SHA256, Proposal, Untrusted, Wanted
from workbench.settings import Settings
from workbench.tools.answer import Answer

# The kernel takes no longer argument than 128 KiB.
COMMAND_BYTES = 100_000
OPEN_FILES = 1024
# Starting the sandbox, reading the tree back and reporting, on a slow machine.
AROUND_SECONDS = 240.0
_HEARTBEAT_SECONDS = 5


@dataclass(frozen=True)
class Options:
    """How commands run. Seconds, bytes and characters."""

    timeout_seconds: float
    output_bytes: int
    output_characters: int
    environment: Mapping[str, str] = field(default_factory=dict)
    settings: Settings = field(default_factory=lambda: Settings.from_environment({}))
    unsafe: bool = False

    def limits(self) -> dict[str, int]:
        """As the protocol names them."""
        settings = self.settings
        return {
            "memoryBytes": settings.run_memory_bytes,
            "diskBytes": settings.run_disk_bytes,
            "processes": settings.run_processes,
            "fileBytes": settings.workspace_bytes,
            "openFiles": OPEN_FILES,
            "outputBytes": self.output_bytes,
            "outputCharacters": self.output_characters,
            "workspaceFiles": settings.workspace_files,
            "workspaceBytes": settings.workspace_bytes,
        }


def execute(directory: Directory, command: str, options: Options) -> Answer:
    """Run ``sh -c command`` in a copy of the directory and take over what it changed.

    A program that failed is an answer with an error; what ended it from outside raises: ``SANDBOX_TIMEOUT``,
    ``SANDBOX_OUTPUT_TOO_LARGE``, ``SANDBOX_MEMORY``, ``SANDBOX_DISK``, ``SANDBOX_UNAVAILABLE``, ``SANDBOX_ERROR``.
    """
    program = _program(command)
    limits = options.limits()
    with writing(directory) as top:
        snapshot = take(top, Limits(*limits.values()))
    try:
        streams = Streams.of(snapshot, program)
        route = JobRoute(_job(options, limits, streams), streams, options.settings.workspace_bytes)
        try:
            report = _run(route, options)
            taken = _take_over(directory, snapshot, route, report, options.settings)
        finally:
            route.close()
    finally:
        snapshot.data.close()
    answer = answer_of(report, route.tails, taken, [*snapshot.left_out], options)
    error = error_of(report, taken, options)
    if error is None:
        return answer
    if report["outcome"] != "finished":
        error.details |= answer.structured
        error.message = f"{error.message}\n{answer.text}"
        raise error
    answer.error = error
    return answer


def prepare(options: Options) -> None:
    """Build the programs' environment and find the boundary. Raises ToolError ``SANDBOX_UNAVAILABLE``."""
    with _unavailable_in_words():
        launcher.prepare(unsafe=options.unsafe)


@contextmanager
def _unavailable_in_words() -> Iterator[None]:
    try:
        yield
    except launcher.SandboxUnavailable as error:
        raise ToolError(
            f"{error} Nothing was run. (A developer may pass unsafe=True to run commands without a boundary.)",
            code="SANDBOX_UNAVAILABLE",
        ) from error


def _program(command: str) -> bytes:
    if not isinstance(command, str) or not command.strip():
        raise ToolError("`command` is empty. Give a shell command, for example `ls -l`.", code="invalid_args")
    if "\0" in command:
        raise ToolError("`command` holds a NUL character, which no command can. Nothing was run.", code="invalid_args")
    try:
        program = f"exec /bin/sh -c {shlex.quote(command)}\n".encode()
    except UnicodeEncodeError:
        raise ToolError(
            "`command` holds half of a surrogate pair, which is no character. Nothing was run.", code="invalid_args"
        ) from None
    if len(program) > COMMAND_BYTES:
        raise ToolError(
            f"`command` has {len(program):,} bytes; at most {COMMAND_BYTES:,} are passed on. Nothing was run. Write "
            "the program to a file with write_file and execute that.",
            code="too_large",
        )
    return program


def _job(options: Options, limits: Mapping[str, int], streams: Streams) -> dict[str, Any]:
    return {
        "language": "shell",
        "timeoutSeconds": options.timeout_seconds,
        "environment": dict(options.environment),
        "directory": "workspace",
        "heartbeatSeconds": _HEARTBEAT_SECONDS,
        "planParts": streams.plan_parts,
        "dataParts": streams.data_parts,
        "limits": dict(limits),
    }


def _run(route: JobRoute, options: Options) -> dict[str, Any]:
    """The sandbox's report. Raises ToolError ``SANDBOX_UNAVAILABLE``."""
    with route.listening() as url:
        with _unavailable_in_words():
            process = launcher.start_sandbox(route.sandbox, route.secret, url, unsafe=options.unsafe)
        too_late = threading.Timer(options.timeout_seconds + AROUND_SECONDS, process.stop)
        too_late.daemon = True
        too_late.start()
        try:
            status = process.wait()
        except BaseException:
            process.stop()
            process.wait()
            raise
        finally:
            too_late.cancel()
    if route.report is None:
        raise ToolError(
            f"The sandbox ended without a report (status {status}); the directory is as it was. Try again; the log "
            "`workbench.local` says what went wrong.",
            code="SANDBOX_UNAVAILABLE",
        )
    return route.report


def _take_over(
    directory: Directory, snapshot: Snapshot, route: JobRoute, report: Mapping[str, Any], settings: Settings
) -> Taken:
    if report["tree"] != "ok":
        reason = report["reason"] or "the tree could not be read"
        if report["tree"] == "too_large":
            reason += f"; a directory holds at most {settings.workspace_files:,} files"
            reason += f" and {settings.workspace_bytes:,} bytes"
            return Taken(void=ToolError(f"No change was kept: {reason}. Leave less.", code="limit_exceeded"))
        return Taken(void=ToolError(f"No change was kept: {reason}.", code="SANDBOX_ERROR"))
    try:
        files = sum(entry.kind == "file" for entry in snapshot.entries.values())
        most = changes.lines_allowed(files, settings.workspace_files) + len(snapshot.entries)
        proposal = changes.read(route.changes(report["changeParts"]), most, route.pack_sizes)
        for path in [path for path in proposal.wanted if is_staging(path)]:
            # A journal of a command's own making would be carried out by the next writer.
            del proposal.wanted[path]
            proposal.leave_out(path, "a name that the library keeps for itself")
        return _apply(directory, snapshot, route, proposal, settings)
    except Untrusted as fault:
        return Taken(void=ToolError(f"No change was kept: the sandbox's account {fault}.", code="SANDBOX_ERROR"))


def _apply(directory: Directory, snapshot: Snapshot, route: JobRoute, proposal: Proposal, settings: Settings) -> Taken:
    after = within_limits(snapshot.entries, proposal, settings)
    if isinstance(after, ToolError):
        return Taken(void=after)
    if not proposal.wanted:
        return Taken(left_out=proposal.left_out, left_out_count=proposal.left_out_count)

    def contents(wanted: Wanted) -> Iterable[bytes]:
        return _contents(snapshot, route, wanted)

    with writing(directory) as top:
        try:
            return Taking(top, snapshot.entries, proposal, after, contents, settings.workspace_bytes).carry_out()
        except OSError as error:
            reason = f"{os.strerror(error.errno)}: {error.filename}" if error.errno else str(error)
            return Taken(void=ToolError(f"No change was kept: {reason}.", code="SANDBOX_ERROR"))


def _contents(snapshot: Snapshot, route: JobRoute, wanted: Wanted) -> Iterable[bytes]:
    """The bytes of a file as the command left it, proved by their hash. Raises Untrusted."""
    if wanted.sha256 == EMPTY_SHA256:
        return
    if not wanted.pieces:
        try:
            yield from snapshot.contents(wanted.sha256, wanted.bytes)
        except KeyError:
            raise Untrusted(f"gives {wanted.path} a content that was never sent") from None
        return
    digest = hashlib.sha256()
    for piece in wanted.pieces:
        data = route.piece(piece)
        digest.update(data)
        yield data
    if digest.hexdigest() != wanted.sha256:
        raise Untrusted(f"gives {wanted.path} a hash that its bytes do not have")
