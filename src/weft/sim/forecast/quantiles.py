"""Forecasts per job: when it starts and ends, as quantiles over the samples."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from weft.model import Event, JobId, Seconds
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.core.state.job import JobState
from weft.sim.forecast.arrivals import Arrivals
from weft.sim.forecast.forward import MEASURED, Costs, run_forward, unfinished_jobs
from weft.sim.forecast.remaining import Basis, RemainingTimes, remaining_times
from weft.sim.forecast.samples import Times, run_samples

SAMPLES: Final = 30
SEED: Final = 0
NEVER: Final = math.inf


@dataclass(frozen=True, slots=True)
class Quantiles:
    """The median and the 90 % quantile of a time; None: unknown, or not within any horizon."""

    p50: Seconds | None = None
    p90: Seconds | None = None


UNKNOWN: Final = Quantiles()


@dataclass(frozen=True, slots=True)
class JobForecast:
    job: JobId
    user: str
    waits: bool
    """False: it runs or is held, and has no start to forecast."""
    start: Quantiles
    end: Quantiles
    basis: Basis
    """The ground of the estimate of its duration."""
    similar: int = 0
    """The number of finished jobs that this is."""


@dataclass(frozen=True, slots=True)
class Forecast:
    at: Seconds
    samples: int
    jobs: Mapping[JobId, JobForecast]
    unknown: int
    """Jobs of which no duration is known: while they run, what waits for their GPUs has no estimate."""


@dataclass(frozen=True)
class Sampling:
    """The parameters of sampling. The same seed and state give the same draws, also after a change of the state."""

    samples: int = SAMPLES
    seed: int = SEED
    budget_s: float = math.inf
    """CPU seconds after which no further sample is made."""
    costs: Costs = MEASURED
    arrivals: bool = True
    """Let jobs arrive as in the recent past; False: none arrive."""
    until_started: Collection[JobId] | None = None
    """End each sample once these jobs have started; None: when all have ended."""


Changes = Callable[[Scheduler, Seconds], Sequence[Event]]


def no_changes(_scheduler: Scheduler, _now: Seconds) -> Sequence[Event]:
    return ()


def forecast(
    scheduler: Scheduler,
    now: Seconds,
    sampling: Sampling | None = None,
    *,
    changes: Changes = no_changes,
    changed: Scheduler | None = None,
    times: RemainingTimes | None = None,
) -> Forecast:
    """Return the forecast of all unfinished jobs as of now. It makes copies of this process; nothing changes here.

    `changes` happen first. `changed`: a scheduler with another policy and the same jobs, which runs instead."""
    sampling = sampling or Sampling()
    times = times or remaining_times(scheduler.state, now)
    jobs = unfinished_jobs(scheduler.state)
    draws = random.Random(sampling.seed)
    works = [times.draw(jobs, draws) for _ in range(sampling.samples)]
    drifts = [times.drift(draws) for _ in works] if times.drifts else None
    arrivals = Arrivals(scheduler.state, now) if sampling.arrivals else None
    runs = changed or scheduler
    events = changes(runs, now)

    def run(number: int, *, arrive: bool) -> Times:
        later = arrivals.draw(random.Random(f"{sampling.seed}:{number}")) if arrivals is not None and arrive else ()
        course = run_forward(
            runs, works[number], now, changes=events, arrivals=later, costs=sampling.costs,
            until_started=sampling.until_started,
        )  # fmt: skip
        starts, ends = course.starts.get, course.ends.get
        return [each for job in jobs for each in (starts(job.id, NEVER), ends(job.id, NEVER))]

    columns = run_samples(
        run, sampling.samples, len(jobs), now, may_arrive=bool(arrivals), budget_s=sampling.budget_s
    )  # fmt: skip
    found = {}
    unknown = 0
    for at, job in enumerate(jobs):
        ground = times.ground(job)
        unknown += ground.basis == "none"
        waits = not job.active and not job.held
        samples = [(each[2 * at] if waits else now, each[2 * at + 1]) for each in columns]
        late = samples if drifts is None else _late(samples, drifts, now, times, job)
        start = _spread([each[0] for each in samples], [each[0] for each in late]) if waits else UNKNOWN
        end = _spread([each[1] for each in samples], [each[1] for each in late])
        found[job.id] = JobForecast(job.id, job.job.user, waits, start, end, ground.basis, ground.jobs)
    return Forecast(now, len(columns), found, unknown)


def _late(
    samples: Sequence[tuple[float, float]], drifts: Sequence[float], now: Seconds, times: RemainingTimes, job: JobState
) -> list[tuple[float, float]]:
    """Return the start and the end of a job in each sample if all jobs take longer by the drift of the sample. The job
    itself does so only if its duration is not known, and not beyond its time limit."""
    is_drawn, limit_s, found = times.is_drawn(job), times.time_to_limit_s(job), []
    for (start, end), drift in zip(samples, drifts, strict=False):  # there may be fewer samples than were drawn
        late_start = now + (start - now) * drift
        late_end = end
        if NEVER not in (start, end):
            late_end = late_start + (end - start) * (drift if is_drawn else 1.0)
            late_end = min(late_end, max(late_start + limit_s, end))
        found.append((late_start, late_end))
    return found


def _spread(times: Sequence[float], late: Sequence[float]) -> Quantiles:
    """Return P50 of the times and P90 of the late ones: the median of drifts is near 1, but single ones are far from it
    and would make P50 worse."""
    p50, p90 = quantiles(times).p50, quantiles(late).p90
    return Quantiles(p50, p90 if p50 is None or p90 is None else max(p50, p90))


def quantiles(times: Sequence[float]) -> Quantiles:
    """Return the quantiles of sampled times, in which infinity stands for never."""
    ordered = sorted(times)
    p50, p90 = (next_quantile(ordered, share) if ordered else math.inf for share in (0.5, 0.9))
    return Quantiles(None if math.isinf(p50) else p50, None if math.isinf(p90) else p90)


def next_quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value that a further sample stays below with this probability."""
    return ordered[min(math.ceil(share * (len(ordered) + 1)), len(ordered)) - 1]
