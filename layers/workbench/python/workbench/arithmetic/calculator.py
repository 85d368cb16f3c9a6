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
import threading
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
_INEXACT = decimal.Inexact

_LEXEME = re.compile(r"(?:[0-9]|\.(?=[0-9]))(?:[eE][+-]|[\w.])*|[^\W\d]\w*|\*\*|[^ \t\r\n]")
_NUMBER = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?([0-9]+))?")
_OPERATORS = "+-*/^(),"
_TYPED_OPERATORS = str.maketrans({"\N{MINUS SIGN}": "-", "\N{MULTIPLICATION SIGN}": "*", "\N{DIVISION SIGN}": "/"})
_END = ""
_STRAY_COMMA = "a comma only separates the arguments of a function: write thousands without commas (3000)"
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


class _Working(threading.local):
    """A thread's decimal context; its flags tell whether a step lost digits."""

    def __init__(self) -> None:
        self.context = _CONTEXT.copy()


_working = _Working()


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
    lexemes = _lexemes(expression)
    context = _working.context
    if context.flags[_INEXACT]:
        context.clear_flags()
    try:
        exact = _value(lexemes, context)
        shown = shorten(exact, precision)
    except CalculationError as error:
        # What is not taught is named first, wherever it stands: it is why the rest cannot be right.
        raise _first_not_taught(expression) or _in_lexemes(expression, error) from None
    except decimal.Overflow as error:
        raise CalculationError("the result is too large to show") from error
    except decimal.Underflow as error:
        raise CalculationError("the result is too close to zero to show") from error
    return Result(notation(shown), context.flags[_INEXACT] or shown != exact)


def shorten(value: Decimal, precision: int | None = None) -> Decimal:
    """``value`` to 12 significant digits or ``precision`` decimal places, whichever is coarser, in one rounding."""
    if precision is not None and value and precision < SIGNIFICANT_DIGITS - 1 - value.adjusted():
        return _to_places(value, precision, _CONTEXT.copy())
    return _SHOWN.plus(value)


# ---------------------------------------------------------------- reading


def _lexemes(expression: str) -> list[str]:
    """Numbers, names and operators as they were written; whatever else there is comes character by character."""
    if not expression.isascii():
        expression = expression.translate(_TYPED_OPERATORS)
    # Without an e no sign belongs to a number, and splitting is several times faster than matching.
    if expression.isascii() and expression.isprintable() and "e" not in expression and "E" not in expression:
        for operator in _OPERATORS:
            expression = expression.replace(operator, f" {operator} ")
        return expression.replace(" *  * ", " ** ").split()
    return _LEXEME.findall(expression)


def _number(lexeme: str) -> Decimal:
    match = _NUMBER.fullmatch(lexeme)
    if not match:
        hint = ": an exponent needs digits, as in 2e3" if lexeme.rstrip("+-")[-1:] in ("e", "E") else ""
        raise CalculationError(f"{_cut(lexeme)} is not a number{hint}")
    # The first test keeps exponents of a thousand digits from ever being computed with.
    if match[2] and len(match[2].lstrip("0")) > 4:
        raise CalculationError(_too_large(lexeme))
    number = Decimal(lexeme)
    if number and abs(number.adjusted()) > LARGEST_LITERAL_EXPONENT:
        raise CalculationError(_too_large(lexeme))
    return number


def _too_large(digits: str) -> str:
    return f"the number {_cut(digits)} is beyond 1e{LARGEST_LITERAL_EXPONENT} or 1e-{LARGEST_LITERAL_EXPONENT}"


def _first_not_taught(expression: str) -> CalculationError | None:
    lexemes = _LEXEME.findall(expression.translate(_TYPED_OPERATORS))
    for position, lexeme in enumerate(lexemes):
        if lexeme in _BINDING or lexeme in _FUNCTIONS or lexeme in "(),":
            continue
        if not _is_number(lexeme):
            return CalculationError(_not_taught(lexeme, called=lexemes[position + 1 : position + 2] == ["("]))
        try:
            _number(lexeme)
        except CalculationError as error:
            return error
    return None


def _in_lexemes(expression: str, error: CalculationError) -> CalculationError:
    """The error as matching tells it: splitting glues a name to the number behind it, as in ``max.5``."""
    try:
        _value(_LEXEME.findall(expression.translate(_TYPED_OPERATORS)), _CONTEXT.copy())
    except CalculationError as matched:
        return matched
    except decimal.DecimalException:
        pass
    return error


def _is_number(lexeme: str) -> bool:
    return lexeme[0] in "0123456789" or (lexeme[0] == "." and lexeme[1:2].isdigit())


def _not_taught(lexeme: str, called: bool) -> str:
    if lexeme in _TEACHING:
        return _TEACHING[lexeme]
    if lexeme.isidentifier() and lexeme != "_":
        name = repr(_cut(lexeme))
        what = f"function {name} is not allowed" if called else f"the name {name} is not taught"
        return f"{what}: there are numbers and {', '.join(_FUNCTIONS)}"
    if lexeme.isdecimal():
        return f"{lexeme!a} is not a plain digit: write 0 to 9"
    shown = lexeme if lexeme.isprintable() and lexeme.isascii() else f"U+{ord(lexeme[0]):04X}"
    return f"the character {shown} is not taught: use + - * / ^ and parentheses"


def _cut(text: str) -> str:
    return text if len(text) <= 24 else text[:24] + "…"


# ---------------------------------------------------------------- computing

_SUM, _PRODUCT, _SIGN, _POWER = 1, 2, 3, 4
_BINDING = {"+": _SUM, "-": _SUM, "*": _PRODUCT, "/": _PRODUCT, "^": _POWER, "**": _POWER}


def _value(lexemes: list[str], context: decimal.Context) -> Decimal:
    if not lexemes:
        raise CalculationError("the expression is empty")
    # A stack whose top is the next lexeme; the empty text at its bottom is the end.
    rest = [_END, *reversed(lexemes)]
    value = _expression(rest, context, 0, 0)
    token = rest[-1]
    if token == ",":
        raise CalculationError(_STRAY_COMMA)
    if token == ")":
        raise CalculationError("a ) has no opening (")
    if token != _END:
        raise _operator_missing(token)
    return value


def _expression(rest: list[str], context: decimal.Context, depth: int, floor: int) -> Decimal:
    """An operand and every operator after it that binds tighter than ``floor``; recursion is bounded by ``depth``."""
    value = _operand(rest, context, depth)
    while True:
        operator = rest[-1]
        binding = _BINDING.get(operator, 0)
        if binding <= floor:
            return value
        rest.pop()
        if binding == _POWER:
            # Right-associative, and the exponent may carry signs of its own.
            value = _raise(value, _expression(rest, context, _deeper(depth), _SIGN), context)
            continue
        right = _expression(rest, context, depth, binding)
        if operator == "+":
            value = context.add(value, right)
        elif operator == "-":
            value = context.subtract(value, right)
        elif operator == "*":
            value = context.multiply(value, right)
        elif right:
            value = context.divide(value, right)
        else:
            raise CalculationError("division by zero")


def _operand(rest: list[str], context: decimal.Context, depth: int) -> Decimal:
    token = rest.pop()
    # Plain digits, by far the most common, need no second look; longer ones are rounded to the working precision.
    if token.isdigit() and token.isascii() and len(token) <= WORKING_DIGITS:
        return Decimal(token)
    if token == "-":
        negative = True
        # A loop, not recursion: a thousand signs are a thousand steps.
        while rest[-1] == "-":
            rest.pop()
            negative = not negative
        value = _expression(rest, context, depth, _SIGN)
        return value.copy_negate() if negative else value
    if token == "(":
        value = _expression(rest, context, _deeper(depth), 0)
        _close(rest)
        return value
    if token == _END:
        rest.append(_END)
        raise CalculationError("it ends where a number is expected")
    if token in _FUNCTIONS:
        return _call(token, rest, context, depth)
    if _is_number(token):
        return context.plus(_number(token))
    if token == "+":
        raise CalculationError("a + needs a number before it")
    raise CalculationError(f"a number is expected where {_cut(token)} stands")


def _call(name: str, rest: list[str], context: decimal.Context, depth: int) -> Decimal:
    if rest[-1] != "(":
        raise CalculationError(f"{name} needs parentheses: {name}(...)")
    rest.pop()
    arguments = [_expression(rest, context, _deeper(depth), 0)]
    while rest[-1] == ",":
        rest.pop()
        arguments.append(_expression(rest, context, _deeper(depth), 0))
    _close(rest)
    function, most = _FUNCTIONS[name]
    if len(arguments) > most:
        takes = "1 argument" if most == 1 else f"at most {most} arguments"
        raise CalculationError(f"{name} takes {takes}, got {len(arguments)}: write thousands without commas")
    return function(arguments, context)


def _close(rest: list[str]) -> None:
    token = rest[-1]
    if token == ",":
        raise CalculationError(_STRAY_COMMA)
    if token == _END:
        raise CalculationError("a closing ) is missing")
    if token != ")":
        raise _operator_missing(token)
    rest.pop()


def _deeper(depth: int) -> int:
    if depth >= DEEPEST_NESTING:
        raise CalculationError(f"it is nested deeper than {DEEPEST_NESTING} levels")
    return depth + 1


def _operator_missing(token: str) -> CalculationError:
    if _is_number(token):
        return CalculationError("an operator is missing before a number: write thousands without blanks (3000)")
    return CalculationError(f"an operator is missing before {_cut(token)}")


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
    text = str(value)
    if "E" not in text and not text.lstrip("-").startswith("0.0000"):
        plain = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if plain == "-0" else plain
    if not value:
        return "0"
    sign = value.is_signed()
    mantissa, _, exponent = f"{value.copy_abs():e}".partition("e")
    text, power = mantissa.replace(".", "").rstrip("0"), int(exponent)
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
