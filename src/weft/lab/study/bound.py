"""A lower bound on the GPUs that any placement needs, moves and knowledge of the future included.

Two training workers that need more than half of a GPU's memory each never share a GPU, so each of them takes one: these
GPUs are the anchors. What else lives at that moment goes into the holes of anchors, or on other GPUs. A linear program
finds how much memory fits into the holes at most. In it, replicas may be cut into pieces; a part of a language model
needs its whole request and limit on each GPU. The memory outside of the holes fills other GPUs completely. Requests and
limits are rounded down to classes; all of that only lowers the bound.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import ceil
from typing import Final, NamedTuple

from weft.lab.study.instances import InstanceEvent
from weft.scheduling.sharing.demand import Demand
from weft.scheduling.weaving.simplex import maximise

ANCHOR_STEP: Final = 0.05
MODEL_STEP: Final = 0.02
REPLICA_STEP: Final = 0.1


class Need(NamedTuple):
    """A class of workers or replicas: at least this much of one GPU."""

    request: float
    limit: float
    memory: float
    """A part of a GPU's memory; of models, the largest of the class."""


class Bound(NamedTuple):
    gpus: int
    at_s: float
    anchors: int
    """Training workers that need a GPU each."""
    memory_gpus: float
    """The memory of all instances, in GPUs."""


def bound_gpus(events: Sequence[InstanceEvent], gpu_mb: int, oversubscription: float) -> Bound:
    """Return the bound at the moment with the most memory in use."""
    at_s, alive = _fullest_moment(events)
    program = _Program(oversubscription)
    for demand in alive:
        for memory_mb in demand.memory_mb:
            program.add(demand, memory_mb / gpu_mb)
    total = sum(sum(demand.memory_mb) for demand in alive) / gpu_mb
    anchors = program.anchors.total()
    return Bound(max(ceil(total - 1e-6), anchors + ceil(program.least_rest() - 1e-6)), at_s, anchors, total)


def _fullest_moment(events: Sequence[InstanceEvent]) -> tuple[float, list[Demand]]:
    """Return the first moment with the most memory in use, and the instances that live then."""
    memory_mb, most_mb, last = 0, -1, 0
    for at, event in enumerate(events):
        memory_mb += (1 if event.starts else -1) * sum(event.demand.memory_mb)
        if memory_mb > most_mb:
            most_mb, last = memory_mb, at
    alive: dict[str, Demand] = {}
    for event in events[: last + 1]:
        if event.starts:
            alive[event.demand.name] = event.demand
        else:
            del alive[event.demand.name]
    return events[last].at_s, list(alive.values())


class _Program:
    """The linear program: how much memory the holes of anchors hold at most."""

    def __init__(self, oversubscription: float) -> None:
        self._oversubscription = oversubscription
        self.anchors: Counter[Need] = Counter()
        self._replicas: Counter[Need] = Counter()
        self._models: dict[tuple[float, float], list[float]] = {}
        """The memory of the models of each class, by request and limit."""

    def add(self, demand: Demand, memory: float) -> None:
        """Count a worker or replica that needs this part of a GPU's memory."""
        if demand.gang and memory > 0.5:
            self.anchors[Need(*_round_down(demand, ANCHOR_STEP), memory)] += 1
        elif demand.kind == "llm":
            self._models.setdefault(_round_down(demand, MODEL_STEP), []).append(memory)
        else:
            self._replicas[Need(*_round_down(demand, REPLICA_STEP), memory)] += 1

    def least_rest(self) -> float:
        """Return the least memory outside of the holes, in GPUs."""
        models = {Need(*shares, max(memories)): sum(memories) for shares, memories in self._models.items()}
        replicas = {need: count * need.memory for need, count in self._replicas.items()}
        rows = _Rows()
        for at, (anchor, count) in enumerate(sorted(self.anchors.items())):
            holes = Need(1 - anchor.request, self._oversubscription - anchor.limit, 1 - anchor.memory)
            if holes.memory <= 0:
                continue
            for what, most in zip(("request", "limit", "memory"), holes, strict=True):
                rows.bound((at, what), count * most)
            least = max(min((model.request for model in models), default=1.0), MODEL_STEP)
            rows.bound((at, "parts"), count * int((holes.request + 1e-9) / least))
            for need in models:
                if _fits(need, holes):
                    _add_part(rows, at, need, min(holes.memory, need.memory), parts=1.0)
            for need in replicas:
                if _fits(need, holes) and need.memory <= holes.memory + 1e-9:
                    _add_part(rows, at, need, need.memory, parts=0.0)
        for need, memory in (*models.items(), *replicas.items()):
            rows.bound(need, memory)
        return max(0.0, sum(models.values()) + sum(replicas.values()) - rows.maximum())


def _round_down(demand: Demand, step: float) -> tuple[float, float]:
    """Return the request and the limit, rounded down to whole steps."""
    request, limit = (int(share / step + 1e-9) for share in (demand.share.request, demand.share.limit))
    return round(request * step, 6), round(limit * step, 6)


def _fits(need: Need, holes: Need) -> bool:
    return need.request <= holes.request + 1e-9 and need.limit <= holes.limit + 1e-9


def _add_part(rows: _Rows, anchors: int, need: Need, memory: float, *, parts: float) -> None:
    """Add a variable: the number of parts of one class in the holes of a class of anchors."""
    rows.add(
        memory,
        {
            (anchors, "request"): need.request,
            (anchors, "limit"): need.limit,
            (anchors, "memory"): memory,
            (anchors, "parts"): parts,
            need: memory,
        },
    )


class _Rows:
    """The rows and columns of a linear program, by names."""

    def __init__(self) -> None:
        self._bounds: dict[Hashable, float] = {}
        self._columns: list[tuple[float, dict[Hashable, float]]] = []

    def bound(self, row: Hashable, most: float) -> None:
        self._bounds[row] = most

    def add(self, value: float, uses: dict[Hashable, float]) -> None:
        """Add a variable that is worth this much and uses these rows."""
        self._columns.append((value, uses))

    def maximum(self) -> float:
        import numpy as np

        if not self._columns:
            return 0.0
        numbers = {row: at for at, row in enumerate(self._bounds)}
        a = np.zeros((len(numbers), len(self._columns)))
        for column, (_, uses) in enumerate(self._columns):
            for row, amount in uses.items():
                a[numbers[row], column] = amount
        return maximise(np.array([value for value, _ in self._columns]), a, np.array(list(self._bounds.values())))[0]
