"""One job as the route hands it out, checked before anything is done with it."""

from collections.abc import Mapping
from typing import Any, NamedTuple

LANGUAGES = ("python", "javascript", "shell")
# Where the program starts: beside the workspace, inputs and skills, or in the workspace.
DIRECTORIES = ("", "workspace")
LONGEST_SECONDS = 900


class Limits(NamedTuple):
    """Bytes, counts and characters; see ``docs/architecture.md``, "The sandbox's protocol"."""

    memory_bytes: int
    disk_bytes: int
    processes: int
    file_bytes: int
    open_files: int
    output_bytes: int
    output_characters: int
    workspace_files: int
    workspace_bytes: int


class Job(NamedTuple):
    run: str
    session: str
    language: str
    timeout_seconds: float
    environment: dict[str, str]
    heartbeat_seconds: float
    plan_parts: int
    data_parts: int
    limits: Limits
    directory: str
    reach: dict[str, Any]


def parse(answer: Mapping[str, Any]) -> Job:
    """The job in a claim's answer. ValueError says what does not fit."""
    job = answer["job"]
    limits = job["limits"]
    language = job["language"]
    if language not in LANGUAGES:
        raise ValueError(f"no language {language!r}")
    directory = job.get("directory", "")
    if directory not in DIRECTORIES:
        raise ValueError(f"no directory {directory!r}")
    environment = {str(name): str(value) for name, value in job.get("environment", {}).items()}
    for name, value in environment.items():
        if not name or "=" in name or "\0" in name + value:
            raise ValueError(f"no environment variable: {name!r}")
    return Job(
        run=str(answer["run"]),
        session=str(answer["session"]),
        language=language,
        timeout_seconds=min(_positive(job["timeoutSeconds"]), LONGEST_SECONDS),
        environment=environment,
        heartbeat_seconds=_positive(job["heartbeatSeconds"]),
        plan_parts=int(_positive(job["planParts"])),
        data_parts=int(job["dataParts"]),
        limits=Limits(*(int(_positive(limits[_camel(name)])) for name in Limits._fields)),
        directory=directory,
        # Only a self-check of the deployment asks for this.
        reach=dict(job.get("reach") or {}),
    )


def _positive(value: Any) -> float:
    number = float(value)
    if not 0 < number < 2**53:
        raise ValueError(f"no positive number: {value!r}")
    return number


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.title, rest))
