"""The weave of a run on this node: the directory in which its members take turns, and the run's place there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

Order = Literal["fair", "fifo", "slots"]
ORDERS: Final[tuple[Order, ...]] = ("fair", "fifo", "slots")
MAX_MEMBERS: Final = 8


@dataclass(frozen=True, slots=True)
class WeaveSpec:
    """The weave of one run, as the scheduler decided it."""

    id: str
    """The name of the weave's directory. Never used twice."""
    place: int
    """From 0."""
    size: int
    order: Order = "fair"
    limit_s: float = 20.0
    """A member that holds a stage for longer is passed over."""
