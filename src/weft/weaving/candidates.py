"""Candidates for weaving: the first jobs, enough to fill the cluster several times; and asks for weaves of them."""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heapify, heappop, heappush

from weft.core.ports import Ask, JobView, View
from weft.core.resources.shapes import Shape, shape_of_weave
from weft.model import WHOLE, Profile
from weft.weaving.grouping import Group, Weaver

Rank = tuple[float, bool, int, int]
"""A job's rank: by key; at equal keys new jobs last, and among the others larger gangs first."""
Candidate = tuple[Rank, JobView]
Weave = Group[Candidate]
"""A weave, or a single job."""


def select_candidates(view: View, weaver: Weaver) -> dict[Shape, list[Weave]]:
    """Return the candidates by shape: each job that fits together with earlier ones, and the next few of its shape."""
    trial, taken = view.trial(), dict[Shape, list[Weave]]()
    streams = {shape: _ranked(view, shape) for shape in view.shapes()}
    heads = [(*first, shape) for shape, stream in streams.items() if (first := next(stream, None))]
    heapify(heads)
    while heads:
        turn, job, shape = heappop(heads)
        if not trial.fits(shape):
            continue
        bucket = taken.setdefault(shape, [])
        bucket.append(weaver.single((turn, job), _profile(job)))
        for _ in range(weaver.packing - 1):
            following = next(streams[shape], None)
            if following is not None:
                bucket.append(weaver.single(following, _profile(following[1])))
        head = next(streams[shape], None)
        if head is not None:
            heappush(heads, (*head, shape))
    return taken


def split_weave(weave: Weave, weaver: Weaver) -> list[Weave]:
    """Return the members as single jobs."""
    return [weaver.single(member, _profile(member[1])) for member in weave.members]


def rank_of(weave: Weave) -> Rank:
    return min(turn for turn, _ in weave.members)


def gpus_of(weave: Weave) -> int:
    return weave.members[0][1].gpus


def shape_of(weave: Weave) -> Shape:
    shape = weave.members[0][1].shape
    if shape.plain:  # jobs of a weave have one shape, and on whole GPUs a weave needs no more than one of its jobs
        return shape
    jobs = [job for _, job in weave.members]
    share = jobs[0].wanted_share if len(jobs) == 1 else WHOLE
    return shape_of_weave([job.shape for job in jobs], share, jobs[0].job.where)


def ask_of(weave: Weave) -> Ask:
    return Ask(tuple([job.id for _, job in weave.members]), gpus_of(weave), shape_of(weave).family.share)


def _ranked(view: View, shape: Shape) -> Iterator[Candidate]:
    for key, job in view.ordered(shape):
        new = job.submitted_at == view.now
        yield (key, new, 0 if new else -job.gpus, job.tie_breaker), job


def _profile(job: JobView) -> Profile | None:
    """Return the profile for weaving; None for jobs that share or pin their GPUs, or use none: they are not woven."""
    return job.job.profile if job.shape.whole and not (job.job.where.pinned or job.job.where.choice) else None
