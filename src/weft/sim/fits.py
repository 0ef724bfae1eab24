"""Which jobs of a trace a cluster can ever hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.core.feasible import Feasible
from weft.core.ports import Placement
from weft.model import Node
from weft.sim.trace import TraceJob


def split_feasible(
    jobs: Iterable[TraceJob], nodes: Sequence[Node], placements: Sequence[Placement] = ()
) -> tuple[list[TraceJob], list[tuple[TraceJob, str]]]:
    """The jobs that the whole cluster, empty, could hold with each placement; and the others, each with why not."""
    cluster = Feasible(nodes, placements)
    feasible: list[TraceJob] = []
    infeasible: list[tuple[TraceJob, str]] = []
    for each in jobs:
        reason = cluster.why_not(each.job)
        if reason:
            infeasible.append((each, reason))
        else:
            feasible.append(each)
    return feasible, infeasible
