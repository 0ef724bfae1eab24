"""Progress bars in what jobs write: tqdm and Lightning, rich, Keras, and plain counts such as `step 450/1000`."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

LONGEST_LINE: Final = 1000
_TERMINAL: Final = re.compile(r"\x1b\[[0-9;?]{0,20}[A-Za-z]")
_COUNT: Final = r"(\d{1,15}(?:\.\d{1,3})?)([kKMGTP]?)"
_TIME: Final = r"((?:\d{1,6}:)?\d{1,6}:\d{2}|\?)"
_OF: Final = rf"{_COUNT}(?:i?B)?\s{{0,3}}/\s{{0,3}}{_COUNT}(?:i?B)?"
_BAR_CHARS: Final = "━╸╺─█"
_BAR: Final = rf"[{_BAR_CHARS}]{{5,300}}\s{{1,5}}"

_KINDS: Final = (
    # tqdm, also within Lightning: 45%|####     | 450/1000 [00:10<00:12, 44.5it/s]
    re.compile(rf"\d{{1,3}}%\|[^|]{{0,300}}\|\s{{0,3}}{_OF}\s{{0,3}}\[[\d:]{{1,12}}<(?P<left>[\d:]{{1,12}}|\?)"),
    # Keras: 12/313 [===>......] - ETA: 5s, or 12/313 ━━━━━━ 5s 17ms/step; at the end it shows what was taken instead
    re.compile(rf"(?<![\d/.]){_OF} \[[=>.]{{5,100}}\](?: - ETA: (?P<left>[\d:]{{1,12}}s?))?"),
    re.compile(rf"(?<![\d/.]){_OF} [{_BAR_CHARS}]{{5,100}} (?P<left>[\d:]{{1,12}}s?) \d"),
    # rich, also within Lightning: ━━━━━━ 450/1000 45% 0:00:12, or ━━━━━━ 450/1000 0:00:10 • 0:00:12
    re.compile(rf"{_BAR}{_OF}(?:\s{{1,5}}\d{{1,3}}%)?(?:\s[\d:]{{4,12}} •)?\s{{1,5}}(?P<left>{_TIME})"),
    re.compile(rf"{_BAR}{_OF}"),
    # counts beside their percentage: [640/60000 (1%)], 450/1000 45%, 45% (450/1000)
    re.compile(rf"(?<![\d/.]){_OF}\s{{0,3}}[\[(|,:-]{{0,2}}\s{{0,3}}\d{{1,3}}(?:\.\d{{1,4}})?\s?%"),
    re.compile(rf"(?<![\d.])\d{{1,3}}(?:\.\d{{1,4}})?\s?%\s{{0,3}}[\[(|,:-]{{0,2}}\s{{0,3}}{_OF}"),
    # counts that say what they count: step 450/1000, Iteration: [450 / 1000]
    re.compile(rf"(?i)\b(?:step|iter|iteration|batch)s?\W{{0,3}}{_OF}(?!\s?/)"),
)  # fmt: skip
_COUNTED: Final = re.compile(rf"(?<![\d/.]){_COUNT}\s?[A-Za-z]{{1,20}} \[[\d:]{{1,12}}, ")
"""tqdm without a total: 450it [00:10, 44.5it/s]."""
_PERCENT: Final = re.compile(rf"{_BAR}(\d{{1,3}})%(?:\s{{1,5}}{_TIME})?")
"""rich as it comes: ━━━━━━ 45% 0:00:12."""
_SCALE: Final = {"": 1, "k": 10**3, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}


class Bar(NamedTuple):
    step: int
    total: int | None
    left_s: float | None


def last_bar(text: bytes) -> Bar | None:
    """The bar drawn last, whatever else was written."""
    for line in reversed(re.split(r"[\r\n]+", text.decode(errors="replace"))):
        shown = _TERMINAL.sub("", line[-LONGEST_LINE:])
        if bar := _in_line(shown):
            return bar
    return None


def _in_line(line: str) -> Bar | None:
    for kind in _KINDS:
        found = list(kind.finditer(line))
        if found and (bar := _of(found[-1])):
            return bar
    if counted := _COUNTED.search(line):
        return Bar(_number(counted[1], counted[2]), None, None)
    if percent := _PERCENT.search(line):
        return Bar(int(percent[1]), 100, _seconds(percent[2] or ""))
    return None


def _of(match: re.Match[str]) -> Bar | None:
    step, total = _number(match[1], match[2]), _number(match[3], match[4])
    if not total or step > total:
        return None
    return Bar(step, total, _seconds(match.groupdict().get("left") or ""))


def _number(digits: str, unit: str) -> int:
    return round(float(digits) * _SCALE[unit])


def _seconds(text: str) -> float | None:
    """5s, 01:23 or 1:02:03."""
    parts = text.removesuffix("s").split(":")
    if not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    found = 0.0
    for part in parts:
        found = found * 60 + int(part)
    return found
