"""GPU-seconds that each user has used, decayed with a half-life, and the GPUs that each user holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

from weft.model import Edited, Exited, Fact, Job, JobId, JobSnapshot, Seconds, Start, Submitted
from weft.scheduling.policy_state.holdings import Holdings


@dataclass
class Usage:
    half_life_s: float
    held: dict[str, int] = field(default_factory=dict)
    _used: dict[str, tuple[Seconds, float]] = field(default_factory=dict)
    """Each user's usage at the time when the user's GPU count last changed, with that time."""
    _jobs: dict[JobId, tuple[str, int]] = field(default_factory=dict)
    """The user of each job, and the GPUs it is charged for."""
    _charged: dict[JobId, tuple[str, int]] = field(default_factory=dict)
    """The same for jobs that hold GPUs, as of their start."""
    _holdings: Holdings = field(default_factory=Holdings)

    def used(self, user: str, now: Seconds) -> float:
        """Return the decayed usage. It decays continuously, so the result does not depend on earlier calls."""
        at, used = self._used.get(user, (now, 0.0))
        kept: float = 0.5 ** ((now - at) / self.half_life_s)
        return used * kept + self.held.get(user, 0) * self.half_life_s / log(2) * (1 - kept)

    def apply(self, fact: Fact) -> None:
        if isinstance(fact, Submitted | Edited | JobSnapshot):
            self._remember(fact.job)
        for job in self._holdings.apply(fact):
            user, gpus = self._charged.pop(job)
            self._hold(user, -gpus, fact.at)
        if isinstance(fact, Start):
            self._charge(fact.job, fact.at)
        elif isinstance(fact, JobSnapshot) and fact.slots:
            self._charge(fact.job.id, fact.at)
        elif isinstance(fact, Exited) and fact.how == "done":
            del self._jobs[fact.job]

    def _remember(self, job: Job) -> None:
        self._jobs[job.id] = job.user, max(job.gpus, 1)

    def _charge(self, job: JobId, at: Seconds) -> None:
        user, gpus = self._charged[job] = self._jobs[job]
        self._hold(user, gpus, at)

    def _hold(self, user: str, more: int, at: Seconds) -> None:
        self._used[user] = at, self.used(user, at)
        self.held[user] = self.held.get(user, 0) + more
