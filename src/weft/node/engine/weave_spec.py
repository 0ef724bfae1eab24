"""The place of a run in a weave: which weave, which of its members, and the rules of the turns."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import Final, Literal

from weft.errors import InputError

Order = Literal["fair", "fifo", "slots"]
ORDERS: Final[tuple[Order, ...]] = ("fair", "fifo", "slots")
MAX_MEMBERS: Final = 8
LIMIT_S: Final = 20.0
_SAFE_ID: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,199}")


@dataclass(frozen=True, slots=True)
class WeaveSpec:
    """The weave of one run, as the scheduler decided it."""

    id: str
    """The name of the weave's directory, never used twice."""
    place: int
    """Position of the run among the members, from 0."""
    size: int
    order: Order = "fair"
    limit_s: float = LIMIT_S
    """A member that holds a stage for longer is passed over: the next one begins while it still works."""

    def check(self) -> None:
        """Raise InputError for values that no weave can have."""
        if not _SAFE_ID.fullmatch(self.id):
            raise InputError(f"invalid weave id {self.id[:80]!r}: use letters, digits and . _ - only")
        if not 1 <= self.size <= MAX_MEMBERS or not 0 <= self.place < self.size:
            raise InputError(f"place {self.place} in a weave of {self.size}: use up to {MAX_MEMBERS} members, from 0")
        if self.order not in ORDERS:
            raise InputError(f"unknown order {self.order!r} of a weave", hint=f"use {', '.join(ORDERS)}")
        if not (math.isfinite(self.limit_s) and 0 < self.limit_s < 1e9):
            raise InputError(f"invalid limit of a stage: {self.limit_s} s; use a positive number")
