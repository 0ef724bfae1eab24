"""Candidates for weaving: the first jobs, enough to fill the cluster several times; and asks for weaves of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from heapq import heapify, heappop, heappush
from operator import attrgetter

from weft.model import WHOLE, Profile
from weft.scheduling.core.ports import Ask, JobView, View
from weft.scheduling.core.resources.shapes import Shape, joint_shape
from weft.scheduling.weaving.grouping import Group, Weaver
from weft.scheduling.weaving.pace import Pace
from weft.scheduling.weaving.rates import Rates

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
        bucket.append(weaver.single((turn, job), weavable_profile(view, job)))
        for _ in range(weaver.packing - 1):
            following = next(streams[shape], None)
            if following is not None:
                bucket.append(weaver.single(following, weavable_profile(view, following[1])))
        head = next(streams[shape], None)
        if head is not None:
            heappush(heads, (*head, shape))
    return taken


def split_weave(view: View, weave: Weave, weaver: Weaver) -> list[Weave]:
    """Return the members as single jobs."""
    return [weaver.single(member, weavable_profile(view, member[1])) for member in weave.members]


def rank_of(weave: Weave) -> Rank:
    return min(turn for turn, _ in weave.members)


def gpus_of(weave: Weave) -> int:
    return weave.members[0][1].gpus


def shape_of(view: View, weave: Weave) -> Shape:
    """Return what the members need together."""
    return together(view, [job for _, job in weave.members])


def together(view: View, jobs: Sequence[JobView]) -> Shape:
    """Return what these jobs need together; a single job needs its own share of its GPUs."""
    return jobs[0].shape if len(jobs) == 1 else joint_shape(jobs, WHOLE, view.profile)


def ask_of(view: View, weave: Weave, pace: Pace | Rates | None) -> Ask:
    """Return the ask for a weave. In lock-step, at this pace, its members are in the places of the shortest cycle."""
    return joint_ask(view, [job for _, job in weave.members], pace)


def joint_ask(view: View, members: Sequence[JobView], pace: Pace | Rates | None) -> Ask:
    """Return the ask for these jobs on one set of GPUs."""
    if len(members) == 1:
        return Ask((members[0].id,), members[0].gpus, members[0].wanted_share)
    jobs = sorted(members, key=attrgetter("id"))
    if pace is not None:
        profiles = [profile for job in jobs if (profile := view.profile(job)) is not None]
        if len(profiles) == len(jobs):
            jobs = [jobs[number] for number in pace.places(profiles)]
    return Ask(tuple([job.id for job in jobs]), jobs[0].gpus, WHOLE)


def _ranked(view: View, shape: Shape) -> Iterator[Candidate]:
    for key, job in view.ordered(shape):
        new = job.submitted_at == view.now
        yield (key, new, 0 if new else -job.gpus, job.tie_breaker), job


def weavable_profile(view: View, job: JobView) -> Profile | None:
    """Return the profile for weaving; None for jobs that are not woven: without a profile, with pinned or shared GPUs
    or none, or because they did not keep to their turns."""
    if not job.shape.whole or job.job.where.pinned or job.job.where.choice or job.unwoven:
        return None
    return view.profile(job)
