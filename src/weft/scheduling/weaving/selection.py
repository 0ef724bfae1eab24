"""The choice of groups by density: worth of the work done per second and GPU, the densest first.

A group's density is the sum of its members' rates, each times the job's weight, plus a term that prefers few jobs at a
high rate to many at a low one. All GPU counts compete. Groups that run already compete with a bonus: to keep them costs
no restart.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from math import inf
from typing import TYPE_CHECKING, Final

from weft.scheduling.core.ports import Trial
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.weaving.groups import PACKING, GroupTable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers = NDArray[np.float64]

NO_JOB: Final = -1e15
"""The weight of a job that is not there: no group with it is chosen."""
NO_JOBS: Final = (NO_JOB,) * PACKING
NO_LOSS: Final = 1e-9
"""A smaller loss than this, in parts of a group's density, is a rounding error."""
MIN_ACTIVE: Final = 0.02
"""The least part of the time in which a group is taken to work."""


@dataclass(frozen=True)
class Weights:
    """The terms of a density besides the weights of the members."""

    gpus: int
    """The GPUs of the cluster."""
    concentration: float
    """The worth of serving few jobs at a high rate instead of many at a low one."""
    start_rate: float = 0.0
    """The restarts of each run per second, whichever groups are chosen; 0: only runs that move restart."""


@dataclass
class Bucket:
    """Jobs that may be woven with each other, by kind, each in order of rank; and their groups."""

    shape: Shape
    """The need of each of the jobs."""
    gpus: float
    """The GPUs that a group holds."""
    table: GroupTable
    queues: list[list[int]]
    """For each kind, the numbers of its jobs that are not chosen yet, the first first."""
    spare: float = inf
    """The number of groups that may still be chosen."""

    def prepare(self, weight: Numbers, weights: Weights, *, falling: bool = True) -> None:
        """Compute the densities of the best group of each multiset of kinds. `falling`: the jobs of each kind are in
        the order of their weights."""
        import numpy as np

        table = self.table
        self._weight, self._falling = weight, falling
        self._taken: set[int] = set()
        self._forbidden: list[int] = []
        self._active: Numbers | None = None
        if weights.start_rate:
            self._active = np.maximum(1.0 - weights.start_rate * table.start_s, MIN_ACTIVE)
        self._concentrated = weights.concentration * weights.gpus / max(self.gpus, 1e-9) * table.concentration
        self._column_weights = [NO_JOB] * table.none + [0.0]
        self._first: list[list[int]] = [[] for _ in self.queues]
        self._next = [0] * len(self.queues)
        self._short = {kind for kind, queue in enumerate(self.queues) if queue}
        self._find_best()

    def _fill(self) -> None:
        """Move jobs that are not taken from the queues to the first ones of their kinds."""
        weight_of, columns = self._weight.item, self._column_weights
        for kind in self._short:
            first, queue, at = self._first[kind], self.queues[kind], self._next[kind]
            if not self._taken:
                first += queue[:PACKING]
                at = len(first)
            while len(first) < PACKING and at < len(queue):
                if queue[at] not in self._taken:
                    first.append(queue[at])
                at += 1
            self._next[kind] = at
            columns[kind * PACKING : (kind + 1) * PACKING] = [*map(weight_of, first), *NO_JOBS[len(first) :]]
        self._short.clear()

    def _find_best(self) -> None:
        import numpy as np

        self._fill()
        density = self.table.rates_by_column @ np.array(self._column_weights)
        if self._active is not None:
            density *= self._active
        density += self._concentrated
        if self._forbidden:
            density[self._forbidden] = NO_JOB
        self.row = int(density.argmax())
        self.density = density.item(self.row)
        self.stale = False

    def refresh(self) -> None:
        """Find the densest group again. Until then `density` is an upper bound."""
        if self.stale:
            self._find_best()

    def best(self) -> tuple[int, ...]:
        """Return the jobs of the densest group."""
        return tuple([self._first[c // PACKING][c % PACKING] for c, _ in self.table.members(self.row)])

    def take(self, jobs: Sequence[int], kinds: Sequence[int]) -> None:
        """Take these jobs off the queues, as one group."""
        self.spare -= 1
        self._taken.update(jobs)
        for job, kind in zip(jobs, kinds, strict=True):
            first = self._first[kind]
            if job in first:  # a job that runs may be further back
                first.remove(job)
                self._short.add(kind)
                self.stale = True
        if not self._falling:
            self.refresh()

    def heaviest_first(self) -> list[int]:
        """Return all jobs, chosen or not, the heaviest first."""
        return sorted([job for queue in self.queues for job in queue], key=lambda job: -self._weight[job])

    @property
    def empty(self) -> bool:
        """True if all jobs are chosen."""
        return all(job in self._taken for queue in self.queues for job in queue)

    def forbid(self) -> None:
        """Do not choose groups of the kinds of the densest one."""
        self._forbidden.append(self.row)
        self._find_best()

    def density_of(self, jobs: Sequence[int], kinds: tuple[int, ...]) -> float | None:
        """Return the density of these jobs as a group; None if the group does not pay."""
        seats = self.table.seats(kinds)
        if seats is None:
            return None
        row, members = seats
        worth, weight_of = 0.0, self._weight.item
        for place, rate in members:
            worth += rate * weight_of(jobs[place])
        if self._active is not None:
            worth *= self._active.item(row)
        return worth + self._concentrated.item(row)


@dataclass(slots=True, eq=False)
class Choice:
    """A group that was chosen."""

    jobs: tuple[int, ...]
    bucket: Bucket
    density: float


@dataclass
class Selection:
    """Chooses groups until the GPUs are full."""

    buckets: Sequence[Bucket]
    bucket_of: Callable[[int], Bucket]
    """Returns the bucket of a job."""
    kind_of: Callable[[int], int]
    """Returns the kind of a job in its bucket."""
    keep: float
    """The bonus of a group that runs, as a part of its density."""
    fits: Callable[[tuple[int, ...]], bool]
    """Returns whether the jobs of a group fit together."""
    chosen: list[Choice] = field(default_factory=list)
    running: Sequence[tuple[int, ...]] = ()
    """The groups that run now."""

    def run(self, running: Sequence[tuple[int, ...]], free: float) -> None:
        """Choose groups, the densest first. `running`: the groups that run now; `free`: the GPUs to give away."""
        self.running = running
        kept = self._kept(running)
        taken: set[int] = set()
        while free > 0:
            while kept and not taken.isdisjoint(kept[-1].jobs):
                kept.pop()
            again = kept[-1] if kept else None
            if again is not None and not _has_room(again.bucket, free):
                able = (c for c in reversed(kept) if _has_room(c.bucket, free) and taken.isdisjoint(c.jobs))
                again = next(able, None)
            best = self._densest(free, 0.0 if again is None else again.density)
            if again is not None and best is None:
                choice = again
                if again is kept[-1]:
                    kept.pop()
                else:
                    kept.remove(again)
            elif best is not None:
                choice = Choice(best.best(), best, best.density)
            else:
                break
            if not self.fits(choice.jobs):
                if choice is not again:
                    choice.bucket.forbid()
                continue
            choice.bucket.take(choice.jobs, [*map(self.kind_of, choice.jobs)])
            taken.update(choice.jobs)
            self.chosen.append(choice)
            free -= choice.bucket.gpus
        self.split(free)

    def _densest(self, free: float, least: float) -> Bucket | None:
        """Return the bucket with the densest group that fits; None if none is denser than `least`."""
        while True:
            best, most = None, max(least, 0.0)
            for bucket in self.buckets:
                if bucket.density > most and _has_room(bucket, free):
                    best, most = bucket, bucket.density
            if best is None or not best.stale:
                return best
            best.refresh()

    def place(self, shape_of: Callable[[tuple[int, ...]], Shape], trial: Trial) -> tuple[list[Choice], list[Choice]]:
        """Place the chosen groups side by side on the nodes, the largest first. Return those that fit, and the
        others."""
        placed: list[Choice] = []
        failed: list[Choice] = []
        for choice in sorted(self.chosen, key=lambda choice: (-choice.bucket.gpus, -choice.density)):
            (placed if trial.fits(shape_of(choice.jobs)) else failed).append(choice)
        return placed, failed

    def _kept(self, running: Sequence[tuple[int, ...]]) -> list[Choice]:
        """Return the groups that run now, the densest last."""
        found = []
        for jobs in running:
            bucket = self.bucket_of(jobs[0])
            density = bucket.density_of(jobs, tuple(map(self.kind_of, jobs)))
            if density is not None:
                found.append(Choice(jobs, bucket, density * (1 + self.keep)))
        return sorted(found, key=lambda choice: choice.density)

    def split(self, free: float) -> None:
        """Give GPUs that are left to parts of groups, where that gains most. Groups whose members do not slow each
        other down are parted too: nothing is gained by sharing while GPUs are idle."""
        found: dict[int, tuple[float, tuple[tuple[int, ...], tuple[int, ...]]]] = {}
        while free > 0:
            for at, choice in enumerate(self.chosen):
                if len(choice.jobs) > 1 and _has_room(choice.bucket, free) and at not in found:
                    found[at] = max(self._splits(choice), key=lambda split: split[0])
            able = [at for at in found if _has_room(self.chosen[at].bucket, free)]
            best = max(able, key=lambda at: (found[at][0], -at), default=None)
            if best is None or found[best][0] < -NO_LOSS * abs(self.chosen[best].density):
                break
            one, other = found.pop(best)[1]
            bucket = self.chosen[best].bucket
            self.chosen[best] = Choice(one, bucket, self._worth(bucket, one))
            self.chosen.append(Choice(other, bucket, self._worth(bucket, other)))
            bucket.spare -= 1
            free -= bucket.gpus

    def _splits(self, choice: Choice) -> list[tuple[float, tuple[tuple[int, ...], tuple[int, ...]]]]:
        """Return the ways to part a group in two, each with its gain."""
        jobs, bucket = choice.jobs, choice.bucket
        whole = self._worth(bucket, jobs)
        found = []
        for size in range(1, len(jobs) // 2 + 1):
            for other in combinations(jobs, size):
                one = tuple([job for job in jobs if job not in other])
                gain = self._worth(bucket, one) + self._worth(bucket, other) - whole
                found.append((gain, (one, other)))
        return found

    @cached_property
    def _running(self) -> set[frozenset[int]]:
        return set(map(frozenset, self.running))

    def kept_worth(self, bucket: Bucket, jobs: tuple[int, ...]) -> float:
        """Return the density of these jobs as a group, with the bonus if they run as one."""
        return self._worth(bucket, jobs) * (1 + self.keep if frozenset(jobs) in self._running else 1.0)

    @property
    def takes_all(self) -> bool:
        """True if no job is left out."""
        return all(bucket.empty for bucket in self.buckets)

    def _worth(self, bucket: Bucket, jobs: tuple[int, ...]) -> float:
        found = bucket.density_of(jobs, tuple(map(self.kind_of, jobs)))
        return NO_JOB if found is None else found


def _has_room(bucket: Bucket, free: float) -> bool:
    """Return whether another group of the bucket may be chosen."""
    return bucket.gpus <= free and bucket.spare > 0
