"""``workbench skills`` and ``workbench prompts`` against the local system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from local.cli import main
from local.system import LocalSystem
from tests.skill_zips import skill_md


class Command:
    """The command line against the local system: what it printed on standard output, and how it ended."""

    def __init__(self, url: str, capture: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capture = capture
        self.errors = ""

    def __call__(self, *words: str, expect: int = 0) -> str:
        ended = main([*words, "--url", self._url])
        printed = self._capture.readouterr()
        self.errors = printed.err
        assert ended == expect, (ended, printed.out, printed.err)
        return str(printed.out)

    def json(self, *words: str, expect: int = 0) -> Any:
        return json.loads(self(*words, "--json", expect=expect))


@pytest.fixture
def command(system: LocalSystem, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "300")
    return Command(system.url, capsys)


def make(folder: Path, content: str, **files: bytes) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "SKILL.md").write_text(content)
    for name, data in files.items():
        (folder / name).write_bytes(data)
    return folder


def test_a_folder_of_skills_is_pushed_and_what_is_broken_is_told(
    command: Command, api: Any, unique: str, tmp_path: Path
) -> None:
    good = make(tmp_path / "good", skill_md(unique, version="1.0.0"), data=b"x" * 3_000)
    (good / "run.sh").write_text("#!/bin/sh\n")
    (good / "run.sh").chmod(0o755)
    make(tmp_path / "headless", "no head")
    make(tmp_path / "twin", skill_md(unique, version="3.0.0"))
    (make(tmp_path / "zlinked", skill_md(f"{unique}-l")) / "out").symlink_to("/etc")
    make(tmp_path / "large", skill_md(f"{unique}-large"), big=b"\0" * (5 * 1024 * 1024))
    (tmp_path / "notes").mkdir()
    printed = command("skills", "push", str(tmp_path), expect=1)
    rows = [line.strip() for line in printed.splitlines()]
    assert any(row.startswith(unique) and row.endswith("pushed") and "3.1 KiB" in row for row in rows), printed
    assert any(row.startswith("headless") and "does not begin with frontmatter" in row for row in rows)
    assert any("good has a skill of the same name" in row for row in rows)
    assert any(row.startswith("zlinked") and "`out` is a link" in row for row in rows)
    assert any(row.startswith("large") and "5,242,880 are allowed" in row for row in rows)
    assert len(rows) == 6
    shown = api("GET", f"/v1/skills/{unique}").json["skill"]
    assert shown["versions"] == ["1.0.0"] and [file["path"] for file in shown["files"]] == [
        "SKILL.md",
        "data",
        "run.sh",
    ]


def test_pushing_again_changes_nothing_until_something_did(
    command: Command, api: Any, unique: str, tmp_path: Path
) -> None:
    folder = make(tmp_path / "skill", skill_md(unique, version="1.0.0"))

    def push(*more: str, expect: int = 0) -> dict[str, Any]:
        (one,) = command.json("skills", "push", str(folder), *more, expect=expect)["skills"]
        return dict(one)

    assert push("--dry-run")["result"] == "would be pushed"
    assert api("GET", f"/v1/skills/{unique}").status == 404
    assert push() == {
        "folder": str(folder), "name": unique, "version": "1.0.0", "result": "pushed", "reason": None,
    }  # fmt: skip
    assert push()["result"] == push("--dry-run")["result"] == "unchanged"
    (folder / "more.md").write_text("x")
    refused = push(expect=1)
    assert refused["result"] == "refused" and "Raise `version`" in refused["reason"]
    (folder / "SKILL.md").write_text(skill_md(unique, version="1.1.0"))
    assert push()["result"] == "pushed"
    listed = command("skills", "list")
    assert any(unique in line and "1.1.0" in line for line in listed.splitlines())
    assert unique in json.dumps(command.json("skills", "list"))


def test_a_skill_is_withdrawn_after_its_name_was_typed(command: Command, api: Any, unique: str, tmp_path: Path) -> None:
    command("skills", "push", str(make(tmp_path / "skill", skill_md(unique))))
    command("skills", "withdraw", unique, expect=1)
    assert "Nobody can be asked" in command.errors
    assert "would be" in command("skills", "withdraw", unique, "--dry-run")
    assert api("GET", f"/v1/skills/{unique}").status == 200
    assert "withdrawn" in command("skills", "withdraw", unique, "--yes")
    command("skills", "withdraw", unique, "--yes", expect=1)
    assert "There is no skill" in command.errors


@pytest.mark.parametrize("what", ["missing", "empty", "file"])
def test_nothing_to_push_is_said(command: Command, tmp_path: Path, what: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    command("skills", "push", str(tmp_path / what), expect=1)
    assert "SKILL.md" in command.errors or "is no folder" in command.errors


def test_a_dry_run_tells_what_publishing_would_do(command: Command, api: Any, unique: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"---\nname: {unique}\n---\nHello\n")
    (tmp_path / "b.md").write_text(f"---\nname: {unique}\n---\nBye\n")
    (tmp_path / "c.md").write_text(f"---\nname: {unique}-long\n---\n{'x' * 131_073}\n")

    def told(*words: str, expect: int) -> list[str]:
        answer = command.json("prompts", "push", str(tmp_path), *words, expect=expect)
        return [one["result"] for one in answer["prompts"]]

    assert told("--dry-run", expect=1) == ["would be published", "refused", "refused"]
    assert api("GET", f"/v1/prompts/{unique}").status == 404
    assert told(expect=1) == ["published", "refused", "refused"]
    assert told("--dry-run", expect=1) == ["unchanged", "refused", "refused"]


def test_prompts_are_published_from_files(command: Command, api: Any, unique: str, tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text(f"---\nname: {unique}\nversion: 1.0.0\n---\nHello {{{{ name }}}}\n")
    (tmp_path / "b.md").write_text("no head")
    printed = command("prompts", "push", str(tmp_path), expect=1)
    assert f"{unique}" in printed and "published" in printed and "skipped: The file does not begin" in printed
    made = api("POST", f"/v1/prompts/{unique}/render", {"vars": {"name": "Ada"}}).json
    assert made == {"text": "Hello Ada", "name": unique, "version": "1.0.0"}
    assert command.json("prompts", "push", str(tmp_path / "a.md"))["prompts"][0]["result"] == "unchanged"
    (tmp_path / "a.md").write_text(f"---\nname: {unique}\n---\nBye\n")
    assert "refused" in command("prompts", "push", str(tmp_path / "a.md"), expect=1)
    assert unique in command("prompts", "list")
    assert "withdrawn" in command("prompts", "withdraw", unique, "--yes")
    command("prompts", "push", str(tmp_path / "none.md"), expect=1)
    assert "There is no file" in command.errors
