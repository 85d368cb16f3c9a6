"""The tool that hands a registry's skills to an agent that does not run on Workbench's turns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from workbench.errors import ToolError
from workbench.naming import NAME_CHARACTERS
from workbench.skills import loading
from workbench.skills.bundle import FILES, is_left_out
from workbench.skills.skill_file import Skill
from workbench.tools.answer import Answer
from workbench.tools.contract import Tool, tool

if TYPE_CHECKING:
    from workbench.skills.registry import SkillRegistry
    from workbench.tools.turn import Turn

BUDGET_CHARACTERS = 24_000


def loading_tool(registry: SkillRegistry) -> Tool:
    """``load_skill`` over ``registry``. It asks nothing of its turn, which may be None."""

    @tool(step="read", tags={"skills", "read"}, budget=5.0, retries=1, exact=True)
    def load_skill(
        turn: Turn | None,  # noqa: ARG001 - every tool takes one
        name: Annotated[str, Field(min_length=1, max_length=2 * NAME_CHARACTERS)],
        offset: Annotated[int, Field(ge=0)] = 0,
    ) -> Answer:
        """Load a skill: its instructions, and the files that come with it by path and size.

        Args:
            name: The skill's name.
            offset: The character to begin at, to read on where an answer ended.
        """
        skill = registry.get(name)
        if skill is None:
            known = ", ".join(f"`{each.name}`" for each in registry.list()) or "none"
            raise ToolError(f"There is no skill of that name. There are: {known}.", code="not_found")
        files = _files(skill)
        return loading.answer(
            f"Skill `{skill.name}`, version {skill.version}.",
            skill.body,
            offset=offset,
            budget=BUDGET_CHARACTERS,
            closing=loading.listed(files, f"They lie in {skill.folder}." if skill.folder else ""),
            name=skill.name,
            version=skill.version,
            files=files,
        )

    return load_skill


def _files(skill: Skill) -> list[dict[str, object]]:
    """The skill's files by path and size; of a folder with more than a skill may have, the first."""
    if skill.folder is None:
        return []
    paths: list[Path] = []
    for path in skill.folder.rglob("*"):
        if path.is_file() and not path.is_symlink() and not is_left_out(path.relative_to(skill.folder).as_posix()):
            paths.append(path)
            if len(paths) == FILES:
                break
    return [{"path": path.relative_to(skill.folder).as_posix(), "bytes": path.stat().st_size} for path in sorted(paths)]
