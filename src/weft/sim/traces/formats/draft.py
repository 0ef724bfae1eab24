"""What each trace format is turned into: a row in our own terms, before anything is drawn for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from weft.inputs.csv import Row
from weft.model import ANYWHERE, UNCOUNTED, WHOLE, PerRank, Profile, Share, Where

MAX_GPUS: Final = 1_000_000


@dataclass(slots=True)
class Draft:
    submit_s: float
    gpus: int
    duration_s: float
    id: str = ""
    """Empty: to be numbered."""
    user: str = ""
    name: str = ""
    model: str = ""
    """Empty, without a profile: to be drawn."""
    profile: Profile | None = None
    """As the trace itself measured it; None: from our table, by model."""
    iterations: int | None = None
    """The work, where given; else the duration is."""
    opportunistic: bool | None = None
    """None: to be drawn."""
    memory_mb: PerRank = UNCOUNTED
    cpus: int = 0
    ram_mb: int = 0
    priority: int = 0
    retries: int | None = None
    """None: the trace does not say."""
    share: Share = WHOLE
    where: Where = ANYWHERE
    params: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    name: str
    mark: str
    """The column that no other format has: `auto` goes by it."""
    required: tuple[str, ...]
    optional: tuple[str, ...]
    draft: Callable[[Row], Draft] = field(repr=False)
    from_earliest: bool = False
    """Submit times are dates; the first becomes 0."""
    strict: bool = False
    """A column that is neither required nor optional is a mistake; else it is not read."""
