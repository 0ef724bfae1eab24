"""A plan for a short queue: all jobs alone, and then the merges that lose least, until the groups fit the GPUs.

The choice by density fills GPUs with the most efficient groups first. If few jobs wait, most of them could run alone,
and groups that were made for efficiency are parted again; which jobs remain woven is then left to chance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.scheduling.weaving.groups import PACKING
from weft.scheduling.weaving.selection import NO_JOB, Bucket, Choice

MAX_JOBS: Final = 48
"""With more jobs no such plan is made: the pairs to compare grow with the square of the jobs."""
MAX_CROWD: Final = 3.0
"""With more work than this, in parts of the GPUs, no such plan is made."""


@dataclass
class Merger:
    """Merges groups of jobs until they fit."""

    worth: Callable[[Bucket, tuple[int, ...]], float]
    """Returns the density of these jobs as a group, `NO_JOB` if they do not pay."""
    fits: Callable[[tuple[int, ...]], bool]
    _groups: dict[int, tuple[Bucket, tuple[int, ...], float]] = field(default_factory=dict)
    """The groups by number, each with its worth."""
    _gains: dict[tuple[int, int], float] = field(default_factory=dict)
    """The gain of merging two groups, nearly always below 0, per GPU that this frees."""

    def merge(self, jobs: Iterable[tuple[Bucket, int]], free: float) -> list[Choice] | None:
        """Return groups of these jobs that need no more GPUs than these; None if there are none, or too many jobs."""
        singles = list(jobs)
        held = sum(bucket.gpus for bucket, _ in singles)
        if not free < held <= MAX_CROWD * free or len(singles) > MAX_JOBS:
            return None
        for bucket, job in singles:
            self._add(bucket, (job,))
        while held > free:
            pair = max(self._gains, key=self._gains.__getitem__, default=None)
            if pair is None:
                return None
            (bucket, one, _), (_, other, _) = (self._groups[number] for number in pair)
            if not self.fits(one + other):
                del self._gains[pair]
                continue
            for number in pair:
                del self._groups[number]
            self._gains = {
                each: gain for each, gain in self._gains.items() if each[0] not in pair and each[1] not in pair
            }
            self._add(bucket, one + other)
            held -= bucket.gpus
        return [Choice(group, bucket, worth) for bucket, group, worth in self._groups.values()]

    def _add(self, bucket: Bucket, jobs: tuple[int, ...]) -> None:
        """Add a group, and what it would gain to merge it with each other."""
        number, worth = max(self._groups, default=-1) + 1, self.worth(bucket, jobs)
        for other, (place, members, value) in self._groups.items():
            if place is bucket and len(jobs) + len(members) <= PACKING:
                merged = self.worth(bucket, members + jobs)
                if merged > NO_JOB / 2:
                    self._gains[other, number] = merged - worth - value
        self._groups[number] = bucket, jobs, worth


def total_worth(plan: Sequence[Choice], worth: Callable[[Bucket, tuple[int, ...]], float]) -> float:
    """Return the worth of a plan: that of its groups, each on all of its GPUs."""
    return sum(choice.bucket.gpus * worth(choice.bucket, choice.jobs) for choice in plan)
