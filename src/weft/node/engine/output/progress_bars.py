"""Progress bars in logs: tqdm, Lightning, rich, Keras, and plain counts such as `step 450/1000`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

MAX_LINE_CHARS: Final = 1000
_TERMINAL_CODES: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_COUNT: Final = r"(\d{1,15}(?:\.\d{1,3})?)([kKMGTP]?)"
_TIME: Final = r"((?:\d{1,6}:)?\d{1,6}:\d{2}|\?)"
_COUNT_OF_TOTAL: Final = rf"{_COUNT}(?:i?B)?\s{{0,3}}/\s{{0,3}}{_COUNT}(?:i?B)?"
_BAR_CHARS: Final = "━╸╺─█"
_BAR: Final = rf"[{_BAR_CHARS}]{{5,300}}\s{{1,5}}"

_WITH_TOTAL: Final = (
    # tqdm, also within Lightning: 45%|####     | 450/1000 [00:10<00:12, 44.5it/s]
    re.compile(rf"\d{{1,3}}%\|[^|]{{0,300}}\|\s{{0,3}}{_COUNT_OF_TOTAL}\s{{0,3}}\[[\d:]{{1,12}}<(?P<left>[\d:]{{1,12}}|\?)"),
    # Keras: 12/313 [===>......] - ETA: 5s, or 12/313 ━━━━━━ 5s 17ms/step; the last line shows the elapsed time instead
    re.compile(rf"(?<![\d/.]){_COUNT_OF_TOTAL} \[[=>.]{{5,100}}\](?: - ETA: (?P<left>[\d:]{{1,12}}s?))?"),
    re.compile(rf"(?<![\d/.]){_COUNT_OF_TOTAL} [{_BAR_CHARS}]{{5,100}} (?P<left>[\d:]{{1,12}}s?) \d"),
    # rich, also within Lightning: ━━━━━━ 450/1000 45% 0:00:12, or ━━━━━━ 450/1000 0:00:10 • 0:00:12
    re.compile(rf"{_BAR}{_COUNT_OF_TOTAL}(?:\s{{1,5}}\d{{1,3}}%)?(?:\s[\d:]{{4,12}} •)?\s{{1,5}}(?P<left>{_TIME})"),
    re.compile(rf"{_BAR}{_COUNT_OF_TOTAL}"),
    # counts with a percentage: [640/60000 (1%)], 450/1000 45%, 45% (450/1000)
    re.compile(rf"(?<![\d/.]){_COUNT_OF_TOTAL}\s{{0,3}}[\[(|,:-]{{0,2}}\s{{0,3}}\d{{1,3}}(?:\.\d{{1,4}})?\s?%"),
    re.compile(rf"(?<![\d.])\d{{1,3}}(?:\.\d{{1,4}})?\s?%\s{{0,3}}[\[(|,:-]{{0,2}}\s{{0,3}}{_COUNT_OF_TOTAL}"),
    # counts with their unit: step 450/1000, Iteration: [450 / 1000]
    re.compile(rf"(?i)\b(?:step|iter|iteration|batch)s?\W{{0,3}}{_COUNT_OF_TOTAL}(?!\s?/)"),
)  # fmt: skip
_WITHOUT_TOTAL: Final = re.compile(rf"(?<![\d/.]){_COUNT}\s?[A-Za-z]{{1,20}} \[[\d:]{{1,12}}, ")
"""tqdm without a total: 450it [00:10, 44.5it/s]."""
_PERCENT_ONLY: Final = re.compile(rf"{_BAR}(\d{{1,3}})%(?:\s{{1,5}}{_TIME})?")
"""rich with its default columns: ━━━━━━ 45% 0:00:12."""
_SCALE: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


class Bar(NamedTuple):
    step: int
    total: int | None
    left_s: float | None


def last_bar(text: bytes) -> Bar | None:
    """Return the last progress bar in a text."""
    for line in reversed(re.split(r"[\r\n]+", text.decode(errors="replace"))):
        shown = _TERMINAL_CODES.sub("", line[-MAX_LINE_CHARS:])
        if bar := _bar_in_line(shown):
            return bar
    return None


def _bar_in_line(line: str) -> Bar | None:
    for pattern in _WITH_TOTAL:
        found = list(pattern.finditer(line))
        if found and (bar := _bar_from_match(found[-1])):
            return bar
    if counted := _WITHOUT_TOTAL.search(line):
        return Bar(_parse_count(counted[1], counted[2]), None, None)
    if percent := _PERCENT_ONLY.search(line):
        return Bar(int(percent[1]), 100, _parse_seconds(percent[2] or ""))
    return None


def _bar_from_match(match: re.Match[str]) -> Bar | None:
    step, total = _parse_count(match[1], match[2]), _parse_count(match[3], match[4])
    if not total or step > total:
        return None
    return Bar(step, total, _parse_seconds(match.groupdict().get("left") or ""))


def _parse_count(digits: str, unit: str) -> int:
    return round(float(digits) * _SCALE[unit])


def _parse_seconds(text: str) -> float | None:
    """Parse 5s, 01:23 or 1:02:03."""
    parts = text.removesuffix("s").split(":")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    found = 0.0
    for part in parts:
        found = found * 60 + int(part)
    return found
