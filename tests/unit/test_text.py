"""Times in human form."""

from __future__ import annotations

import pytest

from weft.text import format_duration


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"), (0.04, "0s"), (7.52, "7.5s"), (42, "42s"), (59.96, "1m"), (62, "1m 2s"), (300, "5m"),
        (3661, "1h 1m"), (90_000, "1d 1h"), (8 * 86_400, "8d"), (1000 * 86_400, "1,000d"),
    ],
)  # fmt: skip
def test_a_duration_has_two_units_at_most(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text
