"""The worth of each job's work: its price times the number of jobs that wait behind it, steeper towards the first.

One second of work on a job shortens the time that every job behind it waits. In GPU-seconds that second counts with
its price. Both together are the derivative of the sum of all completion times, as if the cluster were one server that
takes jobs in the order of their priced work.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, inf
from typing import TYPE_CHECKING, Final

from weft.model import Seconds
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.weaving.groups import PACKING, GroupTable, GroupTables
from weft.scheduling.weaving.live_jobs import JobClass, LiveJobs
from weft.scheduling.weaving.selection import Bucket, Weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]
    Indices = NDArray[np.intp]

ARRIVALS: Final = 10.0
"""The jobs that are taken to arrive behind the last one before the queue is empty."""
MIN_LEFT_S: Final = 1e-3
"""The least work that a job is taken to have left."""
URGENT_AT: Final = 0.5
"""A job is urgent once its slow-down reaches this part of the largest allowed one."""
MIN_WAKE_S: Final = 60.0
"""The least time between two plans that only look for urgent jobs."""
MIN_QUICK: Final = 512
"""Shorter arrays are sorted by numpy's stable sort."""
SAMPLE: Final = 64
"""If many of about this many keys are equal to others, so are many of all keys."""
URGENCY: Final = 10.0
"""The weight of an urgent job, against the first job of the queue."""


@dataclass(frozen=True, eq=False)
class Guard:
    """The guard against slow-down. It bounds the ratio rho of a job's completion time and its time on an equal share
    of the cluster."""

    now: Seconds
    gpus: int
    """The GPUs of the cluster."""
    max_rho: float
    """The largest rho that a job should reach; 0: no limit."""
    lengths_s: Numbers
    """The solo seconds of work that each job has in total. A length that is too short brings a job forward too soon;
    one that is too long lets it wait."""


@dataclass(eq=False)
class Market:
    """The jobs of one plan with their prices and weights, numbered by row."""

    live: LiveJobs
    left_s: Numbers
    """The solo seconds of work that each job is expected to need until it ends."""
    tables: dict[Shape, GroupTable] = field(default_factory=dict)
    class_of: Indices = field(init=False)
    """The class of each job."""
    weight: Numbers = field(init=False)
    order: Indices = field(init=False)
    """The jobs, the most urgent and then the least priced work first."""
    urgent_in_s: float | None = None
    """The time after which a job gets urgent if it makes no progress; None: none does."""
    urgent: bool = False
    """True if some jobs are urgent: jobs of one kind are then not in the order of their weights."""

    def classify(self, tables: GroupTables) -> None:
        """Find the table of each shape, and the kind of each class."""
        import numpy as np

        self.class_of = self.live.class_of
        first = np.full(len(self.live.classes), len(self.class_of))
        np.minimum.at(first, self.class_of, np.arange(len(self.class_of)))
        self._classes = [
            self.live.classes[at]
            for at in np.argsort(first, kind="stable")[: (first < len(self.class_of)).sum()].tolist()
        ]
        self._numbers = [each.number for each in self._classes]
        members: dict[Shape, list[JobClass]] = {}
        for each in self._classes:
            members.setdefault(each.shape, []).append(each)
        for shape, classes in members.items():
            self.tables[shape] = self.live.table_of(classes, tables)

    def weigh(self, guard: Guard) -> None:
        """Set prices, order and weights. Jobs whose slow-down gets close to the guard's limit come first.

        Prices are set twice: by the work left, and then by the work times the jobs behind it, because work that is
        done early delays more jobs."""
        import numpy as np

        count = len(self.class_of)
        held = self._by_class([each.held for each in self._classes])
        area_s = held * self.left_s
        behind, ranks = np.ones(count), np.arange(count, 0, -1) + ARRIVALS
        ranks *= np.sqrt(np.sqrt(ranks / (count / 2 + ARRIVALS)))  # to the power 1.25, which pays: see loom.md
        for _ in range(2):
            price = self._by_class(self._prices(self.left_s * behind))
            order = stable_order(price * area_s)  # rows are in the order of submission
            behind[order] = ranks
        self.weight, self.order = price * behind, order
        if guard.max_rho > 0:
            self._put_urgent_first(guard, held, price * area_s, float(ranks[0]))

    def _put_urgent_first(self, guard: Guard, held: Numbers, priced: Numbers, first: float) -> None:
        """Give urgent jobs a weight above that of the first job of the queue, which has the rank `first`."""
        import numpy as np

        live, count = self.live, len(self.class_of)
        length_s = np.maximum(guard.lengths_s, MIN_LEFT_S)
        share_s = length_s * np.maximum(1.0, held * count / max(guard.gpus, 1))
        rho = (guard.now - live.submitted_at + length_s - live.worked_s) / share_s
        limit = guard.max_rho * URGENT_AT
        urgent = rho > limit
        calm = ~urgent & (live.rate < 1)
        if calm.any():
            self.urgent_in_s = max(float(((limit - rho) * share_s)[calm].min()), MIN_WAKE_S)
        self.urgent = bool(urgent.any())
        if self.urgent:
            top = first * URGENCY / limit
            self.weight = np.where(urgent, top * rho, self.weight)
            self.order = np.lexsort((priced, ~urgent))

    def _by_class(self, values: Sequence[float]) -> Numbers:
        """Return the value of each job's class."""
        import numpy as np

        found = np.zeros(len(self.live.classes))
        found[self._numbers] = values
        return np.asarray(found[self.class_of])

    def _prices(self, work_s: Numbers) -> list[float]:
        """Return the price of each class, given the work of each job."""
        import numpy as np

        sums = np.bincount(self.class_of, weights=work_s, minlength=len(self.live.classes)).tolist()
        work: dict[Shape, list[float]] = {shape: [0.0] * len(table.kinds) for shape, table in self.tables.items()}
        for each in self._classes:
            work[each.shape][each.kind] += sums[each.number]
        prices = {shape: self.tables[shape].price_list.prices(each) for shape, each in work.items()}
        return [float(prices[each.shape][each.kind]) for each in self._classes]

    def kinds(self) -> Indices:
        """Return the kind of each job in its bucket."""
        import numpy as np

        return np.array([each.kind for each in self.live.classes], dtype=np.intp)[self.class_of]

    def buckets(self, weights: Weights, limits: Mapping[Shape, int]) -> dict[Shape, Bucket]:
        """Return the first jobs of each class, enough to fill the cluster with groups of them, by shape. `limits`: the
        most groups of some shapes."""
        import numpy as np

        queues: dict[Shape, list[list[int]]] = {s: [[] for _ in table.kinds] for s, table in self.tables.items()}
        grouped, ends = group_by_class(self.class_of, self.order, len(self.live.classes))
        for each in self._classes:
            most = PACKING * ceil(weights.gpus / max(each.held, 0.1))
            end, start = ends[each.number], ends[each.number - 1] if each.number else 0
            queues[each.shape][each.kind] += grouped[start : min(end, start + most)].tolist()
        if len(self._classes) > sum(len(table.kinds) for table in self.tables.values()):  # some classes share a kind
            place = np.argsort(self.order).tolist()
            for queue in (queue for each in queues.values() for queue in each):
                queue.sort(key=place.__getitem__)
        found: dict[Shape, Bucket] = {}
        held = {each.shape: each.held for each in self._classes}
        for shape, table in self.tables.items():
            found[shape] = Bucket(shape, held[shape], table, queues[shape], limits.get(shape, inf))
            found[shape].prepare(self.weight, weights, falling=not self.urgent)
        return found


def group_by_class(class_of: Indices, order: Indices, classes: int) -> tuple[Indices, list[int]]:
    """Return the jobs class by class, each in this order, and the end of each class."""
    import numpy as np

    ordered = class_of[order].astype(np.min_scalar_type(classes))  # numpy sorts 16 bits by radix
    ends: list[int] = np.cumsum(np.bincount(ordered, minlength=classes)).tolist()
    return order[np.argsort(ordered, kind="stable")], ends


def stable_order(keys: Numbers) -> Indices:
    """Return the numbers of the keys, the smallest key first; equal keys stay in order. Long arrays with few equal keys
    take a quarter of the time of numpy's stable sort."""
    import numpy as np

    sample = keys[:: max(len(keys) // SAMPLE, 1)].tolist()
    if len(keys) < MIN_QUICK or len(set(sample)) < 0.75 * len(sample):
        return np.argsort(keys, kind="stable")
    order = np.argsort(keys)
    ranked = keys[order]
    same = np.flatnonzero(ranked[1:] == ranked[:-1])
    if len(same):
        tied = np.unique(np.concatenate((same, same + 1)))
        order[tied] = order[tied][np.lexsort((order[tied], ranked[tied]))]
    return order


def open_market(live: LiveJobs, left_s: Numbers, tables: GroupTables, guard: Guard) -> Market:
    """Return the market of a plan, with prices and weights set."""
    import numpy as np

    market = Market(live, np.maximum(left_s, MIN_LEFT_S))
    market.classify(tables)
    market.weigh(guard)
    return market
