"""The worth of each job's work: its price times the number of jobs that wait behind it.

One second of work on a job shortens the time that every job behind it waits. In GPU-seconds that second counts with
its price. Both together are the derivative of the sum of all completion times, as if the cluster were one server that
takes jobs in the order of their priced work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil
from typing import TYPE_CHECKING, Final

from weft.core.ports import JobView, View
from weft.core.resources.shapes import Shape
from weft.model import Profile
from weft.weaving.candidates import weavable_profile
from weft.weaving.groups import PACKING, GroupTable, GroupTables
from weft.weaving.selection import Bucket, Weights

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
URGENCY: Final = 10.0
"""The weight of an urgent job, against the first job of the queue."""


@dataclass(eq=False)
class JobClass:
    """Jobs that are alike to the choice: of one shape and one profile."""

    shape: Shape
    profile: Profile | None
    number: int
    held: float
    """The GPUs that one of its jobs holds; a part of a GPU counts as that part."""
    kind: int = 0
    """The number of the profile in the table of its shape."""


@dataclass(eq=False)
class Market:
    """The jobs of one plan with their prices and weights. Jobs are numbered in the order given."""

    jobs: Sequence[JobView]
    left_s: Numbers
    """The solo seconds of work that each job is expected to need until it ends."""
    classes: list[JobClass] = field(default_factory=list)
    tables: dict[Shape, GroupTable] = field(default_factory=dict)
    class_of: Indices = field(init=False)
    """The class of each job."""
    weight: Numbers = field(init=False)
    order: Indices = field(init=False)
    """The jobs, the most urgent and then the least priced work first."""
    urgent_in_s: float | None = None
    """The time after which a job gets urgent if it makes no progress; None: none does."""

    def classify(self, view: View, tables: GroupTables) -> None:
        """Find the class of each job, and the table of each shape."""
        import numpy as np

        known: dict[tuple[Shape, int], JobClass] = {}
        by_value: dict[tuple[Shape, Profile | None], JobClass] = {}
        numbers = []
        for job in self.jobs:
            shape, profile = job.shape, job.job.profile
            if profile is None or not shape.plain or job.unwoven:
                profile = weavable_profile(view, job)
            found = known.get((shape, id(profile)))
            if found is None:
                found = by_value.get((shape, profile))
                if found is None:
                    held = shape.gpus * min(job.wanted_share.request, 1.0)
                    found = JobClass(shape, profile, len(self.classes), held)
                    by_value[shape, profile] = found
                    self.classes.append(found)
                known[shape, id(profile)] = found
            numbers.append(found.number)
        self.class_of = np.array(numbers)
        members: dict[Shape, list[JobClass]] = {}
        for each in self.classes:
            members.setdefault(each.shape, []).append(each)
        for shape, classes in members.items():
            self.tables[shape], kinds = tables.table(shape, [each.profile for each in classes])
            for each in classes:
                each.kind = kinds[each.profile]

    def weigh(self, gpus: int, age_s: Numbers, worked_s: Numbers, max_rho: float) -> None:
        """Set prices, order and weights. With `max_rho` above 0, jobs whose slow-down gets close to it come first.

        Prices are set twice: by the work left, and then by the work times the jobs behind it, because work that is
        done early delays more jobs."""
        import numpy as np

        held = np.array([each.held for each in self.classes])[self.class_of]
        seq = np.array([job.seq for job in self.jobs])
        behind = np.ones(len(self.jobs))
        for _ in range(2):
            price = self._prices(self.left_s * behind)[self.class_of]
            order = np.lexsort((seq, price * held * self.left_s))
            behind[order] = np.arange(len(self.jobs), 0, -1) + ARRIVALS
        self.weight, self.order = price * behind, order
        if max_rho > 0:
            crowd = np.maximum(1.0, held * len(self.jobs) / max(gpus, 1))
            rho = (age_s + self.left_s) / ((worked_s + self.left_s) * crowd)
            urgent = rho > max_rho * URGENT_AT
            calm = ~urgent & np.array([job.rate < 1 for job in self.jobs])
            if calm.any():
                in_s = (max_rho * URGENT_AT - rho[calm]) * (worked_s + self.left_s)[calm] * crowd[calm]
                self.urgent_in_s = max(float(in_s.min()), MIN_WAKE_S)
            if urgent.any():
                top = (len(self.jobs) + ARRIVALS) * URGENCY / (max_rho * URGENT_AT)
                self.weight = np.where(urgent, top * rho, self.weight)
                self.order = np.lexsort((seq, price * held * self.left_s, ~urgent))

    def _prices(self, work_s: Numbers) -> Numbers:
        """Return the price of each class, given the work of each job."""
        import numpy as np

        sums = np.bincount(self.class_of, weights=work_s, minlength=len(self.classes)).tolist()
        work: dict[Shape, list[float]] = {shape: [0.0] * len(table.kinds) for shape, table in self.tables.items()}
        for each, total in zip(self.classes, sums, strict=True):
            work[each.shape][each.kind] += total
        prices = {shape: self.tables[shape].price_list.prices(each) for shape, each in work.items()}
        return np.array([prices[each.shape][each.kind] for each in self.classes])

    def buckets(self, weights: Weights) -> dict[Shape, Bucket]:
        """Return the first jobs of each class, enough to fill the cluster with groups of them, by shape."""
        import numpy as np

        weight = self.weight.tolist()
        found: dict[Shape, Bucket] = {}
        queues: dict[Shape, list[list[int]]] = {s: [[] for _ in table.kinds] for s, table in self.tables.items()}
        ordered = self.class_of[self.order]
        grouped = self.order[np.argsort(ordered, kind="stable")]
        ends = np.cumsum(np.bincount(ordered, minlength=len(self.classes))).tolist()
        start = 0
        for each, end in zip(self.classes, ends, strict=True):
            most = PACKING * ceil(weights.gpus / max(each.held, 0.1))
            queue = queues[each.shape][each.kind]
            queue += grouped[start : min(end, start + most)].tolist()
            start = end
        if len(self.classes) > sum(len(table.kinds) for table in self.tables.values()):  # some classes share a kind
            place = np.argsort(self.order).tolist()
            for queue in (queue for each in queues.values() for queue in each):
                queue.sort(key=place.__getitem__)
        for shape, table in self.tables.items():
            held = next(each.held for each in self.classes if each.shape is shape)
            found[shape] = Bucket(held, table, queues[shape])
            found[shape].prepare(weight, weights)
        return found


def open_market(view: View, jobs: Sequence[JobView], left_s: Numbers, tables: GroupTables, max_rho: float) -> Market:
    """Return the market of a plan, with prices and weights set."""
    import numpy as np

    now = view.now
    market = Market(jobs, np.maximum(left_s, MIN_LEFT_S))
    market.classify(view, tables)
    age_s = np.array([now - job.submitted_at for job in jobs])
    market.weigh(view.gpus, age_s, np.array([job.worked(now) for job in jobs]), max_rho)
    return market
