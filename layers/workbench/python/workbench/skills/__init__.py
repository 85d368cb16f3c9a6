"""Skills: folders with a SKILL.md. Parsing, finding and choosing them is pure; storing them needs a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from workbench.skills.registry import (
    Discovered,
    DuplicateSkill,
    SkillRegistry,
    discover_skills,
    load_skills_into,
)
from workbench.skills.skill_file import BadSkill, Skill, parse_skill_file

if TYPE_CHECKING:
    from workbench.skills.matching import Match, match_skills, score_skills

__all__ = [
    "BadSkill",
    "Discovered",
    "DuplicateSkill",
    "Match",
    "Skill",
    "SkillRegistry",
    "discover_skills",
    "load_skills_into",
    "match_skills",
    "parse_skill_file",
    "score_skills",
]


def __getattr__(name: str) -> Any:
    # Matching loads a retriever, which most functions that know of skills never need.
    if name not in ("Match", "match_skills", "score_skills"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from workbench.skills import matching

    return getattr(matching, name)
