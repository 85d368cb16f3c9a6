"""What readers take for the same word is the same term; every string has terms, none has an error."""

from __future__ import annotations

import unicodedata

import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st

from workbench.retrieval import tokens as module
from workbench.retrieval.tokens import LONGEST, index_tokens, tokens


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("Café", "cafe"),
        ("cafe\u0301", "CAFÉ"),
        ("Straße", "STRASSE"),
        ("ﬁnance", "finance"),
        ("ＦＵＬＬ", "full"),
        ("İstanbul", "istanbul"),
        ("ISPARTA", "ısparta"),
        ("Łódź", "lodz"),
        ("smørrebrød", "Smorrebrod"),
        ("ещё", "еще"),
        ("Ὀδυσσεύς", "οδυσσευσ"),
        ("כָּתַב", "כתב"),
        ("مُحَمَّد", "محمد"),
        ("أحمد", "احمد"),
        ("٣٤", "34"),
        ("ｶﾞｷﾞ", "ガギ"),
        ("か\u3099", "が"),
        ("Donau\u00addampf\u200bschiff", "donaudampf schiff"),
        ("don’t", "don't"),
        ("👍🏽", "👍"),
        ("❤️", "❤"),
        ("companies", "company"),
        ("movies", "movie"),
        ("boxes", "box"),
        ("classes", "class"),
        ("batches", "batch"),
        ("caches", "cache"),
    ],
)
def test_alike_for_a_reader_alike_for_a_search(one: str, other: str) -> None:
    assert tokens(one) == tokens(other) != []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("", []),
        (" \t\r\n…—!?", []),
        ("The quick-brown Fox.", ["the", "quickbrown", "quick", "brown", "fox"]),
        ("foo_bar AB-123", ["foobar", "foo", "bar", "ab123", "ab", "123"]),
        ("O'Brien, Anna's l’avion", ["obrien", "brien", "anna", "anna", "lavion", "avion"]),
        ("1,000 a,b 1.25", ["1000", "1", "000", "a", "b", "1.25", "1", "25"]),
        ("v1.2.3", ["v1.2.3", "v1", "2", "3"]),
        ("C++ and C# but not f#m", ["c++", "and", "c#", "but", "not", "f", "m"]),
        ("status bus glass analysis", ["status", "bus", "glass", "analysis"]),
        ("東京都 猫", ["東京", "京都", "猫"]),
        ("iPhone15用ケース", ["iphone15", "用ケ", "ケー", "ース"]),
        ("한국어 말", ["한국", "국어", "말"]),
        ("हिन्दी भाषा", ["हिन्दी", "भाषा"]),
        ("👩‍💻 🇩🇪 text", ["👩", "💻", "🇩🇪", "text"]),
        ("a\x00b\ud800c", ["a", "b", "c"]),
        ("--foo__bar--", ["foobar", "foo", "bar"]),
    ],
)
def test_terms_of(text: str, terms: list[str]) -> None:
    assert tokens(text) == terms


def test_characters_of_thai_keep_their_vowels_and_tones() -> None:
    found = tokens("น้ำแข็ง")
    assert found and all(len(term) >= 2 for term in found)
    assert set(tokens("น้ำ")) <= set(found)


def test_a_lone_ideograph_finds_the_words_it_is_in() -> None:
    assert tokens("猫") == ["猫"]
    assert "猫" not in tokens("私は黒猫が好き")
    assert {"猫", "黒", "好", "私"} <= set(index_tokens("私は黒猫が好き"))
    assert index_tokens("猫") == ["猫"]
    assert index_tokens("black cat") == ["black", "cat"]


def test_a_long_chain_gives_its_parts_and_long_words_are_cut_alike() -> None:
    assert tokens("a-b-c-d-e-f-g-h-i") == list("abcdefghi")
    assert tokens("x" * 200) == ["x" * LONGEST] == tokens("x" * 300)


def test_every_character_is_read_whatever_version_of_unicode_python_knows() -> None:
    # Digits of scripts that the pattern library knows and an older Python does not stood for nothing.
    everything = "".join(map(chr, range(0x20000)))
    newer = [one for one in regex.findall(r"\p{Nd}", everything) if unicodedata.decimal(one, None) is None]
    assert all(tokens(one) == [one] for one in newer)
    for first in range(0, len(everything), 0x1000):
        tokens(" ".join(everything[first : first + 0x1000]))


@given(st.text(alphabet=st.characters(codec=None, exclude_categories=[])))
def test_any_string_has_terms_that_are_terms_again(text: str) -> None:
    found = tokens(text)
    for term in found:
        assert 0 < len(term) <= LONGEST
        assert not any(character.isspace() or character == "\0" for character in term)
        term.encode()
    assert set(found) <= set(index_tokens(text))


@given(st.text())
def test_forms_of_unicode_make_no_difference(text: str) -> None:
    # Composed, decomposed: how a keyboard happens to write it.
    assert tokens(unicodedata.normalize("NFC", text)) == tokens(unicodedata.normalize("NFD", text))


@given(st.lists(st.text(alphabet="aéß猫'-_.,s1 \n", max_size=12)))
def test_what_is_remembered_never_changes_an_answer(texts: list[str]) -> None:
    joined = " ".join(texts)
    module._terms.clear()
    first = tokens(joined)
    assert tokens(joined) == first == [term for text in texts for term in tokens(text)]
