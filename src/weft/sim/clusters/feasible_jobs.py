"""The jobs of a trace that a cluster can hold."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from weft.errors import PlanError
from weft.model import Node
from weft.model.slots import format_message
from weft.scheduling.core.planning.feasibility import Feasible
from weft.scheduling.core.ports import Placement
from weft.scheduling.plugins.errors import attribute_errors
from weft.sim.traces.trace import TraceJob

Split = tuple[list[TraceJob], list[tuple[TraceJob, str]]]


def split_feasible(
    jobs: Iterable[TraceJob], nodes: Sequence[Node], placements: Sequence[Placement] = (), *, lenient: bool = False
) -> Split:
    """Return the jobs that the empty cluster could hold with each placement, and the others with the reason.

    A placement that raises causes a PlanError that names it. If `lenient`, that placement is ignored instead.
    """
    feasible, infeasible = _split(jobs, Feasible(nodes))
    for placement in placements:
        try:
            with attribute_errors(None, placement):
                feasible, refused = _split(feasible, Feasible(nodes, (placement,)))
        except PlanError:
            if not lenient:
                raise
            continue
        infeasible += refused
    if placements:
        infeasible.sort(key=lambda bad: bad[0].submit_s)
    return feasible, infeasible


def _split(jobs: Iterable[TraceJob], cluster: Feasible) -> Split:
    feasible: list[TraceJob] = []
    infeasible: list[tuple[TraceJob, str]] = []
    for each in jobs:
        reason = cluster.why_not(each.job)
        if reason:
            infeasible.append((each, format_message(reason)))
        else:
            feasible.append(each)
    return feasible, infeasible
