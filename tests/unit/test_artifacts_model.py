"""What an artifact may be: names, types, kinds, lives of versions, and who may see it."""

from __future__ import annotations

from typing import Any

import pytest

from workbench.artifacts import access
from workbench.artifacts.access import Viewer
from workbench.artifacts.model import (
    Artifact,
    BadExport,
    check_media_type,
    check_name,
    kind_for,
    type_of_content,
    type_of_name,
)
from workbench.errors import InvalidRequest, ToolError


@pytest.mark.parametrize("name", ["a", "Bericht – final.pdf", ".env.example", "a b.txt", "x" * 255, "👩‍👧.txt"])
def test_a_bare_file_name_is_kept(name: str) -> None:
    assert check_name(name) == name


@pytest.mark.parametrize(
    "name", ["", ".", "..", " a", "a ", "a/b", "a\\b", "a\0b", "a\r\nb", "\u202ea", "\u2028", "\ud800", "ä" * 128]
)
def test_anything_else_is_no_file_name(name: str) -> None:
    with pytest.raises(BadExport) as refused:
        check_name(name)
    assert refused.value.details["argument"] == "name"


@pytest.mark.parametrize(
    ("name", "media_type"),
    [
        ("a.md", "text/markdown"),
        ("A.MD", "text/markdown"),
        ("a.csv", "text/csv"),
        ("deck.pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"),
        ("page.html", "text/html"),
        ("chart.png", "image/png"),
        ("README", "application/octet-stream"),
        ("a.unheard-of", "application/octet-stream"),
    ],
)
def test_the_type_follows_from_the_name(name: str, media_type: str) -> None:
    assert type_of_name(name) == media_type


@pytest.mark.parametrize(
    "media_type", ["text", "text/", "/plain", "text/plain; charset=x", "a/b\nc", "ü/b", "a/" + "b" * 64]
)
def test_a_media_type_has_two_parts_and_no_parameters(media_type: str) -> None:
    with pytest.raises(BadExport):
        check_media_type(media_type)


@pytest.mark.parametrize(
    ("name", "media_type", "kept"),
    [
        (None, None, "text/plain"),
        ("a.json", None, "application/json"),
        ("a.py", None, "text/plain"),
        ("a.odd", None, "text/plain"),
        ("a.html", "text/plain", "text/plain"),
    ],
)
def test_text_is_kept_as_one_of_four_types(name: str | None, media_type: str | None, kept: str) -> None:
    assert type_of_content(name, media_type) == kept


@pytest.mark.parametrize(("name", "media_type"), [("a.html", None), ("a.pdf", None), (None, "image/png")])
def test_text_is_not_saved_under_a_type_that_it_is_not(name: str | None, media_type: str | None) -> None:
    with pytest.raises(ToolError) as refused:
        type_of_content(name, media_type)
    assert refused.value.code == "unsupported_type"


@pytest.mark.parametrize(
    ("wanted", "media_type", "data", "kind"),
    [
        (None, "text/markdown", b"# hi", "document"),
        (None, "text/html", b"<p>", "web"),
        (None, "text/plain", b"x", "text"),
        (None, "text/plain", b"\xff", "file"),
        (None, "text/markdown", b"a\0b", "file"),
        (None, "application/json", b"{}", "file"),
        ("chart", "application/json", b"\xef\xbb\xbf[1]", "chart"),
        ("document", "application/octet-stream", b"text", "document"),
        ("file", "text/plain", b"x", "file"),
    ],
)
def test_the_kind_is_what_the_bytes_are(wanted: Any, media_type: str, data: bytes, kind: str) -> None:
    assert kind_for(wanted, media_type, data) == kind


@pytest.mark.parametrize(
    ("wanted", "data"),
    [("chart", b"{"), ("chart", b"[" * 100_000), ("web", b"\xff\xfe"), ("text", b"\0"), ("document", b"\x80")],
)
def test_a_kind_that_the_bytes_are_not_is_refused(wanted: Any, data: bytes) -> None:
    with pytest.raises(BadExport):
        kind_for(wanted, "application/octet-stream", data)


def artifact(kept_through: int, *expiries: float, now: float = 100, sharing: dict[str, Any] | None = None) -> Artifact:
    meta = {
        "PK": "A#art_1",
        "kind": "file",
        "name": "a",
        "mediaType": "text/plain",
        "origin": "sandbox_export",
        "owner": "ada",
        "department": "research",
        "conversation": "c1",
        "turn": "c1.t1",
        "createdAt": 1,
        "highest": len(expiries),
        "keptThrough": kept_through,
        "sharing": {"people": [], "departments": [], "everyone": False, **(sharing or {})},
    }
    facts = {"bytes": 1, "sha256": "0", "at": 1, "turn": "c1.t1", "name": "a", "mediaType": "text/plain"}
    versions = [{"version": number, "expiresAt": at, **facts} for number, at in enumerate(expiries, 1)]
    return Artifact.from_items(meta, versions, now)


@pytest.mark.parametrize(
    ("kept_through", "expiries", "left", "expires"),
    [
        (0, (101,), [1], 101),
        (0, (100,), [], None),
        (0, (100, 101), [2], 101),
        (1, (50, 101), [1, 2], None),
        (1, (50, 60), [1], None),
        (2, (50, 60), [1, 2], None),
    ],
)
def test_attached_versions_stay_and_others_expire(
    kept_through: int, expiries: tuple[float, ...], left: list[int], expires: float | None
) -> None:
    found = artifact(kept_through, *expiries)
    assert [version.version for version in found.versions] == left
    assert found.expires_at == expires
    assert sorted([*left, *found.expired]) == list(range(1, len(expiries) + 1))


@pytest.mark.parametrize(
    ("headers", "viewer"),
    [
        ({}, None),
        ({"x-workbench-user": "ada"}, Viewer("ada")),
        ({"x-workbench-user": "ada", "x-workbench-department": "sales"}, Viewer("ada", "sales")),
        ({"x-workbench-groups": ""}, Viewer(None)),
        ({"x-other": "1"}, None),
    ],
)
def test_the_headers_say_who_looks(headers: dict[str, str], viewer: Viewer | None) -> None:
    assert access.viewer_of(headers) == viewer


@pytest.mark.parametrize(
    "headers", [{"x-workbench-user": " "}, {"x-workbench-user": "ada", "x-workbench-department": ""}]
)
def test_an_empty_name_does_not_make_a_person_the_portal(headers: dict[str, str]) -> None:
    with pytest.raises(InvalidRequest):
        access.viewer_of(headers)


@pytest.mark.parametrize(
    ("sharing", "viewer", "reads"),
    [
        ({}, None, True),
        ({}, Viewer("ada"), True),
        ({}, Viewer("eve", "research"), False),
        ({}, Viewer(None, None), False),
        ({"people": ["eve"]}, Viewer("eve"), True),
        ({"people": ["eve"]}, Viewer("Eve"), False),
        ({"departments": ["sales"]}, Viewer("eve", "sales"), True),
        ({"departments": ["sales"]}, Viewer("sales", "research"), False),
        ({"everyone": True}, Viewer("eve"), True),
    ],
)
def test_sharing_decides_who_reads_and_never_who_changes(
    sharing: dict[str, Any], viewer: Viewer | None, reads: bool
) -> None:
    found = artifact(1, 101, sharing=sharing)
    assert access.may_read(found, viewer) is reads
    assert access.may_change(found, viewer) is (viewer is None or viewer.user == "ada")
