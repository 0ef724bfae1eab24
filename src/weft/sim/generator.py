"""Makes traces that look like Philly: Poisson arrivals, log-normal durations, mostly one GPU.

The same seed makes the same trace.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from weft.errors import InputError
from weft.model import Job
from weft.sim.profiles import MODELS, profile
from weft.sim.trace import Trace, TraceJob

PHILLY_MIX: Final[Mapping[int, float]] = MappingProxyType({1: 0.93, 2: 0.022, 4: 0.023, 8: 0.020, 16: 0.003, 32: 0.001})
"""Which part of the jobs asks for how many GPUs."""
PHILLY_MEDIAN_S: Final = 1144.0
PHILLY_MEAN_S: Final = 13136.0

GANG_MIX: Final[Mapping[int, float]] = MappingProxyType({1: 0.35, 2: 0.15, 4: 0.20, 8: 0.25, 16: 0.05})

_USERS: Final = ("ada", "bo", "chen", "dara", "eli")
_COLUMNS: Final = ("job_id", "submit_s", "gpus", "duration_s", "user", "model", "opportunistic")


def generate(
    jobs: int,
    *,
    seed: int,
    gpus_in_cluster: int = 64,
    load: float = 0.9,
    mix: Mapping[int, float] = PHILLY_MIX,
    median_s: float = PHILLY_MEDIAN_S,
    mean_s: float = PHILLY_MEAN_S,
) -> Trace:
    """A trace that keeps the cluster `load` busy; sizes of the mix that exceed the cluster are left out."""
    sizes = {gpus: part for gpus, part in mix.items() if gpus <= gpus_in_cluster}
    _check(jobs, load, sizes, median_s, mean_s)
    draws = random.Random(seed)
    drawn_gpus = draws.choices(list(sizes), weights=list(sizes.values()), k=jobs)
    durations_s = [_duration_s(draws, median_s, mean_s) for _ in range(jobs)]
    work_gpu_s = math.fsum(gpus * duration_s for gpus, duration_s in zip(drawn_gpus, durations_s, strict=True))
    arrivals_per_s = jobs * gpus_in_cluster * load / work_gpu_s
    made: list[TraceJob] = []
    now_s = 0.0
    for number, (gpus, duration_s) in enumerate(zip(drawn_gpus, durations_s, strict=True)):
        made.append(_job(number, now_s, gpus, duration_s, draws))
        now_s += draws.expovariate(arrivals_per_s)
    return Trace(f"generated-{seed}", "weft", tuple(made))


def small() -> Trace:
    """What `data/small.csv` holds: 200 jobs, many of them gangs, that a 4x8 cluster cannot quite keep up with."""
    return generate(200, seed=1, gpus_in_cluster=32, load=1.1, mix=GANG_MIX, median_s=300, mean_s=900)


def write_weft_csv(trace: Trace, path: str | Path) -> None:
    """Write a generated trace in our format; reading it back gives the same jobs."""
    with open(path, "w", encoding="utf-8", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(_COLUMNS)
        rows.writerows(_row(each) for each in trace.jobs)


def _check(jobs: int, load: float, sizes: Mapping[int, float], median_s: float, mean_s: float) -> None:
    if jobs < 1:
        raise InputError(f"cannot generate {jobs} jobs", hint="expected at least 1")
    if not 0 < load < math.inf:
        raise InputError(f"cannot generate a load of {load}", hint="expected a number above 0; 1 keeps every GPU busy")
    if not sizes or min(sizes) < 1 or min(sizes.values()) < 0 or not 0 < sum(sizes.values()) < math.inf:
        raise InputError(
            f"cannot draw from the mix {dict(sizes)}", hint="expected {gpus: part}, some within the cluster"
        )
    if not 0 < median_s <= mean_s < math.inf:
        what = f"no log-normal has median {median_s} s and mean {mean_s} s"
        raise InputError(what, hint="expected 0 < median <= mean")


def _duration_s(draws: random.Random, median_s: float, mean_s: float) -> float:
    """Of a log-normal, mean / median = exp(sigma² / 2). Whole tenths, so that a trace is short to read."""
    sigma = math.sqrt(2 * math.log(mean_s / median_s))
    return max(1.0, round(draws.lognormvariate(math.log(median_s), sigma), 1))


def _job(number: int, submit_s: float, gpus: int, duration_s: float, draws: random.Random) -> TraceJob:
    job = Job(
        id=str(number),
        gpus=gpus,
        user=draws.choice(_USERS),
        declared_s=duration_s,
        profile=profile(draws.choice(MODELS), gpus),
        opportunistic=draws.random() < 0.5,
    )
    return TraceJob(round(submit_s, 1), job, duration_s)


def _row(each: TraceJob) -> tuple[object, ...]:
    job = each.job
    model = job.profile.model if job.profile else ""
    return (job.id, each.submit_s, job.gpus, each.work_s, job.user, model, int(job.opportunistic))
