"""Prompts: what a template becomes, where it comes from, and which variant is chosen."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workbench.prompts import (
    BadPrompt,
    BadVariants,
    MissingVariables,
    Prompt,
    Variant,
    ab_prompts,
    define_prompt,
    load_prompt_file,
)
from workbench.prompts.prompt import RenderedTooLong
from workbench.prompts.splitting import place_of, split

GREETING = define_prompt("greeting", "Hello {{ name }}, {{name}}! {{\n place }}")


def test_variables_are_replaced_with_any_blanks_around_them() -> None:
    assert GREETING.render({"name": "Ada", "place": "London"}) == "Hello Ada, Ada! London"
    assert (GREETING.version, GREETING.id, GREETING.variables) == ("1.0.0", "greeting@1.0.0", ["name", "place"])


def test_every_missing_variable_is_named() -> None:
    with pytest.raises(MissingVariables, match="`name`, `place`, which were not given") as missing:
        GREETING.render({"other": 1})
    assert missing.value.names == ["name", "place"]
    with pytest.raises(MissingVariables, match="`place`, which was not given"):
        GREETING.render({"name": "Ada", "place": None})


def test_values_are_never_read_again() -> None:
    prompt = define_prompt("p", "{{ a }}{{ b }}")
    assert prompt.render({"a": "{{ b }}", "b": "{{ a }}\\1 \\g<0> $x {a}"}) == "{{ b }}{{ a }}\\1 \\g<0> $x {a}"
    assert define_prompt("p", "{{{ a }}}").render({"a": "{ a }"}) == "{{ a }}"


@given(st.text(), st.text())
def test_any_text_goes_in_as_it_is(before: str, value: str) -> None:
    before = before.replace("{", "")
    assert define_prompt("p", before + "{{ x }}.").render({"x": value}) == f"{before}{value}."


@pytest.mark.parametrize(
    ("value", "text"),
    [(3, "3"), (0.5, "0.5"), (True, "true"), ("", ""), (["é", 1], '["é", 1]'), ({"a": None}, '{"a": null}')],
)
def test_what_is_no_text_goes_in_as_json(value: Any, text: str) -> None:
    assert define_prompt("p", "<{{ x }}>").render({"x": value, "unused": object()}) == f"<{text}>"


@pytest.mark.parametrize("template", ["{{ }}", "{{ a b }}", "{{ 1a }}", "{ a }", "{{a}", "{{ a | upper }}", "%s $a"])
def test_what_is_no_variable_stays(template: str) -> None:
    assert define_prompt("p", template).render() == template


def test_a_prompt_can_be_held_to_a_length() -> None:
    prompt = define_prompt("p", "{{ x }}" * 1_000)
    assert len(prompt.render({"x": "y" * 10}, longest=20_000)) == 10_000
    with pytest.raises(RenderedTooLong, match="20,000"):
        prompt.render({"x": "y" * 1_000_000}, longest=20_000)


@pytest.mark.parametrize(
    ("name", "template", "version"),
    [
        ("", "t", "1.0.0"),
        ("a/b", "t", "1.0.0"),
        ("a@1", "t", "1.0.0"),
        ("p", None, "1.0.0"),
        ("p", "t", "x"),
        ("p", "t", 1),
    ],
)
def test_what_cannot_be_a_prompt(name: str, template: Any, version: Any) -> None:
    with pytest.raises(BadPrompt):
        define_prompt(name, template, version)


# ---------------------------------------------------------------- files


@pytest.mark.parametrize(
    "content",
    [
        b"---\nname: greeting\nversion: 2.1.0\n---\nHello {{ name }}!\n",
        b"\xef\xbb\xbf---\r\nname: greeting\r\nversion: 2.1.0\r\n---\r\n\r\nHello {{ name }}!\r\n",
        "---\nname: greeting\nversion: 2.1.0\n---\nHello {{ name }}!".encode("utf-16"),
    ],
)
def test_a_prompt_from_a_file(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "anything.md"
    path.write_bytes(content)
    assert load_prompt_file(path) == Prompt("greeting", "Hello {{ name }}!", "2.1.0")


def test_a_file_without_name_or_version(tmp_path: Path) -> None:
    path = tmp_path / "farewell.md"
    path.write_text("---\nauthor: ada\n---\nBye {{ name }}\n\n---\nthe end")
    assert load_prompt_file(str(path)) == Prompt("farewell", "Bye {{ name }}\n\n---\nthe end", "1.0.0")


def test_a_file_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "p.md"
    for content, said in (
        ("Hello", "frontmatter"),
        ("---\nname: [a]\n---\n", "name"),
        ("---\nversion: x\n---\n", "version"),
    ):
        path.write_text(content)
        with pytest.raises(BadPrompt, match=said) as refused:
            load_prompt_file(path)
        assert str(path) in str(refused.value)


# ---------------------------------------------------------------- variants


CASUAL = {"name": "casual", "template": "Hey {{ name }}!", "weight": 2}
FORMAL = {"name": "formal", "template": "Dear {{ name }},", "weight": 1}


def test_weights_split_the_traffic() -> None:
    counts = Counter(ab_prompts([CASUAL, FORMAL]).name for _ in range(3_000))
    assert 1_800 < counts["casual"] < 2_200 and counts.total() == 3_000
    assert {ab_prompts([CASUAL, FORMAL | {"weight": 0}]).name for _ in range(50)} == {"casual"}


def test_a_key_always_gets_the_same_variant_and_keys_are_spread() -> None:
    chosen = {key: ab_prompts([CASUAL, FORMAL], key=key).name for key in map(str, range(3_000))}
    assert all(ab_prompts([CASUAL, FORMAL], key=key).name == name for key, name in list(chosen.items())[:100])
    assert 1_800 < Counter(chosen.values())["casual"] < 2_200


def test_a_variant_by_name_or_version() -> None:
    variants = [define_prompt("a", "1"), define_prompt("a", "2", "2.0.0"), (define_prompt("b", "3"), 5)]
    assert ab_prompts(variants, "b").template == "3"
    assert ab_prompts(variants, "a@2.0").template == "2"
    assert {ab_prompts(variants, "a").template for _ in range(60)} == {"1", "2"}
    assert ab_prompts([CASUAL | {"weight": 0}, FORMAL], pick="casual").render({"name": "A"}) == "Hey A!"
    for pick in ("c", "a@3.0.0", "a@", "@1.0.0", "b@x"):
        with pytest.raises(BadVariants, match="No variant is"):
            ab_prompts(variants, pick)


@pytest.mark.parametrize("weight", [-1, math.nan, math.inf, True, "1", None, 10**400])
def test_weights_that_are_none(weight: Any) -> None:
    with pytest.raises(BadVariants, match="weight"):
        ab_prompts([Variant(GREETING, weight), Variant(GREETING)])


@pytest.mark.parametrize("weights", [[], [0], [0, 0.0]])
def test_nothing_to_choose_from(weights: list[float]) -> None:
    with pytest.raises(BadVariants, match="No variant has a weight above 0"):
        ab_prompts([Variant(GREETING, weight) for weight in weights])


@given(
    st.lists(st.floats(0, 1e308) | st.integers(0, 10**6), min_size=1).filter(any),
    st.floats(0, 1, exclude_max=True),
)
def test_a_weight_of_nothing_is_never_chosen(weights: list[float], place: float) -> None:
    assert weights[split(weights, place)] > 0


@given(st.text())
def test_places_lie_between_nothing_and_all(key: str) -> None:
    assert 0 <= place_of(key) < 1 and place_of(key) == place_of(key)
