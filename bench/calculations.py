"""Expressions that people ask models to work out, through each evaluator as it is meant to be used for untrusted text.

All three get the same texts in one process; a run is all of them, several times over. Ours computes on decimals, the
peers on binary floating point: 0.1 + 0.2 is 0.3 here and 0.30000000000000004 there.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from bench.measure import Row, in_turns
from workbench.arithmetic.calculator import evaluate

EXPRESSIONS = (
    "0.1 + 0.2",
    "19.99 * 3 + 4.50",
    "(1250 - 980) / 980 * 100",
    "1000 * (1 + 0.035) ** 10",
    "sqrt(2) * 100",
    "round(2.675 * 117, 2)",
    "max(3, 7.5, 2) - min(4, 1.25)",
    "((12.5 + 7.25) * (3 - 1.5)) / (2 ** 5) + abs(-3.75)",
)
REPEATED = 20


def against_simpleeval() -> Row:
    """A new ``SimpleEval`` with the same functions once, then one ``eval`` an expression."""
    from math import sqrt

    from simpleeval import SimpleEval

    functions = {"sqrt": sqrt, "round": round, "max": max, "min": min, "abs": abs}
    return _row(SimpleEval(functions=functions).eval, "simpleeval")


def against_asteval() -> Row:
    """One minimal ``Interpreter``, which has the functions built in."""
    from asteval import Interpreter

    return _row(partial(Interpreter(minimal=True, use_numpy=False).eval, raise_errors=True), "asteval")


def _row(theirs: Callable[[str], float], peer: str) -> Row:
    for expression in EXPRESSIONS:
        value, other = float(evaluate(expression).value), theirs(expression)
        # Binary peers round 312.975 down.
        if abs(value - other) > 1e-4 * abs(other):
            raise AssertionError(f"{expression} is {value} here and {other} with {peer}")
    ours, others = in_turns(partial(_all, evaluate), partial(_all, theirs))
    return Row(ours, f"{peer}, {REPEATED * len(EXPRESSIONS)} expressions", others, "faster", most=1.0)


def _all(way: Callable[[str], object]) -> None:
    for _ in range(REPEATED):
        for expression in EXPRESSIONS:
            way(expression)
