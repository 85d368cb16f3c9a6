"""The tool load_skill."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from pydantic import Field

from workbench.errors import ToolError
from workbench.naming import NAME_CHARACTERS
from workbench.skills import loading, permission, store
from workbench.tools.answer import Answer
from workbench.tools.contract import tool
from workbench.workspace.paths import printable

if TYPE_CHECKING:
    from workbench.operations import Item
    from workbench.tools.turn import Turn


@tool(step="read", tags={"skills", "read"}, budget=10.0, retries=1, exact=True)
def load_skill(
    turn: Turn,
    name: Annotated[str, Field(min_length=1, max_length=2 * NAME_CHARACTERS)],
    path: Annotated[str, Field(max_length=1_024)] | None = None,
    offset: Annotated[int, Field(ge=0)] = 0,
) -> Answer:
    """Load a skill that this turn may use: its instructions, and the files that come with it by path and size.

    Load a skill before you do a task that its description fits, then work as it says.

    Args:
        name: The skill's name, as the turn's instructions list it.
        path: Show this text file of the skill instead of its instructions.
        offset: The character to begin at, to read on where an answer ended.
    """
    (item,) = permission.require(turn, [name], "name")
    try:
        files, skill_file = store.read_start(turn.runtime, item)
        if path:
            return _file(turn, item, files, path, offset)
    except store.BytesGone:
        raise permission.refusal([name], "name") from None
    listed = [file.as_dict() for file in files]
    return loading.answer(
        f"Skill `{item['name']}`, version {item['version']}.",
        loading.instructions_of(skill_file),
        offset=offset,
        budget=turn.settings.read_budget_characters,
        closing=loading.listed(listed, _how(turn, item["name"])),
        name=item["name"],
        version=item["version"],
        files=listed,
    )


def _file(turn: Turn, item: Item, files: list[store.StoredFile], path: str, offset: int) -> Answer:
    found = next((file for file in files if file.path == path.removeprefix(f"skills/{item['name']}/")), None)
    if found is None:
        raise ToolError(
            f"The skill has no file `{printable(path[:200])}`. load_skill without `path` lists its files.",
            code="not_found",
            path=path[:200],
        )
    data = store.read_range(turn.runtime, item, found.offset, found.bytes)
    return loading.answer(
        f"`{printable(found.path)}` of the skill `{item['name']}`, version {item['version']}.",
        loading.text_of(data, found.path, _mounting(turn, item["name"])),
        offset=offset,
        budget=turn.settings.read_budget_characters,
        name=item["name"],
        version=item["version"],
        files=[found.as_dict()],
    )


def _how(turn: Turn, name: str) -> str:
    return " ".join(["Give one of these as `path` to read it, when it is a text.", _mounting(turn, name)]).rstrip()


def _mounting(turn: Turn, name: str) -> str:
    if not turn.offers("run_code"):
        return ""
    return f'run_code with skills=["{name}"] has the files under skills/{name}/, read-only.'
