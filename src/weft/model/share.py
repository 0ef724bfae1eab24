"""The share of a GPU that a run gets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Share:
    """Fractions of the compute of each of its GPUs: what a run reserves, and what it may use at most."""

    request: float = 1.0
    limit: float = 1.0


WHOLE: Final = Share()
