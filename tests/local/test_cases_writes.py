"""Section F of the reported faults, and what write_file and delete_file promise: batches, limits, sources."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from local.system import LocalSystem
from tests.local import changed
from tests.local.talk import Talk, text
from workbench.workspace.storage import head as heads


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    return Talk.open(api, unique)


# ---------------------------------------------------------------- what is written is what was given


@pytest.mark.parametrize(
    "content",
    [
        "print('a\\nb')",
        "\\title{x}",
        "#define A \\\n  1\n",
        "a &amp; b &lt;c&gt; &apos; &#39;",
        "$HOME ${x} $1 `date` %s {0}",
        "\ufeffmark",
        "\r\n mixed \r endings \n",
        "nul \0 inside",
        '{"a":1}',
        "[1,2]",
        '"s"',
        "null",
        "12",
        "true",
        "",
    ],
)
def test_content_is_written_exactly(talk: Talk, content: str) -> None:
    """Cases 49, 50, 53: by write_file alone and in a batch, and by append."""
    talk.ok("write_file", path="x.json", content=content)
    talk.ok("write_file", files=[{"path": "y.json", "content": content}])
    assert talk.bytes_of("x.json") == talk.bytes_of("y.json") == content.encode()
    if content and "\0" not in content:
        talk.put("z.txt", b"start\n")
        talk.ok("edit_file", path="z.txt", append=content)
        assert talk.bytes_of("z.txt") == b"start\n" + content.encode()


def test_escapes_in_an_edit_stay_what_they_are(talk: Talk) -> None:
    """Cases 49 and 50: replacements and new lines too."""
    talk.put("f.txt", b"one\ntwo\n")
    talk.ok("edit_file", path="f.txt", edits=[{"find": "one", "replace": "\\title{x} \\n \\1 $0 &amp;"}])
    talk.ok("edit_file", path="f.txt", edits=[{"startLine": 2, "anchor": "two", "content": "\\t \\\\ \\g<0>"}])
    assert talk.bytes_of("f.txt") == b"\\title{x} \\n \\1 $0 &amp;\n\\t \\\\ \\g<0>\n"


@pytest.mark.parametrize("content", [{"a": 1}, [1], 12, None, True])
def test_content_of_another_kind_is_refused(talk: Talk, content: Any) -> None:
    """Case 53, the other way round: what is no text is not written out in a form that nobody chose."""
    for arguments in ({"path": "f", "content": content}, {"files": [{"path": "f", "content": content}]}):
        answer = talk.call("write_file", **arguments)
        assert answer["outcome"] == "invalid_args" and "content" in answer["error"]["message"]
    assert talk.files() == {}


def test_half_a_character_cannot_be_written(talk: Talk) -> None:
    for tool, arguments in (
        ("write_file", {"path": "f", "content": "a\ud83e"}),
        ("write_file", {"path": "f\ud83e", "content": "a"}),
    ):
        answer = talk.send(tool, arguments).json
        assert answer["error"]["code"] in ("invalid_args", "invalid_path")
    assert talk.files() == {}


# ---------------------------------------------------------------- shapes of arguments


def test_encoded_edits_are_decoded(talk: Talk) -> None:
    """Case 52: an encoded array, an array of encoded objects, one object; what is no JSON is refused by name."""
    edit = {"find": "a", "replace": "b"}
    for edits in (json.dumps([edit]), [json.dumps(edit)], edit, json.dumps(edit)):
        talk.put("f.txt", b"a\n")
        answer = talk.ok("edit_file", path="f.txt", edits=edits)
        assert talk.bytes_of("f.txt") == b"b\n"
        assert answer["conversions"]
    for edits in ("not json", "[{]", ["not json"], "[1]", "null", 7, [], "[]"):
        talk.put("f.txt", b"a\n")
        answer = talk.call("edit_file", path="f.txt", edits=edits)
        assert answer["outcome"] == "invalid_args" and "edits" in answer["error"]["message"]
        assert talk.bytes_of("f.txt") == b"a\n"


def test_encoded_files_are_decoded_and_their_content_is_not(talk: Talk) -> None:
    """Cases 52 and 53: only the array is ever decoded."""
    file = {"path": "f.json", "content": '{"a": [1]}'}
    for files in (json.dumps([file]), [json.dumps(file)], file):
        talk.ok("write_file", files=files)
        assert talk.bytes_of("f.json") == b'{"a": [1]}'
        talk.ok("delete_file", path="f.json")
    answer = talk.call("write_file", files='[{"path": "f.json", "content": "x"')
    assert answer["outcome"] == "invalid_args" and "files" in answer["error"]["message"]
    assert talk.files() == {}


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"path": "a"},
        {"content": "x"},
        {"path": "a", "content": "x", "source": {"ref": "res_x"}},
        {"path": "a", "content": "x", "files": [{"path": "b", "content": "y"}]},
        {"files": []},
        {"files": [{"path": str(n), "content": "x"} for n in range(4)]},
        {"files": [{"path": "a"}]},
        {"files": [{"path": "a", "content": "x"}, {"path": "b", "content": "x", "source": {"ref": "r"}}]},
        {"files": [{"path": "a", "content": "x"}, {"path": "./b/../a", "content": "y"}]},
        {"path": "a", "content": "x", "contents": "y"},
    ],
)
def test_a_write_that_is_none_is_refused_whole(talk: Talk, arguments: dict[str, Any]) -> None:
    answer = talk.call("write_file", **arguments)
    assert answer["outcome"] == "invalid_args"
    assert talk.files() == {}


def test_one_path_is_a_list_of_one(talk: Talk) -> None:
    talk.put("f.txt", b"a\n")
    assert text(talk.ok("read_file", paths="f.txt")).startswith("1\ta")
    assert talk.ok("search_files", queries="a")["structured"]["matches"]


# ---------------------------------------------------------------- sources


def test_a_stored_result_is_written_without_passing_the_model(talk: Talk) -> None:
    talk.put("f.txt", "ünï\n".encode() * 3)
    answer = talk.ok("read_file", path="f.txt")
    made = talk.ok("write_file", path="copy.txt", source={"ref": answer["ref"]})
    assert talk.bytes_of("copy.txt") == text(answer).encode()
    assert made["structured"]["files"] == [{"path": "copy.txt", "created": True, "bytes": len(text(answer).encode())}]
    entry = {"ref": talk.ok("calculate", expressions=["6*7"])["ref"], "pointer": "/entries/0/value"}
    talk.ok("write_file", files=[{"path": "n.txt", "source": entry}])
    assert talk.bytes_of("n.txt") == b"42"
    talk.ok("write_file", path="all.json", source={**entry, "pointer": "/entries/0"})
    assert json.loads(talk.bytes_of("all.json") or b"")["value"] == "42"


def test_a_source_that_is_none_is_refused(talk: Talk, api: Any) -> None:
    ref = talk.ok("calculate", expressions=["1"])["ref"]
    other = Talk.open(api, f"{talk.conversation}-other")
    before = talk.files()
    for source, code in (
        ({"ref": "res_nothing"}, "not_found"),
        ({"ref": other.ok("list_files")["ref"]}, "not_found"),
        ({"ref": ref, "pointer": "/entries/7"}, "not_found"),
        ({"ref": ref, "pointer": "/entries/x"}, "not_found"),
        ({"ref": ref, "pointer": "entries"}, "invalid_args"),
        ({"ref": ref, "pointer": "/\ud800"}, "not_found"),
    ):
        answer = talk.send("write_file", {"path": "f", "source": source}).json
        assert answer["error"]["code"] == code, answer
    assert talk.files() == before


def test_a_source_nested_too_deeply_is_no_failure_of_ours(talk: Talk) -> None:
    talk.put("deep.json", b"[" * 8_000)
    ref = talk.ok("read_file", path="deep.json")["ref"]
    talk.refused("not_found", "write_file", path="f", source={"ref": ref, "pointer": "/0"})


# ---------------------------------------------------------------- limits


def test_a_write_past_a_limit_is_refused_whole(talk: Talk, system: LocalSystem) -> None:
    """Used, allowed and asked, over the whole batch; what fits still fits."""
    talk.put("a", b"x" * 600)
    batch = [{"path": "b", "content": "y" * 300}, {"path": "c", "content": "z" * 300}]
    with changed.settings(system, workspace_bytes=1_000):
        answer = talk.call("write_file", files=batch)
        assert answer["error"]["code"] == "limit_exceeded"
        details = answer["error"]["details"]
        assert (details["what"], details["used"], details["allowed"], details["asked"]) == ("bytes", 600, 1_000, 600)
        assert all(number in text(answer) for number in ("600", "1,000"))
        assert talk.files() == {"a": b"x" * 600}
        # What is replaced counts off; a call that shrinks a full workspace is always let in.
        talk.ok("write_file", files=[{"path": "a", "content": "x" * 400}, *batch])
        talk.refused("limit_exceeded", "edit_file", path="b", append="1")
    with changed.settings(system, workspace_bytes=100, workspace_files=1):
        talk.ok("edit_file", path="a", edits=[{"find": "x" * 400, "replace": "x"}])
        assert talk.refused("limit_exceeded", "write_file", path="d", content="")
        talk.ok("delete_file", path="b")


def test_a_batch_counts_all_its_files(talk: Talk, system: LocalSystem) -> None:
    with changed.settings(system, workspace_files=2):
        batch = [{"path": name, "content": name} for name in "abc"]
        answer = talk.call("write_file", files=batch)
        assert answer["error"]["details"]["what"] == "files" and answer["error"]["details"]["asked"] == 3
        assert talk.files() == {}
        talk.ok("write_file", files=batch[:2])
        put = talk.api("PUT", f"/v1/conversations/{talk.conversation}/file?path=d", b"x")
        assert (put.status, put.json["error"]["details"]["reason"]) == (413, "limit_exceeded")


def test_one_written_file_has_a_limit_of_its_own(talk: Talk) -> None:
    talk.refused("too_large", "write_file", path="f", content="é" * (512 * 1024 + 1))
    talk.ok("write_file", path="f", content="é" * (512 * 1024))


# ---------------------------------------------------------------- at once, and under a lease


def test_what_a_busy_write_would_have_seen_does_not_count(talk: Talk, system: LocalSystem) -> None:
    """A write refused as busy leaves what the turn has seen, and the guard, as they were."""
    talk.put("f.txt", b"one\ntwo\n")
    talk.ok("read_file", path="f.txt")
    held = heads.acquire(system.runtime, talk.conversation, "somebody", "run_code")
    with changed.settings(system, busy_wait_seconds=0.0):
        talk.refused("workspace_busy", "write_file", path="f.txt", content="never\n")
    heads.release(system.runtime, talk.conversation, held.fence)
    talk.ok("edit_file", path="f.txt", edits=[{"startLine": 1, "endLine": 2, "content": "both"}])
    assert talk.bytes_of("f.txt") == b"both\n"


def test_two_edits_at_once_and_an_edit_beside_a_write(talk: Talk) -> None:
    """Case 79: both present, or one refused plainly; never half a file."""
    talk.put("f.txt", "".join(f"line {number}\n" for number in range(1, 201)).encode())
    ready = threading.Barrier(3)

    def edit(number: int, word: str) -> dict[str, Any]:
        ready.wait()
        return talk.call("edit_file", path="f.txt", edits=[{"find": f"line {number}\n", "replace": f"{word}\n"}])

    def look(_: int, __: str) -> dict[str, Any]:
        ready.wait()
        return talk.call("list_files")

    with ThreadPoolExecutor(3) as pool:
        works = [pool.submit(edit, 40, "FORTY"), pool.submit(edit, 160, "DONE"), pool.submit(look, 0, "")]
        answers = [work.result() for work in works]
    assert [answer["outcome"] for answer in answers] == ["ok"] * 3
    lines = (talk.bytes_of("f.txt") or b"").decode().splitlines()
    assert (lines[39], lines[159], len(lines)) == ("FORTY", "DONE", 200)
    assert answers[2]["structured"]["entries"][0]["lines"] == 200


def test_replacing_a_file_that_changed_says_replaced(talk: Talk) -> None:
    """Case 80: success, and the answer says that an existing file was replaced, with its size and the version."""
    talk.ok("write_file", path="f.txt", content="old\n")
    talk.ok("read_file", path="f.txt")
    talk.put("f.txt", b"newer work\n")
    answer = talk.ok("write_file", path="f.txt", content="from memory\n")
    assert "Replaced" in text(answer) and "12 bytes" in text(answer)
    assert answer["structured"]["files"][0]["created"] is False
    assert f"version {answer['structured']['version']}" in text(answer)
    assert talk.api("POST", f"/v1/conversations/{talk.conversation}/versions/2/restore", {}).status == 200
    assert talk.bytes_of("f.txt") == b"newer work\n"
