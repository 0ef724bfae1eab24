"""A simulation that starts from the present state of a scheduler: one sampled future of its unfinished jobs."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from dataclasses import dataclass, replace

from weft.history.metrics.figures import Record, gather
from weft.model import Fact, Seconds, Wake
from weft.scheduling.core.scheduler import Scheduler
from weft.scheduling.plugins import registry
from weft.sim.forecast.forward import run_forward, unfinished_jobs
from weft.sim.forecast.remaining import remaining_times


@dataclass(frozen=True)
class PresentRun:
    """The outcome of a simulation from the present state."""

    now: Seconds
    record: Record
    """The jobs that had not ended at the start. Their GPU seconds count from then on."""
    facts: list[Fact]
    """The facts of the scheduler, and what followed."""
    gpus: int
    cpu_s: float


def simulate_from(
    facts: Iterable[Fact], policy: str, placement: str | None = None, *, seed: int = 0, now: Seconds | None = None
) -> PresentRun:
    """Replay the facts of a scheduler, then let the policy decide until all jobs have ended. No jobs arrive."""
    known = list(facts)
    chosen = registry.load_policy(policy)
    scheduler = Scheduler(chosen, registry.load_placement(placement or chosen.placement))
    scheduler.replay(known)
    state = scheduler.state
    began_s, now = time.process_time(), max(state.now, now or 0.0)
    jobs = unfinished_jobs(state)
    work_s = remaining_times(state, now).draw(jobs, random.Random(seed))
    gpus, concerned = state.gpus, {job.id for job in jobs}
    course = run_forward(scheduler, work_s, now, changes=[Wake(now)], keep_facts=True)
    cpu_s = time.process_time() - began_s
    record = gather([*known, *course.facts], since=now)
    before = {job.id: job.gpu_seconds for job in gather(known, until=now).jobs}
    mine = [replace(job, gpu_seconds=job.gpu_seconds - before[job.id]) for job in record.jobs if job.id in concerned]
    return PresentRun(now, replace(record, jobs=mine), [*known, *course.facts], gpus, cpu_s)
