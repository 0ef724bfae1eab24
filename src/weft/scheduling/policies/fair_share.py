"""Fair share: the user with the least usage for its weight goes first; usage decays with a half-life.

A user's jobs keep their order. GPUs in use count as if they had already been used for a while (`ahead_s`), so that one
user does not take the whole cluster at one instant. No run is preempted; the first job that does not fit gets a
reservation.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from math import inf

from weft.model import Fact, Seconds
from weft.scheduling.core.ports import Ask, JobView, Replanner, View
from weft.scheduling.policy_state.usage import Usage


@dataclass(frozen=True)
class FairShare(Replanner):
    """The user with the least usage for its weight first; usage decays."""

    half_life_s: float = 7 * 86400.0
    """Time after which usage counts half."""
    weights: tuple[str, ...] = ()
    """user=weight, joined with +; 1 for all others."""
    ahead_s: float = 600.0
    """Seconds of usage that a GPU in use counts in advance."""

    def __post_init__(self) -> None:
        if self.half_life_s <= 0:
            raise ValueError(f"half_life_s must be above 0, not {self.half_life_s}")
        if self.ahead_s < 0:
            raise ValueError(f"ahead_s must be 0 or more, not {self.ahead_s:g}")
        if len(self.users) < len(self.weights):
            raise ValueError("a user has two weights")

    @property
    def users(self) -> dict[str, float]:
        """The configured weights by user."""
        return dict(_weight(text) for text in self.weights)

    def key(self, job: JobView, now: Seconds) -> float:
        """Order one user's jobs first come, first served."""
        return job.submitted_at

    def queue(self, job: JobView) -> str:
        return job.job.user

    def rank(self, view: View) -> Iterator[Ask]:
        usage, weights = view.memo, self.users

        def entry(user: Hashable, first: JobView) -> tuple[float, int, Hashable]:
            charged = usage.used(user, view.now) + self.ahead_s * usage.held.get(user, 0)
            return charged / weights.get(str(user), 1.0), first.seq, user

        entries = [entry(user, first) for user, first in view.firsts()]
        heapify(entries)
        while entries and not view.full:
            user = entries[0][2]
            job = view.first(user)
            assert job is not None
            yield Ask((job.id,), job.gpus, job.wanted_share, job.job.where)
            following = view.first(user) if job.active else None  # a user's jobs do not pass each other
            if following is not None:
                heapreplace(entries, entry(user, following))
            else:
                heappop(entries)

    def memo(self) -> Usage:
        return Usage(self.half_life_s)

    def observe(self, memo: Usage, fact: Fact) -> Usage:
        memo.apply(fact)
        return memo


def _weight(text: str) -> tuple[str, float]:
    user, equals, written = text.partition("=")
    try:
        weight = float(written)
    except ValueError:
        weight = 0.0
    if not equals or not 0 < weight < inf:
        raise ValueError(f"write weights as user=weight, with a weight above 0, not {text!r}")
    return user, weight
