"""The common result of all trace formats: a row in Weft's terms, before random draws fill the gaps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from weft.inputs.csv import Row
from weft.model import ANYWHERE, UNCOUNTED, WHOLE, PerRank, Profile, Share, Where

MAX_GPUS: Final = 1_000_000


@dataclass(slots=True)
class Draft:
    """A job as far as its row describes it."""

    submit_s: float
    gpus: int
    duration_s: float
    id: str = ""
    """Empty: the reader numbers the job."""
    user: str = ""
    name: str = ""
    model: str = ""
    """Empty, without a profile: the reader draws a model."""
    profile: Profile | None = None
    """The profile in the trace; None: from the profile table, by model."""
    declared_s: float | None = None
    """The length that policies see; None: the duration."""
    iterations: int | None = None
    """The work in iterations; None: the duration is the work."""
    opportunistic: bool | None = None
    """None: the reader draws it."""
    memory_mb: PerRank = UNCOUNTED
    cpus: int = 0
    ram_mb: int = 0
    priority: int = 0
    retries: int | None = None
    """None: the trace gives none."""
    share: Share = WHOLE
    where: Where = ANYWHERE
    params: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: its columns, and the function that reads a row."""

    name: str
    mark: str
    """The column that no other format has; `auto` looks for it."""
    required: tuple[str, ...]
    optional: tuple[str, ...]
    draft: Callable[[Row], Draft] = field(repr=False)
    from_earliest: bool = False
    """Submit times are dates; the first job's becomes 0."""
    strict: bool = False
    """True if a column that is neither required nor optional is an error; False: it is ignored."""
