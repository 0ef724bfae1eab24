"""GPU quotas: how many GPUs the jobs of each user may hold.

Waiting jobs count as holding GPUs: a job becomes eligible only while its user's quota has room for it, so a user over
quota delays no other user. Blocked jobs become eligible by priority, then first come first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from heapq import heappop, heappush

from weft.core.state.job import JobState
from weft.model import JobId
from weft.model.status import ACTIVE, ENDED

ALL_USERS = ""


class Quotas:
    def __init__(self, jobs: Mapping[JobId, JobState]) -> None:
        self._jobs = jobs
        self.limits: dict[str, int] = {}
        """The quota of each user; ALL_USERS is the default, if set."""
        self._held: dict[str, dict[JobId, int]] = {}
        """GPUs of each user's jobs that run or are eligible."""
        self._used: dict[str, int] = {}
        self._short: dict[str, list[tuple[int, int, JobId]]] = {}
        """For each user, a heap of blocked jobs; it may hold jobs that are no longer blocked."""

    def limit_of(self, user: str) -> int | None:
        return self.limits.get(user, self.limits.get(ALL_USERS))

    def take(self, job: JobState) -> bool:
        """Return whether the quota has room for the job; otherwise queue it."""
        if not self.limits or job.id in self._held.get(job.job.user, ()):
            return True
        self._stand(job)
        return not job.over_quota

    def leave(self, job: JobState) -> Iterator[JobState]:
        """Release the job's GPUs; yield the jobs that become eligible."""
        user = job.job.user
        job.over_quota = False
        held = self._held.get(user)
        if not held or job.id not in held:
            return
        self._used[user] -= held.pop(job.id)
        queue = self._short.get(user, [])
        while queue:
            follower = self._jobs.get(queue[0][2])
            if follower is None or not follower.over_quota:
                heappop(queue)
                continue
            if not self._has_room(follower):
                return
            heappop(queue)
            self._stand(follower)
            yield follower

    def recall(self, job: JobState) -> None:
        """Restore a job at its old place in line."""
        if self.limits:
            (self._line_up if job.over_quota else self._hold)(job)

    def limit(self, user: str, gpus: int | None) -> tuple[list[JobState], list[JobState]]:
        """Set a quota; return the jobs that may wait now, and the ones that no longer may. Runs continue."""
        if gpus is None:
            self.limits.pop(user, None)
        else:
            self.limits[user] = gpus
        self._held, self._used, self._short = {}, {}, {}
        waiting: list[JobState] = []
        for job in self._jobs.values():
            if job.waits or job.over_quota:
                waiting.append(job)
            elif job.status in ACTIVE or (
                job.begin_at is not None and not job.before_begin and job.status not in ENDED
            ):
                self._hold(job)
        opened: list[JobState] = []
        shut: list[JobState] = []
        for job in sorted(waiting, key=_turn):
            was = job.over_quota
            self._stand(job)
            if was != job.over_quota:
                (shut if job.over_quota else opened).append(job)
        return opened, shut

    # ---- inside

    def _has_room(self, job: JobState) -> bool:
        limit, gpus = self.limit_of(job.job.user), job.job.gpus
        return limit is None or not gpus or self._used.get(job.job.user, 0) + gpus <= limit

    def _stand(self, job: JobState) -> None:
        """Count the job's GPUs, or queue it if the quota has no room."""
        job.over_quota = not self._has_room(job)
        (self._line_up if job.over_quota else self._hold)(job)

    def _hold(self, job: JobState) -> None:
        user = job.job.user
        self._held.setdefault(user, {})[job.id] = job.job.gpus
        self._used[user] = self._used.get(user, 0) + job.job.gpus

    def _line_up(self, job: JobState) -> None:
        heappush(self._short.setdefault(job.job.user, []), _turn(job))


def _turn(job: JobState) -> tuple[int, int, JobId]:
    return -job.job.priority, job.seq, job.id
