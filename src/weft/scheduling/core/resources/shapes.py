"""Shapes: the resources that a run needs. Jobs of one shape are interchangeable to a placement."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Protocol, TypeVar

from weft.model import ANYWHERE, UNCOUNTED, WHOLE, Job, PerRank, Profile, Share, Where


@dataclass(frozen=True, slots=True, eq=False)
class Family:
    """A shape without its size. If a shape does not fit, no larger shape of its family does."""

    memory_mb: PerRank
    cpus: int
    ram_mb: int
    share: Share
    where: Where
    serves: bool = False
    """True for replicas of services that share their GPUs."""
    need_s: float = 0.0
    """The seconds for which a node must stay; 0: not counted."""
    team: str = ""
    """The team of the jobs: what one team may not have, another may. Only jobs of one team are woven."""
    service: str = ""
    """The service of its replicas, if `serves`: a placement may prefer GPUs by where the others of a service run."""

    @property
    def plain(self) -> bool:
        """True for whole GPUs on any node, without other needs."""
        return (
            not (self.memory_mb or self.cpus or self.ram_mb or self.need_s)
            and self.share == WHOLE
            and self.where == ANYWHERE
        )

    @property
    def counted(self) -> bool:
        """True if the runs on a node do not change whether it suits: counting its free GPUs is enough."""
        return (
            not self.memory_mb.differs
            and not (self.cpus or self.ram_mb or self.where.pinned or self.where.choice)
            and self.share.request >= 1
        )


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """A need of GPUs, CPUs and memory. `shape_of` makes one object per need, so that identity is equality."""

    gpus: int
    family: Family
    plain: bool
    whole: bool
    """True if it needs GPUs and shares none of them."""

    @property
    def memory_mb(self) -> PerRank:
        return self.family.memory_mb


@cache
def _family(
    memory_mb: PerRank,
    cpus: int,
    ram_mb: int,
    share: Share,
    where: Where,
    serves: bool = False,
    need_s: float = 0.0,
    team: str = "",
    service: str = "",
) -> Family:
    return Family(memory_mb, cpus, ram_mb, share, where, serves, need_s, team, service)


@cache
def _shape(gpus: int, family: Family) -> Shape:
    whole = gpus > 0 and family.share.request >= 1
    return Shape(gpus, family, family.plain and gpus > 0, whole)


_plain: dict[int, Shape] = {}
"""Plain shapes by number of GPUs. Most jobs have one, and this lookup avoids hashing the job's fields."""


def shape_of(job: Job) -> Shape:
    if (
        job.share is WHOLE
        and job.where is ANYWHERE
        and not (job.cpus or job.ram_mb)
        and job.memory_mb is UNCOUNTED
        and (job.task is None or not job.task.team)
    ):
        shape = _plain.get(job.gpus)
        if shape is None:
            shape = _plain[job.gpus] = plain_shape(job.gpus)
        return shape
    service = job.replica.service if job.replica is not None and job.share.request < 1 else ""
    family = _family(
        job.memory_mb, job.cpus, job.ram_mb, job.share, job.where, bool(service), team=job.team, service=service
    )
    return _shape(job.gpus, family)


def exclusive_shape(job: Job, memory_mb: int) -> Shape:
    """Return the shape of a job that shares its GPUs with no other job, with at least this much memory on each."""
    memory = PerRank(*(max(asked, memory_mb) for asked in job.memory_mb))
    return _shape(job.gpus, _family(memory, job.cpus, job.ram_mb, WHOLE, job.where, team=job.team))


def with_memory(shape: Shape, memory_mb: int) -> Shape:
    """Return the same shape with this much memory on each GPU."""
    f = shape.family
    memory = PerRank(memory_mb)
    family = _family(memory, f.cpus, f.ram_mb, f.share, f.where, f.serves, f.need_s, f.team, f.service)
    return _shape(shape.gpus, family)


def with_need(shape: Shape, need_s: float) -> Shape:
    """Return the same shape, on nodes that stay for this long."""
    f = shape.family
    family = _family(f.memory_mb, f.cpus, f.ram_mb, f.share, f.where, f.serves, need_s, f.team, f.service)
    return _shape(shape.gpus, family)


def with_where(shape: Shape, where: Where) -> Shape:
    """Return the same shape, on other nodes or GPUs."""
    f = shape.family
    family = _family(f.memory_mb, f.cpus, f.ram_mb, f.share, where, f.serves, f.need_s, f.team, f.service)
    return _shape(shape.gpus, family)


def member_shape(shape: Shape, measured_mb: int, profile: Profile | None) -> Shape:
    """Return the shape of a job in a weave: with the memory that it was measured to need, if that is more."""
    needed = profile.memory_mb if profile is not None else 0
    if measured_mb > needed:
        needed = measured_mb
    if not needed or needed <= shape.memory_mb.min or shape.memory_mb.differs:  # most jobs have no figure
        return shape
    return with_memory(shape, needed)


class Member(Protocol):
    """A job in a weave."""

    @property
    def job(self) -> Job: ...
    @property
    def shape(self) -> Shape: ...
    @property
    def measured_mb(self) -> int: ...


M = TypeVar("M", bound=Member)


def joint_shape(jobs: Sequence[M], share: Share, profile_of: Callable[[M], Profile | None]) -> Shape:
    """Return what these jobs need together, on one set of GPUs. A woven job counts with the memory that was
    measured."""
    if len(jobs) == 1:
        return shape_of_weave((jobs[0].shape,), share, jobs[0].job.where)
    shape = jobs[0].shape
    if shape.plain and share is WHOLE:  # nearly all weaves: no member has a figure
        for job in jobs:
            profile = job.job.profile or profile_of(job)
            if job.shape is not shape or job.measured_mb or (profile is not None and profile.memory_mb):
                break
        else:
            return shape
    shapes = [member_shape(job.shape, job.measured_mb, profile_of(job)) for job in jobs]
    return shape_of_weave(shapes, share, jobs[0].job.where)


def shape_of_weave(shapes: Sequence[Shape], share: Share, where: Where) -> Shape:
    """Return the shape of several jobs on the same GPUs: one share, and the memory, CPUs and RAM of all."""
    if len(shapes) == 1 and (share, where) == (shapes[0].family.share, shapes[0].family.where):
        return shapes[0]
    if share == WHOLE and all(shape.plain for shape in shapes):
        return shapes[0]
    gpus = shapes[0].gpus
    ranks = tuple(sum(s.memory_mb.of(rank) for s in shapes) for rank in range(gpus))
    memory = PerRank(*(ranks if len(set(ranks)) > 1 else ranks[:1]))
    cpus, ram_mb = sum(s.family.cpus for s in shapes), sum(s.family.ram_mb for s in shapes)
    need_s = max(shape.family.need_s for shape in shapes)
    return _shape(gpus, _family(memory, cpus, ram_mb, share, where, need_s=need_s, team=shapes[0].family.team))


def plain_shape(gpus: int) -> Shape:
    """Return the shape of a number of whole GPUs on any nodes."""
    return _shape(gpus, _family(UNCOUNTED, 0, 0, WHOLE, ANYWHERE))


def pinned_shape(shape: Shape, share: Share, where: Where) -> Shape:
    """Return the same shape on certain GPUs. It is not cached: there are as many as there are sets of GPUs."""
    family = shape.family
    return Shape(
        shape.gpus, Family(family.memory_mb, family.cpus, family.ram_mb, share, where), plain=False, whole=False
    )
