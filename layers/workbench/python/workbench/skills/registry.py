"""Skills found in folders, and the registry that a developer of agents fills with them. No AWS here."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from workbench.skills.skill_file import SKILL_FILE, BadSkill, Skill, parse_skill_file

if TYPE_CHECKING:
    from workbench.tools.contract import Tool

# A SKILL.md is read whole; a longer one is no instructions.
SKILL_FILE_BYTES = 1024 * 1024
SKILL_FILES = (SKILL_FILE, "skill.md", "Skill.md")

Dirs = Iterable[str | Path] | str | Path


class DuplicateSkill(ValueError):
    """Two skills of one name."""

    def __init__(self, skill: Skill, known: Skill) -> None:
        where = f", from {known.path}" if known.path else ""
        super().__init__(f"There is a skill named `{skill.name}` already{where}. Rename or leave out one of the two.")


class Discovered(list[Skill]):
    """The skills that were found, in order of their names; ``skipped`` has a reason for each that is broken."""

    def __init__(self, skills: Iterable[Skill], skipped: Iterable[BadSkill]) -> None:
        super().__init__(skills)
        self.skipped = tuple(skipped)


def discover_skills(dirs: Dirs, strict: bool = False) -> Discovered:
    """The skills in the folders one level below each of ``dirs``.

    A folder that is not there holds none, and one without a SKILL.md is no skill. A broken one, and a second one of a
    name, is skipped with its reason; with ``strict`` that raises :class:`BadSkill`.
    """
    found: dict[str, Skill] = {}
    skipped: list[BadSkill] = []
    for folder in _folders(dirs):
        try:
            skill = read_skill(folder)
            if skill is not None and skill.name in found:
                raise BadSkill(str(DuplicateSkill(skill, found[skill.name])), skill.path)
        except BadSkill as bad:
            if strict:
                raise
            skipped.append(bad)
        else:
            if skill is not None:
                found[skill.name] = skill
    return Discovered(sorted(found.values(), key=lambda skill: skill.name), skipped)


def read_skill(folder: Path) -> Skill | None:
    """The skill of one folder; None when it has no SKILL.md. Raises BadSkill, also when the file cannot be read."""
    path = next((folder / name for name in SKILL_FILES if (folder / name).is_file()), None)
    if path is None:
        return None
    try:
        if path.stat().st_size > SKILL_FILE_BYTES:
            raise BadSkill(f"The file has more than {SKILL_FILE_BYTES:,} bytes.", str(path))
        content = path.read_bytes()
    except OSError as error:
        raise BadSkill(f"The file cannot be read: {error.strerror}.", str(path)) from None
    return parse_skill_file(content, path)


def has_skill_file(folder: Path) -> bool:
    """True when ``folder`` is meant to be a skill."""
    return any((folder / name).is_file() for name in SKILL_FILES)


class SkillRegistry:
    """Skills by name."""

    def __init__(self, skills: Iterable[Skill] = ()) -> None:
        self._skills: dict[str, Skill] = {}
        for skill in skills:
            self.register(skill)

    def register(self, skill: Skill) -> None:
        """Add a skill; raises :class:`DuplicateSkill` when its name is taken."""
        known = self._skills.get(skill.name)
        if known is not None:
            raise DuplicateSkill(skill, known)
        self._skills[skill.name] = skill

    def get(self, name: str) -> Skill | None:
        """The skill of that name, or None."""
        return self._skills.get(name)

    def as_tools(self) -> list[Tool]:
        """The tools with which an agent loads these skills; the turn that they take may be None."""
        from workbench.skills.registry_tool import loading_tool

        return [loading_tool(self)]

    def list(self) -> list[Skill]:
        """Every skill, in order of names."""
        return sorted(self._skills.values(), key=lambda skill: skill.name)


def load_skills_into(registry: SkillRegistry, dirs: Dirs) -> Discovered:
    """Discover the skills in ``dirs`` and register each; what was skipped stands in the answer.

    Raises :class:`DuplicateSkill`, with nothing registered, when a name is taken.
    """
    discovered = discover_skills(dirs)
    for skill in discovered:
        known = registry.get(skill.name)
        if known is not None:
            raise DuplicateSkill(skill, known)
    for skill in discovered:
        registry.register(skill)
    return discovered


def _folders(dirs: Dirs) -> list[Path]:
    """The folders one level below each of ``dirs``, each once, those of the first one first."""
    given = [dirs] if isinstance(dirs, str | Path) else dirs
    folders: dict[Path, None] = {}
    for directory in map(Path, given):
        try:
            below = sorted(entry for entry in directory.iterdir() if entry.is_dir())
        except OSError:
            continue
        folders |= dict.fromkeys(below)
    return list(folders)
