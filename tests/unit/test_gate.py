"""How calls are rated, what may go on, and what an approval covers."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.tools.answer import Answer
from workbench.tools.contract import Tool, tool
from workbench.tools.gate import LEVELS, decide, holds_credentials, matches, rate

# A busy machine takes its time over drawing examples, which says nothing about the code.
calmly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def made(name: str, step: Any, risk: Any = "low") -> Tool:
    return tool(step=step, name=name, risk=risk)(lambda turn: Answer.of(str(turn)))


READ = made("read_file", "read")
WRITE = made("write_file", "write", "moderate")
EDIT = made("edit_file", "write")
DELETE = made("delete_file", "write", "moderate")
EXPORT = made("export_artifact", "export")
RUN = made("run_code", "run", "high")


@pytest.mark.parametrize(
    "path",
    [
        ".env", "a/.env", ".env.production", ".env.example.bak", "keys/server.pem", "server.key", "id_rsa", "x/id_dsa",
        "id_ecdsa", "id_ed25519", ".netrc", ".aws/credentials", "home/.aws/credentials", ".ssh/config", "a/.ssh/known",
        ".ssh", ".ENV", "Server.PEM", "a/../.env", "./.env", "notes//.env", "workspace/.env", ".git-credentials",
        ".env.\N{SNOWMAN}",
    ],
)  # fmt: skip
def test_paths_that_hold_credentials(path):
    assert holds_credentials(path)
    assert rate(WRITE, {"path": path}).level == "dangerous"
    assert rate(EDIT, {"path": path, "edits": []}).level == "dangerous"
    assert rate(DELETE, {"path": path}).level == "dangerous"
    assert rate(EXPORT, {"path": path}).level == "dangerous"
    assert rate(READ, {"path": path}).level == "low"


@pytest.mark.parametrize(
    "path",
    [".env.example", "env", "a.env", "dotenv/.environment", "id_rsa.pub", "pem", "keys.txt", "x.pem.txt",
     "aws/credentials", ".aws/config", "ssh/config", "monkey", ".env/readme.txt", ".netrc.md"],
)  # fmt: skip
def test_paths_that_do_not(path):
    assert not holds_credentials(path)
    assert rate(WRITE, {"path": path}).level == "moderate"


def test_ratings_by_kind():
    assert rate(READ, {"paths": ["a"]}).level == "low"
    assert rate(EDIT, {"path": "a", "edits": []}).level == "moderate", "an edit is never less"
    assert rate(RUN, {"code": "pass", "language": "python"}).level == "high"
    assert rate(EXPORT, {"path": "report.md"}).level == "low"
    assert rate(EXPORT, {"content": "text", "name": ".env"}).level == "low"


def test_one_path_of_a_batch_is_enough():
    files = [SimpleNamespace(path="notes/a.md"), SimpleNamespace(path=".env")]
    rating = rate(WRITE, {"path": None, "files": files})
    assert (rating.level, rating.pattern) == ("dangerous", "write_file write .env")
    assert ".env usually holds credentials" in rating.reason


def test_deleting_a_folder_is_rated_by_what_it_holds_and_nothing_else_looks_there():
    looked: list[str] = []

    def below(folder: str) -> list[str]:
        looked.append(folder)
        return ["config/a.txt", "config/prod/.env"]

    rating = rate(DELETE, {"path": "config", "recursive": True}, below)
    assert (rating.level, rating.pattern) == ("dangerous", "delete_file delete config")
    assert "config/prod/.env" in rating.reason
    assert rate(DELETE, {"path": "config", "recursive": False}, below).level == "moderate"
    assert rate(WRITE, {"path": "config/a.txt"}, below).level == "moderate"
    assert looked == ["config"]


@pytest.mark.parametrize(
    ("used", "values", "pattern"),
    [
        (EDIT, {"path": "notes/plan.md", "edits": []}, "edit_file replace notes/*"),
        (EDIT, {"path": "notes/plan.md", "append": "x"}, "edit_file append notes/*"),
        (EDIT, {"path": "plan.md", "edits": []}, "edit_file replace plan.md"),
        (EDIT, {"path": "notes/.env", "edits": []}, "edit_file replace notes/.env"),
        (WRITE, {"path": "a*/b"}, "write_file write a\\*/*"),
        (RUN, {"language": "python"}, "run_code python"),
        (READ, {}, "read_file"),
    ],
)
def test_patterns_read_like_commands(used, values, pattern):
    assert rate(used, values).pattern == pattern


def test_default_thresholds_interrupt_no_ordinary_work():
    for used, values in [(READ, {}), (WRITE, {"path": "a"}), (RUN, {"language": "python"}), (EXPORT, {"path": "a"})]:
        assert decide(rate(used, values), "dangerous", "never") == "proceed"
    assert decide(rate(WRITE, {"path": ".env"}), "dangerous", "never") == "ask"


def test_thresholds():
    rating = rate(WRITE, {"path": "notes/a.md"})
    assert decide(rating, "moderate", "never") == "ask"
    assert decide(rating, "high", "never") == "proceed"
    assert decide(rating, "low", "moderate") == "refuse"
    assert decide(rating, "low", "moderate", [rating.pattern]) == "refuse", "no grant reaches over what is refused"
    assert decide(rate(WRITE, {"path": ".env"}), "never", "never") == "proceed"


def test_a_grant_covers_its_folder_and_its_mode_only():
    granted = ["edit_file replace notes/*"]

    def decision(**values: Any) -> str:
        return decide(rate(EDIT, values), "moderate", "never", granted)

    assert decision(path="notes/b.md", edits=[]) == "proceed"
    assert decision(path="notes/b.md", append="x") == "ask"
    assert decision(path="notes/deep/b.md", edits=[]) == "ask"
    assert decision(path="notes/../b.md", edits=[]) == "ask"
    assert decision(path="other/b.md", edits=[]) == "ask"
    assert decide(rate(WRITE, {"path": "notes/b.md"}), "moderate", "never", granted) == "ask"


def test_a_wildcard_never_covers_credentials():
    rating = rate(WRITE, {"path": "notes/.env"})
    assert decide(rating, "moderate", "never", ["write_file write notes/*"]) == "ask"
    assert decide(rating, "moderate", "never", ["write_file write notes/.env"]) == "proceed"


def test_every_path_of_a_batch_needs_its_grant():
    both = {"files": [SimpleNamespace(path=".env"), SimpleNamespace(path="a.pem")]}
    rating = rate(WRITE, both)
    assert decide(rating, "dangerous", "never", ["write_file write .env"]) == "ask"
    assert decide(rating, "dangerous", "never", [rating.pattern]) == "proceed"


def test_a_path_cannot_forge_a_second_pattern_or_a_star():
    forged = rate(WRITE, {"path": ".ssh/a\nwrite_file write .env"})
    assert decide(rate(WRITE, {"path": ".env"}), "dangerous", "never", [forged.pattern]) == "ask"
    starred = rate(WRITE, {"path": "*/x"})
    assert decide(rate(WRITE, {"path": "secret/x"}), "moderate", "never", [starred.pattern]) == "ask"
    assert decide(starred, "moderate", "never", [starred.pattern]) == "proceed"


segment = st.text("ab*.? \\\n", min_size=1, max_size=4)


@calmly
@given(st.lists(segment, min_size=1, max_size=3).map("/".join), st.sampled_from([WRITE, EDIT, DELETE, EXPORT]))
def test_the_pattern_of_a_call_always_covers_that_call(path, used):
    rating = rate(used, {"path": path})
    ((level, command),) = rating.commands
    assert matches(rating.pattern, command, level)
    for ask in LEVELS[:-1]:
        assert decide(rating, ask, "never", [rating.pattern]) == "proceed"
