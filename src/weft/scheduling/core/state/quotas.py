"""Limits on owners of jobs: how many GPUs the jobs of each user may hold, how many jobs of each group may run.

Waiting jobs count as holding what they need: a job becomes eligible only while its owner has room for it, so an owner
over its limit delays no other owner. Blocked jobs become eligible by priority, then first come first.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from heapq import heappop, heappush
from typing import Final, NamedTuple

from weft.model import JobId
from weft.model.status import ACTIVE, ENDED
from weft.scheduling.core.state.job import JobState

ALL_USERS = ""


class Limits(ABC):
    """One kind of limit. A subclass says who owns a job, and what the job counts."""

    def __init__(self, jobs: Mapping[JobId, JobState]) -> None:
        self._jobs = jobs
        self.limits: dict[str, int] = {}
        """The limit of each owner that has one."""
        self._held: dict[str, dict[JobId, int]] = {}
        """The amounts of each owner's jobs that run or are eligible."""
        self._used: dict[str, int] = {}
        self._short: dict[str, list[tuple[int, int, JobId]]] = {}
        """For each owner, a heap of blocked jobs; it may hold jobs that are no longer blocked."""

    @abstractmethod
    def limit_of(self, owner: str) -> int | None: ...

    @abstractmethod
    def _owner(self, job: JobState) -> str: ...

    @abstractmethod
    def _amount(self, job: JobState) -> int: ...

    @abstractmethod
    def _is_over(self, job: JobState) -> bool: ...

    @abstractmethod
    def _set_over(self, job: JobState, over: bool) -> None: ...

    @abstractmethod
    def _passed(self, job: JobState) -> bool:
        """Return whether a blocked job holds what it needs of this kind, and only a later kind blocks it."""

    def take(self, job: JobState) -> bool:
        """Return whether the limit has room for the job; otherwise queue it."""
        if not self.limits or job.id in self._held.get(self._owner(job), ()):
            return True
        self._stand(job)
        return not self._is_over(job)

    def keep(self, job: JobState) -> bool:
        """Return whether a job that runs again keeps what it holds; if the limit was lowered meanwhile, queue it."""
        owner = self._owner(job)
        limit, held = self.limits.get(owner), self._held.get(owner)
        if limit is None or held is None or job.id not in held or self._used[owner] <= limit:
            return True
        self._used[owner] -= held.pop(job.id)
        self._set_over(job, True)
        self._line_up(job)
        return False

    def leave(self, job: JobState) -> Iterator[JobState]:
        """Release what the job holds; yield the jobs that get it."""
        owner = self._owner(job)
        self._set_over(job, False)
        held = self._held.get(owner)
        if not held or job.id not in held:
            return
        self._used[owner] -= held.pop(job.id)
        queue = self._short.get(owner, [])
        while queue:
            follower = self._jobs.get(queue[0][2])
            if follower is None or not self._is_over(follower) or self._owner(follower) != owner:
                heappop(queue)
                continue
            if not self.has_room(follower):
                return
            heappop(queue)
            self._stand(follower)
            yield follower

    def restore(self, job: JobState) -> None:
        """Restore a job at its old place in line."""
        if self.limits:
            (self._line_up if self._is_over(job) else self._hold)(job)

    def limit(self, owner: str, most: int | None) -> tuple[list[JobState], list[JobState]]:
        """Set a limit; return the jobs that may wait now, and the ones that no longer may. Runs continue."""
        if most is None:
            self.limits.pop(owner, None)
        else:
            self.limits[owner] = most
        self._held, self._used, self._short = {}, {}, {}
        waiting: list[JobState] = []
        for job in self._jobs.values():
            if job.waits or self._is_over(job):
                waiting.append(job)
            elif (
                job.status in ACTIVE
                or (job.begin_at is not None and not job.before_begin and job.status not in ENDED)
                or self._passed(job)
            ):
                self._hold(job)
        opened: list[JobState] = []
        shut: list[JobState] = []
        for job in sorted(waiting, key=_turn):
            was = self._is_over(job)
            self._stand(job)
            if was != self._is_over(job):
                (opened if was else shut).append(job)
        return opened, shut

    def has_room(self, job: JobState) -> bool:
        """Return whether the limit has room for one more job like this one."""
        owner, amount = self._owner(job), self._amount(job)
        limit = self.limit_of(owner)
        return limit is None or not amount or self._used.get(owner, 0) + amount <= limit

    # ---- inside

    def _stand(self, job: JobState) -> None:
        """Count the job, or queue it if the limit has no room."""
        over = not self.has_room(job)
        self._set_over(job, over)
        (self._line_up if over else self._hold)(job)

    def _hold(self, job: JobState) -> None:
        owner, amount = self._owner(job), self._amount(job)
        self._held.setdefault(owner, {})[job.id] = amount
        self._used[owner] = self._used.get(owner, 0) + amount

    def _line_up(self, job: JobState) -> None:
        heappush(self._short.setdefault(self._owner(job), []), _turn(job))


class Quotas(Limits):
    """GPU quotas of users. ALL_USERS sets the default, if any."""

    def limit_of(self, owner: str) -> int | None:
        return self.limits.get(owner, self.limits.get(ALL_USERS))

    def _owner(self, job: JobState) -> str:
        return job.job.user

    def _amount(self, job: JobState) -> int:
        return job.job.gpus

    def _is_over(self, job: JobState) -> bool:
        return job.over_quota

    def _set_over(self, job: JobState, over: bool) -> None:
        job.over_quota = over

    def _passed(self, job: JobState) -> bool:
        return job.over_group_limit


class GroupSettings(NamedTuple):
    jobs: int | None = None
    """The most jobs that run at once; None: no limit."""
    paused: bool = False
    notify: str = ""
    """Events of the group that lead to a message."""


NO_SETTINGS: Final = GroupSettings()


class GroupLimits(Limits):
    """Limits on the jobs of each group that may run at once. A paused group has the limit 0; its own limit is kept."""

    def __init__(self, jobs: Mapping[JobId, JobState]) -> None:
        super().__init__(jobs)
        self.settings: dict[str, GroupSettings] = {}
        """The settings of each group that has any."""

    def settings_of(self, group: str) -> GroupSettings:
        return self.settings.get(group, NO_SETTINGS)

    def set_group(self, group: str, settings: GroupSettings) -> tuple[list[JobState], list[JobState]]:
        """Change the settings of a group; return the jobs that may wait now, and those that no longer may."""
        before = self.settings_of(group)
        if settings == NO_SETTINGS:
            self.settings.pop(group, None)
        else:
            self.settings[group] = settings
        if before[:2] == settings[:2]:
            return [], []
        return self.limit(group, 0 if settings.paused else settings.jobs)

    def limit_of(self, owner: str) -> int | None:
        return self.limits.get(owner)

    def _owner(self, job: JobState) -> str:
        return job.job.group

    def _amount(self, _job: JobState) -> int:
        return 1

    def _is_over(self, job: JobState) -> bool:
        return job.over_group_limit

    def _set_over(self, job: JobState, over: bool) -> None:
        job.over_group_limit = over

    def _passed(self, _job: JobState) -> bool:
        return False


def _turn(job: JobState) -> tuple[int, int, JobId]:
    return -job.job.priority, job.seq, job.id
