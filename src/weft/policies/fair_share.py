"""Fair share: whoever has used least for its weight goes first; usage fades with a half-life.

A user's jobs keep their order. GPUs in use count as if they had already been used for a while (`ahead_s`), so that one
user does not take the whole cluster at one instant. Nobody is stopped; the first that does not fit gets a reservation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from weft.core.ports import Ask, JobView, Replanner, View
from weft.ledgers.usage import Usage
from weft.model import Fact, Seconds


@dataclass(frozen=True)
class FairShare(Replanner):
    """Least used for its weight first, per user; usage fades."""

    half_life_s: float = 7 * 86400.0
    """After this long, usage counts half."""
    weights: tuple[str, ...] = ()
    """user=weight, joined with +; 1 for all others."""
    ahead_s: float = 600.0
    """What a GPU in use counts in advance."""

    def __post_init__(self) -> None:
        if self.half_life_s <= 0:
            raise ValueError(f"half_life_s must be above 0, not {self.half_life_s}")
        for text in self.weights:
            _weight(text)

    def key(self, job: JobView, now: Seconds) -> float:
        """Among one user's jobs: first come, first served."""
        return job.submitted_at

    def rank(self, view: View) -> Iterator[Ask]:
        usage: Usage = view.memo
        weights = dict(_weight(text) for text in self.weights)
        queues: dict[str, list[JobView]] = {}
        for job in sorted(view.waiting, key=lambda job: -job.seq):
            queues.setdefault(job.job.user, []).append(job)
        while queues and view.idle_gpus:
            user = min(queues, key=lambda user: (self._standing(usage, user, view.now, weights), queues[user][-1].seq))
            job = queues[user].pop()
            yield Ask((job.id,), job.gpus, job.wanted_share, job.job.where)
            if not queues[user] or not job.active:  # a user's jobs do not pass each other
                del queues[user]

    def _standing(self, usage: Usage, user: str, now: Seconds, weights: dict[str, float]) -> float:
        charged = usage.used(user, now) + self.ahead_s * usage.held.get(user, 0)
        return charged / weights.get(user, 1.0)

    def memo(self) -> Usage:
        return Usage(self.half_life_s)

    def observe(self, memo: Usage, fact: Fact) -> Usage:
        memo.note(fact)
        return memo


def _weight(text: str) -> tuple[str, float]:
    user, equals, weight = text.partition("=")
    if not equals or not weight.replace(".", "", 1).isdigit() or float(weight) <= 0:
        raise ValueError(f"weights are written user=weight, with a weight above 0, not {text!r}")
    return user, float(weight)
