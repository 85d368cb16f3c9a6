"""What an admin changes in cdk.json, as one typed model with messages that say what to write instead.

The keys stand under ``context.workbench`` and are described in docs/settings.md. Functions never see this model: they
get ``workbench.settings.Settings`` through their environment.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator
from pydantic.alias_generators import to_camel

from workbench.settings import Settings

MIB = 1024 * 1024
CONTEXT_KEY = "workbench"
BUILD_IMAGE = "build"
MOST_CONVERSATION_BYTES = 1024 * MIB
# Each costs as much as a run that never ends.
MOST_WARM_SANDBOXES = 50
# It travels in the environment of functions, of which Lambda takes 4 KB, the other settings included.
SANDBOX_ENV_CHARACTERS = 1_500
SANDBOX_ENV_RESERVED = frozenset({"PATH", "HOME", "LANG", "LC_ALL", "TZ", "TERM", "NO_COLOR", "LD_PRELOAD"})
# The retention periods that CloudWatch Logs offers: days, and CDK's name for them.
LOG_RETENTION = {
    1: "ONE_DAY", 3: "THREE_DAYS", 5: "FIVE_DAYS", 7: "ONE_WEEK", 14: "TWO_WEEKS", 30: "ONE_MONTH", 60: "TWO_MONTHS",
    90: "THREE_MONTHS", 120: "FOUR_MONTHS", 150: "FIVE_MONTHS", 180: "SIX_MONTHS", 365: "ONE_YEAR",
    400: "THIRTEEN_MONTHS", 545: "EIGHTEEN_MONTHS", 731: "TWO_YEARS", 1096: "THREE_YEARS", 1827: "FIVE_YEARS",
}  # fmt: skip
# Fargate sells memory in steps that depend on the processor share; MiB by CPU units.
FARGATE_MEMORY_MIB: dict[int, range] = {
    1024: range(2048, 8192 + 1, 1024),
    2048: range(4096, 16384 + 1, 1024),
    4096: range(8192, 30720 + 1, 1024),
}
# What the supervisor, its buffers and the container's own processes need beside the program and its disk.
SUPERVISOR_MIB = 512

Rating = Literal["low", "moderate", "high", "dangerous", "never"]


class SettingsError(Exception):
    """cdk.json holds a setting that cannot be deployed; the message names it and says what fits."""


class _Group(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


class Limits(_Group):
    """What one conversation, one call and one run may hold. Sizes in bytes."""

    workspace_bytes: int = Field(default=100 * MIB, ge=MIB, le=MOST_CONVERSATION_BYTES)
    workspace_files: int = Field(default=2_000, ge=1, le=50_000)
    written_file_bytes: int = Field(default=MIB, ge=1024, le=4 * MIB)
    history_bytes: int = Field(default=1024 * MIB, ge=MIB)
    history_versions: int = Field(default=1_000, ge=10, le=100_000)
    run_input_bytes: int = Field(default=64 * MIB, ge=MIB, le=256 * MIB)
    upload_bytes: int = Field(default=64 * MIB, ge=MIB, le=256 * MIB)
    skill_bytes: int = Field(default=5 * MIB, ge=64 * 1024, le=64 * MIB)


class Sandbox(_Group):
    """The Fargate task that runs one program."""

    cpu: Literal[1024, 2048, 4096] = 1024
    memory_mib: int = Field(default=4096, alias="memoryMiB")
    run_memory_mib: int = Field(default=2048, ge=512, alias="runMemoryMiB")
    run_disk_mib: int = Field(default=512, ge=64, alias="runDiskMiB")
    run_processes: int = Field(default=128, ge=16, le=1024)

    @model_validator(mode="after")
    def _fits_fargate(self) -> Sandbox:
        sizes = FARGATE_MEMORY_MIB[self.cpu]
        if self.memory_mib not in sizes:
            raise ValueError(
                f"memoryMiB is {self.memory_mib}; with cpu {self.cpu} Fargate offers {sizes[0]} to {sizes[-1]} "
                f"in steps of {sizes.step}"
            )
        return self


class DeploymentSettings(_Group):
    """Everything that differs between two deployments."""

    name: Annotated[str, Field(pattern=r"^[a-z][a-z0-9-]{1,30}$")] = "workbench"
    limits: Limits = Field(default_factory=Limits)
    sandbox: Sandbox = Field(default_factory=Sandbox)
    sandbox_image: str = BUILD_IMAGE
    sandbox_env: dict[str, str] = Field(default_factory=dict)
    runs_at_once: int = Field(default=20, ge=1, le=1_000)
    warm_sandboxes: int = Field(default=1, ge=0, le=MOST_WARM_SANDBOXES)
    warm_sandboxes_most: int = Field(default=5, ge=0, le=MOST_WARM_SANDBOXES)
    zones: Literal[1, 2, 3] = 2
    grace_days: int = Field(default=30, ge=1, le=3_650)
    unattached_days: int = Field(default=30, ge=1, le=3_650)
    log_retention_days: int = 90
    ask_from: Rating = "dangerous"
    deny_from: Rating = "never"
    classifier_model: str | None = None
    skills_directory: str | None = None
    requests_per_second: int = Field(default=100, ge=1, le=10_000)
    alarm_topic_arn: str | None = None

    @property
    def laid_out_mib(self) -> int:
        """What a run may find when it starts: a full workspace and all its inputs."""
        return -(-(self.limits.workspace_bytes + self.limits.run_input_bytes) // MIB)

    @model_validator(mode="after")
    def _task_holds_a_run(self) -> DeploymentSettings:
        # The task's disk is a tmpfs, so that its pages count as the task's memory.
        sandbox = self.sandbox
        needed = sandbox.run_memory_mib + sandbox.run_disk_mib + self.laid_out_mib + SUPERVISOR_MIB
        if needed > sandbox.memory_mib:
            raise ValueError(
                f"sandbox.memoryMiB is {sandbox.memory_mib}, but a run may need {needed}: runMemoryMiB "
                f"{sandbox.run_memory_mib}, runDiskMiB {sandbox.run_disk_mib}, {self.laid_out_mib} for workspace and "
                f"inputs, {SUPERVISOR_MIB} for the supervisor"
            )
        return self

    @model_validator(mode="after")
    def _pool_has_room(self) -> DeploymentSettings:
        if self.warm_sandboxes > self.warm_sandboxes_most:
            raise ValueError(
                f"warmSandboxes is {self.warm_sandboxes}, but warmSandboxesMost allows {self.warm_sandboxes_most}: "
                "raise warmSandboxesMost, or lower warmSandboxes"
            )
        return self

    @field_validator("log_retention_days")
    @classmethod
    def _cloudwatch_offers(cls, days: int) -> int:
        if days not in LOG_RETENTION:
            raise ValueError(f"CloudWatch Logs offers only {', '.join(map(str, LOG_RETENTION))} days")
        return days

    @field_validator("sandbox_env")
    @classmethod
    def _harmless_environment(cls, values: dict[str, str]) -> dict[str, str]:
        for name in values:
            if not re.fullmatch(r"[A-Z_][A-Z0-9_]{0,63}", name):
                raise ValueError(f"{name!r} is no variable name: use upper-case letters, digits and underscores")
            if name in SANDBOX_ENV_RESERVED or name.startswith(("AWS_", "ECS_", "WORKBENCH_")):
                raise ValueError(f"{name} is set by the sandbox itself and cannot be changed here")
        if len(json.dumps(values)) > SANDBOX_ENV_CHARACTERS:
            raise ValueError(f"names and values together, as JSON, may hold {SANDBOX_ENV_CHARACTERS} characters")
        return values

    @field_validator("sandbox_image")
    @classmethod
    def _pullable(cls, image: str) -> str:
        if image != BUILD_IMAGE and not re.fullmatch(
            r"[a-z0-9][a-z0-9._/-]{1,255}(:[\w][\w.-]{0,127}|@sha256:[0-9a-f]{64})", image
        ):
            raise ValueError(
                f'write "{BUILD_IMAGE}" to build sandbox_container/Dockerfile while deploying, or an image of this '
                'account\'s registry as "repository:tag" or "repository@sha256:<digest>"'
            )
        return image

    @field_validator("classifier_model")
    @classmethod
    def _is_foundation_model(cls, model: str | None) -> str | None:
        if model is not None and not re.fullmatch(r"(?!(us|eu|apac|global)\.)[a-z0-9-]+\.[a-z0-9][a-z0-9.:-]*", model):
            raise ValueError(
                "write the id of a Bedrock foundation model, such as amazon.nova-lite-v1:0 (no inference profile), or "
                "leave the key out"
            )
        return model

    @field_validator("alarm_topic_arn")
    @classmethod
    def _is_topic(cls, arn: str | None) -> str | None:
        if arn is not None and not re.fullmatch(r"arn:aws[a-z-]*:sns:[a-z0-9-]+:\d{12}:[\w.-]+", arn):
            raise ValueError("write the ARN of an SNS topic, or leave the key out")
        return arn

    def function_settings(self, **names: Any) -> Settings:
        """The settings that functions read; ``names`` are the deployed resources' names (CDK tokens are fine)."""
        return Settings.model_validate(
            {
                **self.limits.model_dump(),
                "grace_days": self.grace_days,
                "unattached_days": self.unattached_days,
                "ask_from": self.ask_from,
                "deny_from": self.deny_from,
                "classifier_model": self.classifier_model or "",
                "sandbox_env": self.sandbox_env,
                "runs_at_once": self.runs_at_once,
                "warm_sandboxes": self.warm_sandboxes,
                "warm_sandboxes_most": self.warm_sandboxes_most,
                "run_memory_bytes": self.sandbox.run_memory_mib * MIB,
                "run_disk_bytes": self.sandbox.run_disk_mib * MIB,
                "run_processes": self.sandbox.run_processes,
                **names,
            }
        )


def read_context(cdk_json: Path) -> dict[str, Any]:
    """The ``context`` of cdk.json: CDK's feature flags and, under ``workbench``, the settings."""
    try:
        document = json.loads(cdk_json.read_text())
    except (OSError, ValueError) as error:
        raise SettingsError(f"{cdk_json} cannot be read as JSON: {error}") from error
    context = document.get("context")
    if not isinstance(context, dict):
        raise SettingsError(f"{cdk_json} has no object `context`.")
    return context


def parse(values: object) -> DeploymentSettings:
    """Check the settings; raises SettingsError with one line for each that does not fit."""
    try:
        return DeploymentSettings.model_validate(values)
    except ValidationError as error:
        lines = [f"  {_where(problem['loc'])}: {problem['msg']}" for problem in error.errors()]
        raise SettingsError("cdk.json, context.workbench does not fit:\n" + "\n".join(lines)) from error


def _where(location: tuple[int | str, ...]) -> str:
    return ".".join(map(str, location)) or "(as a whole)"
