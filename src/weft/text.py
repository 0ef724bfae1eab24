"""Untrusted text made safe for a terminal; times and counts in human form."""

from __future__ import annotations

import re
from typing import Final

ELLIPSIS = "…"
_NUMBERS: Final = re.compile(r"(\d+)")


def escape_controls(text: str) -> str:
    """Escape control characters, such as escape codes and line ends."""
    return text if text.isprintable() else "".join(c if c.isprintable() else escape_character(c) for c in text)


def escape_lines(text: str) -> str:
    """Escape control characters, but keep line ends."""
    return "\n".join(map(escape_controls, text.split("\n")))


def escape_character(character: str) -> str:
    return character.encode("unicode_escape").decode("ascii")


def display_width(text: str) -> int:
    """Return the number of columns that the text takes."""
    if text.isascii():
        return len(text)
    import unicodedata  # most text is ASCII

    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1
        for c in text
    )  # fmt: skip


def natural(text: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key with which n10 comes after n9."""
    parts = _NUMBERS.split(text)
    return (*[(1, int(part), "") if part.isdecimal() else (0, 0, part) for part in parts], (0, 0, text))


def truncate(text: str, columns: int) -> str:
    """Shorten text to a number of columns, with an ellipsis."""
    if display_width(text) <= columns:
        return text
    while text and display_width(text) > columns - 1:
        text = text[:-1]
    return text + ELLIPSIS


def format_clock(seconds: float) -> str:
    """Format seconds as squeue does: 0:42, 5:12, 1:23:45, 2-03:04:05."""
    whole = int(max(seconds, 0))
    days, rest = divmod(whole, 86400)
    hours, rest = divmod(rest, 3600)
    minutes, seconds = divmod(rest, 60)
    if days:
        return f"{days}-{hours:02}:{minutes:02}:{seconds:02}"
    return f"{hours}:{minutes:02}:{seconds:02}" if hours else f"{minutes}:{seconds:02}"


def format_duration(seconds: float) -> str:
    """Format seconds in two units at most: 42s, 7.5s, 5m 12s, 3h 4m, 2d."""
    seconds = max(seconds, 0.0)
    whole = round(seconds)
    if whole < 60:
        return f"{seconds:.1f}".removesuffix(".0") + "s"
    size_s, unit, part_s, part_unit = next(each for each in _UNITS if whole >= each[0])
    part = whole % size_s // part_s
    return f"{whole // size_s:,}{unit}" + (f" {part}{part_unit}" if part else "")


_UNITS = ((86400, "d", 3600, "h"), (3600, "h", 60, "m"), (60, "m", 1, "s"))


def format_time(iso: str | None) -> str:
    """Format an ISO time in local time, without the date if that is today."""
    if iso is None:
        return "-"
    from datetime import datetime  # for this alone

    at = datetime.fromisoformat(iso).astimezone()
    return f"{at:%H:%M:%S}" if at.date() == datetime.now().date() else f"{at:%Y-%m-%d %H:%M:%S}"


def plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
