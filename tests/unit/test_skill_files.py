"""A SKILL.md is read as people write it, and what cannot be read is refused with its reason."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.unit.skill_shapes import SHAPES, Shape
from workbench.skills import BadSkill, Skill, parse_skill_file
from workbench.skills.skill_file import BadDescription, BadName


def reason(content: str | bytes) -> str:
    with pytest.raises(BadSkill) as refused:
        parse_skill_file(content, "skills/demo/SKILL.md")
    assert str(refused.value).startswith("skills/demo/SKILL.md: ")
    return refused.value.reason


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.what)
def test_shapes_of_public_collections(shape: Shape) -> None:
    skill = parse_skill_file(shape.content)
    assert (skill.name, skill.description, skill.version) == (shape.name, shape.description, shape.version)
    assert skill.body.startswith(shape.body)
    assert {key: skill.fields[key] for key in shape.fields} == shape.fields


# ---------------------------------------------------------------- cases 106 and 107


def test_case_106_a_byte_order_mark_hides_no_skill() -> None:
    text = "---\nname: demo\ndescription: d\n---\nBody\n"
    for content in ("\ufeff" + text, b"\xef\xbb\xbf" + text.encode()):
        skill = parse_skill_file(content)
        assert (skill.name, skill.description, skill.body) == ("demo", "d", "Body\n")


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
def test_case_106_utf_16_is_read_with_its_mark_and_refused_in_words_without(encoding: str) -> None:
    data = "---\nname: demo\ndescription: dé\n---\nBody".encode(encoding)
    if encoding == "utf-16":
        assert parse_skill_file(data).description == "dé"
    else:
        assert "UTF-8" in reason(data)


def test_case_106_blank_lines_before_the_head() -> None:
    assert parse_skill_file("\n \n\r\n---\nname: demo\ndescription: d\n---\n").name == "demo"


def test_case_107_a_head_that_ends_the_file() -> None:
    skill = parse_skill_file("---\r\nname: demo\r\ndescription: d\r\n---")
    assert (skill.name, skill.description, skill.body) == ("demo", "d", "")


def test_case_107_carriage_returns_alone() -> None:
    skill = parse_skill_file(b"---\rname: demo\rdescription: d\r---\rOne\rTwo")
    assert (skill.name, skill.body) == ("demo", "One\nTwo")


def test_case_107_rules_in_the_body_stay_there() -> None:
    skill = parse_skill_file("---\nname: demo\ndescription: d\n---\nOne\n\n---\n\nname: other\n---\n")
    assert (skill.name, skill.body) == ("demo", "One\n\n---\n\nname: other\n---\n")


# ---------------------------------------------------------------- what is refused, and how


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("", "does not begin with frontmatter"),
        ("# A title\n", "does not begin with frontmatter"),
        ("---\nname: demo\ndescription: d\n", "does not end"),
        ("---\ndescription: d\n---\n", "no `name`"),
        ("---\nname:\ndescription: d\n---\n", "no `name`"),
        ("---\nname: demo\n---\n", "no `description`"),
        ("---\nname: demo\ndescription: ' '\n---\n", "no `description`"),
        ("---\nname: demo\ndescription:\n  - a\n  - b\n---\n", "not a list"),
        ("---\nname: demo\ndescription:\n  a: b\n---\n", "not a map"),
        ("---\nname: [a]\ndescription: d\n---\n", "not a list"),
        ("---\nname: ../up\ndescription: d\n---\n", "holds a character"),
        ("---\nname: a/b\ndescription: d\n---\n", "holds a character"),
        ("---\nname: a@1\ndescription: d\n---\n", "holds a character"),
        ("---\nname: -a\ndescription: d\n---\n", "holds a character"),
        ("---\nname: one\nname: two\ndescription: d\n---\n", "`name` twice"),
        ("---\nname: demo\ndescription: d\nversion: next\n---\n", "`version` cannot be read"),
        ("---\nname: demo\ndescription: d\nversion: [1]\n---\n", "not a list"),
        ("---\njust words\n---\n", "is no entry"),
        (b"---\nname: demo\ndescription: \xff\n---\n", "byte 28 cannot be read"),
        ("---\nname: demo\ndescription: d\nx: " + "y" * 20_000 + "\n---\n", "more than 16,384 characters"),
    ],
)
def test_the_reason_says_what_is_wrong(content: str | bytes, said: str) -> None:
    assert said in reason(content)


def test_lengths_are_counted_in_characters() -> None:
    fits = parse_skill_file(f"---\nname: {'é' * 64}\ndescription: {'ß' * 1024}\n---\n")
    assert (len(fits.name), len(fits.description)) == (64, 1024)
    with pytest.raises(BadName, match="65 characters and 64 are allowed"):
        parse_skill_file(f"---\nname: {'a' * 65}\ndescription: d\n---\n")
    with pytest.raises(BadDescription, match=r"1,500 characters and 1,024 are allowed. Shorten it by 476"):
        parse_skill_file(f"---\nname: a\ndescription: {'d' * 1500}\n---\n")


def test_yaml_makes_no_objects_and_grows_no_aliases() -> None:
    head = "name: demo\ndescription: d\nhow: !!python/object/apply:os.getcwd []\nbomb: &b [x, x]\nmore: [*b, *b]\n"
    fields = parse_skill_file(f"---\n{head}---\n").fields
    assert fields["how"] == []
    assert fields["more"] == "[*b, *b]"


@pytest.mark.parametrize("head", ["[" * 8_000, "{a: " * 3_000, "a: &x " * 2_000, "? " * 8_000, "- " * 8_000])
def test_a_hostile_head_is_refused_or_read_and_never_fails(head: str) -> None:
    with pytest.raises(BadSkill):
        parse_skill_file(f"---\nname: demo\n{head}\n---\n")


def test_scalars_are_texts() -> None:
    skill = parse_skill_file("---\nname: 007\ndescription: yes\nversion: 1.10\n---\n")
    assert (skill.name, skill.description, skill.version) == ("007", "yes", "1.10")


def test_the_path_is_kept(tmp_path: Path) -> None:
    skill = parse_skill_file("---\nname: demo\ndescription: d\n---\n", tmp_path / "SKILL.md")
    assert isinstance(skill, Skill) and skill.folder == tmp_path
