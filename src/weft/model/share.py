"""The share of a GPU that a run gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Share:
    """A run's part of each of its GPUs, as fractions of the compute: the reserved part and the upper limit."""

    request: float = 1.0
    limit: float = 1.0


WHOLE: Final = Share()
