"""The trace formats that Weft reads: one file each, with a `FORMAT`. A column that only one format has identifies it.

This module imports no format, so that a command can list the names quickly.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from weft.sim.traces.formats.draft import Format

NAMES: Final = ("weft", "muri", "philly", "elasticflow")
"""The names of the formats and of their files."""


@cache
def all_formats() -> tuple[Format, ...]:
    return tuple(import_module(f"{__name__}.{name}").FORMAT for name in NAMES)
