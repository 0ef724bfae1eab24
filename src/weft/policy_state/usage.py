"""GPU-seconds that each user has used, faded with a half-life, and the GPUs it holds now."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log

from weft.model import Edited, Exited, Fact, Job, JobId, JobSnapshot, Seconds, Start, Submitted
from weft.policy_state.holdings import Holdings


@dataclass
class Usage:
    half_life_s: float
    held: dict[str, int] = field(default_factory=dict)
    _used: dict[str, tuple[Seconds, float]] = field(default_factory=dict)
    """Of each user: usage as of the instant at which what it holds last changed."""
    _jobs: dict[JobId, tuple[str, int]] = field(default_factory=dict)
    """Whose each job is, and the GPUs it counts for."""
    _charged: dict[JobId, tuple[str, int]] = field(default_factory=dict)
    """The same of those that hold GPUs, as it was when they started."""
    _spells: Holdings = field(default_factory=Holdings)

    def used(self, user: str, now: Seconds) -> float:
        """What is in use fades while it is used: how often anybody looks makes no difference."""
        at, used = self._used.get(user, (now, 0.0))
        kept: float = 0.5 ** ((now - at) / self.half_life_s)
        return used * kept + self.held.get(user, 0) * self.half_life_s / log(2) * (1 - kept)

    def note(self, fact: Fact) -> None:
        if isinstance(fact, Submitted | Edited | JobSnapshot):
            self._know(fact.job)
        for job in self._spells.note(fact):
            user, gpus = self._charged.pop(job)
            self._hold(user, -gpus, fact.at)
        if isinstance(fact, Start):
            self._charge(fact.job, fact.at)
        elif isinstance(fact, JobSnapshot) and fact.slots:
            self._charge(fact.job.id, fact.at)
        elif isinstance(fact, Exited) and fact.how == "done":
            del self._jobs[fact.job]

    def _know(self, job: Job) -> None:
        self._jobs[job.id] = job.user, max(job.gpus, 1)

    def _charge(self, job: JobId, at: Seconds) -> None:
        user, gpus = self._charged[job] = self._jobs[job]
        self._hold(user, gpus, at)

    def _hold(self, user: str, more: int, at: Seconds) -> None:
        self._used[user] = at, self.used(user, at)
        self.held[user] = self.held.get(user, 0) + more
