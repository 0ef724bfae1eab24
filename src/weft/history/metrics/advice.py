"""Advice on a job from what it used: GPUs that idle, memory that is reserved in vain, CPUs. Pure."""

from __future__ import annotations

from typing import Final

from weft.history.metrics.usage import JobUsage
from weft.model import Job

MIN_RUN_S: Final = 300.0
"""A shorter job tells too little."""
LOW_UTILISATION: Final = 0.3
IDLE_UTILISATION: Final = 0.02
LOW_MEMORY: Final = 0.5
MIN_SPARE_MB: Final = 2048
LOW_CPU: Final = 0.25
HIGH_CPU: Final = 0.9


def cpu_share(usage: JobUsage, job: Job) -> float | None:
    """Return the part of its CPUs that a job used; None: unknown."""
    cpus = job.cpus * max(job.gpus, 1)
    if usage.use is None or not usage.use.cpu_s or not usage.run_s or not cpus:
        return None
    return usage.use.cpu_s / (usage.run_s * cpus)


def memory_share(usage: JobUsage, job: Job) -> float | None:
    """Return the part of the reserved GPU memory that a job used; None: unknown."""
    if usage.use is None or not usage.use.memory_mb or not job.memory_mb.max:
        return None
    return usage.use.memory_mb / job.memory_mb.max


def advise(usage: JobUsage, job: Job) -> list[str]:
    """Return what the user of the job could do better."""
    if usage.run_s < MIN_RUN_S:
        return []
    found = []
    rate, memory, cpu = usage.utilisation, memory_share(usage, job), cpu_share(usage, job)
    busy_cpu = cpu is not None and cpu >= HIGH_CPU
    if rate is not None and job.gpus:
        if rate < IDLE_UTILISATION:
            found.append("its GPUs were idle: check that it uses them, or submit it with --gpus 0")
        elif rate < LOW_UTILISATION and busy_cpu:
            found.append("its GPUs wait for its CPUs: give it more with --cpus, or load data in more workers")
        elif rate < LOW_UTILISATION:
            share = "let it share GPUs (--max-jobs-per-gpu 2)"
            found.append(f"its GPUs were {rate:.0%} busy: {share}, use fewer, or larger batches")
    if memory is not None and usage.use is not None and memory < LOW_MEMORY:
        spare_mb = job.memory_mb.max - usage.use.memory_mb
        if spare_mb >= MIN_SPARE_MB:
            wanted = -(-int(usage.use.memory_mb * 1.2) // 256) * 256
            found.append(f"it reserved {job.memory_mb.max:,} MB on each GPU and used {usage.use.memory_mb:,}: "
                         f"--memory {wanted} leaves room for other jobs")  # fmt: skip
    if cpu is not None and cpu < LOW_CPU and job.cpus > 1:
        found.append(f"it used {cpu:.0%} of its CPUs: ask for fewer with --cpus")
    return found
