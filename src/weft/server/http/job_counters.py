"""Counters of jobs for Prometheus, from the facts of each batch: submissions, ends, preemptions, waits, use by user."""

from __future__ import annotations

from collections import Counter as Count
from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Histogram

from weft.model import Decision, Event, Exited, Start, Stop, Submitted
from weft.model.status import ACTIVE
from weft.scheduling.core.state.job import JobState
from weft.scheduling.core.state.state import State
from weft.server.jobs.new_ends import NewEnds

WAIT_BUCKETS_S: Final = (1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 12 * 3600, 86400, 3 * 86400, 7 * 86400)
MAX_USERS: Final = 100
"""Users with figures of their own. The figures of later ones are added up: each user is a time series or five."""
OTHERS: Final = "_others"
OUTCOMES: Final = ("done", "failed", "cancelled")
UserFigures = dict[str, tuple[int, int, int]]
"""Waiting jobs, active jobs and GPUs held, by user."""


class UserLabels:
    """The values of the label `user`: names in the order of their appearance, at most MAX_USERS."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def of(self, user: str) -> str:
        if user not in self._known:
            if len(self._known) >= MAX_USERS:
                return OTHERS
            self._known.add(user)
        return user


class JobCounters:
    """Counts from the start of the server on, as counters of Prometheus do."""

    def __init__(self, registry: CollectorRegistry, state: State) -> None:
        self.users = UserLabels()
        self._submissions = Counter("weft_jobs_submitted", "Jobs submitted.", registry=registry)
        self._ends = Counter("weft_job_ends", "Jobs that ended, by outcome.", ("outcome",), registry=registry)
        for outcome in OUTCOMES:
            self._ends.labels(outcome)  # a series that begins at 0, so that the first end has a rate
        self._preemptions = Counter("weft_preemptions", "Runs stopped to make room for others.", registry=registry)
        self._waits = Histogram(
            "weft_job_wait_seconds",
            "Time from submission to the first start.",
            buckets=WAIT_BUCKETS_S,
            registry=registry,
        )
        self._user_submissions = Counter(
            "weft_user_jobs_submitted", "Jobs submitted, by user.", ("user",), registry=registry
        )
        self._user_gpu_s = Counter(
            "weft_user_gpu_seconds", "GPU seconds of runs that ended, by user.", ("user",), registry=registry
        )
        self._attained_s = {job.id: job.attained_s for job in state.jobs.values() if job.ended_at is None}
        """Time with GPUs that is counted, of the jobs that have not ended."""
        self._new_ends = NewEnds(state)

    def record(self, state: State, events: Iterable[Event], decisions: Iterable[Decision]) -> None:
        """Count a batch of facts that the state has applied."""
        for event in events:
            if isinstance(event, Submitted):
                self._submissions.inc()
                self._user_submissions.labels(self.users.of(event.job.user)).inc()
            elif isinstance(event, Exited) and (job := state.jobs.get(event.job)) is not None:
                self._charge(job)
        for decision in decisions:
            if isinstance(decision, Stop):
                self._preemptions.inc(decision.why in ("preempted", "reclaimed"))
            elif isinstance(decision, Start) and decision.run == 1 and decision.job in state.jobs:
                self._waits.observe(max(decision.at - state.jobs[decision.job].submitted_at, 0.0))
        self._count_ends(state)

    def _charge(self, job: JobState) -> None:
        """Count the time with GPUs since the last call."""
        counted_s = self._attained_s.get(job.id, 0.0)
        self._attained_s[job.id] = job.attained_s
        self._user_gpu_s.labels(self.users.of(job.job.user)).inc(max(job.attained_s - counted_s, 0.0) * job.gpus)

    def _count_ends(self, state: State) -> None:
        """Count jobs that have ended since the last call, whatever ended them."""
        for job in self._new_ends.take(state):
            self._charge(job)
            self._attained_s.pop(job.id, None)
            self._ends.labels(job.status).inc()

    def by_user(self, jobs: Iterable[JobState]) -> UserFigures:
        """Return the present figures of each user."""
        waiting, active, gpus = Count[str](), Count[str](), Count[str]()
        for job in jobs:
            if job.ended_at is None:
                user = self.users.of(job.job.user)
                if job.status in ACTIVE:
                    active[user] += 1
                    gpus[user] += job.gpus
                else:
                    waiting[user] += 1
        return {user: (waiting[user], active[user], gpus[user]) for user in sorted({*waiting, *active})}
