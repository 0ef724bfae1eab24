"""Lines of text with styles. Text from jobs is made printable here: no escape code reaches the terminal."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Final

from weft.text import display_width, truncate

Span = tuple[str, str]
"""Text, and the name of its style in `weft.tui.theme`."""
Line = Sequence[Span]
SPARKS: Final = "▁▂▃▄▅▆▇█"
ESCAPE_CODES: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|[ -/]*[0-~])|\x9b[0-?]*[ -/]*[@-~]"
)
"""Codes that move the cursor, set colours or titles, and so on."""


def clean(text: str) -> str:
    """Return the text of a job without escape codes; other control characters become spaces."""
    if text.isprintable():
        return text
    text = ESCAPE_CODES.sub("", text)
    return "".join(each if each.isprintable() else " " for each in text)


def fit(text: str, width: int, *, right: bool = False) -> str:
    """Return the text in exactly this many columns."""
    text = truncate(clean(text), width) if width > 0 else ""
    blank = " " * (width - display_width(text))
    return blank + text if right else text + blank


def bar(part: float, width: int, style: str = "bar", rest: str = "bar-rest") -> list[Span]:
    """Return a bar of which this part is filled, to half a column."""
    full, half = divmod(round(min(max(part, 0.0), 1.0) * width * 2), 2)
    head = "━" * full + "╸" * half
    return [(head, style), ("━" * (width - len(head)), rest)]


def sparkline(values: Sequence[float], width: int) -> str:
    """Return the values as columns of different heights: the last ones, or their means if there are too many."""
    if not values or width <= 0:
        return ""
    values = _resample(values, width)
    low, high = min(values), max(values)
    if high == low:
        return SPARKS[3] * len(values)
    return "".join(SPARKS[min(int((value - low) / (high - low) * len(SPARKS)), len(SPARKS) - 1)] for value in values)


def _resample(values: Sequence[float], count: int) -> list[float]:
    if len(values) <= count:
        return list(values)
    edges = [round(at * len(values) / count) for at in range(count + 1)]
    return [sum(values[low:high]) / (high - low) for low, high in pairwise(edges)]


def width_of(line: Iterable[Span]) -> int:
    return sum(display_width(text) for text, _ in line)


def cut(line: Line, width: int) -> list[Span]:
    """Return the first columns of a line."""
    found: list[Span] = []
    for text, style in line:
        taken = display_width(text)
        if taken > width:
            text = truncate(text, width) if width else ""
            taken = display_width(text)
        if text:
            found.append((text, style))
        width -= taken
    return found


def wrap(text: str, width: int) -> list[str]:
    """Return the text in lines of at most this width, broken between words where possible."""
    lines: list[str] = []
    for part in text.split("\n"):
        rest = clean(part)
        while display_width(rest) > width > 0:
            at = width
            while at > 1 and display_width(rest[:at]) > width:
                at -= 1
            space = rest.rfind(" ", 1, at + 1)
            at = space if space > width // 3 else at
            lines.append(rest[:at].rstrip())
            rest = rest[at:].lstrip()
        lines.append(rest)
    return lines


def amount_mb(value: float) -> str:
    """Format MB as a short text, such as 512M or 23.4G."""
    if value < 1000:
        return f"{value:.0f}M"
    return f"{value / 1024:.1f}G" if value < 102400 else f"{value / 1024:.0f}G"
