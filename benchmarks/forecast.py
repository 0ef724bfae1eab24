"""Forecasts at submit time against what happened, on the public traces, and the CPU time of forecasts.

Each trace is simulated under the default policy with durations that the scheduler does not know. A second, equal
simulation stops at a few of the submissions and asks when the job will start. Two baselines answer the same question:
the scheduler run forward with time limits as durations, and the mean wait of the last jobs that started.
"""

from __future__ import annotations

import random
import statistics
from array import array
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from benchmarks.figure import Figure
from benchmarks.workloads import REFERENCE
from weft.access.server.settings import DEFAULT_POLICY
from weft.model import Exited, JobId, Node, Start, Submitted
from weft.scheduling.core.scheduler import Scheduler
from weft.sim.clusters.feasible_jobs import split_feasible
from weft.sim.clusters.reader import read_cluster
from weft.sim.engine import Engine
from weft.sim.forecast.branches import Branches, cpu_s
from weft.sim.forecast.calibration import Calibration
from weft.sim.forecast.forward import run_forward, unfinished_jobs
from weft.sim.forecast.history import History
from weft.sim.forecast.quantiles import SAMPLES, Sampling, forecast
from weft.sim.forecast.remaining import RemainingTimes
from weft.sim.simulation import Setting, advance, prepare
from weft.sim.traces.generator import generate
from weft.sim.traces.trace import TraceJob, read_trace

TRACES: Final = {"elasticflow_cluster06": "16x8", "elasticflow_cluster03": "32x8", "philly": "56x8"}
MAX_JOBS: Final = 10_000
"""The first jobs of a trace that are simulated: the queue of all of Philly would take an hour."""
INSTANTS: Final = 120
"""The submissions of each trace at which a forecast is made."""
MIN_WAIT_S: Final = 60.0
WARM_UP: Final = 0.1
"""The part of the jobs after which forecasts begin: before, nothing is learned."""
LAST_WAITS: Final = 50
LIMITS_H: Final = (1, 4, 12, 24, 72, 168, 720, 8760)
"""The time limit of a job is the least of these that is at least its true duration."""


@dataclass(frozen=True)
class Answer:
    """The waits that were forecast for one job, and the one that it had."""

    waited_s: float
    p50_s: float | None
    p90_s: float | None
    limits_s: float | None
    """The wait if each job took its time limit."""
    mean_s: float
    """The mean wait of the last jobs that started."""


def figures() -> Iterator[Figure]:
    for name, cluster in TRACES.items():
        path = REFERENCE / "traces" / f"{name}.csv.gz"
        if not path.exists():
            print(f"  {path.name} is not there: no backtest on it")
            continue
        nodes = read_cluster(cluster)
        jobs, _ = split_feasible(read_trace(path).jobs[:MAX_JOBS], nodes)
        yield from _compare(f"{name} {cluster}", backtest(nodes, jobs))
    yield from cost()


def cost() -> Iterator[Figure]:
    """Measure 30 samples of 1,000 jobs on 64 GPUs, most of them submitted at once; their processes count."""
    nodes = read_cluster("8x8")
    trace = generate(1500, seed=5, gpus_in_cluster=64, load=0.9).jobs
    burst_s = trace[500].submit_s
    jobs = [
        replace(each, submit_s=min(each.submit_s, burst_s), job=replace(each.job, declared_s=None, iterations=None))
        for each in trace
    ]
    for policy in (DEFAULT_POLICY, "balanced", "tiresias"):
        scheduler, engine = prepare(Setting(nodes, jobs, policy))
        for events in engine.instants():
            advance(scheduler, engine, events)
            if len(scheduler.state.ended) >= 500:
                break
        before_s = cpu_s()
        found = forecast(scheduler, scheduler.state.now, Sampling(samples=SAMPLES))
        spent_s = cpu_s() - before_s
        yield Figure(f"{SAMPLES} samples of {len(found.jobs):,} jobs, {policy}", spent_s, "CPU s", 3.0)


def _compare(name: str, answers: Sequence[Answer]) -> Iterator[Figure]:
    inside = sum(each.p90_s is not None and each.waited_s <= each.p90_s for each in answers) / len(answers)
    yield Figure(f"{name}: forecasts", len(answers), "jobs")
    yield Figure(f"{name}: no P90, counted as missed", sum(each.p90_s is None for each in answers), "jobs")
    yield Figure(f"{name}: starts by P90", 100 * inside, "% of jobs", 85.0, more_is_better=True)
    yield Figure(f"{name}: starts by P90, at most", 100 * inside, "% of jobs", 95.0)
    errors = {
        "forecast": _error([(each.waited_s, each.p50_s) for each in answers]),
        "limits": _error([(each.waited_s, each.limits_s) for each in answers]),
        "mean wait": _error([(each.waited_s, each.mean_s) for each in answers]),
    }
    for what, error_s in errors.items():
        yield Figure(f"{name}: median error, {what}", error_s / 3600, "hours")
    better = min(errors["limits"], errors["mean wait"])
    yield Figure(f"{name}: error over the better baseline's", errors["forecast"] / better, "times", 0.8)


def _error(pairs: Sequence[tuple[float, float | None]]) -> float:
    """Return the median error; an answer that says nothing is wrong by the whole wait."""
    return statistics.median(waited if said is None else abs(waited - said) for waited, said in pairs)


def backtest(nodes: Sequence[Node], jobs: Sequence[TraceJob], instants: int = INSTANTS, seed: int = 0) -> list[Answer]:
    """Return the forecasts of some jobs that waited, and what happened."""
    starts = _starts(*_prepared(nodes, jobs))
    late = jobs[int(len(jobs) * WARM_UP) :]
    waited = {each.job.id: starts[each.job.id] - each.submit_s for each in late if each.job.id in starts}
    able = [job for job, wait_s in waited.items() if wait_s > MIN_WAIT_S]
    asked = set(random.Random(seed).sample(able, min(instants, len(able))))
    return list(_ask(*_prepared(nodes, jobs), {job: waited[job] for job in asked}, _limits(jobs)))


def _prepared(nodes: Sequence[Node], jobs: Sequence[TraceJob]) -> tuple[Scheduler, Engine]:
    unknown = [replace(each, job=replace(each.job, declared_s=None, iterations=None)) for each in jobs]
    return prepare(Setting(nodes, unknown, DEFAULT_POLICY))


def _starts(scheduler: Scheduler, engine: Engine) -> dict[JobId, float]:
    found: dict[JobId, float] = {}
    for events in engine.instants():
        for fact in advance(scheduler, engine, events):
            if type(fact) is Start:
                found.setdefault(fact.job, fact.at)
    return found


def _ask(
    scheduler: Scheduler, engine: Engine, asked: Mapping[JobId, float], limits_s: Mapping[JobId, float]
) -> Iterator[Answer]:
    """Simulate again, and ask at the submissions of these jobs."""
    history, waits, calibration = History(), deque[float](maxlen=LAST_WAITS), Calibration()
    state, left = scheduler.state, len(asked)
    for events in engine.instants():
        facts = advance(scheduler, engine, events)
        for fact in facts:
            if type(fact) is Exited and fact.how == "done":
                history.learn(state.jobs[fact.job])
            elif type(fact) is Start and fact.run == 1:
                waits.append(fact.at - state.jobs[fact.job].submitted_at)
        for fact in facts:
            if type(fact) is Submitted and fact.job.id in asked:
                known = Known(history, calibration, statistics.fmean(waits), limits_s)
                yield _answer(scheduler, fact.job.id, asked[fact.job.id], known)
                left -= 1
        if not left:
            return


@dataclass(frozen=True)
class Known:
    """What is known when a job is submitted."""

    history: History
    calibration: Calibration
    mean_s: float
    """The mean wait of the last jobs that started."""
    limits_s: Mapping[JobId, float]


def _answer(scheduler: Scheduler, job: JobId, waited_s: float, known: Known) -> Answer:
    now = scheduler.state.now
    times = RemainingTimes(known.history, now, unfinished_jobs(scheduler.state))
    sampled = forecast(scheduler, now, Sampling(until_started=[job]), times=times)
    sampled = replace(sampled, jobs={job: sampled.jobs[job]})  # the samples end before the others start
    known.calibration.learn(scheduler.state)
    found = known.calibration.correct(sampled).jobs[job]
    known.calibration.expect(sampled)
    work = {
        each.id: max(known.limits_s[each.id] - each.attained(now), 0.0) for each in unfinished_jobs(scheduler.state)
    }

    def run() -> bytes:
        course = run_forward(scheduler, work, now, until_started=[job])
        return array("d", [course.starts.get(job, float("nan"))]).tobytes()

    with Branches() as branches:
        (by_limits,) = array("d", branches.run(run))
    start = found.start
    return Answer(
        waited_s,
        None if start.p50 is None else start.p50 - now,
        None if start.p90 is None else start.p90 - now,
        None if by_limits != by_limits else by_limits - now,
        known.mean_s,
    )


def _limits(jobs: Sequence[TraceJob]) -> dict[JobId, float]:
    return {
        each.job.id: next((hours * 3600.0 for hours in LIMITS_H if hours * 3600 >= each.work_s), each.work_s)
        for each in jobs
    }
