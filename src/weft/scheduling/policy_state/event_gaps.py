"""The time between events that call for a new plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model import Exited, Fact, Submitted

WEIGHT: Final = 0.05
"""The weight of the latest gap in the mean."""


@dataclass
class EventGaps:
    """The moving mean of the time between instants at which jobs arrive or end."""

    gap_s: float = 3600.0
    _at: float | None = None

    def apply(self, fact: Fact) -> None:
        if (type(fact) is Submitted or (type(fact) is Exited and fact.how == "done")) and fact.at != self._at:
            if self._at is not None:
                self.gap_s += WEIGHT * (fact.at - self._at - self.gap_s)
            self._at = fact.at
