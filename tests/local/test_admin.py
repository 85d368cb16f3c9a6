"""``workbench admin`` and ``workbench download`` against the local system, and their words when something is wrong."""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import pytest
from botocore.awsrequest import AWSRequest

from local.admin import client, download, show
from local.admin.client import AdminError, Answer, Deployment
from local.cli import main
from local.system import LocalSystem
from tests.local.reconciled import wait_for_deletions
from tests.local.talk import Talk
from tests.local.uploaded import upload


class Command:
    """The command line against the local system; what it printed, and how it ended."""

    def __init__(self, url: str, capture: pytest.CaptureFixture[str]) -> None:
        self._url = url
        self._capture = capture

    def __call__(self, *words: str, expect: int = 0) -> str:
        """Standard output of a command that ends with ``expect``; of one that fails, standard error."""
        ended = main([*words, "--url", self._url])
        printed = self._capture.readouterr()
        assert ended == expect, printed.err
        return printed.err if expect else printed.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture
def command(system: LocalSystem, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Command:
    monkeypatch.setenv("COLUMNS", "200")
    return Command(system.url, capsys)


@pytest.fixture
def talk(api: Any, unique: str) -> Talk:
    """A turn of a person of their own, in a conversation of their own."""
    created = api("POST", "/v1/conversations", {"owner": unique, "department": unique, "id": unique})
    assert created.status == 201
    return Talk.open(api, unique, create=False, caller={"user": unique, "department": unique})


def export(talk: Talk, **arguments: Any) -> str:
    return str(talk.ok("export_artifact", **arguments)["structured"]["artifact"])


def status(api: Any, conversation: str) -> str:
    return str(api("GET", f"/v1/conversations/{conversation}").json["conversation"]["status"])


# ---------------------------------------------------------------- conversations


def test_conversations_are_listed_and_shown(command: Command, talk: Talk, unique: str) -> None:
    talk.put("a.txt", b"12345")
    artifact = export(talk, content="x", name="a [bold]b.txt")
    assert "no conversations" in command("admin", "conversations", "list", f"{unique}-nobody")
    assert "no artifacts" in command("admin", "artifacts", "list", "--person", f"{unique}-nobody")
    listed = command("admin", "conversations", "list", unique)
    assert unique in listed and "active" in listed and "5 B" in listed and "1 in all" in listed
    assert command.json("admin", "conversations", "list", unique)["conversations"][0]["workspace"]["bytes"] == 5
    shown = command("admin", "conversations", "show", unique)
    assert artifact in shown and "1 file, 5 B" in shown and "a [bold]b.txt" in shown
    assert command.json("admin", "conversations", "show", unique)["artifacts"][0]["id"] == artifact


def test_deleting_is_shown_asked_and_done(
    command: Command, talk: Talk, api: Any, unique: str, system: LocalSystem
) -> None:
    talk.put("a.txt", b"12345")
    export(talk, content="four")
    dry = command("admin", "conversations", "delete", unique, "--dry-run")
    assert "1 file, 5 B" in dry and "1 artifact of 4 B" in dry and "would be deleted" in dry
    assert "Nobody can be asked" in command("admin", "conversations", "delete", unique, expect=1)
    assert status(api, unique) == "active"
    assert "is deleted" in command("admin", "conversations", "delete", unique, "--yes")
    assert status(api, unique) == "deleted"
    assert "nothing would happen" in command("admin", "conversations", "delete", unique, "--dry-run")
    # A restore is told to come again when a step of the deletion outlasts its waiting.
    wait_for_deletions(system)
    assert "would come back" in command("admin", "conversations", "restore", unique, "--dry-run")
    assert "is back" in command("admin", "conversations", "restore", unique)
    assert status(api, unique) == "active"
    assert "was not deleted" in command("admin", "conversations", "restore", unique)


def test_nothing_is_deleted_when_one_of_several_is_unknown(command: Command, talk: Talk, api: Any, unique: str) -> None:
    said = command("admin", "conversations", "delete", unique, "no-such-one", "--yes", expect=1)
    assert "no conversation no-such-one" in said
    assert status(api, unique) == "active"


@pytest.mark.parametrize(
    ("said", "ended", "left"), [("yes\n", 0, "deleted"), ("y\n", 1, "active"), ("", 130, "active")]
)
def test_only_a_whole_yes_is_one(
    command: Command,
    talk: Talk,
    api: Any,
    unique: str,
    monkeypatch: pytest.MonkeyPatch,
    said: str,
    ended: int,
    left: str,
) -> None:
    typed = iter(said.splitlines())

    def read(_prompt: object = "") -> str:
        line = next(typed, None)
        if line is None:
            raise EOFError
        return line

    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", read)
    command("admin", "conversations", "delete", unique, expect=ended)
    assert status(api, unique) == left


# ---------------------------------------------------------------- artifacts, usage


def test_artifacts_are_shown_with_versions_and_markers(
    command: Command, talk: Talk, api: Any, unique: str, system: LocalSystem
) -> None:
    artifact = export(talk, content="one", name="a.md")
    export(talk, content="three", artifact=artifact)
    api("POST", f"/v1/turns/{talk.turn}/finish", {"outcome": "completed", "text": ""})
    for whose in (("--person", unique), ("--conversation", unique)):
        listed = command("admin", "artifacts", "list", *whose)
        assert artifact in listed and "attached" in listed and "8 B" in listed
    shown = command("admin", "artifacts", "show", artifact)
    assert shown.count("attached") == 3 and hashlib.sha256(b"one").hexdigest()[:16] in shown
    command("admin", "conversations", "delete", unique, "--yes")
    head = ("C#" + unique, "HEAD")
    while "swept" not in (system.runtime.table.get(head) or {}):
        system.runtime.clock.sleep(0.02)
    stored = command.json("admin", "artifacts", "show", artifact)["artifact"]
    assert stored["state"] == "deleted" and all(entry["deletedAt"] for entry in stored["stored"])
    assert "deleted" in command("admin", "artifacts", "list", "--person", unique)
    assert "no such artifact" in command("admin", "artifacts", "show", "art_none", expect=1)


def test_an_uploaded_document_is_attached_to_nothing(command: Command, api: Any, unique: str) -> None:
    document = upload(api, owner=unique)
    listed = command("admin", "artifacts", "list", "--person", unique).splitlines()
    assert listed[1].split()[-1] == "document"
    shown = [line.split() for line in command("admin", "artifacts", "show", document["artifact"]).splitlines()]
    assert ["State", "document"] in shown and "document" in shown[-1]
    assert command.json("admin", "artifacts", "show", document["artifact"])["artifact"]["state"] == "attached"


def test_usage_has_a_bar_for_everybody(command: Command, talk: Talk, unique: str) -> None:
    assert "Nobody" in command("admin", "usage", f"{unique}-nobody")
    export(talk, content="x" * 2048)
    shown = command("admin", "usage", unique)
    assert "B·h" in shown
    assert "2.0 KiB" in shown and "█" in shown and "1 person" in shown
    assert command.json("admin", "usage", unique)["usage"][0]["bytes"] == 2048
    assert "month" in command("admin", "usage", unique, "--month", "soon", expect=1)


# ---------------------------------------------------------------- erasing


def test_erasing_is_shown_asked_watched_and_counted(command: Command, talk: Talk, api: Any, unique: str) -> None:
    artifact = export(talk, content="x")
    assert "turn" not in command("admin", "erase", f"{unique}-nobody", "--dry-run")
    dry = command("admin", "erase", unique, "--dry-run")
    assert "1 conversation with" in dry and "1 artifact of" in dry and "1 turn of" in dry
    assert "Nobody can be asked" in command("admin", "erase", unique, expect=1)
    assert api("GET", f"/v1/artifacts/{artifact}").status == 200
    erased = command.json("admin", "erase", unique, "--yes")["erasure"]
    assert (erased["status"], erased["counts"]["artifacts"], erased["counts"]["workspaces"]) == ("done", 1, 1)
    assert api("GET", f"/v1/artifacts/{artifact}").status == 404
    assert api("GET", f"/v1/conversations/{unique}").status == 404
    again = command("admin", "erase", unique, "--yes")
    assert "artifacts 0" in again and "35 days" in again


# ---------------------------------------------------------------- downloading


def test_an_artifact_is_downloaded_whole_and_never_over_another_file(
    command: Command, talk: Talk, api: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    artifact = export(talk, content="one", name="Bericht für Zoë.md")
    export(talk, content="two", name="b.md", artifact=artifact)
    assert "b.md" in command("download", artifact)
    assert (tmp_path / "b.md").read_bytes() == b"two"
    assert stat.S_IMODE((tmp_path / "b.md").stat().st_mode) == 0o644
    assert command.json("download", artifact, "--version", "1")["sha256"] == hashlib.sha256(b"one").hexdigest()
    assert (tmp_path / "Bericht für Zoë.md").read_bytes() == b"one"
    assert "--force" in command("download", artifact, "--version", "1", "b.md", expect=1)
    assert (tmp_path / "b.md").read_bytes() == b"two"
    command("download", artifact, "--version", "1", "b.md", "--force")
    assert (tmp_path / "b.md").read_bytes() == b"one"
    (tmp_path / "folder").mkdir()
    command("download", artifact, "folder")
    command("download", artifact, "folder/named.txt")
    assert sorted(path.name for path in (tmp_path / "folder").iterdir()) == ["b.md", "named.txt"]
    assert "no folder" in command("download", artifact, "missing/", expect=1)
    assert "it has 1, 2" in command("download", artifact, "x", "--version", "3", expect=1)
    assert "no such artifact" in command("download", "art_none", "x", expect=1)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Bericht für Zoë.md", "b.md", "folder"]


def test_a_large_artifact_comes_through_its_link(command: Command, talk: Talk, tmp_path: Path, api: Any) -> None:
    data = os.urandom(1024 * 1024) * 24
    upload = api("POST", "/v1/uploads", {"for": "file", "bytes": len(data)}).json
    assert api("PUT", "/signed/" + upload["url"].partition("/signed/")[2], data, upload["headers"]).status == 200
    stored = api("PUT", f"/v1/conversations/{talk.conversation}/file?path=big.bin", {"upload": upload["upload"]})
    assert stored.status == 200, stored.body
    artifact = export(talk, path="big.bin")
    command("download", artifact, str(tmp_path / "big.bin"))
    assert (tmp_path / "big.bin").read_bytes() == data


def test_a_symbolic_link_is_not_followed(command: Command, talk: Talk, tmp_path: Path) -> None:
    artifact = export(talk, content="new")
    (tmp_path / "precious").write_bytes(b"old")
    (tmp_path / "link").symlink_to(tmp_path / "precious")
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for name in ("link", "dangling"):
        command("download", artifact, str(tmp_path / name), expect=1)
    command("download", artifact, str(tmp_path / "link"), "--force")
    assert (tmp_path / "precious").read_bytes() == b"old"
    assert not (tmp_path / "nowhere").exists()
    assert (tmp_path / "link").read_bytes() == b"new" and not (tmp_path / "link").is_symlink()


def test_bytes_that_are_not_what_was_stored_are_not_written(
    command: Command, talk: Talk, tmp_path: Path, system: LocalSystem
) -> None:
    artifact = export(talk, content="right")
    bucket, key = system.runtime.settings.artifact_bucket, f"artifacts/{artifact}/1"
    for wrong in (b"wrong", b"right and more", b"rig"):
        system.runtime.clients.s3.put_object(Bucket=bucket, Key=key, Body=wrong)
        assert "not what was stored" in command("download", artifact, str(tmp_path), expect=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stored", "name"),
    [
        ("report.pdf", "report.pdf"),
        ("Ä ü.txt", "Ä ü.txt"),
        ("../../etc/passwd", "passwd"),
        ("..\\..\\x.exe", "x.exe"),
        ("/etc/cron.d/x", "x"),
        ("..", "art_1"),
        (".", "art_1"),
        ("", "art_1"),
        ("a/", "art_1"),
        (".bashrc", "_bashrc"),
        ("...x", "_x"),
        ("a\nb\x1b[31m.txt", "a_b_[31m.txt"),
        ("x" * 300 + ".md", "x" * 237 + ".md"),
        ("ü" * 200 + ".md", "ü" * 118 + ".md"),
    ],
)
def test_a_stored_name_never_leaves_the_folder(stored: str, name: str) -> None:
    assert download.safe_name(stored, "art_1") == name


# ---------------------------------------------------------------- where nothing answers, and who is refused


def test_what_is_wrong_is_said_in_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORKBENCH_URL", raising=False)

    def said(*words: str) -> str:
        assert main(["admin", "usage", "x", *words]) == 1
        printed = capsys.readouterr()
        assert printed.out == "" and printed.err.count("\n") == 1
        return printed.err

    assert "WORKBENCH_URL" in (found := said()) and "begins with `ToolsUrl`" in found
    assert "not encrypted" in said("--url", "http://example.org")
    assert "no address" in said("--url", "example.org")
    assert "workbench serve" in said("--url", "http://127.0.0.1:9")
    monkeypatch.setenv("WORKBENCH_URL", "http://127.0.0.1:9")
    assert "does not answer" in said()


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (404, {"error": {"code": "not_found", "message": "There is no such conversation."}}, "no such conversation"),
        (403, {"message": "The security token included in the request is expired"}, "have expired"),
        (403, {"message": "Forbidden"}, "execute-api:Invoke"),
        (403, {"message": "Signature expired: 20261130T000000Z is now earlier"}, "have expired"),
        (404, {"message": "Not Found"}, "no Workbench"),
        (503, {"message": "Service Unavailable"}, "HTTP 503"),
        (502, b"<html>", "HTTP 502"),
        (500, [], "HTTP 500"),
    ],
)
def test_every_failure_says_what_to_do(status: int, body: Any, said: str) -> None:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    failure = Deployment("http://127.0.0.1:9").failure(Answer(status, {}, raw))
    assert said in str(failure) and failure.status == status


# ---------------------------------------------------------------- signing


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[AWSRequest]:
    """Requests as they would leave for AWS."""
    requests: list[AWSRequest] = []

    def hold(request: AWSRequest, *, local: bool) -> Any:
        assert not local
        requests.append(request)
        raise AdminError("held")

    monkeypatch.setattr(client, "opened", hold)
    for name, value in (("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE"), ("AWS_SECRET_ACCESS_KEY", "secret")):
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-west-2")
    return requests


@pytest.mark.parametrize(
    ("url", "region", "scope"),
    [
        ("https://abc123.execute-api.eu-central-1.amazonaws.com", None, "eu-central-1"),
        ("https://abc123.execute-api.eu-central-1.amazonaws.com", "eu-west-1", "eu-west-1"),
        ("https://workbench.example.org", None, "us-west-2"),
        ("https://workbench.example.org", "ap-south-1", "ap-south-1"),
    ],
)
def test_requests_that_leave_the_machine_are_signed(
    sent: list[AWSRequest], url: str, region: str | None, scope: str
) -> None:
    with pytest.raises(AdminError, match="held"):
        Deployment(url, region).get(f"/v1/people/{client.part('a b/ü')}", month="2026-09", nothing=None)
    (request,) = sent
    assert request.url == f"{url}/v1/people/a%20b%2F%C3%BC?month=2026-09"
    assert f"/{scope}/execute-api/aws4_request" in request.headers["Authorization"]
    assert request.headers["X-Amz-Security-Token"] == "token"


def test_without_credentials_nothing_is_sent(sent: list[AWSRequest], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    with pytest.raises(AdminError, match="no AWS credentials"):
        Deployment("https://abc123.execute-api.eu-central-1.amazonaws.com").get("/v1/usage")
    assert sent == []


# ---------------------------------------------------------------- looks


@pytest.mark.parametrize(
    ("count", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"), (1536 * 1024, "1.5 MiB"), (5 * 1024**5, "5120.0 TiB")],
)
def test_sizes_are_readable(count: int, text: str) -> None:
    assert show.size(count) == text


def test_text_of_others_is_shown_not_obeyed() -> None:
    assert show.plain("[red]x[/red]\x1b[2J\n").plain == "[red]x[/red]\\x1b[2J\\n"


WIDE = (("Artifact", "left"), ("Name", "left"), ("Versions", "right"), ("Until", "left"))
WIDE_ROW = ["art_" + "x" * 26, "a name " * 12, "1,234", "2026-11-30 19:28"]


def test_a_piped_row_is_one_line_without_padding(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    show.say(show.table(WIDE, [WIDE_ROW, ["b", "b", "1", ""]], ["2 in all"]))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4 and all(line == line.rstrip() for line in lines)
    assert all(cell in lines[1] for cell in WIDE_ROW)


@pytest.mark.parametrize("columns", [80, 20])
def test_a_terminal_of_any_width_breaks_neither_ids_nor_titles(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: int
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    show.say(show.table(WIDE, [WIDE_ROW]))
    lines = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out).splitlines()
    assert lines[0].split() == [title for title, _ in WIDE]
    assert lines[1].startswith(WIDE_ROW[0] + " ") and "1,234" in lines[1] and len(lines) > 2
    assert columns < 80 or max(map(len, lines)) == columns
