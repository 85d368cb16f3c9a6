"""Freshness: an edit by line number is compared with what this turn last saw, whoever changed the file since."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text
from workbench.workspace.storage.head import read_head
from workbench.workspace.storage.store import WorkingCopy

TEN = "".join(f"line {number}\n" for number in range(1, 11))


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    talk = Talk.open(api, unique)
    talk.put("f.txt", TEN.encode())
    return talk


def by_line(start: int, end: int | None = None, content: str = "X", **more: Any) -> dict[str, Any]:
    return {"path": "f.txt", "edits": [{"startLine": start, "endLine": end or start, "content": content, **more}]}


def test_a_line_needs_its_anchor_or_to_have_been_seen(talk: Talk) -> None:
    said = talk.refused("not_read", "edit_file", **by_line(3))
    assert "3\tline 3" in said
    talk.ok("edit_file", **by_line(5, anchor="line 5"))
    # An empty anchor counts as none.
    talk.refused("not_read", "edit_file", **by_line(8, anchor=""))
    assert talk.bytes_of("f.txt") == TEN.replace("line 5", "X").encode()


def test_a_range_needs_to_have_been_seen_whatever_its_anchors(talk: Talk) -> None:
    said = talk.refused("not_read", "edit_file", **by_line(2, 4, anchor="line 2", endAnchor="line 4"))
    assert "2\tline 2\n3\tline 3\n4\tline 4" in said
    talk.ok("read_file", path="f.txt", startLine=2, endLine=3)
    talk.refused("not_read", "edit_file", **by_line(2, 5))
    talk.ok("read_file", path="f.txt", startLine=4, endLine=5)
    talk.ok("edit_file", **by_line(2, 5))
    assert talk.bytes_of("f.txt") == b"line 1\nX\n" + TEN.encode()[35:]


def test_the_lines_a_refusal_shows_count_as_seen(talk: Talk) -> None:
    """The refusal says to check them and to send the edit again; the same edit is then done."""
    for start, end in ((3, 3), (5, 8)):
        assert "send it again" in talk.refused("not_read", "edit_file", **by_line(start, end, content=f"new {start}"))
        talk.ok("edit_file", **by_line(start, end, content=f"new {start}"))
    assert talk.bytes_of("f.txt") == b"line 1\nline 2\nnew 3\nline 4\nnew 5\nline 9\nline 10\n"
    talk.again().ok("edit_file", path="f.txt", edits=[{"find": "new 3", "replace": "theirs"}])
    assert "theirs" in talk.refused("changed_since_read", "edit_file", **by_line(3, content="mine"))
    talk.ok("edit_file", **by_line(3, content="mine"))


def change_by_turn(talk: Talk, system: LocalSystem) -> None:
    talk.again().ok("edit_file", path="f.txt", edits=[{"find": "line 3\n", "replace": "theirs\n"}])


def change_by_put(talk: Talk, system: LocalSystem) -> None:
    talk.put("f.txt", TEN.replace("line 3", "theirs").encode())


def change_by_run(talk: Talk, system: LocalSystem) -> None:
    code = "p = 'workspace/f.txt'; s = open(p).read().replace('line 3', 'theirs'); open(p, 'w').write(s)"
    assert talk.again().call("run_code", code=code)["outcome"] == "ok"


def change_by_write(talk: Talk, system: LocalSystem) -> None:
    talk.again().ok("write_file", path="f.txt", content=TEN.replace("line 3", "theirs"))


def change_by_restore(talk: Talk, system: LocalSystem) -> None:
    change_by_put(talk, system)
    talk.put("f.txt", TEN.encode())
    assert talk.api("POST", f"/v1/conversations/{talk.conversation}/versions/2/restore", {}).status == 200


@pytest.mark.parametrize("change", [change_by_turn, change_by_put, change_by_run, change_by_write, change_by_restore])
@pytest.mark.parametrize("warm", [True, False])
def test_whoever_changes_a_seen_line_it_is_noticed(talk: Talk, system: LocalSystem, change: Any, warm: bool) -> None:
    """Case 46: not only the first and last line of a range are compared. What still reads as seen stays editable."""
    talk.ok("read_file", path="f.txt")
    change(talk, system)
    if not warm:
        changed.cold(system)
    said = talk.refused("changed_since_read", "edit_file", **by_line(2, 5, anchor="line 2", endAnchor="line 5"))
    assert "3\ttheirs" in said
    talk.ok("edit_file", **by_line(6, 10, content="rest"))
    assert talk.bytes_of("f.txt") == b"line 1\nline 2\ntheirs\nline 4\nline 5\nrest\n"
    talk.ok("edit_file", **by_line(1, 5, content="all"))
    assert talk.bytes_of("f.txt") == b"all\nrest\n"


def test_lines_that_moved_are_not_what_was_seen_at_their_number(talk: Talk) -> None:
    talk.ok("read_file", path="f.txt")
    talk.again().ok("edit_file", path="f.txt", edits=[{"find": "line 2\n", "replace": "line 2\nnew\n"}])
    talk.refused("changed_since_read", "edit_file", **by_line(5, 6))
    talk.ok("edit_file", **by_line(1, 2, content="1\n2"))
    # A single line is found again by its anchor, and the answer says where.
    assert "line 9" in text(talk.ok("edit_file", **by_line(8, anchor="line 8", content="EIGHT")))
    assert talk.bytes_of("f.txt") == b"1\n2\nnew\n" + TEN.encode()[14:].replace(b"line 8", b"EIGHT")


def test_a_turns_own_edits_count_as_seen(talk: Talk) -> None:
    talk.ok("read_file", path="f.txt", startLine=1, endLine=4)
    talk.ok("edit_file", **by_line(2, content="a\nb\nc"))
    talk.ok("edit_file", **by_line(1, 6, content="first six"))
    talk.refused("not_read", "edit_file", **by_line(2, 3))
    talk.ok("edit_file", path="f.txt", edits=[{"find": "line 7", "replace": "seven\nand"}])
    talk.ok("edit_file", path="f.txt", append="last\n")
    now = (talk.bytes_of("f.txt") or b"").decode().splitlines()
    start = now.index("seven") + 1
    talk.ok("edit_file", **by_line(start, start + 1, content="own words"))
    talk.ok("edit_file", **by_line(len(now) - 1, content="own end"))
    assert (talk.bytes_of("f.txt") or b"").endswith(b"line 10\nown end\n")


def test_written_content_counts_as_seen_and_a_source_does_not(talk: Talk) -> None:
    talk.ok("write_file", path="f.txt", content=TEN)
    talk.ok("edit_file", **by_line(1, 10, content=TEN))
    ref = talk.ok("calculate", expressions=["1+1", "2+2"])["ref"]
    talk.ok("write_file", path="f.txt", source={"ref": ref})
    talk.refused("not_read", "edit_file", **by_line(1))


def test_search_hits_and_their_context_count_as_seen(talk: Talk) -> None:
    talk.ok("search_files", queries=["line 5"], context=2)
    talk.ok("edit_file", **by_line(3, 7, content="found"))
    talk.refused("not_read", "edit_file", **by_line(1, 2))
    talk.put("f.txt", b"first\n" + b"w" * 3_000 + b"needle\nlast\n")
    talk.ok("search_files", queries=["needle"], context=1)
    talk.ok("edit_file", **by_line(3, content="LAST"))
    # The long line was shown in part.
    talk.refused("not_read", "edit_file", **by_line(2))


def test_a_line_shown_in_part_was_not_seen(talk: Talk) -> None:
    talk.put("f.txt", b"x" * 30_000 + b"\nshort\n")
    talk.ok("read_file", path="f.txt")
    assert talk.refused("not_read", "edit_file", **by_line(1))
    assert talk.refused("not_read", "edit_file", **by_line(1)), "the refusal could not show the line either"


def test_another_turn_has_seen_nothing(talk: Talk) -> None:
    talk.ok("read_file", path="f.txt")
    talk.again().refused("not_read", "edit_file", **by_line(1))


def test_a_file_that_was_deleted_and_made_again_was_not_seen(talk: Talk) -> None:
    talk.ok("read_file", path="f.txt")
    talk.ok("delete_file", path="f.txt")
    talk.put("f.txt", TEN.encode())
    talk.refused("not_read", "edit_file", **by_line(1))


def test_bytes_seen_inside_a_pack_are_found_again(talk: Talk, system: LocalSystem) -> None:
    """More than 16 files of one version lie in a pack: the turn remembers where, and compares with those bytes."""
    files = {f"{number}.txt": f"{number}\n".encode() for number in range(20)}
    changed.store_many(system, talk.conversation, {**files, "f.txt": TEN.replace("10", "ten").encode()})
    for tool, arguments in (("read_file", {"path": "f.txt"}), ("search_files", {"path": "f.txt", "queries": ["line"]})):
        talk.ok(tool, **arguments)
        packed = talk.bytes_of("f.txt") or b""
        talk.put("f.txt", packed.replace(b"line 3", b"theirs"))
        changed.cold(system)
        talk.refused("changed_since_read", "edit_file", **by_line(2, 4))
        talk.ok("edit_file", **by_line(5, 6, content="line 5\nline 6"))
        assert talk.api("POST", f"/v1/conversations/{talk.conversation}/versions/2/restore", {}).status == 200
        talk = talk.again()


def test_bytes_that_are_gone_make_a_range_changed_and_not_an_error(talk: Talk, system: LocalSystem) -> None:
    talk.ok("read_file", path="f.txt")
    copy = WorkingCopy(system.runtime, read_head(system.runtime, talk.conversation))
    (old,) = (entry.sha256 for entry in copy.entries())
    change_by_put(talk, system)
    changed.cold(system)
    key = f"conversations/{talk.conversation}/blobs/{old}"
    system.runtime.clients.s3.delete_object(Bucket=system.runtime.settings.workspace_bucket, Key=key)
    talk.refused("changed_since_read", "edit_file", **by_line(6, 8))
    talk.ok("edit_file", **by_line(6, 8))


def test_calls_of_one_turn_that_look_at_once_have_both_seen(talk: Talk) -> None:
    """Parallel reads of one file add up: none overwrites what another one saw."""
    ready = threading.Barrier(5)

    def read(part: int) -> Any:
        ready.wait()
        return talk.call("read_file", path="f.txt", startLine=2 * part + 1, endLine=2 * part + 2)

    with ThreadPoolExecutor(5) as pool:
        assert [answer["outcome"] for answer in pool.map(read, range(5))] == ["ok"] * 5
    talk.ok("edit_file", **by_line(1, 10, content="all"))
    assert talk.bytes_of("f.txt") == b"all\n"


def test_an_edit_costs_one_request_more_when_somebody_else_changed_the_file(talk: Talk, system: LocalSystem) -> None:
    talk.ok("read_file", path="f.txt")
    assert talk.ok("edit_file", **by_line(1))["cost"]["requests"] == 4
    change_by_turn(talk, system)
    changed.cold(system)
    # The page, the file as it is and the file as it was are not cached.
    assert talk.ok("edit_file", **by_line(6, 7))["cost"]["requests"] == 4 + 3
