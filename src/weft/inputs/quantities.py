"""Parsers of values that users write: sizes, durations, arrays, whole numbers, names.

Patterns are compiled on first use: most commands need few of them.
"""

from __future__ import annotations

import re
from typing import Final

from weft.errors import InputError

MAX_MB: Final = 1 << 31
MAX_DURATION_S: Final = 10 * 365 * 86400
MAX_ARRAY_TASKS: Final = 100_000
MAX_WHOLE_DIGITS: Final = 18
MAX_ARRAY_CHARS: Final = 10 * MAX_ARRAY_TASKS
MAX_NAME_CHARS: Final = 200
FORBIDDEN_IN_NAMES: Final = frozenset("/\\'\"`$")
_SIZE: Final = r"(?i)(\d{1,12}(?:\.\d{1,6})?)\s*([KMGT]?)(?:i?B)?"
_MB: Final = {"": 1.0, "K": 1 / 1024, "M": 1.0, "G": 1024.0, "T": 1024.0**2}
_NUMBER: Final = r"\d{1,9}(?:\.\d{1,6})?"
_UNITS: Final = rf"(?i)({_NUMBER})\s*([smhd])"
_UNIT_S: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_CLOCK: Final = r"(?:(\d{1,5})-)?(\d{1,6})(?::(\d{1,2}))?(?::(\d{1,2}))?"
_SIGNAL: Final = r"(?i)(?:(B:)|R:)?([A-Z0-9]{1,10})(?:@(\d{1,5}))?"
SIGNAL_LEAD_S: Final = 60
"""The seconds between a signal and the time limit if its text does not name them; as in Slurm."""
_PART: Final = r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,6}))?)?"


def parse_megabytes(text: str) -> int:
    """Parse a size such as 8192, 8G, 512M or 0.5T; a bare number is in MB."""
    match = re.fullmatch(_SIZE, text.strip())
    value = float(match[1]) * _MB[match[2].upper()] if match else -1.0
    if not 0 <= value <= MAX_MB or (match and value and value < 1):
        raise InputError(f"{_short(text)} is not a size", hint="such as 8192 (MB), 8G or 512M")
    return int(value)


def parse_duration(text: str) -> float:
    """Parse a duration: 90 (seconds), 30m, 2h, 1d, or Slurm's 1:30:00 and 2-12:00:00. Return seconds."""
    return _parse_duration(text.strip(), "s", "90 (seconds)")


def parse_duration_or_zero(text: str) -> float:
    """Parse a duration, or 0 with or without its unit."""
    return 0.0 if text.strip() in ("0", "0s") else parse_duration(text)


def parse_time_limit(text: str) -> float:
    """Parse a time limit as `parse_duration` does a duration, but a bare number is minutes, as in Slurm."""
    return _parse_duration(text.strip(), "m", "90 (minutes)")


def _parse_duration(text: str, unit: str, bare: str) -> float:
    with_unit = f"{text}{unit}" if re.fullmatch(_NUMBER, text) else text
    parts = re.findall(_UNITS, with_unit)
    if parts and not re.sub(_UNITS, "", with_unit).strip():
        value = sum(float(number) * _UNIT_S[letter.lower()] for number, letter in parts)
    else:
        value = _clock_s(text)
    if not 0 < value <= MAX_DURATION_S:
        raise InputError(f"{_short(text)} is not a duration", hint=f"such as {bare}, 45s, 2h, 1:30:00 or 2-12:00:00")
    return value


def _clock_s(text: str) -> float:
    match = re.fullmatch(_CLOCK, text)
    if not match:
        return -1.0
    days, first, second, third = (None if part is None else int(part) for part in match.groups())
    if days is not None:  # days-hours[:minutes[:seconds]]
        return days * 86400.0 + (first or 0) * 3600.0 + (second or 0) * 60.0 + (third or 0)
    if third is not None:
        return (first or 0) * 3600.0 + (second or 0) * 60.0 + third
    return (first or 0) * 60.0 + (second or 0)


def parse_array(text: str) -> tuple[tuple[int, ...], int]:
    """Parse an array such as 0-9, 1,3,5 or 0-98:2%4. Return its indices and how many may run at once; 0: all."""
    body, percent, limit = text.strip().partition("%")
    indices: dict[int, None] = {}
    count = 0
    if len(text) > MAX_ARRAY_CHARS:
        raise _bad_array(text)
    for part in body.split(","):
        match = re.fullmatch(_PART, part.strip())
        if not match:
            raise _bad_array(text)
        first, last, step = int(match[1]), int(match[2] or match[1]), int(match[3] or 1)
        count += (last - first) // step + 1 if step else 0
        if last < first or not step or count > MAX_ARRAY_TASKS:
            raise _bad_array(text)
        indices.update(dict.fromkeys(range(first, last + 1, step)))
    if percent and not (limit.isdecimal() and len(limit) < 10 and 0 < int(limit) <= MAX_ARRAY_TASKS):
        raise _bad_array(text)
    return tuple(indices), int(limit) if percent else 0


def _bad_array(text: str) -> InputError:
    return InputError(
        f"{_short(text)} is not an array", hint=f"such as 0-9, 1,3,5 or 0-99%4; at most {MAX_ARRAY_TASKS:,} tasks"
    )


def parse_whole(text: str, low: int, high: int) -> int:
    """Parse a whole number within bounds."""
    found = parse_whole_or_none(text, low, high)
    if found is None:
        raise InputError(f"{_short(text)} is not a whole number from {low:,} to {high:,}")
    return found


def parse_whole_or_none(text: str, low: int, high: int) -> int | None:
    """Parse a whole number within bounds; return None for any other text. Very long texts are not converted."""
    text = text.strip()
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MAX_WHOLE_DIGITS):
        return None
    found = int(text)
    return found if low <= found <= high else None


def parse_share(text: str) -> tuple[float, float]:
    """Parse REQUEST/LIMIT, parts of a GPU such as 0.3/0.6; one figure stands for both."""
    first, _, second = text.strip().partition("/")
    try:
        request, limit = float(first), float(second or first)
    except ValueError:
        request = limit = 0.0
    if not 0 < request <= 1 or not 0 < limit <= 1:
        raise InputError(f"{_short(text)} is not a share", hint="write REQUEST/LIMIT, parts of a GPU such as 0.3/0.6")
    if request > limit:
        what = f"the request {request:g} is over the limit {limit:g}"
        raise InputError(what, hint="the request is the guaranteed part of the limit")
    return request, limit


def check_name(text: str) -> str:
    """Return a job's name, or raise InputError: one printable line without slashes and shell metacharacters."""
    fits = 0 < len(text) <= MAX_NAME_CHARS and text == text.strip()
    if not fits or not text.isprintable() or set(text) & FORBIDDEN_IN_NAMES:
        raise InputError(
            f"{_short(text)} cannot be a name",
            hint=f"1 to {MAX_NAME_CHARS} printable characters; no slashes, quotes or $, no blanks at either end",
        )
    return text


def parse_signal(text: str) -> tuple[int, float, bool]:
    """Parse [B:]USR2[@120], or a signal by its number. Return the number, the seconds before the time limit at which it
    is due, and whether only the first process gets it."""
    import signal

    match = re.fullmatch(_SIGNAL, text.strip())
    name = match[2].upper().removeprefix("SIG") if match else ""
    by_number = {str(number.value): number for number in signal.Signals}
    number = by_number.get(name) or getattr(signal, f"SIG{name}", None)
    if match is None or not isinstance(number, signal.Signals) or number.name in ("SIGKILL", "SIGSTOP", "SIGCONT"):
        raise InputError(f"{_short(text)} is not a signal", hint="such as USR2@120 or B:USR2@120; not KILL or STOP")
    return int(number), float(match[3] or SIGNAL_LEAD_S), bool(match[1])


def normalize_signal(text: str) -> str:
    """Return a signal in its standard form, such as B:USR2@120."""
    import signal

    number, lead_s, first_only = parse_signal(text)
    return f"{'B:' if first_only else ''}{signal.Signals(number).name.removeprefix('SIG')}@{lead_s:g}"


def _short(text: str) -> str:
    shown = repr(text)
    return shown if len(shown) <= 60 else f"{shown[:57]}..."
