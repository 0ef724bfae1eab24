"""Values as people write them: sizes, durations, arrays, names."""

from __future__ import annotations

import re
from typing import Final

from weft.errors import InputError

MOST_MB: Final = 1 << 31
MOST_SECONDS: Final = 10 * 365 * 86400
MOST_TASKS: Final = 100_000
"""Tasks of one array."""
MAX_DIGITS: Final = 18
LONGEST_ARRAY: Final = 10 * MOST_TASKS
"""Characters."""
LONGEST_NAME: Final = 200
NOT_IN_NAMES: Final = frozenset("/\\'\"`$")
_SIZE: Final = re.compile(r"(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?", re.IGNORECASE)
_MB: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_SPAN: Final = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*([smhd])", re.IGNORECASE)
_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CLOCK: Final = re.compile(r"(?:(\d{1,5})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?")
_PART: Final = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,6}))?)?")


def megabytes(text: str) -> int:
    """8192, 8G, 512M, 0.5T; a bare number is MB."""
    match = _SIZE.fullmatch(text.strip())
    value = float(match[1]) * _MB[match[2].upper()] if match else -1.0
    if not 0 <= value <= MOST_MB or (match and value and value < 1):
        raise InputError(f"{_short(text)} is not a size", hint="such as 8192 (MB), 8G or 512M")
    return int(value)


def duration_s(text: str) -> float:
    """As Slurm has it: 90 (minutes), 1:30:00, 2-12:00:00; or 90s, 30m, 2h, 1d."""
    text = text.strip()
    parts = _SPAN.findall(text)
    if parts and not _SPAN.sub("", text).strip():
        value = sum(float(number) * _S[unit.lower()] for number, unit in parts)
    else:
        value = _clock_s(text)
    if not 0 < value <= MOST_SECONDS:
        raise InputError(
            f"{_short(text)} is not a duration", hint="such as 90 (minutes), 45s, 2h, 1:30:00 or 2-12:00:00"
        )
    return value


def _clock_s(text: str) -> float:
    match = _CLOCK.fullmatch(text)
    if not match:
        return -1.0
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:  # days-hours[:minutes[:seconds]]
        return days * 86400.0 + (first or 0) * 3600.0 + (second or 0) * 60.0 + (third or 0)
    if third is not None:
        return (first or 0) * 3600.0 + (second or 0) * 60.0 + third
    return (first or 0) * 60.0 + (second or 0)


def array(text: str) -> tuple[tuple[int, ...], int]:
    """The indices of 0-9, 1,3,5 or 0-98:2%4, and how many may go at once; 0: all."""
    body, percent, limit = text.strip().partition("%")
    indices: dict[int, None] = {}
    count = 0
    if len(text) > LONGEST_ARRAY:
        raise _bad_array(text)
    for part in body.split(","):
        match = _PART.fullmatch(part.strip())
        if not match:
            raise _bad_array(text)
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        count += (last - first) // step + 1 if step else 0
        if last < first or not step or count > MOST_TASKS:
            raise _bad_array(text)
        indices.update(dict.fromkeys(range(first, last + 1, step)))
    if percent and not (limit.isdecimal() and len(limit) < 10 and 0 < int(limit) <= MOST_TASKS):
        raise _bad_array(text)
    return tuple(indices), int(limit) if percent else 0


def _bad_array(text: str) -> InputError:
    return InputError(
        f"{_short(text)} is not an array", hint=f"such as 0-9, 1,3,5 or 0-99%4; at most {MOST_TASKS:,} tasks"
    )


def whole(text: str, low: int, high: int) -> int:
    """Read a whole number within bounds."""
    found = whole_or_none(text, low, high)
    if found is None:
        raise InputError(f"{_short(text)} is not a whole number from {low:,} to {high:,}")
    return found


def whole_or_none(text: str, low: int, high: int) -> int | None:
    """Read a whole number within bounds; None: the text is something else. Very long texts are not converted."""
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_DIGITS):
        return None
    found = int(text)
    return found if low <= found <= high else None


def name(text: str) -> str:
    """Of a job: anything a person can read in one line, but no path and nothing that a shell could trip over."""
    fits = 0 < len(text) <= LONGEST_NAME and text == text.strip()
    if not fits or not text.isprintable() or set(text) & NOT_IN_NAMES:
        raise InputError(
            f"{_short(text)} cannot be a name",
            hint=f"1 to {LONGEST_NAME} printable characters; no slashes, quotes or $, no blanks at either end",
        )
    return text


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
