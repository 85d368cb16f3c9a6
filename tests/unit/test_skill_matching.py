"""Which skills a text asks for: by name first, then by what it is about."""

from __future__ import annotations

import pytest

from tests.skill_zips import skill_md
from workbench.skills import SkillRegistry, parse_skill_file
from workbench.skills.matching import Candidate, match_skills, mentions, score_skills

SKILLS = [
    Candidate("pdf", "Extract text and tables from PDF files, fill in forms, merge documents."),
    Candidate("xlsx", "Create and edit spreadsheets with formulas, formatting and charts."),
    Candidate("reference", "Look up API references in the documentation of a library."),
    Candidate("brand-voice", "Write in the house's voice. Use for posts, newsletters and mails."),
    Candidate("表計算", "売上の表を集計してグラフを作る。"),
]


def named(text: str) -> list[str]:
    return [found.name for found in match_skills(SKILLS, text) if found.mentioned]


@pytest.mark.parametrize(
    ("text", "best"),
    [
        ("Please fill in this PDF form for me", "pdf"),
        ("I need a spreadsheet with a chart of last year's sales", "xlsx"),
        ("write a newsletter about our new office", "brand-voice"),
        ("which functions does this library's API have?", "reference"),
        ("売上を集計して", "表計算"),
    ],
)
def test_the_words_of_a_text_find_its_skill(text: str, best: str) -> None:
    found = match_skills(SKILLS, text)
    assert found[0].name == best and 0.05 < found[0].score <= 1 and not found[0].mentioned


@pytest.mark.parametrize("text", ["", "   ", "What is the weather in Lisbon?", "bake a cake", "$100 for the $$$", "!?"])
def test_what_no_skill_is_about_matches_none(text: str) -> None:
    assert match_skills(SKILLS, text) == []


def test_every_skill_has_a_score_and_the_threshold_decides() -> None:
    text = "merge spreadsheets"
    scored = score_skills(SKILLS, text)
    assert {found.name for found in scored} == {skill.name for skill in SKILLS}
    assert [found.score for found in scored] == sorted((found.score for found in scored), reverse=True)
    assert match_skills(SKILLS, text, threshold=0.0) == [found for found in scored if found.score > 0]
    assert match_skills(SKILLS, text, threshold=1.0) == []


def test_a_name_wins_over_every_score() -> None:
    found = match_skills(SKILLS, "fill in this pdf form with $brand-voice")
    assert [(one.name, one.mentioned) for one in found[:2]] == [("brand-voice", True), ("pdf", False)]
    assert match_skills(SKILLS, "$xlsx", threshold=5.0)[0].name == "xlsx"


def test_names_come_in_the_order_of_the_text() -> None:
    assert named("first $xlsx, then $pdf, then $xlsx again") == ["xlsx", "pdf"]


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("$reference", ["reference"]),
        ("use $reference.", ["reference"]),
        ("($reference)", ["reference"]),
        ("“$reference”", ["reference"]),
        ("$reference's pages", ["reference"]),
        ("$references", []),
        ("$reference_2", []),
        ("$reference-card", []),
        ("$reference.card", []),
        ("$reference- or so", ["reference"]),
        ("$référence", []),
        ("$referencé", []),
        ("$referencee\u0301", []),
        ("US$reference", []),
        ("é$reference", []),
        ("_$reference", []),
        ("$$reference", []),
        ("reference", []),
        ("$ reference", []),
        ("$Reference", ["reference"]),
        ("$brand-voice", ["brand-voice"]),
        ("$brand", []),
        ("$表計算を使って", []),
        ("$表計算 を使って", ["表計算"]),
        ("$pdf$xlsx", ["pdf"]),
    ],
)
def test_a_name_counts_where_a_whole_word_stands(text: str, names: list[str]) -> None:
    assert named(text) == names


def test_what_is_written_like_a_name_is_no_word_of_the_text() -> None:
    assert match_skills(SKILLS, "$references") == []


def test_the_longest_name_and_the_exact_spelling_count() -> None:
    names = ["pdf", "pdf forms", "PDF"]
    assert mentions("$pdf forms", names) == ["pdf forms"]
    assert mentions("$PDF", names) == ["PDF"]
    assert mentions("$Pdf", names) == ["pdf"]


def test_a_text_of_dollars_is_read_quickly() -> None:
    assert mentions(" $" * 50_000, [f"name-{number}" for number in range(500)]) == []


def test_a_registry_is_matched_like_a_list() -> None:
    registry = SkillRegistry(
        [parse_skill_file(skill_md("pdf", "Fills in PDF forms.")), parse_skill_file(skill_md("x"))]
    )
    assert [found.name for found in match_skills(registry, "a pdf form")] == ["pdf"]
    assert match_skills(SkillRegistry(), "a pdf form") == []
