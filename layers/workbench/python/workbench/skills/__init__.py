"""Skills: folders with a SKILL.md. Parsing, finding and choosing them is pure; storing them needs a deployment."""

from workbench.skills.registry import (
    Discovered,
    DuplicateSkill,
    SkillRegistry,
    discover_skills,
    load_skills_into,
)
from workbench.skills.skill_file import BadSkill, Skill, parse_skill_file

__all__ = [
    "BadSkill",
    "Discovered",
    "DuplicateSkill",
    "Skill",
    "SkillRegistry",
    "discover_skills",
    "load_skills_into",
    "parse_skill_file",
]
