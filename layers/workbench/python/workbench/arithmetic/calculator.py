"""A calculator's grammar and its value, on decimals. Handing a model's text to an evaluator would let it run code.

::

    sum     = product { ("+" | "-") product }
    product = signed { ("*" | "/") signed }
    signed  = { "-" } power
    power   = atom [ ("^" | "**") signed ]        right-associative, tighter than the minus before it: -4^2 is -16
    atom    = number | "(" sum ")" | name "(" sum { "," sum } ")"

Everything the grammar does not teach is refused with a reason. Length, depth, exponents and magnitudes are bounded
before anything is computed, so no expression is slow. Nothing is shared between expressions.
"""

from __future__ import annotations

import decimal
import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

LONGEST_EXPRESSION = 1_000
DEEPEST_NESTING = 50
LARGEST_EXPONENT = 64
LARGEST_LITERAL_EXPONENT = 1_000
SIGNIFICANT_DIGITS = 12
WORKING_DIGITS = 50
MOST_ROUND_PLACES = 20
# Below and above these powers of ten a number reads better in scientific notation, when that is shorter.
PLAIN_FROM_EXPONENT, PLAIN_BELOW_EXPONENT = -4, SIGNIFICANT_DIGITS

_CONTEXT = decimal.Context(
    prec=WORKING_DIGITS,
    rounding=decimal.ROUND_HALF_UP,
    Emax=99_999,
    Emin=-99_999,
    traps=[decimal.InvalidOperation, decimal.DivisionByZero, decimal.Overflow, decimal.Underflow],
)
_SHOWN = decimal.Context(prec=SIGNIFICANT_DIGITS, rounding=decimal.ROUND_HALF_UP, Emax=99_999, Emin=-99_999)
_ONE, _ZERO, _HALF = Decimal(1), Decimal(0), Decimal("0.5")

_TOKEN = re.compile(
    r"""
    [ \t\r\n]*
    (?: (?P<number> (?: [0-9]+ (?: \.[0-9]* )? | \.[0-9]+ ) (?: [eE][+-]?[0-9]+ )? ) (?P<glued> [\w.]* )
      | (?P<name> [^\W\d]\w* )
      | (?P<operator> \*\* | [-+*/^(),] )
      | (?P<end> \Z )
      | (?P<other> . )
    )
    """,
    re.VERBOSE | re.DOTALL,
)
_TYPED_OPERATORS = str.maketrans({"\N{MINUS SIGN}": "-", "\N{MULTIPLICATION SIGN}": "*", "\N{DIVISION SIGN}": "/"})
_END = ""
_TEACHING = {
    "%": "percent is not taught: write 50/100 for 50%",
    "=": "assignment and comparison are not taught: write one expression",
    "'": "text in quotes is not taught",
    '"': "text in quotes is not taught",
    ".": "attributes are not taught: a point belongs between digits",
}


class CalculationError(ValueError):
    """An expression that has no answer; the message is the reason, in a few words."""


@dataclass(frozen=True, slots=True)
class Result:
    """The value as it is shown, and whether digits were lost on the way to it."""

    value: str
    rounded: bool


def evaluate(expression: str, precision: int | None = None) -> Result:
    """The value of ``expression`` to 12 significant digits, and to ``precision`` decimal places when given.

    Halves are rounded away from zero. Raises :class:`CalculationError`.
    """
    if len(expression) > LONGEST_EXPRESSION:
        raise CalculationError(
            f"the expression has {len(expression)} characters, the limit is {LONGEST_EXPRESSION}: split it up"
        )
    if "__" in expression:
        raise CalculationError("double underscore is not allowed")
    context = _CONTEXT.copy()
    try:
        exact = _Parser(_tokens(expression), context).value()
        shown = shorten(exact, precision)
    except decimal.Overflow as error:
        raise CalculationError("the result is too large to show") from error
    except decimal.Underflow as error:
        raise CalculationError("the result is too close to zero to show") from error
    lost = bool(context.flags[decimal.Inexact]) or shown != exact
    return Result(notation(shown), lost)


def shorten(value: Decimal, precision: int | None = None) -> Decimal:
    """``value`` to 12 significant digits or ``precision`` decimal places, whichever is coarser, in one rounding."""
    if precision is not None and value and precision < SIGNIFICANT_DIGITS - 1 - value.adjusted():
        return _to_places(value, precision, _CONTEXT.copy())
    return _SHOWN.plus(value)


# ---------------------------------------------------------------- reading


def _tokens(expression: str) -> list[str | Decimal]:
    """Numbers as Decimals, everything else as its text, and a final empty text."""
    tokens: list[str | Decimal] = []
    for match in _TOKEN.finditer(expression if expression.isascii() else expression.translate(_TYPED_OPERATORS)):
        kind = match.lastgroup
        if kind == "operator":
            tokens.append(match["operator"])
        elif kind == "glued":
            tokens.append(_number(match["number"], match["glued"]))
        elif kind == "name":
            tokens.append(_function_name(match["name"], expression, match.end()))
        elif kind == "end":
            break
        else:
            raise CalculationError(_not_taught(match["other"]))
    if not tokens:
        raise CalculationError("the expression is empty")
    tokens.append(_END)
    return tokens


def _number(digits: str, glued: str) -> Decimal:
    if glued:
        text = _cut(digits + glued)
        hint = ": an exponent needs digits, as in 2e3" if glued in ("e", "E") else ""
        raise CalculationError(f"{text} is not a number{hint}")
    exponent = re.split("[eE]", digits)[1:]
    # The first test keeps exponents of a thousand digits from ever being computed with.
    if exponent and len(exponent[0].lstrip("+-").lstrip("0")) > 4:
        raise CalculationError(_too_large(digits))
    number = Decimal(digits)
    if number and abs(number.adjusted()) > LARGEST_LITERAL_EXPONENT:
        raise CalculationError(_too_large(digits))
    return number


def _too_large(digits: str) -> str:
    return f"the number {_cut(digits)} is beyond 1e{LARGEST_LITERAL_EXPONENT} or 1e-{LARGEST_LITERAL_EXPONENT}"


def _function_name(name: str, expression: str, end: int) -> str:
    if name not in _FUNCTIONS:
        called = expression[end:].lstrip().startswith("(")
        what = f"function {_cut(name)!r} is not allowed" if called else f"the name {_cut(name)!r} is not taught"
        raise CalculationError(f"{what}: there are numbers and {', '.join(_FUNCTIONS)}")
    return name


def _not_taught(character: str) -> str:
    if character in _TEACHING:
        return _TEACHING[character]
    if character.isdecimal():
        return f"{character!a} is not a plain digit: write 0 to 9"
    shown = character if character.isprintable() and character.isascii() else f"U+{ord(character):04X}"
    return f"the character {shown} is not taught: use + - * / ^ and parentheses"


def _cut(text: str) -> str:
    return text if len(text) <= 24 else text[:24] + "…"


# ---------------------------------------------------------------- computing


class _Parser:
    """Computes while it reads; recursion is bounded by the nesting limit."""

    __slots__ = ("_context", "_depth", "_next", "_position", "_tokens")

    def __init__(self, tokens: list[str | Decimal], context: decimal.Context) -> None:
        self._tokens = tokens
        self._position = 0
        self._next = tokens[0]
        self._context = context
        self._depth = 0

    def value(self) -> Decimal:
        value = self._sum()
        token = self._next
        if token == ",":
            raise CalculationError(
                "a comma only separates the arguments of a function: write thousands without commas (3000)"
            )
        if token == ")":
            raise CalculationError("a ) has no opening (")
        if token != _END:
            raise _operator_missing(token)
        return value

    def _advance(self) -> str | Decimal:
        token = self._next
        self._position += 1
        self._next = self._tokens[self._position]
        return token

    def _enter(self) -> None:
        self._depth += 1
        if self._depth > DEEPEST_NESTING:
            raise CalculationError(f"it is nested deeper than {DEEPEST_NESTING} levels")

    def _sum(self) -> Decimal:
        value = self._product()
        while self._next in ("+", "-"):
            operate = self._context.add if self._advance() == "+" else self._context.subtract
            value = operate(value, self._product())
        return value

    def _product(self) -> Decimal:
        value = self._signed()
        while self._next in ("*", "/"):
            if self._advance() == "*":
                value = self._context.multiply(value, self._signed())
            else:
                divisor = self._signed()
                if not divisor:
                    raise CalculationError("division by zero")
                value = self._context.divide(value, divisor)
        return value

    def _signed(self) -> Decimal:
        negative = False
        # A loop, not recursion: a thousand signs are a thousand steps.
        while self._next == "-":
            self._advance()
            negative = not negative
        value = self._power()
        return value.copy_negate() if negative else value

    def _power(self) -> Decimal:
        base = self._atom()
        if self._next not in ("^", "**"):
            return base
        self._advance()
        self._enter()
        exponent = self._signed()
        self._depth -= 1
        return _raise(base, exponent, self._context)

    def _atom(self) -> Decimal:
        if self._next == _END:
            raise CalculationError("it ends where a number is expected")
        token = self._advance()
        if isinstance(token, Decimal):
            # Longer literals than the working precision are rounded to it, and said to be.
            return self._context.plus(token)
        if token == "(":
            self._enter()
            value = self._sum()
            self._close()
            return value
        if token in _FUNCTIONS:
            return self._call(token)
        if token == "+":
            raise CalculationError("a + needs a number before it")
        raise CalculationError(f"a number is expected where {token} stands")

    def _call(self, name: str) -> Decimal:
        if self._next != "(":
            raise CalculationError(f"{name} needs parentheses: {name}(...)")
        self._advance()
        self._enter()
        arguments = [self._sum()]
        while self._next == ",":
            self._advance()
            arguments.append(self._sum())
        self._close()
        function, most = _FUNCTIONS[name]
        if len(arguments) > most:
            takes = "1 argument" if most == 1 else f"at most {most} arguments"
            raise CalculationError(f"{name} takes {takes}, got {len(arguments)}: write thousands without commas")
        return function(arguments, self._context)

    def _close(self) -> None:
        if self._next == ",":
            raise CalculationError(
                "a comma only separates the arguments of a function: write thousands without commas (3000)"
            )
        if self._next == _END:
            raise CalculationError("a closing ) is missing")
        if self._next != ")":
            raise _operator_missing(self._next)
        self._advance()
        self._depth -= 1


def _operator_missing(token: str | Decimal) -> CalculationError:
    if isinstance(token, Decimal):
        return CalculationError("an operator is missing before a number: write thousands without blanks (3000)")
    return CalculationError(f"an operator is missing before {token}")


def _raise(base: Decimal, exponent: Decimal, context: decimal.Context) -> Decimal:
    if abs(exponent) > LARGEST_EXPONENT:
        raise CalculationError(f"exponent {notation(_SHOWN.plus(exponent))} exceeds the limit of {LARGEST_EXPONENT}")
    if not exponent:
        return _ONE  # also 0^0, as in most calculators and languages
    if not base:
        if exponent < 0:
            raise CalculationError("division by zero: 0 has no negative power")
        return _ZERO
    if exponent == exponent.to_integral_value():
        power = context.power(base, abs(exponent))
        return power if exponent > 0 else context.divide(_ONE, power)
    if base < 0:
        raise CalculationError("not a real number: a negative base needs a whole exponent")
    return context.sqrt(base) if exponent == _HALF else context.power(base, exponent)


def _square_root(arguments: list[Decimal], context: decimal.Context) -> Decimal:
    if arguments[0] < 0:
        raise CalculationError("not a real number: the square root of a negative number")
    return context.sqrt(arguments[0])


def _round(arguments: list[Decimal], _: decimal.Context) -> Decimal:
    places = arguments[1] if len(arguments) > 1 else _ZERO
    if places != places.to_integral_value() or abs(places) > MOST_ROUND_PLACES:
        raise CalculationError(f"round takes a whole number of places from -{MOST_ROUND_PLACES} to {MOST_ROUND_PLACES}")
    # What a person asks to be rounded is no digit lost by the calculator: the flag stays as it was.
    return _to_places(arguments[0], int(places), _CONTEXT.copy())


def _to_places(value: Decimal, places: int, context: decimal.Context) -> Decimal:
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and exponent >= -places:
        return value
    return value.quantize(Decimal((0, (1,), -places)), rounding=decimal.ROUND_HALF_UP, context=context)


_Function = Callable[[list[Decimal], decimal.Context], Decimal]
# Each with the most arguments that it takes.
_FUNCTIONS: dict[str, tuple[_Function, int]] = {
    "min": (lambda arguments, _: min(arguments), LONGEST_EXPRESSION),
    "max": (lambda arguments, _: max(arguments), LONGEST_EXPRESSION),
    "abs": (lambda arguments, _: arguments[0].copy_abs(), 1),
    "sqrt": (_square_root, 1),
    "round": (_round, 2),
}


# ---------------------------------------------------------------- showing


def notation(value: Decimal) -> str:
    """Without needless zeros; plain in the ordinary range, and beyond it when plain is no longer than scientific."""
    if not value:
        return "0"
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    power = len(text) - 1 + exponent
    text = text.rstrip("0")
    minus = "-" if sign else ""
    scientific = f"{text[0]}{'.' if len(text) > 1 else ''}{text[1:]}e{'-' if power < 0 else '+'}{abs(power):02d}"
    ordinary = PLAIN_FROM_EXPONENT <= power < PLAIN_BELOW_EXPONENT
    if not ordinary and _plain_length(text, power) > len(scientific):
        return minus + scientific
    if power < 0:
        return f"{minus}0.{'0' * (-power - 1)}{text}"
    whole, fraction = text[: power + 1].ljust(power + 1, "0"), text[power + 1 :]
    return f"{minus}{whole}.{fraction}" if fraction else minus + whole


def _plain_length(text: str, power: int) -> int:
    if power < 0:
        return len(text) - power + 1
    return max(power + 1, len(text) + 1 if len(text) > power + 1 else 0)
