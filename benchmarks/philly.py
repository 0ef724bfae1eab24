"""Philly's 82,247 jobs with real node placement, and the growth of the cost with jobs, GPUs and the queue."""

from __future__ import annotations

import resource
from collections.abc import Iterator

from benchmarks.figure import Figure, least
from benchmarks.workloads import philly, run
from weft.sim.traces.generator import generate

GOALS = {
    ("56x8", "fifo"): 20_000.0,
    ("56x8", "srsf"): 10_000.0,
    ("56x8", "tiresias"): 4_000.0,
    ("16x8", "srsf"): 7_000.0,
}


def figures() -> Iterator[Figure]:
    trace = philly()
    for (cluster, policy), goal in GOALS.items():
        jobs = trace.jobs
        cpu_s = least(lambda c=cluster, p=policy, j=jobs: run(j, c, p).cpu_s, runs=2)  # type: ignore[misc]
        yield Figure(f"{trace.name} on {cluster}, {policy}", len(jobs) / cpu_s, "jobs/CPU s", goal, more_is_better=True)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    yield Figure("peak memory of this process so far", megabytes, "MB", 600.0)


def growth() -> Iterator[Figure]:
    """Measure CPU microseconds per job under srsf while one parameter grows and the others stay."""
    for jobs in (5_000, 20_000, 80_000):
        yield _measure_per_job(f"{jobs} jobs on 56x8, load 0.9", jobs, "56x8", 448, 0.9)
    for nodes in (16, 128, 1024):
        yield _measure_per_job(f"10000 jobs on {nodes}x8, load 0.9", 10_000, f"{nodes}x8", nodes * 8, 0.9)
    for load in (0.8, 1.2, 2.0):
        yield _measure_per_job(f"20000 jobs on 16x8, load {load:g}", 20_000, "16x8", 128, load)


def _measure_per_job(what: str, jobs: int, cluster: str, gpus: int, load: float) -> Figure:
    trace = generate(jobs, seed=7, gpus_in_cluster=gpus, load=load)
    return Figure(f"srsf, {what}", 1e6 * run(trace.jobs, cluster, "srsf").cpu_s / jobs, "CPU us/job")
