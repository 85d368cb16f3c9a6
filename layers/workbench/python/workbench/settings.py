"""What an admin may change, as one typed model. CDK writes it into each function's environment.

Every field is read from ``WORKBENCH_<FIELD>`` (upper case). Nothing here is read at import time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field

MIB = 1024 * 1024
PREFIX = "WORKBENCH_"


class Settings(BaseModel):
    """Names of the deployed resources, limits and waiting times. Sizes in bytes, times in seconds."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str = "workbench"
    workspace_bucket: str = "workbench-workspaces"
    artifact_bucket: str = "workbench-artifacts"
    run_state_machine: str = ""
    delete_state_machine: str = ""
    reconcile_state_machine: str = ""
    # What the names of a deployment's functions begin with; nothing on one machine.
    function_prefix: str = ""

    workspace_bytes: int = Field(100 * MIB, gt=0)
    workspace_files: int = Field(2_000, gt=0)
    written_file_bytes: int = Field(1 * MIB, gt=0)
    history_bytes: int = Field(1024 * MIB, gt=0)
    history_versions: int = Field(1_000, gt=0)
    raw_body_bytes: int = Field(4 * MIB, gt=0)
    run_input_bytes: int = Field(64 * MIB, gt=0)
    upload_bytes: int = Field(64 * MIB, gt=0)
    skill_bytes: int = Field(5 * MIB, gt=0)

    lease_seconds: float = 90
    heartbeat_seconds: float = 10
    skew_seconds: float = 5
    busy_wait_seconds: float = 3
    turn_seconds: float = 12 * 3600
    default_wait_seconds: float = 20
    longest_wait_seconds: float = 25
    grace_days: int = 30
    unattached_days: int = 30
    longest_function_seconds: int = 60
    # How long a deletion waits before it lists again; None: past the longest function.
    deletion_wait_seconds: int | None = Field(None, ge=0)

    output_cap_characters: int = 16_000
    read_budget_characters: int = 24_000
    read_line_cap: int = 2_000
    line_form_characters: int = 300

    breaker_cooldown_seconds: float = 30
    ask_from: str = "dangerous"
    deny_from: str = "never"
    # A Bedrock model that may raise the ratings of calls that change something; empty: the rules alone decide.
    classifier_model: str = ""

    # Sandbox: names that only the workflow function needs; empty elsewhere.
    sandbox_cluster: str = ""
    sandbox_task_definition: str = ""
    sandbox_subnets: str = ""
    sandbox_security_group: str = ""
    sandbox_route_url: str = ""
    sandbox_env: dict[str, str] = Field(default_factory=dict)
    runs_at_once: int = Field(20, gt=0)
    claim_seconds: int = Field(180, gt=0)
    # How many sandboxes wait for work at least (0: none are kept) and at most, as demand says.
    warm_sandboxes: int = Field(1, ge=0)
    warm_sandboxes_most: int = Field(5, ge=0)
    # How long a warm sandbox may take to claim the run it was given before another gets it.
    warm_claim_seconds: float = Field(3.0, gt=0)
    run_memory_bytes: int = Field(2048 * MIB, gt=0)
    run_disk_bytes: int = Field(512 * MIB, gt=0)
    run_processes: int = Field(128, gt=0)

    cache_directory: str = "/tmp/workbench-cache"  # noqa: S108 - the only writable path of a Lambda
    cache_bytes: int = Field(256 * MIB, gt=0)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Settings:
        """Read the settings; raises pydantic's ValidationError naming the variable that does not fit."""
        values: dict[str, object] = {}
        for name, field in cls.model_fields.items():
            text = environment.get(PREFIX + name.upper())
            if text is not None:
                values[name] = _decode(text) if field.annotation == dict[str, str] else text
        return cls.model_validate(values)

    def to_environment(self) -> dict[str, str]:
        """The variables that give these settings back; only those that differ from the defaults."""
        changed = self.model_dump(exclude_defaults=True)
        return {
            PREFIX + name.upper(): json.dumps(value) if isinstance(value, dict) else str(value)
            for name, value in changed.items()
        }


def _decode(text: str) -> object:
    return json.loads(text)
