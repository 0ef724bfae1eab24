"""Submitting from Python: the cost of one job with an empty and a long queue, and the rate of large batches."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import weft
from benchmarks.figure import Figure
from benchmarks.scheduler import busy_scheduler, cpu_s

QUEUED: Final = (10_000, 100_000)
BATCH: Final = 5000
SUBMITS: Final = 200
ROUNDS: Final = 3
COMMAND: Final = ["true"]


def figures() -> Iterator[Figure]:
    with busy_scheduler() as pid:
        weft.submit(COMMAND)
        empty_ms, empty_wall_ms, empty_server_ms = _measure_single(pid)
        yield Figure("weft.submit, queue empty", empty_ms, "CPU ms", 3.0)
        yield Figure("  wall time, queue empty", empty_wall_ms, "ms")
        yield Figure("  the scheduler, queue empty", empty_server_ms, "CPU ms")
        before = 0
        for queued in QUEUED:
            jobs, before = queued - before, queued
            rate, server_ms = _measure_batches(pid, jobs)
            yield Figure(f"weft.submit_many, {jobs:,} jobs by {BATCH:,}", rate, "jobs/s", 2000.0, more_is_better=True)
            yield Figure("  the scheduler", server_ms, "CPU ms/job")
            full_ms, full_wall_ms, full_server_ms = _measure_single(pid)
            name = f"with {queued:,} queued"
            yield Figure(f"weft.submit, {name}", full_ms, "CPU ms", 3.0)
            yield Figure("  full / empty", full_ms / empty_ms, "", 1.3)
            yield Figure(f"  wall time, {name}", full_wall_ms, "ms")
            yield Figure("  full / empty", full_wall_ms / empty_wall_ms, "", 1.3)
            yield Figure(f"  the scheduler, {name}", full_server_ms, "CPU ms")


def _measure_single(pid: int) -> tuple[float, float, float]:
    """Return the CPU time here, the wall time and the scheduler's CPU time in ms per job: the least of the rounds."""
    rounds = []
    for _ in range(ROUNDS):
        cpu, wall, server = time.process_time(), time.perf_counter(), cpu_s(pid)
        for _ in range(SUBMITS):
            weft.submit(COMMAND, name="one", gpus=1)
        took = (time.process_time() - cpu, time.perf_counter() - wall, cpu_s(pid) - server)
        rounds.append([1e3 * each / SUBMITS for each in took])
    cpu_ms, wall_ms, server_ms = (min(each) for each in zip(*rounds, strict=True))
    return cpu_ms, wall_ms, server_ms


def _measure_batches(pid: int, jobs: int) -> tuple[float, float]:
    """Return the jobs per second, and the scheduler's CPU ms per job."""
    wall, server = time.perf_counter(), cpu_s(pid)
    for _ in range(jobs // BATCH):
        weft.submit_many([{"command": COMMAND, "name": f"b{number}", "gpus": 1} for number in range(BATCH)])
    return jobs / (time.perf_counter() - wall), 1e3 * (cpu_s(pid) - server) / jobs
