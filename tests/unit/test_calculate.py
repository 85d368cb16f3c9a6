"""The calculator: its grammar, its refusals, its figures, and that no input is slow."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workbench.arithmetic.calculator import CalculationError, evaluate, notation, shorten
from workbench.arithmetic.tools import calculate
from workbench.tools.answer import Answer
from workbench.tools.arguments import InvalidArguments

# A busy machine takes its time over drawing examples, which says nothing about the code.
calmly = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])


def value(expression: str, precision: int | None = None) -> str:
    return evaluate(expression, precision).value


def reason(expression: str) -> str:
    with pytest.raises(CalculationError) as caught:
        evaluate(expression)
    return str(caught.value)


def call(expressions: Any, **more: Any) -> Answer:
    bound = calculate.bind({"expressions": expressions, **more})
    return calculate.function(SimpleNamespace(), **bound.values)


# ---------------------------------------------------------------- grammar


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("-4^2", "-16"), ("(-4)^2", "16"), ("2*-3^2", "-18"), ("--2", "2"), ("-(-3)", "3"),
        ("-3^(1*2)", "-9"), ("9-3^2", "0"), ("3-6^2", "-33"), ("1+(-3^2)", "-8"),
        ("4^3^2", "262144"), ("2**3**2", "512"), ("2^-3^2", "0.001953125"), ("2^-2", "0.25"), ("2**-2*4", "1"),
        ("(-1)^0", "1"), ("(-2)^3", "-8"), ("0^0", "1"), ("0^5", "0"), ("4^0.5", "2"), ("8^-1", "0.125"),
        ("1.5e3", "1500"), ("5.7E-6", "5.7e-06"), ("1e-15*3", "3e-15"), (".5+5.", "5.5"),
        ("max(1,234)", "234"), ("min(3, 1, 2)", "1"), ("abs(-3)", "3"), ("sqrt(2)^2", "2"), ("max(1)", "1"),
        ("round(2.5)", "3"), ("round(-2.5)", "-3"), ("round(1234.567, 2)", "1234.57"), ("round(1234.567,-2)", "1200"),
        ("max(min(1,2),(3+4)*2)", "14"), ("\N{MINUS SIGN}5+3", "-2"), ("5\N{MINUS SIGN}3", "2"), ("6×7", "42"),
        ("8÷2", "4"),
        ("0.1+0.2", "0.3"), ("1/3", "0.333333333333"), ("2/3", "0.666666666667"), ("-1/3", "-0.333333333333"),
        ("7/2*2", "7"), ("2-3-4", "-5"), ("24/4/3", "2"), ("-0", "0"), ("0*-1", "0"), ("1 + \t2\n", "3"),
        ("(" * 20 + "1" + ")" * 20, "1"), ("-" * 900 + "1", "1"), ("-" * 901 + "1", "-1"),
        ("+".join(["1"] * 500), "500"),
    ],
)  # fmt: skip
def test_values(expression, shown):
    assert value(expression) == shown


@pytest.mark.parametrize(
    ("expression", "why"),
    [
        ("(-8)^(1/3)", "not a real number"), ("sqrt(-1)", "not a real number"),
        ("0^-1", "division by zero"), ("1/0", "division by zero"), ("1/(2-2)", "division by zero"),
        ("2 ** 10000000", "exponent 10000000 exceeds the limit of 64"), ("100000**100000", "exponent 100000"),
        ("2^65", "exponent 65"), ("2^-65", "exponent -65"), ("2^2^2^2^2", "exponent 65536"), ("1^1e900",
        "exponent 1e+900"),
        ("9" * 100_000, "100000 characters, the limit is 1000"), ("*".join(["9999"] * 5000), "characters, the limit"),
        ("(" * 5000 + "1" + ")" * 5000, "characters, the limit"), ("-" * 5000 + "1", "characters, the limit"),
        ("(" * 51 + "1" + ")" * 51, "nested deeper than 50"), ("2^" * 51 + "1", "nested deeper than 50"),
        ("abs(" * 51 + "1" + ")" * 51, "nested deeper than 50"), ("-(" * 400 + "1", "nested deeper than 50"),
        ("((1", "a closing ) is missing"), ("1)", "a ) has no opening"), ("max(1,2", "a closing ) is missing"),
        ("", "the expression is empty"), ("   ", "the expression is empty"), ("()", "a number is expected"),
        ("1+", "it ends where a number is expected"), ("*1", "a number is expected where * stands"),
        ("+5", "a + needs a number before it"), ("5//2", "a number is expected where / stands"),
        ("2e", "2e is not a number: an exponent needs digits"), ("2e+",
        "2e+ is not a number: an exponent needs digits"), ("e5", "the name 'e5'"),
        ("1.2.3", "1.2.3 is not a number"), ("0x10", "0x10 is not a number"), ("1_000", "1_000 is not a number"),
        ("2x", "2x is not a number"), ("1 000", "write thousands without blanks"), ("2(3)", "an operator is missing"),
        ("(2)(3)", "an operator is missing"), ("(1 2)", "write thousands without blanks"),
        ("3,000*4", "a comma only separates"), ("1,234+1", "a comma only separates"), ("(1,234)",
        "a comma only separates"),
        ("abs(-3,000)", "abs takes 1 argument, got 2: write thousands without commas"), ("round(1,2,3)", "at most 2"),
        ("50%", "percent is not taught"), ("10 % 3", "percent is not taught"),
        ("a=3", "the name 'a'"), ("3=3", "assignment and comparison"), ("x", "the name 'x'"), ("pi*2", "the name 'pi'"),
        ("５+1", "is not a plain digit"), ("1+５", "is not a plain digit"), ("5–3", "U+2013"), ("50\u00a0+1", "U+00A0"),
        ('__import__("os").system("echo pwned")', "double underscore is not allowed"),
        ("().__class__.__base__.__subclasses__()", "double underscore is not allowed"),
        ("open('/etc/passwd').read()", "function 'open' is not allowed"), ("eval('1+1')",
        "function 'eval' is not allowed"),
        ("'a'*9", "text in quotes"), ("(1).real", "attributes are not taught"), ("[1]",
        "the character [ is not taught"),
        ("1;2", "the character ;"), ("1\x00", "U+0000"), ("max", "max needs parentheses"), ("max()",
        "a number is expected"),
        ("round(1, 0.5)", "whole number of places"), ("round(1, 99)", "whole number of places"), ("nan",
        "the name 'nan'"),
        ("1e1001", "beyond 1e1000"), ("1e-5000", "beyond"), ("1e" + "9" * 900, "beyond"), ("0e99999999", "beyond"),
        ("1e999^64*1e999^64", "too large to show"), ("1e-999^64*1e-999^64", "too close to zero"), ("inf",
        "the name 'inf'"),
    ],
)  # fmt: skip
def test_refusals(expression, why):
    assert why in reason(expression)
    assert len(reason(expression)) < 200


# ---------------------------------------------------------------- figures


@pytest.mark.parametrize(
    ("expression", "rounded"),
    [("1/4", False), ("1/3", True), ("2^64", True), ("10^11", False), ("123456789012", False), ("1234567890123", True),
     ("4^0.5", False), ("sqrt(2)", True), ("1e60+1-1e60", True), ("round(2/3, 2)", True), ("round(0.666, 2)", False),
     ("2^-9", False), ("0.1+0.2", False), ("9" * 60, True)],
)  # fmt: skip
def test_rounded_says_that_digits_were_lost(expression, rounded):
    assert evaluate(expression).rounded is rounded


@pytest.mark.parametrize(
    ("expression", "precision", "shown"),
    [("1/3", 2, "0.33"), ("2/3", 0, "1"), ("2.675", 2, "2.68"), ("-2.5", 0, "-3"), ("5", 3, "5"), ("0.0004", 2, "0"),
     ("0.1234999999999996", 3, "0.123"), ("123456789012.49999", 1, "123456789012"), ("1e20", 2, "1e+20"),
     ("999.9995", 3, "1000")],
)  # fmt: skip
def test_precision_rounds_once_to_decimal_places(expression, precision, shown):
    assert value(expression, precision) == shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [("1000000", "1000000"), ("100000000000", "100000000000"), ("1000000000000", "1e+12"), ("1234567890120",
     "1234567890120"),
     ("0.0001", "0.0001"), ("0.00001", "1e-05"), ("0.0000123456789", "1.23456789e-05"), ("-1500", "-1500"),
     ("1E+3", "1000"),
     ("12.50", "12.5"), ("-0.0", "0"), ("1.5E+300", "1.5e+300"), ("0E+5", "0")],
)  # fmt: skip
def test_notation_is_plain_in_the_ordinary_range_and_short_beyond(number, shown):
    assert notation(shorten(Decimal(number))) == shown


# ---------------------------------------------------------------- the tool


def test_a_failed_entry_leaves_the_others_answered():
    answer = call(["1/0", "1+1", "2e"])
    assert answer.error is None
    assert [entry["value"] for entry in answer.structured["entries"]] == [None, "2", None]
    assert answer.structured["entries"][0] == {
        "expression": "1/0",
        "value": None,
        "rounded": False,
        "error": "division by zero",
    }
    assert answer.text.splitlines()[:2] == ["1/0: division by zero", "1+1 = 2"]


def test_a_call_without_any_answer_failed_and_keeps_its_entries():
    answer = call(["1/0"])
    assert answer.error is not None
    assert "division by zero" in answer.error.message
    assert answer.structured["entries"][0]["error"] == "division by zero"


def test_a_lone_expression_is_a_list_of_one_and_rounding_is_marked():
    answer = call("1/3", precision="2")
    assert answer.structured["entries"] == [{"expression": "1/3", "value": "0.33", "rounded": True, "error": None}]
    assert answer.text == "1/3 ≈ 0.33"


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        ({"expressions": ["1"], "precision": 99}, "precision must be <= 10, got 99"),
        ({"expressions": ["1"], "precision": -1}, "precision must be >= 0"),
        ({"expressions": []}, "expressions must have at least 1 item"),
        ({"expressions": ["1"] * 21}, "expressions must have at most 20 items, got 21"),
        ({"expressions": [1]}, "expressions[0] must be text in quotes"),
        ({}, "expressions is required"),
    ],
)
def test_bounds_of_the_call(arguments, rule):
    with pytest.raises(InvalidArguments) as caught:
        calculate.bind(arguments)
    assert rule in caught.value.message


def test_no_answer_is_a_wall_of_digits():
    answer = call(["9" * 100_000, "9" * 999, "9999^64", "\n".join("1" * 400)])
    assert len(answer.text) < 2_000
    assert len(str(answer.structured["entries"][0])) < 500


def test_expressions_share_nothing():
    alone = call(["1/3"]).structured["entries"]
    assert call(["1e900^60", "2^65", "1/3"]).structured["entries"][2:] == alone


# ---------------------------------------------------------------- any input


numbers = st.integers(0, 999).map(str) | st.decimals("0.001", "999", places=3).map(str)
expressions = st.recursive(
    numbers,
    lambda inner: (
        st.tuples(inner, st.sampled_from([" + ", " - ", "*", " / "]), inner).map("".join)
        | inner.map("({})".format)
        | inner.map("-({})".format)
        | st.tuples(inner, st.sampled_from(["^2", "^3", "**1", "^-1", "^0"])).map(lambda pair: f"({pair[0]}){pair[1]}")
    ),
    max_leaves=10,
)


def reference(expression: str) -> Fraction:
    """Python's own grammar on exact fractions."""
    tokens = "".join(part if not part[:1].isdigit() else f"Fraction('{part}')" for part in split(expression))
    return eval(tokens.replace("^", "**"), {"Fraction": Fraction})


def split(expression: str) -> list[str]:
    parts: list[str] = []
    for character in expression:
        if parts and parts[-1][0].isdigit() and (character.isdigit() or character == "."):
            parts[-1] += character
        else:
            parts.append(character)
    return parts


@calmly
@given(expressions)
def test_values_agree_with_exact_fractions(expression):
    try:
        exact = reference(expression)
    except ZeroDivisionError:
        assert "zero" in reason(expression)
        return
    got = Fraction(Decimal(value(expression)))
    assert math.isclose(got, exact, rel_tol=1e-11, abs_tol=1e-30)


alphabet = "0123456789.+-*/^()eE, \tminaxsqrtoud_%'\"[]=" + "\N{MINUS SIGN}×÷５é\x00\u2028"


@calmly
@given(st.text(alphabet, max_size=60) | st.text(max_size=40))
def test_any_text_is_a_short_value_or_a_short_reason(expression):
    try:
        result = evaluate(expression)
    except CalculationError as error:
        assert 0 < len(str(error)) < 200
        return
    assert len(result.value) <= 20
    assert Decimal(result.value).is_finite()


@calmly
@given(
    st.lists(
        st.sampled_from(["1", "23", "4.5", ".5", "+", "-", "*", "**", "* *", "(", ")", ",", "max", " "]), max_size=20
    )
)
def test_an_exponent_elsewhere_changes_no_other_expression(parts):
    # Expressions with an e are read by the slower of two ways; both have to agree.
    plain = "".join(parts)
    assert outcome(f"({plain})*1") == outcome(f"({plain})*1e0")


def outcome(expression: str) -> str:
    try:
        return value(expression)
    except CalculationError as error:
        return str(error)


@pytest.mark.parametrize(
    "pattern",
    ["9", "9.", "1e9", "(", "-", "9^", "1/3^0.7*", "sqrt(", "1.1^63.9*", "max(1,", "1e999^64/",
     "round(1e-900,20)+", "e", ".", "_",
     "9" * 300 + "^63.9999/"],
)  # fmt: skip
def test_the_worst_of_a_thousand_characters_takes_no_noticeable_time(pattern):
    text = (pattern * 1_000)[:998]
    candidates = [text, text + "1", text + "1)"]
    began = time.process_time()
    for candidate in candidates:
        try:
            evaluate(candidate)
        except CalculationError as error:
            assert str(error)
    assert time.process_time() - began < 1.0
