"""Validation: the core accepts only jobs that make sense, wherever they come from."""

from __future__ import annotations

from math import isfinite

from weft.errors import InputError
from weft.model import UNCOUNTED, WHOLE, Job
from weft.model.profiles import problem_of_profile


def check_job(job: Job) -> None:
    """Raise an `InputError` that names the job, the field and what is allowed."""
    problem = problem_of(job)
    if problem:
        raise InputError(f"job {job.id!r}: {problem}")


def problem_of(job: Job) -> str:
    """Return what is wrong with the job, in words; empty: nothing."""
    if not job.id:
        return "the id is empty"
    if job.gpus < 0 or job.cpus < 0 or job.ram_mb < 0 or job.retries < 0:
        field = next(field for field in ("gpus", "cpus", "ram_mb", "retries") if getattr(job, field) < 0)
        return f"{field} is {getattr(job, field)}, not a number from 0"
    memory, share = job.memory_mb, job.share
    if memory is not UNCOUNTED:
        if memory.differs and len(memory) != job.gpus:
            return f"memory_mb has {len(memory)} figures for {_gpus(job.gpus)}"
        if memory.min < 0:
            return f"memory_mb is {memory.plain()}, not numbers from 0"
    if share is not WHOLE and (not 0 <= share.request <= 1 or not share.request <= share.limit):
        return f"share is {share.request} to {share.limit}; a request is from 0 to 1 and no more than its limit"
    if job.declared_s is not None and not (isfinite(job.declared_s) and job.declared_s >= 0):
        return f"declared_s is {job.declared_s}, not seconds from 0"
    if job.iterations is not None and job.iterations < 0:
        return f"iterations is {job.iterations}, not a number from 0"
    if job.profile is not None and (problem := problem_of_profile(job.profile)):
        return problem
    return _pinned_problem(job) if job.where.pinned else ""


def _pinned_problem(job: Job) -> str:
    gpus = [(node, gpu) for node, of_node in job.where.pinned for gpu in of_node]
    if len(gpus) != job.gpus:
        return f"it is pinned to {_gpus(len(gpus))} and needs {job.gpus}"
    return "it is pinned to the same GPU twice" if len(set(gpus)) < len(gpus) else ""


def _gpus(count: int) -> str:
    return f"{count} GPU{'' if count == 1 else 's'}"
