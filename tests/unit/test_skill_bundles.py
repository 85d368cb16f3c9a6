"""A bundle is taken whole or refused with its reason, whoever packed it."""

from __future__ import annotations

import io
import stat
import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

import pytest

from tests.skill_zips import skill_md, zipped
from workbench.skills import BadSkill
from workbench.skills.bundle import BadBundle, Bundle, BundleTooLarge
from workbench.skills.folder import read_folder
from workbench.skills.zipped import read_zip, write_zip

LIMIT = 5 * 1024 * 1024
HEAD = skill_md("demo")


def read(data: bytes, limit: int = LIMIT) -> Bundle:
    return read_zip(data, limit)


def reason(data: bytes, kind: type[BadSkill] = BadBundle, limit: int = LIMIT) -> str:
    with pytest.raises(kind) as refused:
        read_zip(data, limit)
    return refused.value.reason


def paths(data: bytes) -> list[str]:
    return [file.path for file in read(data).files]


def with_entry(change: Any = None, name: str = "x", content: bytes = b"x") -> bytes:
    """A good bundle with one more entry, whose record ``change`` may alter."""
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as archive:
        archive.writestr("SKILL.md", HEAD)
        entry = zipfile.ZipInfo(name)
        if change is not None:
            change(entry)
        archive.writestr(entry, content)
    return target.getvalue()


def unix(mode: int) -> Any:
    def change(entry: zipfile.ZipInfo) -> None:
        entry.create_system, entry.external_attr = 3, mode << 16

    return change


# ---------------------------------------------------------------- what public bundles look like


def test_a_bundle_with_folders_pictures_and_programs() -> None:
    files = {
        "scripts/fill.py": "#!/usr/bin/env python3\n",
        "SKILL.md": HEAD,
        "assets/logo.png": bytes(range(256)) * 40,
        "references/deep/er/notes.md": "é",
    }
    bundle = read(zipped(files, programs=("scripts/fill.py",)))
    assert (bundle.skill.name, bundle.skill.body) == ("demo", "Do this.\n")
    assert [(file.path, file.mode) for file in bundle.files] == [
        ("SKILL.md", 0o644),
        ("assets/logo.png", 0o644),
        ("references/deep/er/notes.md", 0o644),
        ("scripts/fill.py", 0o755),
    ]
    assert bundle.files[1].data == files["assets/logo.png"]
    assert bundle.bytes == sum(len(file.data) for file in bundle.files)


def test_folders_around_everything_are_taken_off() -> None:
    assert paths(zipped({"demo/SKILL.md": HEAD, "demo/a/b.txt": "x"})) == ["SKILL.md", "a/b.txt"]
    assert paths(zipped({"repo-main/skills/demo/SKILL.md": HEAD})) == ["SKILL.md"]
    assert paths(zipped({"SKILL.md": HEAD, "SKILLS/SKILL.md": HEAD})) == ["SKILL.md", "SKILLS/SKILL.md"]


def test_what_file_managers_leave_is_left_out() -> None:
    left = {"__MACOSX/demo/._SKILL.md": "x", "demo/.DS_Store": "x", "demo/a/._b.txt": "x", "demo/Thumbs.db": "x"}
    assert paths(zipped({"demo/SKILL.md": HEAD, "demo/a/b.txt": "x", **left})) == ["SKILL.md", "a/b.txt"]


def test_hidden_files_of_a_skill_stay() -> None:
    assert ".env.example" in paths(zipped({"SKILL.md": HEAD, ".env.example": "A="}))


def test_folders_as_entries_are_fine() -> None:
    assert paths(zipped({"demo/": "", "demo/scripts/": "", "demo/SKILL.md": HEAD})) == ["SKILL.md"]


def test_another_spelling_of_the_main_file() -> None:
    assert paths(zipped({"skill.md": HEAD})) == ["skill.md"]


def test_names_beyond_ascii_however_the_archiver_says_so() -> None:
    good = zipped({"SKILL.md": HEAD, "größe.txt": "x"})
    assert "größe.txt" in paths(good)
    # macOS writes UTF-8 without the flag that says so.
    unflagged = bytearray(good)
    for signature, at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        place = unflagged.rfind(signature)
        flags = struct.unpack_from("<H", unflagged, place + at)[0]
        assert flags & 0x800
        struct.pack_into("<H", unflagged, place + at, flags & ~0x800)
    assert "größe.txt" in paths(bytes(unflagged))
    # Decomposed, as macOS keeps names: one form is kept.
    assert "é.txt" in paths(zipped({"SKILL.md": HEAD, "e\u0301.txt": "x"}))


def test_the_same_files_have_the_same_digest_however_they_are_packed() -> None:
    one = read(zipped({"SKILL.md": HEAD, "a.py": "1"}, programs=("a.py",)))
    other = read(zipped({"demo/a.py": "1", "demo/SKILL.md": HEAD}, programs=("demo/a.py",)))
    assert one.digest == other.digest == read(write_zip(one)).digest
    assert write_zip(one) == write_zip(other)
    assert one.digest != read(zipped({"SKILL.md": HEAD, "a.py": "1"})).digest
    assert one.digest != read(zipped({"SKILL.md": HEAD, "a.py": "2"}, programs=("a.py",))).digest


# ---------------------------------------------------------------- hostile ones


@pytest.mark.parametrize("name", ["../up", "a/../../up", "/etc/passwd", "a//b", "./a", "a/./b", "..", "a\\b", "C:\\x"])
def test_a_name_that_leads_elsewhere(name: str) -> None:
    assert "cannot be taken" in reason(zipped({"SKILL.md": HEAD, name: "x"}))


@pytest.mark.parametrize("name", ["../", "a/../../b/", "/"])
def test_a_folder_that_leads_elsewhere(name: str) -> None:
    assert "cannot be taken" in reason(zipped({"SKILL.md": HEAD, name: ""}))


def test_a_name_with_a_nul_is_not_what_it_seems() -> None:
    data = zipped({"SKILL.md": HEAD, "scripts/a.pyZ.txt": "x"}).replace(b"a.pyZ.txt", b"a.py\0.txt")
    assert "control character" in reason(data)


def test_a_name_that_is_no_text() -> None:
    data = zipped({"SKILL.md": HEAD, "äb.txt": "x"}).replace("äb.txt".encode(), b"\xff\xfeb.txt")
    assert "no zip that can be read" in reason(data)


@pytest.mark.parametrize(
    ("first", "second"),
    [("a.txt", "A.TXT"), ("ß.txt", "SS.txt"), ("é.txt", "e\u0301.txt"), ("Docs/a", "docs/A"), ("skill.md", "SKILL.MD")],
)
def test_two_names_that_are_one_somewhere(first: str, second: str) -> None:
    assert "Keep one of them" in reason(zipped({"SKILL.md": HEAD, first: "1", second: "2"}))


def test_the_same_name_twice() -> None:
    with pytest.warns(UserWarning, match="Duplicate name"):
        data = with_entry(name="SKILL.md")
    assert "stands there twice" in reason(data)


@pytest.mark.parametrize("order", [("a", "a/b"), ("a/b", "a"), ("A/b", "a"), ("a", "A/b/c")])
def test_a_name_that_is_file_and_folder(order: tuple[str, str]) -> None:
    assert "have one name" in reason(zipped({"SKILL.md": HEAD, order[0]: "1", order[1]: "2"}))


@pytest.mark.parametrize(
    ("kind", "said"), [(stat.S_IFLNK, "a link"), (stat.S_IFIFO, "no plain file"), (stat.S_IFCHR, "no plain file")]
)
def test_links_and_devices(kind: int, said: str) -> None:
    assert said in reason(with_entry(unix(kind | 0o777), content=b"/etc/passwd"))


def test_an_encrypted_entry() -> None:
    data = bytearray(with_entry())
    place = data.rfind(b"PK\x01\x02")
    data[place + 8] |= 1
    assert "encrypted" in reason(bytes(data))


def test_a_method_that_is_not_read() -> None:
    def lzma(entry: zipfile.ZipInfo) -> None:
        entry.compress_type = zipfile.ZIP_LZMA

    assert "stored or deflate" in reason(with_entry(lzma, content=b"x" * 500))


def test_more_bytes_than_the_limit() -> None:
    assert "6,291,5" in reason(zipped({"SKILL.md": HEAD, "zeros": b"\0" * (6 << 20)}), BundleTooLarge)
    assert "zip has" in reason(zipped({"SKILL.md": HEAD}), BundleTooLarge, limit=100)
    assert read(zipped({"SKILL.md": HEAD, "zeros": b"\0" * (LIMIT - len(HEAD))})).bytes == LIMIT


def test_more_bytes_than_declared() -> None:
    """The central directory says 10 bytes; the stream holds 4 MiB."""
    body = zlib.compressobj(9, zlib.DEFLATED, -15)
    packed = body.compress(b"\0" * (4 << 20)) + body.flush()
    data = bytearray(with_entry(name="bomb", content=b"0123456789"))
    start, directory = data.rfind(b"PK\x03\x04"), data.find(b"PK\x01\x02")
    entry, end = data.rfind(b"PK\x01\x02"), data.rfind(b"PK\x05\x06")
    local = bytearray(data[start:directory][:34])
    struct.pack_into("<H", local, 8, 8)
    struct.pack_into("<I", local, 18, len(packed))
    central = bytearray(data[directory:end])
    struct.pack_into("<H", central, entry - directory + 10, 8)
    struct.pack_into("<I", central, entry - directory + 20, len(packed))
    ending = bytearray(data[end:])
    struct.pack_into("<I", ending, 16, start + len(local) + len(packed))
    made = bytes(data[:start]) + bytes(local) + packed + bytes(central) + bytes(ending)
    assert "no zip that can be read" in reason(made)


def test_fewer_bytes_than_declared() -> None:
    data = bytearray(with_entry(name="short", content=b"0123456789"))
    place = data.rfind(b"PK\x01\x02")
    struct.pack_into("<I", data, place + 24, 4 << 20)
    assert "no zip that can be read" in reason(bytes(data)) or "not as long" in reason(bytes(data))


def test_too_many_files_entries_and_folders_deep() -> None:
    many = {f"f{number}": "" for number in range(1_001)}
    assert "1,002 files and 1,000 are allowed" in reason(zipped({"SKILL.md": HEAD, **many}))
    assert "entries" in reason(zipped({"SKILL.md": HEAD, **{f"d{number}/": "" for number in range(5_001)}}))
    assert "folders deep" in reason(zipped({"SKILL.md": HEAD, "a/" * 40 + "b": ""}))
    assert "bytes" in reason(zipped({"SKILL.md": HEAD, "a" * 300: ""}))
    long = {f"{'a' * 200}{number}": "" for number in range(900)}
    assert "paths have" in reason(zipped({"SKILL.md": HEAD, **long}))


@pytest.mark.parametrize("cut", [10, 30, 60, 100])
def test_a_broken_zip(cut: int) -> None:
    good = zipped({"SKILL.md": HEAD, "a": "x" * 50})
    assert "no zip that can be read" in reason(good[:-cut])
    flipped = bytearray(good)
    flipped[cut] ^= 0xFF
    try:
        read(bytes(flipped))
    except BadSkill as refused:
        assert refused.reason


def test_what_is_no_zip_at_all() -> None:
    for data in (b"", b"PK", b"hello", b"\x1f\x8b" + bytes(50), HEAD.encode()):
        assert "no zip that can be read" in reason(data)


# ---------------------------------------------------------------- what makes no skill


def test_no_main_file() -> None:
    assert "no SKILL.md at the top" in reason(zipped({"README.md": "x"}))
    assert "several below" in reason(zipped({"a/SKILL.md": HEAD, "b/SKILL.md": HEAD}))
    assert "It stands in `demo/SKILL.md`" in reason(zipped({"demo/SKILL.md": HEAD, "README.md": "x"}))
    assert "no SKILL.md" in reason(zipped({}))


def test_a_bad_main_file_says_why() -> None:
    assert "no `description`" in reason(zipped({"SKILL.md": "---\nname: demo\n---\n"}), BadSkill)
    assert "bytes and" in reason(zipped({"SKILL.md": HEAD + "x" * (1 << 20)}))


# ---------------------------------------------------------------- folders


def test_a_folder_is_read_as_its_zip_would_be(tmp_path: Path) -> None:
    (tmp_path / "scripts").mkdir()
    (tmp_path / "SKILL.md").write_text(HEAD)
    (tmp_path / "scripts" / "go.sh").write_text("#!/bin/sh\n")
    (tmp_path / "scripts" / "go.sh").chmod(0o700)
    (tmp_path / "__pycache__").mkdir()
    (tmp_path / "__pycache__" / "x.pyc").write_bytes(b"x")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    bundle = read_folder(tmp_path)
    assert bundle.digest == read(zipped({"SKILL.md": HEAD, "scripts/go.sh": "#!/bin/sh\n"}, ("scripts/go.sh",))).digest


def test_a_folder_with_a_link_or_too_much_is_refused(tmp_path: Path) -> None:
    (tmp_path / "SKILL.md").write_text(HEAD)
    (tmp_path / "out").symlink_to("/etc")
    with pytest.raises(BadBundle, match="`out` is a link"):
        read_folder(tmp_path)
    (tmp_path / "out").unlink()
    (tmp_path / "link.md").symlink_to(tmp_path / "SKILL.md")
    with pytest.raises(BadBundle, match=r"`link.md` is a link"):
        read_folder(tmp_path)
    (tmp_path / "link.md").unlink()
    (tmp_path / "large").write_bytes(b"x" * 1_000)
    with pytest.raises(BundleTooLarge):
        read_folder(tmp_path, limit=1_000)
