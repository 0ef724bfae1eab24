"""Values of parameters as users write them, and the trials that they make.

A form of values makes rows: `grid` one for each value of a parameter, `list` one for the first values of all its
parameters, one for the second and so on, `random` as many as there are draws. The trials are all combinations of the
rows of all forms. Values are text: programs get them as they are written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal, InvalidOperation
from itertools import product
from math import exp, isfinite, log, prod
from random import Random
from typing import Final

from weft.errors import InputError

Row = dict[str, str]
"""The values of some parameters, by name."""
MAX_TRIALS: Final = 10_000
MAX_VALUE_CHARS: Final = 10_000
DIGITS: Final = 6
"""Significant digits of a number that is drawn."""
_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,99}")
RESERVED: Final = ("index", "sweep")
"""Names that templates use for the number of the trial, and for the sweep."""
_FEWER: Final = "give fewer values, or draw some of them: --random NAME=LOW..HIGH --trials N"
_RANDOM_HINT: Final = "such as lr=log:1e-5..1e-1, drop=0..0.5, layers=int:1..4 or opt=adam,sgd"


def parse_assignment(text: str) -> tuple[str, str]:
    """Parse NAME=VALUES."""
    name, equals, values = text.partition("=")
    if not equals or not values:
        raise InputError(f"{text[:80]!r} has no values", hint="write NAME=VALUES, such as lr=0.1,0.01 or seed=1..5")
    return check_parameter(name), values


def check_parameter(name: str) -> str:
    if not _NAME.fullmatch(name):
        hint = "letters, digits, dots, dashes and underscores, at most 100"
        raise InputError(f"{name[:80]!r} cannot be the name of a parameter", hint=hint)
    if name in RESERVED:
        raise InputError(f"{name!r} cannot be the name of a parameter: templates use it", hint="choose another name")
    return name


def parse_values(text: str) -> list[str]:
    """Parse values with commas: texts, and ranges such as 1..5 or 0..1..0.25, which include both ends."""
    found: list[str] = []
    for part in text.split(","):
        found += _range(part) if ".." in part else [check_value(part.strip())]
        _check_values(len(found))
    return found


def _check_values(count: int) -> None:
    if count > MAX_TRIALS:
        hint = f"a sweep has at most {MAX_TRIALS:,} trials; {_FEWER}"
        raise InputError(f"the parameter has {count:,} values", hint=hint)


def check_value(text: str) -> str:
    if not text:
        raise InputError("a value is empty", hint="give a value before and after each comma")
    if "\0" in text or len(text) > MAX_VALUE_CHARS:
        raise InputError(f"{text[:80]!r} cannot be a value", hint=f"text of at most {MAX_VALUE_CHARS:,} characters")
    return text


def _range(text: str) -> list[str]:
    words = text.split("..")
    try:
        ends = [Decimal(word) for word in words if word]
    except InvalidOperation:
        return [check_value(text.strip())]  # a path such as ../data
    if not all(words):
        raise InputError(f"the range {text[:80]!r} lacks an end", hint="such as 1..5, or 0..1..0.25 with a step")
    if len(ends) > 3 or not all(end.is_finite() for end in ends):
        raise InputError(f"{text[:80]!r} is not a range", hint="such as 1..5, or 0..1..0.25 with a step")
    low, high, step = ends if len(ends) == 3 else (*ends, Decimal(1))
    if not step or (high - low) * step < 0:
        raise InputError(f"the range {text[:80]!r} has no values", hint="the step goes from the first to the last")
    if abs(high - low) > MAX_TRIALS * abs(step):
        _check_values(int(min(abs(high - low) / abs(step), Decimal(10**18))) + 1)
    return [f"{(low + at * step).normalize():f}" for at in range(int((high - low) / step) + 1)]


def draw(name: str, text: str, count: int, seed: int) -> list[str]:
    """Draw values from a distribution: log:LOW..HIGH, int:LOW..HIGH, LOW..HIGH, or some of these values: a,b,c.

    The draws depend on the seed and the name alone: another parameter does not change them."""
    source = Random(f"{seed}/{name}")
    kind, colon, rest = text.partition(":")
    if colon and kind in ("log", "int", "uniform"):
        low, high = _bounds(rest)
    elif ".." in text and "," not in text:
        kind, (low, high) = "uniform", _bounds(text)
    else:
        values = [check_value(part.strip()) for part in text.split(",")]
        return [source.choice(values) for _ in range(count)]
    if kind == "int":
        if int(low) != low or int(high) != high:
            raise InputError(f"the bounds of {text[:80]!r} are not whole numbers", hint=_RANDOM_HINT)
        return [str(source.randint(int(low), int(high))) for _ in range(count)]
    if kind == "log" and low <= 0:
        raise InputError(f"the lower bound of {text[:80]!r} is not above 0", hint=_RANDOM_HINT)
    if kind == "log":
        drawn = [exp(source.uniform(log(low), log(high))) for _ in range(count)]
    else:
        drawn = [source.uniform(low, high) for _ in range(count)]
    return [_rounded(value, low, high) for value in drawn]


def _bounds(text: str) -> tuple[float, float]:
    words = text.split("..")
    try:
        low, high = map(float, words)
    except ValueError:
        raise InputError(f"{text[:80]!r} is not LOW..HIGH", hint=_RANDOM_HINT) from None
    if not (isfinite(low) and isfinite(high) and low <= high and isfinite(high - low)):
        raise InputError(f"{text[:80]!r} is not LOW..HIGH", hint=_RANDOM_HINT)
    return low, high


def _rounded(value: float, low: float, high: float) -> str:
    shown = f"{value:.{DIGITS}g}"
    return shown if low <= float(shown) <= high else repr(min(max(value, low), high))


def grid(assignments: Iterable[tuple[str, Sequence[str]]]) -> list[list[Row]]:
    """Return the rows of each parameter."""
    return [[{name: value} for value in values] for name, values in assignments]


def paired(assignments: Sequence[tuple[str, Sequence[str]]]) -> list[Row]:
    """Return rows of the first values, of the second values, and so on."""
    lengths = {name: len(values) for name, values in assignments}
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {count}" for name, count in lengths.items())
        raise InputError(f"the lists have different lengths: {found}", hint="give each list as many values")
    return [dict(zip(lengths, row, strict=True)) for row in zip(*(values for _, values in assignments), strict=True)]


def combine(forms: Sequence[Sequence[Row]]) -> list[Row]:
    """Return all combinations of the rows. The last form varies fastest."""
    names: set[str] = set()
    for rows in forms:
        here = {name for row in rows for name in row}
        if both := sorted(names & here):
            raise InputError(f"the parameter {both[0]!r} is given twice", hint="give each parameter once")
        names |= here
    _check_count(prod(len(rows) for rows in forms))
    return [{name: value for row in rows for name, value in row.items()} for rows in product(*forms)]


def _check_count(count: int) -> None:
    if count > MAX_TRIALS:
        raise InputError(
            f"the sweep has {count:,} trials, and {MAX_TRIALS:,} are allowed",
            hint=_FEWER,
        )
