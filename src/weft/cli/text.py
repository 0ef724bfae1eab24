"""Text for a terminal, as `weft.text` makes it, for the commands."""

from __future__ import annotations

from weft.text import (
    ELLIPSIS,
    display_width,
    escape_character,
    escape_controls,
    escape_lines,
    format_clock,
    format_time,
    plural,
    truncate,
)

__all__ = [
    "ELLIPSIS", "display_width", "escape_character", "escape_controls", "escape_lines", "format_clock", "format_time",
    "plural", "truncate",
]  # fmt: skip
