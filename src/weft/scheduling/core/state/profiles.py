"""The store of measured profiles, by user, key, number of GPUs and GPU model. The newest measurement counts.

A user's jobs have the profiles that this user's runs measured, or else shared ones: no user changes the profiles of
another one's jobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from math import fsum, sqrt
from typing import Final

from weft.model import Job, Profile, Profiled, Seconds
from weft.model.profiles import key_of

MAX_KINDS: Final = 10_000
"""The most kinds of jobs with a profile. The one that was measured the longest ago is dropped first."""
MAX_KINDS_OF_USER: Final = 2_000
"""The most kinds of one user: one user's measurements do not displace those of all others."""
MAX_MEASUREMENTS: Final = 8
"""The latest measurements of a kind, which show how much they vary."""

Kind = tuple[str, str, int, str]
"""User or empty, key, number of GPUs, and GPU model or empty."""


@dataclass(frozen=True, slots=True)
class ProfileRecord:
    """The knowledge about one kind of jobs."""

    user: str
    """Empty: for the jobs of all users."""
    key: str
    gpus: int
    gpu_model: str
    profile: Profile
    """The newest measurement."""
    at: Seconds
    source: str
    measurements: int
    """The number of the latest measurements that are kept."""
    deviation: tuple[float, float, float]
    """The standard deviation of the data, GPU and network stage over these, as fractions of their means."""


class Profiles:
    """The measured profiles. Kinds are in the order of their newest measurements."""

    def __init__(self) -> None:
        self._kinds: dict[Kind, list[Profiled]] = {}
        self._of_key: dict[tuple[str, str, int], dict[str, None]] = {}
        """The GPU models that a user's key was measured on with this many GPUs, the latest last."""
        self._of_user: Counter[str] = Counter()
        """The number of kinds of each user."""

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def learn(self, fact: Profiled) -> bool:
        """Store a measurement; return whether it is the first of its kind."""
        kind = (fact.user, fact.key, fact.gpus, fact.gpu_model)
        known = self._kinds.pop(kind, None)
        self._kinds[kind] = [*(known or ()), fact][-MAX_MEASUREMENTS:]
        self._of_user[fact.user] += known is None
        models = self._of_key.setdefault(kind[:3], {})
        models.pop(fact.gpu_model, None)
        models[fact.gpu_model] = None
        if self._of_user[fact.user] > MAX_KINDS_OF_USER:
            self._drop(next(kind for kind in self._kinds if kind[0] == fact.user))
        elif len(self._kinds) > MAX_KINDS:
            self._drop(next(iter(self._kinds)))
        return known is None

    def of(self, job: Job) -> Profile | None:
        """Return the profile of a job: its own, or the newest that its user's runs measured, or the newest shared one.

        A job that asks for a GPU model gets a profile of that model, or of an unknown one.
        """
        if job.profile is not None or not self._kinds:
            return job.profile
        key, model = key_of(job), job.where.gpu_model
        found = self._find(job.user, key, job.gpus, model) or self._find("", key, job.gpus, model)
        return None if found is None else found[-1].profile

    def records(self) -> Iterator[ProfileRecord]:
        """Yield a record for each kind, the one that was measured last first."""
        for (user, key, gpus, model), facts in reversed(self._kinds.items()):
            last = facts[-1]
            deviation = (
                _deviation([fact.profile.data_s for fact in facts]),
                _deviation([fact.profile.gpu_s for fact in facts]),
                _deviation([fact.profile.network_s for fact in facts]),
            )
            yield ProfileRecord(user, key, gpus, model, last.profile, last.at, last.source, len(facts), deviation)

    def facts(self) -> Iterator[Profiled]:
        """Yield the facts that make up the store."""
        for facts in self._kinds.values():
            yield from facts

    def _find(self, user: str, key: str, gpus: int, model: str) -> list[Profiled] | None:
        models = self._of_key.get((user, key, gpus))
        if not models:
            return None
        if model:
            return self._kinds.get((user, key, gpus, model)) or self._kinds.get((user, key, gpus, ""))
        return self._kinds[user, key, gpus, next(reversed(models))]

    def _drop(self, kind: Kind) -> None:
        del self._kinds[kind]
        models = self._of_key[kind[:3]]
        del models[kind[3]]
        if not models:
            del self._of_key[kind[:3]]
        self._of_user[kind[0]] -= 1
        if not self._of_user[kind[0]]:
            del self._of_user[kind[0]]


def _deviation(figures: list[float]) -> float:
    """Return the standard deviation as a fraction of the mean. (`statistics` takes long to import.)"""
    mean = fsum(figures) / len(figures)
    return sqrt(fsum((figure - mean) ** 2 for figure in figures) / len(figures)) / mean if mean else 0.0
