"""Names of documents: kept as they are, made fit for files, and quoted so that nothing in them speaks for itself."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.artifacts.model import check_name
from workbench.knowledge import names
from workbench.knowledge.model import Document, Owner
from workbench.knowledge.offered import NONE, Bindings, lines
from workbench.workspace.paths import check_path


@given(st.text(max_size=300))
def test_every_name_becomes_the_name_of_a_file(name: str) -> None:
    made = names.file_name(name)
    assert check_name(made) == made
    assert check_path(f"files/{made}") == f"files/{made}"
    assert len(made.encode()) <= names.FILE_NAME_BYTES


@pytest.mark.parametrize(
    ("name", "made"),
    [
        ("report.pdf", "report.pdf"),
        ("C:\\docs\\a b.xlsx", "C:_docs_a b.xlsx"),
        ("../../etc/passwd", ".._.._etc_passwd"),
        ("..", "document"),
        ("   ", "document"),
        ("e\u0301.txt", "\u00e9.txt"),
        ("a\u202etxt.exe", "a_txt.exe"),
        ("x" * 400 + ".docx", "x" * 195 + ".docx"),
        ("👩‍👩‍👧 family.png", "👩‍👩‍👧 family.png"),
    ],
)
def test_names_of_files(name: str, made: str) -> None:
    assert names.file_name(name) == made


@given(st.text(max_size=300))
def test_a_quoted_name_stays_on_its_line_and_in_its_quotes(name: str) -> None:
    shown = names.quoted(name)
    assert shown[0] == shown[-1] == '"' and len(shown.splitlines()) == 1
    inner = shown[1:-1].replace("\\\\", "").replace('\\"', "")
    assert '"' not in inner
    assert all(letter.isprintable() or letter in "\u200c\u200d\ufe0e\ufe0f" for letter in shown)


def test_plain_names_are_shown_plainly() -> None:
    assert names.quoted("Bericht Q1 🎉.pdf") == '"Bericht Q1 🎉.pdf"'
    assert json.loads(names.quoted('a "b" \\ c')) == 'a "b" \\ c'
    assert names.quoted("x\n\U000e0041y") == '"x\\u{a}\\u{e0041}y"'
    assert len(names.quoted("x" * 500)) == names.SHOWN_CHARACTERS + 2


def test_default_collections_are_the_owners_alone() -> None:
    person, department = Owner("person", "research"), Owner("department", "research")
    assert person.default_collection != department.default_collection
    assert person.default_collection == Owner("person", "research").default_collection


def test_a_turn_without_documents_is_told_so() -> None:
    assert lines(NONE, ["search_docs", "run_code"]) == ["Documents you may use: none."]


def test_one_is_told_as_one() -> None:
    texts = dict.fromkeys(("mediaType", "artifact", "sha256", "storedSha256"), "")
    numbers = dict.fromkeys(("bytes", "storedBytes", "at"), 0)
    facts = {"PK": "COL#c", "SK": "DOC#d", "name": "a", "format": "docx", "state": "ready", **texts, **numbers}
    facts |= {"passages": 1, "extent": {}, "notes": []}
    one = Document.from_item(facts)
    paged = Document.from_item(facts | {"extent": {"pages": 1_200}, "passages": 0})
    told = lines(Bindings({}, (one, paged), 2), [])
    assert told[1:] == ['- doc_c.d: "a" (docx, 1 passage)', '- doc_c.d: "a" (docx, 1,200 pages, no text)']
