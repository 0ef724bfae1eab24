"""Gantt charts: one bar per run if there are few, else the number of jobs on each GPU or node over time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from weft.model import Exited, Fact, JobId, NodeId, NodeJoined, NodeLost, Rewoven, Seconds, Start

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAX_DRAWN_RUNS: Final = 2000
MAX_DRAWN_GPUS: Final = 64
TIME_BINS: Final = 600
USED_FACTS: Final = frozenset({Start, Rewoven, Exited, NodeJoined, NodeLost})


@dataclass(frozen=True)
class Bar:
    """A run on adjacent GPUs of a node. Each member of a weave has its lane; so does an opportunistic job."""

    job: JobId
    row: int
    rows: int
    start_s: float
    end_s: float
    lane: int
    lanes: int


@dataclass(frozen=True)
class Gantt:
    until_s: float
    nodes: Sequence[tuple[str, int]]
    """Names and GPU counts, from the top."""
    bars: Sequence[Bar] = ()
    """One per run, if there are few."""
    density: NDArray[np.float32] | None = None
    """Jobs per GPU, if there are many runs. A row per GPU, or per node if there are many GPUs; a column per bin."""

    @property
    def gpus(self) -> int:
        return sum(gpus for _, gpus in self.nodes)

    @property
    def by_node(self) -> bool:
        return self.density is not None and self.gpus > MAX_DRAWN_GPUS


@dataclass(slots=True)
class _Occupancy:
    """A run's use of GPUs of one node."""

    job: JobId
    node: NodeId
    gpus: tuple[int, ...]
    start_s: Seconds
    members: tuple[JobId, ...]
    guest: bool
    end_s: Seconds = 0.0


@dataclass
class _Occupancies:
    """The present and past uses of GPUs. Events of an old run are dropped."""

    nodes: dict[NodeId, int] = field(default_factory=dict)
    past: list[_Occupancy] = field(default_factory=list)
    now: dict[JobId, tuple[int, list[_Occupancy]]] = field(default_factory=dict)
    runs: int = 0

    def start(self, fact: Start) -> None:
        if fact.job not in self.now:
            self.runs += 1
            guest = fact.share.request == 0
            holds = [_Occupancy(fact.job, node, gpus, fact.at, fact.weave, guest) for node, gpus in fact.slots]
            self.now[fact.job] = fact.run, holds

    def reweave(self, fact: Rewoven) -> None:
        """Continue a run with other partners on the same GPUs."""
        run, holds = self.now.get(fact.job, (0, []))
        if run == fact.run:
            self._close(holds, fact.at)
            self.now[fact.job] = run, [replace(hold, start_s=fact.at, members=fact.weave) for hold in holds]

    def exit(self, job: JobId, run: int, at: Seconds) -> None:
        if job in self.now and self.now[job][0] == run:
            self._close(self.now.pop(job)[1], at)

    def lose(self, node: NodeId, at: Seconds) -> None:
        for job, (run, holds) in list(self.now.items()):
            self._close([hold for hold in holds if hold.node == node], at)
            rest = [hold for hold in holds if hold.node != node]
            if rest:
                self.now[job] = run, rest
            else:
                del self.now[job]

    def end(self, at: Seconds) -> None:
        for _, holds in self.now.values():
            self._close(holds, at)

    def _close(self, holds: Iterable[_Occupancy], at: Seconds) -> None:
        for hold in holds:
            if at > hold.start_s:
                hold.end_s = at
                self.past.append(hold)


def build_gantt(facts: Iterable[Fact]) -> Gantt:
    holds = _Occupancies()
    at = 0.0
    for fact in facts:
        at = fact.at
        if type(fact) not in USED_FACTS:
            continue
        if isinstance(fact, Start):
            holds.start(fact)
        elif isinstance(fact, Rewoven):
            holds.reweave(fact)
        elif isinstance(fact, Exited):
            holds.exit(fact.job, fact.run, fact.at)
        elif isinstance(fact, NodeJoined):
            holds.nodes.setdefault(fact.node.id, len(fact.node.gpus))
        elif isinstance(fact, NodeLost):
            holds.lose(fact.node, fact.at)
    holds.end(at)
    nodes = [(name, gpus) for name, gpus in holds.nodes.items() if gpus]
    until = max((hold.end_s for hold in holds.past), default=0.0)
    if holds.runs <= MAX_DRAWN_RUNS and sum(gpus for _, gpus in nodes) <= MAX_DRAWN_GPUS:
        return Gantt(until, nodes, _bars(holds.past, nodes))
    return Gantt(until, nodes, density=_density(holds.past, nodes, until))


def _bars(holds: Iterable[_Occupancy], nodes: Sequence[tuple[str, int]]) -> list[Bar]:
    first = _first_rows(nodes)
    bars: list[Bar] = []
    for hold in holds:
        members = sorted(hold.members)
        lane, lanes = (members.index(hold.job), len(members)) if len(members) > 1 else (1, 2) if hold.guest else (0, 1)
        for row, rows in _adjacent_ranges(hold.gpus):
            bars.append(Bar(hold.job, first[hold.node] + row, rows, hold.start_s, hold.end_s, lane, lanes))
    return bars


def _adjacent_ranges(gpus: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first GPU and the length of each range of adjacent GPUs: (0, 1, 2, 5) gives (0, 3), (5, 1)."""
    found: list[tuple[int, int]] = []
    for gpu in sorted(gpus):
        if found and sum(found[-1]) == gpu:
            found[-1] = found[-1][0], found[-1][1] + 1
        else:
            found.append((gpu, 1))
    return found


def _density(holds: Sequence[_Occupancy], nodes: Sequence[tuple[str, int]], until_s: float) -> NDArray[np.float32]:
    import numpy as np

    by_node = sum(gpus for _, gpus in nodes) > MAX_DRAWN_GPUS
    first = {name: at for at, (name, _) in enumerate(nodes)} if by_node else _first_rows(nodes)
    rows: list[int] = []
    weights: list[int] = []
    times: list[tuple[float, float]] = []
    for hold in holds:
        parts = [(first[hold.node], len(hold.gpus))] if by_node else [(first[hold.node] + g, 1) for g in hold.gpus]
        for row, weight in parts:
            rows.append(row)
            weights.append(weight)
            times.append((hold.start_s, hold.end_s))
    sizes = np.array([gpus for _, gpus in nodes] if by_node else [1] * sum(gpus for _, gpus in nodes))
    where, weighs = np.array(rows, dtype=np.int64), np.array(weights, dtype=np.float64)
    span = np.array(times, dtype=np.float64).reshape(-1, 2) * (TIME_BINS / until_s if until_s else 0.0)
    started = _weight_after(where, weighs, span[:, 0], len(sizes))
    ended = _weight_after(where, weighs, span[:, 1], len(sizes))
    return np.asarray((started - ended) / sizes[:, None], dtype=np.float32)


def _weight_after(
    row: NDArray[np.int64], weight: NDArray[np.float64], at: NDArray[np.float64], rows: int
) -> NDArray[np.float64]:
    """Return, for each row and time bin, the sum of weight times the part of the bin after `at`, over all entries."""
    import numpy as np

    index = np.minimum(at.astype(np.int64), TIME_BINS - 1)
    cell, size = row * TIME_BINS + index, rows * TIME_BINS
    whole = np.bincount(cell, weight, size).reshape(rows, TIME_BINS)
    before = np.bincount(cell, weight * (at - index), size).reshape(rows, TIME_BINS)
    return np.asarray(np.cumsum(whole, axis=1) - before, dtype=np.float64)


def _first_rows(nodes: Sequence[tuple[str, int]]) -> dict[str, int]:
    first: dict[str, int] = {}
    row = 0
    for name, gpus in nodes:
        first[name] = row
        row += gpus
    return first
