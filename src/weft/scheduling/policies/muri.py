"""Muri (SIGCOMM'22): weave jobs that need different resources, so that one set of GPUs serves up to four at once.

Each pass takes the best jobs that would fill the cluster several times over, and weaves the most complementary until
all of them fit. Jobs that would finish sooner one after the other stay unwoven. Only jobs of one shape are woven
together. Muri-S orders by remaining service. Muri-L does not know durations and orders by attained service.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from weft.model import Seconds
from weft.scheduling.core.ports import Ask, JobView, Replanner, View
from weft.scheduling.core.resources.shapes import Shape
from weft.scheduling.weaving.candidates import Weave, ask_of, gpus_of, rank_of, select_candidates, shape_of, split_weave
from weft.scheduling.weaving.grouping import Weaver
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Contention, Order, Rates, pacing


@dataclass(frozen=True)
class Muri(Replanner):
    """The common part of Muri-S and Muri-L."""

    packing: Literal[2, 3, 4] = 4
    """The largest number of jobs in a weave."""
    autopack: bool = True
    """Do not weave jobs that would finish sooner one after the other."""
    blossom: bool = True
    """Pair by maximum-weight matching; off: weave neighbours in the list."""
    ordering: Literal["best", "worst"] = "best"
    """The member that comes first in lock-step."""
    order: Literal["auto", "fair", "fifo", "slots"] = "auto"
    """The turns of the members of a weave: the least served first, the first in line first, or in lock-step. `auto`:
    fair; in Muri's model, and for the worst ordering, slots."""
    contention: Literal["auto", "muri", "none"] = "auto"
    """The slowdown of members by each other: by Muri's factors, or not at all. `auto`: in lock-step by the factors."""

    preempts = True
    weaves = True
    interval_s = 360.0

    @cached_property
    def pace(self) -> Pace | Rates:
        """The iteration times of its weaves."""
        usual: Contention = "muri" if self.turns == "slots" else "none"
        contention = usual if self.contention == "auto" else self.contention
        return pacing(self.turns, contention, ordering=self.ordering, matched=self.blossom)

    @property
    def turns(self) -> Order:
        """The order in which members of its weaves take turns, on real GPUs too."""
        if self.order != "auto":
            return self.order
        return "fair" if self.ordering == "best" else "slots"

    @cached_property
    def _weaver(self) -> Weaver:
        return Weaver(self.pace, self.packing)

    def rank(self, view: View) -> Iterable[Ask]:
        self._weaver.begin()
        buckets = [(shape.gpus, groups) for shape, groups in select_candidates(view, self._weaver).items()]
        weave = self._weaver.match if self.blossom else self._weaver.group_in_order
        groups = weave(buckets, view.gpus)
        groups = self._split_misfits(groups, view)
        if self.autopack:
            groups = self._unpack(groups, view)
        groups.sort(key=lambda group: (-gpus_of(group), rank_of(group)))
        pace = self.pace if self.turns == "slots" else None
        return [ask_of(view, group, pace) for group in groups]

    def _unpack(self, groups: list[Weave], view: View) -> list[Weave]:
        """Split weaves that are slower than running in turn, and keep the groups that fit, best first."""
        split: list[Weave] = []
        for group in groups:
            if len(group.members) > 1 and self._weaver.worse_than_in_turn(group.kind):
                split += split_weave(view, group, self._weaver)
            else:
                split.append(group)
        trial = view.trial()
        return [group for group in sorted(split, key=rank_of) if trial.fits(shape_of(view, group))]

    def _split_misfits(self, groups: list[Weave], view: View) -> list[Weave]:
        """Split weaves whose total memory, CPUs or RAM no node has."""
        fits: dict[Shape, bool] = {}
        split: list[Weave] = []
        for group in groups:
            shape = shape_of(view, group)
            if not shape.plain and shape not in fits:
                fits[shape] = len(group.members) == 1 or view.trial().fits(shape)
            split += [group] if shape.plain or fits[shape] else split_weave(view, group, self._weaver)
        return split


@dataclass(frozen=True)
class MuriS(Muri):
    """Weaves; shortest remaining service (time x GPUs) first."""

    def key(self, job: JobView, now: Seconds) -> float:
        declared = job.job.declared_s
        length = declared if job.run == 0 and declared is not None else job.remaining(now)
        return max(job.gpus, 1) * length


@dataclass(frozen=True)
class MuriL(Muri):
    """Weaves; least attained service (time x GPUs) first."""

    def key(self, job: JobView, now: Seconds) -> float:
        return max(job.gpus, 1) * job.attained(now)
