"""Generates traces that resemble Philly, or with given arrivals, durations, gangs, models, users and memory.

The same seed generates the same trace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from weft.errors import InputError, UnknownName
from weft.inputs.csv import MAX_NUMBER
from weft.model import Job, PerRank
from weft.sim.traces.distributions import Arrivals, Durations, lognormal
from weft.sim.traces.profiles import KNOWN, MODELS, profile
from weft.sim.traces.trace import Trace, TraceJob

PHILLY_MIX: Final[Mapping[int, float]] = MappingProxyType({1: 0.93, 2: 0.022, 4: 0.023, 8: 0.020, 16: 0.003, 32: 0.001})
"""Fraction of the jobs by number of GPUs."""
PHILLY_MEDIAN_S: Final = 1144.0
PHILLY_MEAN_S: Final = 13136.0

GANG_MIX: Final[Mapping[int, float]] = MappingProxyType({1: 0.35, 2: 0.15, 4: 0.20, 8: 0.25, 16: 0.05})

USERS: Final = ("ada", "bo", "chen", "dara", "eli")
MAX_JOBS: Final = 10_000_000
MAX_USERS: Final = 1_000_000


@dataclass(frozen=True)
class Kinds:
    """The users, models and memory of generated jobs."""

    users: Sequence[str] = USERS
    models: Mapping[str, float] | None = None
    """Weights by model; None: all models that occur in traces, with equal weights."""
    memory_mb: Mapping[int, float] | None = None
    """Weights by memory per GPU; None: memory is not counted."""


def generate(
    jobs: int,
    *,
    seed: int,
    gpus_in_cluster: int = 64,
    load: float = 0.9,
    mix: Mapping[int, float] = PHILLY_MIX,
    median_s: float = PHILLY_MEDIAN_S,
    mean_s: float = PHILLY_MEAN_S,
    durations: Durations | None = None,
    arrivals: Arrivals | None = None,
    kinds: Kinds | None = None,
) -> Trace:
    """Return a trace that offers the cluster this load. Leave out sizes of the mix that exceed the cluster."""
    sizes = {gpus: part for gpus, part in mix.items() if gpus <= gpus_in_cluster}
    lengths = durations or lognormal(median_s, mean_s)
    _check(jobs, load, sizes)
    draws = random.Random(seed)
    drawn_gpus = draws.choices(list(sizes), weights=list(sizes.values()), k=jobs)
    durations_s = [lengths.draw(draws) for _ in range(jobs)]
    work_gpu_s = math.fsum(gpus * duration_s for gpus, duration_s in zip(drawn_gpus, durations_s, strict=True))
    gaps = (arrivals or Arrivals()).gaps(jobs * gpus_in_cluster * load / work_gpu_s, draws)
    maker = _Maker(kinds or Kinds(), seed, draws)
    made: list[TraceJob] = []
    now_s = 0.0
    for number, (gpus, duration_s) in enumerate(zip(drawn_gpus, durations_s, strict=True)):
        made.append(maker.job(number, now_s, gpus, duration_s))
        now_s += next(gaps)
    if now_s > MAX_NUMBER:
        what = f"a load of {load} makes a trace of {now_s:g} s"
        raise InputError(what, hint="choose a larger load, shorter jobs or a larger cluster")
    return Trace(f"generated-{seed}", "weft", tuple(made))


def small() -> Trace:
    """Return the trace of `data/small.csv`: 200 jobs, many of them gangs, slightly too much for a 4x8 cluster."""
    return generate(200, seed=1, gpus_in_cluster=32, load=1.1, mix=GANG_MIX, median_s=300, mean_s=900)


def demo(retries: int = 0) -> Trace:
    """Return the small trace under its name on the command line."""
    jobs = tuple(replace(each, job=replace(each.job, retries=retries)) for each in small().jobs)
    return Trace("demo", "weft", jobs)


def named_users(count: int) -> Sequence[str]:
    if not 1 <= count <= MAX_USERS:
        raise InputError(f"cannot generate {count} users", hint=f"expected from 1 to {MAX_USERS:,}")
    return USERS if count == len(USERS) else [f"user{number}" for number in range(count)]


def _check(jobs: int, load: float, sizes: Mapping[int, float]) -> None:
    if not 1 <= jobs <= MAX_JOBS:
        raise InputError(f"cannot generate {jobs} jobs", hint=f"expected at least 1, at most {MAX_JOBS:,}")
    if not 0 < load < math.inf:
        raise InputError(f"cannot generate a load of {load}", hint="expected a number above 0; 1 keeps every GPU busy")
    if not sizes or min(sizes) < 1 or min(sizes.values()) < 0 or not 0 < sum(sizes.values()) < math.inf:
        raise InputError(
            f"cannot draw from the mix {dict(sizes)}", hint="expected {gpus: part}, some within the cluster"
        )


class _Maker:
    """Draws the jobs one by one. Options draw from a separate stream, so that they do not change other draws."""

    def __init__(self, kinds: Kinds, seed: int, draws: random.Random) -> None:
        self._users, self._memory, self._draws = kinds.users, kinds.memory_mb, draws
        self._models = kinds.models
        self._more = random.Random(f"{seed}:kinds")
        for model in kinds.models or ():
            if model not in KNOWN:
                raise UnknownName("model", model[:80], KNOWN)

    def job(self, number: int, submit_s: float, gpus: int, duration_s: float) -> TraceJob:
        user = self._draws.choice(self._users)
        model = self._draws.choice(MODELS)
        if self._models is not None:
            (model,) = self._more.choices(list(self._models), weights=list(self._models.values()))
        memory_mb = 0
        if self._memory is not None:
            (memory_mb,) = self._more.choices(list(self._memory), weights=list(self._memory.values()))
        job = Job(
            id=str(number),
            gpus=gpus,
            user=user,
            memory_mb=PerRank(memory_mb),
            declared_s=duration_s,
            profile=profile(model, gpus),
            opportunistic=self._draws.random() < 0.5,
        )
        return TraceJob(round(submit_s, 1), job, duration_s)
