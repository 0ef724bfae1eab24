"""What a user submits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from weft.model.ids import JobId, Slots
from weft.model.per_rank import PerRank
from weft.model.share import WHOLE, Share

UNCOUNTED: Final = PerRank(0)


@dataclass(frozen=True, slots=True)
class Profile:
    """How one iteration of a model spends its time, alone on its GPUs."""

    model: str
    iteration_s: float
    data_s: float
    gpu_s: float
    network_s: float
    start_s: float = 0.0
    """What a start or restart costs before the first iteration."""


@dataclass(frozen=True, slots=True)
class Where:
    """Where a job may run: any of these left empty means anywhere."""

    gpu_model: str = ""
    labels: tuple[tuple[str, str], ...] = ()
    pinned: Slots = ()
    choice: Slots = ()
    """Any of these GPUs, those with the most left first."""


ANYWHERE: Final = Where()


@dataclass(frozen=True, slots=True)
class Task:
    """How a job is run on a real machine. The core never looks at it."""

    chdir: str = ""
    env: tuple[tuple[str, str], ...] = ()
    time_limit_s: float | None = None
    """A run is ended after this long."""
    grace_s: float | None = None
    """What it gets between being told to stop and being killed; None: what is usual."""
    requeue_exits: tuple[int, ...] = ()
    """Exit codes with which it asks to be run again."""
    array_index: int | None = None
    array_size: int | None = None
    comment: str = ""
    group: str = ""
    """Jobs of one group are found together."""
    per_gpu: bool = False
    """One process for each GPU instead of one for each node."""
    snapshot: str = ""
    """The blob of a tree of files that it is run in."""
    key: str = ""
    """Whoever submitted it gave it this key, so that sending it twice submits it once."""


@dataclass(frozen=True, slots=True)
class Job:
    id: JobId
    gpus: int = 1
    name: str = ""
    user: str = ""
    memory_mb: PerRank = UNCOUNTED
    """Per GPU: the same for all ranks, or one for each. 0: not counted."""
    cpus: int = 0
    """Per GPU; of the job where it has no GPU."""
    ram_mb: int = 0
    """Per GPU; of the job where it has no GPU."""
    share: Share = WHOLE
    where: Where = ANYWHERE
    priority: int = 0
    opportunistic: bool = False
    """Lives on what guaranteed jobs leave over (AntMan)."""
    retries: int = 0
    declared_s: float | None = None
    """How long the submitter says it takes alone."""
    iterations: int | None = None
    profile: Profile | None = None
    command: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()
    after: tuple[JobId, ...] = ()
    """Jobs that must be done first; it is cancelled if one of them ends otherwise."""
    batch: str = ""
    """Jobs of the same batch (the tasks of an array) may be limited in number."""
    batch_limit: int = 0
    """At most so many of its batch hold GPUs or may get them; 0: no limit."""
    task: Task | None = None
