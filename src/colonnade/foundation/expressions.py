"""Expressions of a party's own numbers: parsed by a small grammar, bounded by intervals, computed on arrays.

    sum    := term (("+" | "-") term)*
    term   := factor ("*" factor)*
    factor := "-" factor | atom ["^" whole number]
    atom   := number | column | function "(" sum ["," number] ")" | "(" sum ")"

A column whose name has other signs than letters, digits and "_" stands in single quotes.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Context, Decimal
from fractions import Fraction
from math import inf, isfinite, nextafter, sqrt

import numpy as np
from numpy.typing import NDArray

from colonnade.foundation.errors import SchemaError
from colonnade.foundation.shown import shown

Names = tuple[str, ...]
"""Factors of a product in the order of the alphabet, each as often as it is one."""
Expansion = Mapping[Names, Fraction]
MOST_TERMS = 5_000  # bounds the work; a larger polynomial is surely a mistake
MOST_FACTORS = 32  # releases have products of four; more only appear on the way
MOST_BITS = 1 << 13
"""Of a coefficient's numerator or denominator."""


def constant(value: float) -> Expansion:
    return {(): Fraction(value)} if value else {}


def named(name: str) -> Expansion:
    return {(name,): Fraction(1)}


def added(left: Expansion, right: Expansion, sign: int) -> Expansion:
    """left + sign * right."""
    out = dict(left)
    for names, weight in right.items():
        out[names] = out.get(names, Fraction(0)) + sign * weight
    return _kept(out)


def multiplied(left: Expansion, right: Expansion) -> Expansion:
    """Every product of a term of the one with a term of the other."""
    if len(right) == 1 and () in right:
        return _kept({names: weight * right[()] for names, weight in left.items()})
    if len(left) * len(right) > 10 * MOST_TERMS:
        raise _too_many(len(left) * len(right))
    out: dict[Names, Fraction] = {}
    for first, weight in left.items():
        for second, other in right.items():
            names = tuple(sorted(first + second))
            if len(names) > MOST_FACTORS:
                raise SchemaError(f"a polynomial's products have at most {MOST_FACTORS} factors, got {len(names)}")
            out[names] = out.get(names, Fraction(0)) + weight * other
    return _kept(out)


def _kept(found: Mapping[Names, Fraction]) -> Expansion:
    kept = {names: weight for names, weight in found.items() if weight}
    if len(kept) > MOST_TERMS:
        raise _too_many(len(kept))
    if any(max(w.numerator.bit_length(), w.denominator.bit_length()) > MOST_BITS for w in kept.values()):
        raise SchemaError("a polynomial's coefficients must be shorter than this one's")
    return kept


def _too_many(count: int) -> SchemaError:
    return SchemaError(f"a polynomial is written out in at most {MOST_TERMS} terms, got {count}")


Numbers = NDArray[np.float64]
Interval = tuple[float, float]

LONGEST = 1000  # characters: a formula is a line, and a parser must not be fed a book
DEEPEST = 32  # brackets; keeps recursion far from Python's limit
MOST_POWER = 9  # chosen: a higher power is surely a mistake
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d+)?)|([^\W\d]\w*)|'([^']+)'|([-+*^(),]))")


class Expression(ABC):
    """A number of a record, made of its columns."""

    name: str
    """Of a column, or of a function."""

    def columns(self) -> Iterator[str]:
        """The columns that it names, in their order."""
        for part in vars(self).values():
            if isinstance(part, Expression):
                yield from part.columns()

    @abstractmethod
    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        """Where it lies if the columns lie where `of` says."""

    @abstractmethod
    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        """Its values, which need not lie within the bounds: rounding, or a product with infinity, may take them out."""

    def expand(self) -> Expansion:
        """It as a polynomial; raises SchemaError where it is none."""
        raise SchemaError(f"a polynomial has sums, products and powers alone, got {self.name}")


@dataclass(frozen=True)
class _Constant(Expression):
    value: float

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        return self.value, self.value

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return np.asarray(self.value, dtype=np.float64)

    def expand(self) -> Expansion:
        return constant(self.value)


@dataclass(frozen=True)
class _Named(Expression):
    name: str

    def columns(self) -> Iterator[str]:
        yield self.name

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        return of[self.name]

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return values[self.name]

    def expand(self) -> Expansion:
        return named(self.name)


@dataclass(frozen=True)
class _Sum(Expression):
    left: Expression
    right: Expression
    sign: float

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        (a, b), (c, d) = self.left.bounds(of), self.right.bounds(of)
        return (a + c, b + d) if self.sign > 0 else (a - d, b - c)

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return self.left.compute(values) + self.sign * self.right.compute(values)

    def expand(self) -> Expansion:
        return added(self.left.expand(), self.right.expand(), int(self.sign))


@dataclass(frozen=True)
class _Product(Expression):
    left: Expression
    right: Expression

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        (a, b), (c, d) = self.left.bounds(of), self.right.bounds(of)
        corners = (a * c, a * d, b * c, b * d)
        return min(corners), max(corners)

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return self.left.compute(values) * self.right.compute(values)

    def expand(self) -> Expansion:
        return multiplied(self.left.expand(), self.right.expand())


@dataclass(frozen=True)
class _Power(Expression):
    base: Expression
    power: int

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        a, b = self.base.bounds(of)
        try:
            ends = _nearest_power(a, self.power), _nearest_power(b, self.power)
        except OverflowError:
            return -inf, inf
        return (0.0 if self.power % 2 == 0 and a < 0 < b else min(ends)), max(ends)

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return self.base.compute(values) ** self.power

    def expand(self) -> Expansion:
        base = found = self.base.expand()
        for _ in range(self.power - 1):
            found = multiplied(found, base)
        return found


@dataclass(frozen=True)
class _Function:
    """A function of one number that rises, and from where on it is defined."""

    least: float
    scalar: Callable[[float], float]
    array: Callable[[Numbers], Numbers]


_WHOLE = Context(prec=130)
"""1 + x keeps every digit that matters, from the least x that is not its own logarithm up."""
_DIGITS = Context(prec=40)  # more than twice a float's 17, so that the last one is right
_OWN_LOGARITHM = 2.0**-54
"""Below it log(1 + x) differs from x by less than half a step between floats."""


def _nearest_log1p(x: float) -> float:
    """The float nearest to log(1 + x): bounds are part of an agreement, and libraries differ in the last bit."""
    if not isfinite(x) or abs(x) < _OWN_LOGARITHM:
        return x
    return float(_DIGITS.ln(_WHOLE.add(Decimal(1), Decimal(x))))


def _nearest_power(x: float, power: int) -> float:
    """The float nearest to x^power, on every machine the same."""
    return float(Fraction(x) ** power) if isfinite(x) else float(x) ** power


_FUNCTIONS = {
    "log1p": _Function(nextafter(-1.0, 0.0), _nearest_log1p, np.log1p),
    "sqrt": _Function(0.0, sqrt, np.sqrt),
}


@dataclass(frozen=True)
class _Call(Expression):
    name: str
    inner: Expression

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        function, (low, high) = _FUNCTIONS[self.name], self.inner.bounds(of)
        if low < function.least:
            raise SchemaError(f"{self.name} needs a number of at least {function.least:g}, got one from {low:g} on")
        return function.scalar(low), function.scalar(high)

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return _FUNCTIONS[self.name].array(self.inner.compute(values))


@dataclass(frozen=True)
class _Hinge(Expression):
    """What a number has above a knot: max(x - knot, 0), of which linear splines are made."""

    inner: Expression
    knot: float
    name = "hinge"

    def bounds(self, of: Mapping[str, Interval]) -> Interval:
        low, high = self.inner.bounds(of)
        return max(low - self.knot, 0.0), max(high - self.knot, 0.0)

    def compute(self, values: Mapping[str, Numbers]) -> Numbers:
        return np.maximum(self.inner.compute(values) - self.knot, 0.0)


class _Parser:
    """Recursive descent over the tokens of one text."""

    def __init__(self, text: str) -> None:
        self._text, self._tokens, self._at, self._depth = text, _tokens(text), 0, 0

    def whole(self) -> Expression:
        found = self._sum()
        if self._at < len(self._tokens):
            raise self._error(f"got {self._tokens[self._at][1]!r} after its end")
        return found

    def _peek(self) -> tuple[str, str]:
        return self._tokens[self._at] if self._at < len(self._tokens) else ("end", "its end")

    def _take(self, *signs: str) -> str | None:
        kind, text = self._peek()
        if kind == "sign" and text in signs:
            self._at += 1
            return text
        return None

    def _need(self, sign: str) -> None:
        if self._take(sign) is None:
            raise self._error(f"needs {sign!r} before {self._peek()[1]!r}")

    def _sum(self) -> Expression:
        self._depth += 1
        if self._depth > DEEPEST:
            raise self._error(f"may be nested {DEEPEST} deep")
        found = self._term()
        while (sign := self._take("+", "-")) is not None:
            found = _Sum(found, self._term(), 1.0 if sign == "+" else -1.0)
        self._depth -= 1
        return found

    def _term(self) -> Expression:
        found = self._factor()
        while self._take("*") is not None:
            found = _Product(found, self._factor())
        return found

    def _factor(self) -> Expression:
        negative = False
        while self._take("-") is not None:
            negative = not negative
        found = self._atom()
        if self._take("^") is not None:
            power = self._number()
            if not 1 <= power <= MOST_POWER or power != int(power):
                raise self._error(f"takes powers from 1 to {MOST_POWER}, got {power:g}")
            found = _Power(found, int(power))
        return _Product(_Constant(-1.0), found) if negative else found

    def _number(self) -> float:
        negative = self._take("-") is not None
        kind, text = self._peek()
        if kind != "number":
            raise self._error(f"needs a number before {text!r}")
        self._at += 1
        if not isfinite(number := float(text)):
            raise self._error(f"needs finite numbers, got {shown(text)}")
        return -number if negative else number

    def _atom(self) -> Expression:
        kind, text = self._peek()
        if kind == "number":
            return _Constant(self._number())
        if self._take("(") is not None:
            found = self._sum()
            self._need(")")
            return found
        if kind not in ("name", "quoted"):
            raise self._error(f"needs a column or a number before {text!r}")
        self._at += 1
        if kind == "quoted" or self._take("(") is None:
            return _Named(text)
        inner = self._sum()
        if text == "hinge":
            self._need(",")
            inner = _Hinge(inner, self._number())
        elif text in _FUNCTIONS:
            inner = _Call(text, inner)
        else:
            raise self._error(f"knows the functions {', '.join((*_FUNCTIONS, 'hinge'))}, got {text!r}")
        self._need(")")
        return inner

    def _error(self, told: str) -> SchemaError:
        return SchemaError(f"the expression {shown(self._text)} {told}")


def _tokens(text: str) -> list[tuple[str, str]]:
    found, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise SchemaError(f"the expression {shown(text)} has a sign that it cannot have at {shown(text[at:][:10])}")
        kind = ("number", "name", "quoted", "sign")[next(i for i, part in enumerate(match.groups()) if part)]
        found.append((kind, match.group(match.lastindex or 1)))
        at = match.end()
    return found


def parse_expression(text: object, longest: int = LONGEST) -> Expression:
    """The expression that a text writes."""
    if not isinstance(text, str) or not text.strip():
        raise SchemaError(f"an expression must be a non-empty text, got {shown(text)}")
    if len(text) > longest:
        raise SchemaError(f"an expression must have at most {longest} characters, got {len(text)}")
    return _Parser(text).whole()


def expression_bounds(expression: Expression, of: Mapping[str, Interval]) -> Interval:
    """Its bounds, where they are two different finite numbers."""
    low, high = expression.bounds(of)
    if not (isfinite(low) and isfinite(high) and low < high and isfinite(high - low)):
        raise SchemaError(f"an expression must lie between two finite numbers, low below high, got {low:g} to {high:g}")
    return low, high
