"""Muri (SIGCOMM'22): weave jobs that need different resources, so that one set of GPUs serves up to four at once.

Each pass takes the best jobs that would fill the cluster several times over, weaves the most complementary until all of
them fit, and leaves unwoven those who would finish sooner in turn. Only jobs of one shape are woven with each other.
Muri-S orders by remaining service, Muri-L, which knows nothing of a job's length, by attained service.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import Literal

from weft.core.ports import Ask, JobView, Replanner, View
from weft.core.shapes import Shape, shape_of_weave
from weft.model import WHOLE, Profile, Seconds
from weft.weaving.grouping import Group, Weaver
from weft.weaving.pace import FACTORS, GREEDY_FACTORS, Pace

Turn = tuple[float, bool, int, int]
"""A job's place in the list: by key; at equal keys newcomers last, of the others larger gangs first."""
Taken = tuple[Turn, JobView]


@dataclass(frozen=True)
class Muri(Replanner):
    """What Muri-S and Muri-L have in common."""

    packing: Literal[2, 3, 4] = 4
    """How many jobs may be woven together."""
    autopack: bool = True
    """Leave unwoven those who would finish sooner one after the other."""
    blossom: bool = True
    """Pair by maximum-weight matching; off: weave neighbours in the list."""
    ordering: Literal["best", "worst"] = "best"
    """Which order the members of a weave take turns in."""

    preempts = True
    interval_s = 360.0

    @cached_property
    def pace(self) -> Pace:
        """How fast its weaves go."""
        return Pace(self.ordering, FACTORS if self.blossom else GREEDY_FACTORS)

    @cached_property
    def _weaver(self) -> Weaver:
        return Weaver(self.pace, self.packing)

    def rank(self, view: View) -> Iterable[Ask]:
        buckets = [(shape.gpus, groups) for shape, groups in self._take(view).items()]
        groups = self._weaver.match(buckets, view.gpus) if self.blossom else self._weaver.cut(buckets, view.gpus)
        groups = self._split_misfits(groups, view)
        if self.autopack:
            groups = self._unpack(groups, view)
        groups.sort(key=lambda group: (-_gpus(group), _turn(group)))
        return [_ask(group) for group in groups]

    def _take(self, view: View) -> dict[Shape, list[Group[Taken]]]:
        """The jobs that may run: each that fits beside those before it, and the next few of its shape."""
        trial, taken = view.trial(), dict[Shape, list[Group[Taken]]]()
        streams = {shape: _turns(view, shape) for shape in view.shapes()}
        heads = [(*first, shape) for shape, stream in streams.items() if (first := next(stream, None))]
        heapify(heads)
        while heads:
            turn, job, shape = heappop(heads)
            if not trial.fits(shape):
                continue
            bucket = taken.setdefault(shape, [])
            bucket.append(self._weaver.single((turn, job), _profile(job)))
            for _ in range(self.packing - 1):
                following = next(streams[shape], None)
                if following is not None:
                    bucket.append(self._weaver.single(following, _profile(following[1])))
            head = next(streams[shape], None)
            if head is not None:
                heappush(heads, (*head, shape))
        return taken

    def _unpack(self, groups: list[Group[Taken]], view: View) -> list[Group[Taken]]:
        """Splits the weaves that do not pay, and keeps what fits, best first."""
        split: list[Group[Taken]] = []
        for group in groups:
            if len(group.members) > 1 and self.pace.worse_than_in_turn(self._weaver.profiles(group.kind)):
                split += self._singles(group)
            else:
                split.append(group)
        trial = view.trial()
        return [group for group in sorted(split, key=_turn) if trial.fits(_shape(group))]

    def _split_misfits(self, groups: list[Group[Taken]], view: View) -> list[Group[Taken]]:
        """Splits the weaves whose memory, CPUs or RAM together no node has."""
        fits: dict[Shape, bool] = {}
        split: list[Group[Taken]] = []
        for group in groups:
            shape = _shape(group)
            if not shape.plain and shape not in fits:
                fits[shape] = len(group.members) == 1 or view.trial().fits(shape)
            split += [group] if shape.plain or fits[shape] else self._singles(group)
        return split

    def _singles(self, group: Group[Taken]) -> list[Group[Taken]]:
        return [self._weaver.single(member, _profile(member[1])) for member in group.members]


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


def _turns(view: View, shape: Shape) -> Iterator[Taken]:
    for key, job in view.ordered(shape):
        new = job.submitted_at == view.now
        yield (key, new, 0 if new else -job.gpus, job.stamp), job


def _profile(job: JobView) -> Profile | None:
    """What it is woven by: jobs that share or pin their GPUs, or use none, are not."""
    return job.job.profile if job.shape.whole and not job.job.where.pinned else None


def _turn(group: Group[Taken]) -> Turn:
    return min(turn for turn, _ in group.members)


def _ask(group: Group[Taken]) -> Ask:
    return Ask(tuple([job.id for _, job in group.members]), _gpus(group), _shape(group).family.share)


def _shape(group: Group[Taken]) -> Shape:
    jobs = [job for _, job in group.members]
    share = jobs[0].job.share if len(jobs) == 1 else WHOLE
    return shape_of_weave([job.shape for job in jobs], share, jobs[0].job.where)


def _gpus(group: Group[Taken]) -> int:
    return group.members[0][1].gpus
