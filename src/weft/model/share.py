"""A run's part of each of its GPUs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Share:
    """What a run holds of the compute of each of its GPUs."""

    request: float = 1.0
    limit: float = 1.0


WHOLE: Final = Share()
