"""The trace formats that Weft reads: one file each. A column that only one format has identifies it."""

from __future__ import annotations

from typing import Final

from weft.sim.traces.formats import elasticflow, muri, philly, weft
from weft.sim.traces.formats.draft import Draft, Format

FORMATS: Final[tuple[Format, ...]] = (weft.FORMAT, muri.FORMAT, philly.FORMAT, elasticflow.FORMAT)

__all__ = ["FORMATS", "Draft", "Format"]
