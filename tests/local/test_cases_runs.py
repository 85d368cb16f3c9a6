"""Section H of the reported faults, as far as files and programs meet: what a run leaves, what the tools make of it."""

from __future__ import annotations

import unicodedata
from typing import Any

import pytest

from tests.local.talk import Talk, text


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


def run(talk: Talk, code: str) -> dict[str, Any]:
    answer = talk.call("run_code", code=code)
    assert answer["outcome"] == "ok", text(answer)
    facts: dict[str, Any] = answer["structured"]
    return facts


def test_special_files_and_unusable_names_are_left_out_and_named(talk: Talk) -> None:
    """Cases 58, 65, 67, 68, 70: pipes, sockets, links, loops and names no rule allows; the other files are kept."""
    facts = run(
        talk,
        r"""
import os, socket
os.chdir("workspace")
for make in (lambda: os.mkfifo("pipe"), lambda: socket.socket(socket.AF_UNIX).bind("sock")):
    try:
        make()
    except OSError:
        os.symlink("/proc/self/fd/1", "pipe") if not os.path.lexists("pipe") else None
os.makedirs("store")
open("store/n.md", "w").write("real\n")
os.symlink("store", "memory")
os.symlink("a", "a")
os.symlink("nowhere", "broken")
os.symlink("/etc/hostname", "loot")
for name in (rb"a\b", b"bad-\xff", b"two\nlines", b"\x1b[31mred"):
    with open(name, "w") as file:
        file.write("x")
os.makedirs("shut")
open("shut/in.txt", "w").write("inside\n")
os.chmod("shut", 0)
""",
    )
    assert facts["created"] == ["shut", "shut/in.txt", "store/n.md"] or facts["created"] == [
        "shut/in.txt",
        "store/n.md",
    ]
    left_out = {one["name"] for one in facts["leftOut"]}
    assert {"pipe", "memory", "a", "broken", "loot"} <= left_out
    assert all(name.isprintable() for name in left_out) and len(left_out) >= 9
    listed = talk.ok("list_files")
    assert [one["path"] for one in listed["structured"]["entries"]] == ["shut", "shut/in.txt", "store", "store/n.md"]
    assert text(listed).isprintable() or "\n" in text(listed)
    assert talk.files() == {"shut/in.txt": b"inside\n", "store/n.md": b"real\n"}
    # Each tool answers at once, and a name that was left out is free.
    found = talk.ok("search_files", queries=["real"])["structured"]
    assert [match["path"] for match in found["matches"]] == ["store/n.md"]
    for tool, more in (("read_file", {}), ("edit_file", {"append": "x"}), ("delete_file", {}), ("export_artifact", {})):
        assert talk.call(tool, path="pipe", **more)["error"]["code"] == "not_found"
    talk.ok("write_file", path="memory/n.md", content="a folder of its own")
    talk.ok("write_file", path="pipe", content="a file now")
    assert run(talk, "print(open('workspace/pipe').read())")["stdout"] == "a file now\n"


def test_deleted_files_stay_deleted(talk: Talk) -> None:
    """Case 71."""
    talk.put("a.txt", b"x")
    talk.put("b.txt", b"y")
    assert run(talk, "import os; os.remove('workspace/a.txt')")["deleted"] == ["a.txt"]
    assert list(talk.files()) == ["b.txt"]
    again = run(talk, "import os; print(sorted(os.listdir('workspace')))")
    assert (again["stdout"], again["deleted"], again["version"]) == ("['b.txt']\n", [], 3)


def test_changes_in_place_are_reported_and_equal_bytes_are_not(talk: Talk) -> None:
    """Case 73: an appended line, the same bytes written again, and a change that keeps size and time."""
    talk.put("t.csv", b"a,b\n1,2\n")
    assert run(talk, "open('workspace/t.csv', 'a').write('3,4\\n')")["modified"] == ["t.csv"]
    same = "data = open('workspace/t.csv', 'rb').read(); open('workspace/t.csv', 'wb').write(data)"
    facts = run(talk, same)
    assert (facts["created"], facts["modified"], facts["version"]) == ([], [], 2)
    forged = """
import os
path = "workspace/t.csv"
before = os.stat(path)
open(path, "r+").write("A")
os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
"""
    assert run(talk, forged)["modified"] == ["t.csv"]
    assert talk.bytes_of("t.csv") == b"A,b\n1,2\n3,4\n"


def test_removing_everything_leaves_an_empty_workspace_that_works(talk: Talk) -> None:
    """Case 74: also the folder itself, and no name is reserved for ourselves."""
    talk.put("a.txt", b"x")
    talk.put("d/b.txt", b"y")
    code = """
import os, shutil
for name in os.listdir("workspace"):
    path = os.path.join("workspace", name)
    shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
try:
    os.rmdir("workspace")
except OSError as error:
    print(type(error).__name__)
"""
    assert run(talk, code)["deleted"] == ["a.txt", "d/b.txt"]
    assert talk.files() == {} and "empty" in text(talk.ok("list_files"))
    names = ["plan", "packs", "changes", ".spill", "inputs", "report", "pages", "blobs", "HEAD", ".keep", "main.py"]
    made = run(talk, f"for name in {names!r}: open('workspace/' + name, 'w').write(name)")
    assert made["created"] == sorted(names)
    assert talk.files() == {name: name.encode() for name in sorted(names)}


def test_names_from_a_program_are_composed_and_never_mixed_up(talk: Talk) -> None:
    """Case 64: stored decomposed, found under either form; of two that are one name, one is left out and named."""
    composed, decomposed = "\u00dcber.txt", "U\u0308ber.txt"
    assert run(talk, f"open('workspace/' + {decomposed!r}, 'w').write('first')")["created"] == [composed]
    assert "first" in text(talk.ok("read_file", path=composed))
    code = f"open('workspace/' + {composed!r}, 'w').write('1'); open('workspace/' + {decomposed!r}, 'w').write('2')"
    facts = run(talk, code)
    assert talk.files() == {composed: b"1"}
    assert [unicodedata.normalize("NFC", one["name"]) for one in facts["leftOut"]] == [composed]


def test_an_exported_selection_holds_every_file_once(talk: Talk) -> None:
    """Cases 76 and 77: names that would collide when cleaned are exported with all their content, or refused."""
    for path in ("x?.txt", "x*.txt", "a.txt"):
        talk.ok("write_file", path=path, content=path)
    versions = [talk.ok("export_artifact", path=path)["structured"]["artifact"] for path in ("x?.txt", "x*.txt")]
    assert len(set(versions)) == 2
    for artifact, path in zip(versions, ("x?.txt", "x*.txt"), strict=True):
        assert talk.api("GET", f"/v1/artifacts/{artifact}/versions/1/content").body == path.encode()


def test_output_of_a_program_is_valid_text(talk: Talk) -> None:
    """Case 25 for run_code: bytes that are no text, and an emoji at the edge of what is shown."""
    facts = talk.call("run_code", code="import sys; sys.stdout.buffer.write(b'\\xff' + '🦊'.encode() * 20000)")
    assert "\ud83e" not in text(facts) and text(facts).encode()
    assert "🦊" in text(facts)
    name = next(path for path in facts["structured"]["created"] if path.startswith(".spill"))
    assert talk.bytes_of(name) == b"\xff" + "🦊".encode() * 20_000 or (talk.bytes_of(name) or b"").endswith(
        "🦊".encode()
    )
