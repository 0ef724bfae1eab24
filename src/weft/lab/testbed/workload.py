"""The jobs and nodes of a cell."""

from __future__ import annotations

import os
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from weft.errors import Infeasible, InputError
from weft.lab.compare.workload import open_trace
from weft.lab.testbed.matrix import GENERATED, Cell
from weft.model import Node
from weft.scheduling.plugins import registry
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.clusters.reader import read_cluster
from weft.sim.traces.distributions import Durations
from weft.sim.traces.generator import generate
from weft.sim.traces.trace import Trace, TraceJob, line_of

MURI_JOBS: Final = 400
MURI_LOAD: Final = 1.47
MURI_MIX: Final[Mapping[int, float]] = MappingProxyType({1: 36, 2: 15, 4: 19, 8: 287, 16: 3, 32: 40})
"""Jobs of Muri's testbed by number of GPUs."""
MEDIAN_S, MEAN_S, MAX_S = 2_256.0, 57_153.0, 603_739.0
"""Durations of the jobs of Muri's testbed."""


@dataclass(frozen=True)
class CellWorkload:
    nodes: Sequence[Node]
    jobs: Sequence[TraceJob]
    trace: str
    """The name of the trace."""

    @property
    def gpus(self) -> int:
        return sum(len(node.gpus) for node in self.nodes)


class _CappedDurations(Durations):
    """Log-normal durations that are not longer than the longest of Muri's testbed."""

    def draw(self, draws: random.Random) -> float:
        return min(super().draw(draws), MAX_S)


def load(cell: Cell, seed: int = 0) -> CellWorkload:
    """Read the cluster and the trace of a cell. Raise for jobs that would wait for ever."""
    nodes = read_cluster(cell.cluster)
    if cell.trace == GENERATED:
        trace = generate_trace(sum(len(node.gpus) for node in nodes), seed)
    else:
        trace = open_trace(cell.trace, seed=seed)
    jobs = trace.jobs[: cell.jobs]
    placement = registry.load_placement(registry.load_policy(cell.policy).placement)
    _, infeasible = split_feasible(jobs, nodes, [placement])
    if infeasible:
        first, reason = infeasible[0]
        where = f"{cell.trace}:{line_of(cell.trace, trace, first)}" if os.path.exists(cell.trace) else cell.trace
        hint = f"name a larger cluster than {cell.cluster}: --spec, or leave such jobs out of the trace"
        raise Infeasible(f"job {first.job.id} can never run: it {reason}", where=where, hint=hint)
    return CellWorkload(nodes, jobs, trace.name)


def generate_trace(gpus: int, seed: int = 0) -> Trace:
    """Return a trace with the shape of the one of Muri's testbed, for a cluster of this size."""
    durations = _CappedDurations("lognormal", (MEDIAN_S, MEAN_S))
    try:
        return generate(MURI_JOBS, seed=seed, gpus_in_cluster=gpus, load=MURI_LOAD, mix=MURI_MIX, durations=durations)
    except InputError as error:
        raise InputError(f"no trace for {gpus} GPUs: {error.what}", hint="give a trace: --trace FILE") from None
