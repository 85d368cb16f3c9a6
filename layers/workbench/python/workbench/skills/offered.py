"""What a turn's instructions say of the skills that it was opened with. No AWS here."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from workbench.workspace.paths import printable

# What the descriptions may take of the instructions together; each of very many is shortened to its share.
DESCRIPTIONS_CHARACTERS = 16_000
SHORTEST_CHARACTERS = 60
NONE = "Skills you may load: none."


@dataclass(frozen=True, slots=True)
class Offered:
    """A skill of a turn, in the version that the turn gets."""

    name: str
    version: str
    description: str


def lines(skills: Sequence[Offered], tools: Collection[str]) -> list[str]:
    """The lines of the instructions; they name only tools of ``tools``."""
    if not skills or not {"load_skill", "run_code"} & set(tools):
        return [NONE]
    if "load_skill" in tools:
        mounted = "; run_code mounts a skill's files when its `skills` name it" if "run_code" in tools else ""
        head = f"Skills you may load, by name (load_skill gives the instructions{mounted}):"
        advice = "When a task fits a description, or the person writes `$` and a skill's name, load the skill first."
    else:
        head = "Skills whose files run_code mounts under skills/<name>/ when its `skills` name them:"
        advice = "When a task fits a description, read the skill's SKILL.md with a run first."
    share = max(SHORTEST_CHARACTERS, DESCRIPTIONS_CHARACTERS // len(skills))
    return [head, *(f"- {skill.name}: {_shortened(skill.description, share)}" for skill in skills), advice]


def _shortened(description: str, characters: int) -> str:
    # One line, whatever was pushed: a description cannot pass for an instruction of its own.
    line = printable(" ".join(description.split()))
    return line if len(line) <= characters else f"{line[: characters - 1].rstrip()}…"
