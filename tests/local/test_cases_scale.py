"""A workspace of 50,000 files costs the requests of a small one, and is listed, searched, restored and emptied."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text

FILES = 50_000
SMALL = 50
# More than one answer can list.
MANY = 12_000


@pytest.fixture(scope="module")
def many() -> dict[str, bytes]:
    """Mostly equal contents, as the cost lies in the number of names; one file is special."""
    files = {f"dir{number % 100:02}/file-{number:05}.txt": b"line one\nline two\n" for number in range(FILES)}
    files["dir50/file-00050.txt"] = b"the only needle\n"
    return files


@pytest.fixture
def talk(api: Any, unique: str, system: LocalSystem) -> Iterator[Talk]:
    with changed.settings(system, workspace_files=60_000):
        yield Talk.open(api, unique)


def costs(talk: Talk, system: LocalSystem, path: str) -> dict[str, int]:
    """AWS requests of one call of each kind, on a warm function."""
    calls: list[tuple[str, dict[str, Any]]] = [
        ("list_files", {"path": "dir50"}),
        ("read_file", {"path": path}),
        ("write_file", {"path": "dir50/new.txt", "content": "x"}),
        ("edit_file", {"path": path, "append": "more\n"}),
        ("delete_file", {"path": "dir50/new.txt"}),
    ]
    for tool, arguments in calls[:3]:
        talk.ok(tool, **arguments)
    talk.ok("delete_file", path="dir50/new.txt")
    return {tool: talk.ok(tool, **arguments)["cost"]["requests"] for tool, arguments in calls}


def test_fifty_thousand_files_cost_the_requests_of_fifty(
    api: Any, talk: Talk, system: LocalSystem, many: dict[str, bytes]
) -> None:
    path = "dir50/file-00050.txt"
    small = Talk.open(api, f"{talk.conversation}-small")
    few = {name: many[name] for name in [path, *list(many)[:SMALL]]}
    changed.store_many(system, small.conversation, few)
    changed.store_many(system, talk.conversation, many)
    assert costs(talk, system, path) == costs(small, system, path)

    listed = talk.ok("list_files", depth=1)["structured"]["entries"]
    assert len(listed) == 100 and sum(entry["files"] for entry in listed) == FILES
    files = api("GET", f"/v1/conversations/{talk.conversation}/files?limit=3")
    assert files.json["totals"]["files"] == FILES and len(files.json["files"]) == 3

    found = talk.ok("search_files", queries=["needle", "nowhere"])
    assert [match["path"] for match in found["structured"]["matches"]] == [path]
    assert found["structured"]["searched"] == FILES

    answer = talk.ok("delete_file", path="dir50", recursive=True)
    assert len(answer["structured"]["deleted"]) == FILES // 100
    assert f"{FILES // 100} files" in text(answer)


def test_everything_can_be_deleted_and_brought_back(
    api: Any, talk: Talk, system: LocalSystem, many: dict[str, bytes]
) -> None:
    """The answer stays within what a function returns, and the call's record within an item."""
    some = sorted(many)[:MANY]
    changed.store_many(system, talk.conversation, {f"all/{path}": many[path] for path in some})
    raw = talk.send("delete_file", {"path": "all", "recursive": True}, call="all")
    assert raw.json["outcome"] == "ok" and len(raw.body) < 1_000_000
    facts = raw.json["structured"]
    assert facts["files"] == MANY and facts["truncated"] is True and 1_000 < len(facts["deleted"]) < MANY
    assert talk.ok("list_files")["structured"]["entries"] == []

    url = f"/v1/conversations/{talk.conversation}/versions"
    listed = api("GET", url)
    assert len(listed.body) < 6_000_000
    assert [version["more"] for version in listed.json["versions"]] == [MANY - 5_000] * 2
    changes: list[str] = []
    after = ""
    while True:
        page = api("GET", f"{url}/1/diff/2?after={after}")
        assert page.status == 200 and len(page.body) < 6_000_000
        changes += [change["path"] for change in page.json["changes"]]
        after = page.json.get("next", "")
        if not after:
            break
    assert changes == [f"all/{path}" for path in some]
    assert api("POST", f"{url}/1/restore", {}).json["version"] == 3
    assert text(talk.ok("read_file", path=f"all/{some[7]}")).startswith("1\tline one")
