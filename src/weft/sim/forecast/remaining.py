"""The remaining times of jobs: as they declare or report, else drawn from the durations of similar jobs.

A job of unknown duration that has run for a time is drawn from the durations that are longer than that. Unfinished jobs
count as longer than so far: without them, the long jobs of a kind would be missing until they finish. The most
similar jobs count first. The fewer of them there are, the more often the draw comes from a wider kind. Within one
sample, jobs of one kind draw from the durations of one era of the past: samples then differ as a whole.
"""

from __future__ import annotations

import random
from bisect import bisect_right
from collections.abc import Hashable, Iterable, Mapping, Sequence
from itertools import chain
from typing import Final, Literal, NamedTuple

from weft.history.metrics.work import declared_length_s
from weft.model import Job, JobId, Seconds
from weft.model.status import ENDED
from weft.scheduling.core.state.durations import kinds_of
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.sim.forecast.history import History, learn

FOREVER_S: Final = 1e12
"""The remaining time of a job that does not end, or about which nothing is known."""
WIDER: Final = 2.0
"""The weight of the wider kind, in durations of the narrower one."""
ERA_JOBS: Final = 8
"""The least durations of an era: jobs of one kind that finished one after the other."""
MIN_DRIFTS: Final = 5
"""With fewer blocks of finished jobs, durations do not drift."""
MIN_TAIL: Final = 0.02
"""A job that has outlasted all others may still take up to 1 / MIN_TAIL times as long as so far."""
MIN_ATTAINED_S: Final = 10.0
"""A job that has run for less says nothing about its length if no other job has finished."""
TOLERANCE_S: Final = 1.0

Basis = Literal["declared", "limit", "similar", "user", "all", "service", "none"]
"""The ground of an estimate: the job itself; its time limit; jobs of its user with its name; all jobs of its user; jobs
of all users; nothing, because a replica does not end; nothing, because no job has finished yet."""
_LEVELS: Final[tuple[Basis, ...]] = ("similar", "similar", "user", "all")


class Ground(NamedTuple):
    """The ground of the estimate of a job, and the number of finished jobs behind it."""

    basis: Basis
    jobs: int = 0


class _Basis(NamedTuple):
    """The part of a draw that is the same in all samples."""

    known_s: float | None
    """The time left; None: it is drawn."""
    attained_s: float = 0.0
    start_s: float = 0.0
    """The time to start up that durations contain and the work does not."""
    limit_s: float = FOREVER_S
    """The time left until its time limit."""
    longer: Sequence[tuple[Hashable, int]] = ()
    """Its kinds, the most similar first, with the number of durations that are longer than it has run; none is 0."""


class RemainingTimes:
    """Draws the remaining work of jobs as of `now`, in solo seconds."""

    def __init__(self, history: History, now: Seconds, unfinished: Iterable[JobState] = ()) -> None:
        """`unfinished`: jobs that have not ended, of which those that started take longer than so far."""
        self._history, self._now = history, now
        self._unfinished: dict[Hashable, list[float]] = {}
        """The times that unfinished jobs of a kind have lasted, ascending."""
        for job in unfinished:
            if job.first_start is not None and job.job.replica is None and not job.suspended:
                for kind in kinds_of(job.job):
                    if job.first_start >= history.since(kind):
                        self._unfinished.setdefault(kind, []).append(job.attained(now))
        for attained_s in self._unfinished.values():
            attained_s.sort()
        self._bases: dict[JobId, _Basis] = {}
        self._present: dict[Hashable, int] = {}
        """The number of jobs of each kind that are drawn."""

    def draw(self, jobs: Iterable[JobState], draws: random.Random) -> dict[JobId, float]:
        """Return one sample: the work left of each job."""
        bases = [(job.id, self._bases.get(job.id) or self._take_up(job)) for job in jobs if job.status not in ENDED]
        eras = _Eras(self._history, self._present, draws)
        return {job: self._draw(basis, draws, eras) for job, basis in bases}

    @property
    def drifts(self) -> bool:
        """True if enough is known to say how far off expectations are."""
        return len(self._history.drifts) >= MIN_DRIFTS

    def drift(self, draws: random.Random) -> float:
        """Return a factor by which all jobs that were drawn so far may take longer together, as far off as earlier
        expectations were. It is the nearer to 1, the more of them declare their durations."""
        known = self._history.drifts
        declared = sum(basis.known_s is not None and basis.known_s < FOREVER_S for basis in self._bases.values())
        learned = sum(basis.known_s is None for basis in self._bases.values())
        return 1.0 + (known[int(draws.random() * len(known))] - 1.0) * learned / max(learned + declared, 1)

    def is_drawn(self, job: JobState) -> bool:
        """Return whether the duration of a job is not known."""
        return self._bases[job.id].known_s is None

    def time_to_limit_s(self, job: JobState) -> float:
        """Return the time left until the time limit of a job, from now if it runs, else from its start."""
        limit_s = _limit_s(job.job)
        if limit_s is None:
            return FOREVER_S
        return max(limit_s - (self._now - job.started_at if job.active else 0.0), 0.0)

    def ground(self, job: JobState) -> Ground:
        """Return what the estimate of a job rests on."""
        if job.job.replica is not None:
            return Ground("service")
        if self._known(job) is not None:
            return Ground("declared")
        for kind, basis in zip(kinds_of(job.job), _LEVELS, strict=True):
            if known := self._history.of(kind):
                return Ground(basis, len(known))
        return Ground("limit") if _limit_s(job.job) is not None else Ground("none")

    def _known(self, job: JobState) -> float | None:
        """Return what the job declares or reports to remain; None: nothing, only a limit, or it is overdue."""
        if job.remaining_s is None:
            return None
        declared_s = declared_length_s(job.job)
        if not job.reports_left and declared_s == _limit_s(job.job):
            return None
        left_s, worked_s = job.remaining(self._now), job.worked(self._now)
        overdue = left_s <= 0 and declared_s is not None and worked_s > declared_s + TOLERANCE_S
        return None if overdue else left_s

    def _take_up(self, job: JobState) -> _Basis:
        basis = self._bases[job.id] = self._basis(job)
        for kind, _ in basis.longer:
            self._present[kind] = self._present.get(kind, 0) + 1
        return basis

    def _draw(self, basis: _Basis, draws: random.Random, eras: _Eras) -> float:
        if basis.known_s is not None:
            return basis.known_s
        return min(self._learned(basis, draws, eras), basis.limit_s)

    def _basis(self, job: JobState) -> _Basis:
        if job.job.replica is not None or job.suspended:
            return _Basis(FOREVER_S)
        known_s = self._known(job)
        if known_s is not None:
            return _Basis(known_s)
        attained_s = job.attained(self._now)
        start_s = job.job.profile.start_s if job.job.profile is not None and not job.active else 0.0
        longer = [(kind, self._history.count_longer(kind, attained_s)) for kind in kinds_of(job.job)]
        return _Basis(
            None, attained_s, start_s, self.time_to_limit_s(job), [(kind, count) for kind, count in longer if count]
        )

    def _learned(self, basis: _Basis, draws: random.Random, eras: _Eras) -> float:
        """Draw from the durations of similar jobs that are longer than the job has run."""
        attained_s, kind = basis.attained_s, None
        for kind, count in basis.longer:  # the widest kind stays, if none has enough
            if eras.is_enough(kind, count):
                break
        if kind is None:
            unknown = attained_s < MIN_ATTAINED_S
            return FOREVER_S if unknown else attained_s * (1 / max(draws.random(), MIN_TAIL) - 1)
        return max(self._draw_longer(kind, attained_s, draws, eras) - attained_s - basis.start_s, 0.0)

    def _draw_longer(self, kind: Hashable, attained_s: float, draws: random.Random, eras: _Eras) -> float:
        """Draw a duration that is longer. An unfinished job that has lasted longer counts too: the draw is longer than
        that."""
        finished, unfinished = self._history.of(kind), self._unfinished.get(kind, ())
        while True:
            first = bisect_right(unfinished, attained_s)
            longer, go_on = len(finished) - bisect_right(finished, attained_s), len(unfinished) - first
            if not longer and not go_on:
                return attained_s / max(draws.random(), MIN_TAIL)
            if not go_on or draws.random() * (longer + go_on) < longer:
                return eras.draw(kind, attained_s)
            attained_s = unfinished[first + int(draws.random() * go_on)]


def remaining_times(state: State, now: Seconds) -> RemainingTimes:
    """Return the remaining times of the jobs of a state, learned from those that have started."""
    return RemainingTimes(learn(state), now, chain(state.active.values(), state.waiting.values()))


class _Eras:
    """The durations from which one sample draws: of each kind some that finished one after the other.

    Jobs that come together take similar times. A sample with the durations of one era of the past is as far off, for
    all jobs alike, as the next days may be; single durations from anywhere would cancel out. An era has as many jobs
    as are present, because the sum over many jobs varies less than that over few."""

    def __init__(self, history: History, present: Mapping[Hashable, int], draws: random.Random) -> None:
        self._history, self._present, self._draws = history, present, draws
        self._at = draws.random()
        """The part of the past after which the era begins, for all kinds."""
        self._eras: dict[Hashable, Sequence[float]] = {}
        self._enough: dict[tuple[Hashable, int], bool] = {}

    def draw(self, kind: Hashable, attained_s: float) -> float:
        """Draw a duration of the era that is longer; if it has none, one of all that are known."""
        era = self._eras.get(kind)
        if era is None:
            era = self._eras[kind] = self._choose(kind)
        first = bisect_right(era, attained_s)
        if first == len(era):
            era = self._history.of(kind)
            first = bisect_right(era, attained_s)
        return era[first + int(self._draws.random() * (len(era) - first))]

    def _choose(self, kind: Hashable) -> Sequence[float]:
        known = self._history.latest(kind)
        jobs = max(min(self._present.get(kind, 0), len(known) // 2), ERA_JOBS)
        if len(known) <= jobs:
            return self._history.of(kind)
        first = int(self._at * len(known))
        return sorted(known[(first + at) % len(known)] for at in range(jobs))

    def is_enough(self, kind: Hashable, count: int) -> bool:
        """Return whether this sample draws from a kind with so few durations, and not from a wider one."""
        known = self._enough.get((kind, count))
        if known is None:
            known = self._enough[kind, count] = self._draws.random() * (count + WIDER) < count
        return known


def _limit_s(job: Job) -> float | None:
    return job.task.time_limit_s if job.task is not None else None
