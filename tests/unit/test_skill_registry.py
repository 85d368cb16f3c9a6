"""Skills are found in folders, kept by name and offered to an agent as a tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.skill_zips import skill_md
from workbench.errors import ToolError
from workbench.skills import (
    BadSkill,
    DuplicateSkill,
    SkillRegistry,
    discover_skills,
    load_skills_into,
    parse_skill_file,
)


def make(root: Path, folder: str, content: str | bytes | None = None, name: str = "SKILL.md") -> Path:
    place = root / folder
    place.mkdir(parents=True)
    data = skill_md(folder) if content is None else content
    (place / name).write_bytes(data if isinstance(data, bytes) else data.encode())
    return place


def test_discovery_looks_one_level_down_and_says_what_it_skips(tmp_path: Path) -> None:
    make(tmp_path, "b")
    make(tmp_path, "a", name="skill.md")
    make(tmp_path, "broken", "no head")
    make(tmp_path, "deeper/inside")
    (tmp_path / "empty").mkdir()
    (tmp_path / "SKILL.md").write_text(skill_md("at-the-top"))
    found = discover_skills([tmp_path, tmp_path / "missing"])
    assert [skill.name for skill in found] == ["a", "b"]
    (skipped,) = found.skipped
    assert skipped.path == str(tmp_path / "broken" / "SKILL.md")
    assert "does not begin with frontmatter" in skipped.reason


def test_strict_discovery_raises_what_it_would_skip(tmp_path: Path) -> None:
    make(tmp_path, "broken", "no head")
    with pytest.raises(BadSkill, match="broken"):
        discover_skills([tmp_path], strict=True)
    assert discover_skills(tmp_path / "missing", strict=True) == []


def test_the_first_of_two_skills_of_one_name_counts(tmp_path: Path) -> None:
    first = make(tmp_path / "one", "demo")
    make(tmp_path / "two", "demo")
    dirs = [tmp_path / "one", tmp_path / "two", tmp_path / "one"]
    found = discover_skills(dirs)
    assert [skill.folder for skill in found] == [first]
    assert "already" in found.skipped[0].reason and str(first) in found.skipped[0].reason
    with pytest.raises(BadSkill, match="already"):
        discover_skills(dirs, strict=True)


def test_a_file_that_cannot_be_a_skill_is_skipped_not_raised(tmp_path: Path) -> None:
    make(tmp_path, "large", skill_md("large", body="x" * (1024 * 1024)))
    place = tmp_path / "folder"
    (place / "SKILL.md").mkdir(parents=True)
    found = discover_skills(tmp_path)
    assert found == [] and ["more than" in bad.reason for bad in found.skipped] == [True]


def test_the_registry_refuses_a_name_twice() -> None:
    registry = SkillRegistry()
    demo = parse_skill_file(skill_md("demo"), "here/SKILL.md")
    registry.register(demo)
    registry.register(parse_skill_file(skill_md("another")))
    with pytest.raises(DuplicateSkill, match=r"`demo` already, from here/SKILL.md"):
        registry.register(parse_skill_file(skill_md("demo")))
    assert registry.get("demo") is demo and registry.get("none") is None
    assert [skill.name for skill in registry.list()] == ["another", "demo"]


def test_loading_registers_all_or_nothing(tmp_path: Path) -> None:
    make(tmp_path, "a")
    make(tmp_path, "b")
    make(tmp_path, "broken", "no head")
    registry = SkillRegistry([parse_skill_file(skill_md("b"))])
    with pytest.raises(DuplicateSkill):
        load_skills_into(registry, [tmp_path])
    assert [skill.name for skill in registry.list()] == ["b"]
    fresh = SkillRegistry()
    loaded = load_skills_into(fresh, tmp_path)
    assert [skill.name for skill in loaded] == [skill.name for skill in fresh.list()] == ["a", "b"]
    assert len(loaded.skipped) == 1


def test_the_registry_as_a_tool(tmp_path: Path) -> None:
    place = make(tmp_path, "demo", skill_md("demo", body="Run the script.\n", version="1.1.0"))
    (place / "scripts").mkdir()
    (place / "scripts" / "go.py").write_bytes(b"print(1)\n")
    (place / ".DS_Store").write_bytes(b"x")
    registry = SkillRegistry(discover_skills(tmp_path))
    (tool,) = registry.as_tools()
    answer = tool.function(None, **tool.bind({"name": "demo"}).values)
    assert "Run the script.\n" in answer.text and "scripts/go.py (9 bytes)" in answer.text
    assert (answer.structured["name"], answer.structured["version"]) == ("demo", "1.1.0")
    assert [file["path"] for file in answer.structured["files"]] == ["SKILL.md", "scripts/go.py"]
    with pytest.raises(ToolError, match="There are: `demo`"):
        tool.function(None, name="other")
