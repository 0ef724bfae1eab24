"""The cells of a testbed: every cluster with every trace, policy and schedule interval."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from weft.errors import InputError
from weft.scheduling.plugins import registry

GENERATED: Final = "generated"
"""The name of the trace that is generated when none is given."""
POLICIES: Final = ("srtf", "srsf", "tiresias", "themis", "muri-s", "muri-l")
INTERVAL_S: Final = 360.0
"""The schedule interval of Muri's testbed."""
SPEED: Final = 3600.0
DEMOTING_SPEED: Final = 1800.0
"""A policy that demotes by attained service does so after 100 seconds at the earliest: a start must take less."""
WEAVING_SPEED: Final = 900.0
"""Policies that weave restart jobs 14 to 21 times, and a restart costs tens of milliseconds: they play more slowly."""
QUICK_FACTOR: Final = 2.0
"""The factor by which the quick form plays faster."""
QUICK_JOBS: Final = 100
MAX_NAME_CHARS: Final = 120

Order = Literal["fair", "fifo", "slots"]
Contention = Literal["muri", "none"]
ORDERS: Final[tuple[Order, ...]] = ("fair", "fifo", "slots")


@dataclass(frozen=True)
class Cell:
    """One experiment: a policy on a trace and a cluster."""

    cluster: str
    trace: str
    """A file, `demo` or `generated`."""
    policy: str
    interval_s: float
    """Seconds of the trace between two plans."""
    speed: float
    """Seconds of the trace per second."""
    jobs: int | None = None
    """Only the first jobs of the trace; None: all."""
    order: Order = "fair"
    """The order in which the members of a weave take turns."""
    contention: Contention = "none"
    """`muri`: the stages of woven jobs take longer, by the factors that Muri measured."""

    @property
    def name(self) -> str:
        """The folder of the cell. It names everything that makes the cell differ from others."""
        trace = re.sub(r"\.(csv|jsonl)(\.gz)?$", "", self.trace.rpartition("/")[2])
        cluster = re.sub(r"\.(csv|yaml|yml)$", "", self.cluster.rpartition("/")[2])
        parts = [cluster, trace, self.policy, f"{self.interval_s:g}s", f"x{self.speed:g}"]
        parts += [f"first{self.jobs}"] if self.jobs is not None else []
        parts += [self.order, self.contention] if weaves(self.policy) else []
        return re.sub(r"[^A-Za-z0-9._=+-]", "-", "_".join(parts))[:MAX_NAME_CHARS]


def weaves(policy: str) -> bool:
    return registry.load_policy(policy).weaves


def with_order(cell: Cell, policy: str) -> str:
    """Return the policy with the order and contention of the cell's weaves, if it weaves."""
    return f"{policy}:order={cell.order}:contention={cell.contention}" if weaves(cell.policy) else policy


def default_speed(policy: str, *, quick: bool = False) -> float:
    loaded = registry.load_policy(policy)
    speed = WEAVING_SPEED if loaded.weaves else DEMOTING_SPEED if hasattr(loaded, "tick_s") else SPEED
    return speed * QUICK_FACTOR if quick else speed


def list_cells(
    clusters: Sequence[str], traces: Sequence[str], policies: Sequence[str], intervals_s: Sequence[float], *,
    speed: float | None = None, jobs: int | None = None, quick: bool = False, order: Order = "fair",
    contention: Contention = "none",
) -> list[Cell]:  # fmt: skip
    """Return the cells of a matrix, cluster by cluster. Raise if two of them would have one name."""
    jobs = QUICK_JOBS if quick and jobs is None else jobs
    cells = [
        Cell(cluster, trace, policy, interval_s, speed or default_speed(policy, quick=quick), jobs, order, contention)
        for cluster, trace, policy, interval_s in _product(clusters, traces, policies, intervals_s)
    ]
    seen: dict[str, Cell] = {}
    for cell in cells:
        if cell.name in seen:
            hint = "give each cluster, trace, policy and interval once, and files different names"
            raise InputError(f"two cells are called {cell.name}", hint=hint)
        seen[cell.name] = cell
    return cells


def _product(
    clusters: Sequence[str], traces: Sequence[str], policies: Sequence[str], intervals_s: Sequence[float]
) -> Iterator[tuple[str, str, str, float]]:
    for cluster in clusters:
        for trace in traces:
            for interval_s in intervals_s:
                for policy in policies:
                    yield cluster, trace, policy, interval_s
