"""Starts, stops and cancels the tasks of a workspace. Tasks are ordinary jobs that share a group."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.client import Client
from weft.errors import InputError
from weft.jobspec.environment import capture
from weft.model.status import ACTIVE, PENDING, UNFINISHED
from weft.wire.messages import SubmitRequest
from weft.wire.views.jobs import JobDetailView
from weft.workspace.config import DEFAULT, Config
from weft.workspace.launch import Launch, find_conda, interpreter, script
from weft.workspace.status import latest
from weft.workspace.tasks import Task, marker_of

CANCEL_TIMEOUT_S: Final = 45.0
"""Limit for cancelled tasks to end: their grace period, and a margin."""
POLL_S: Final = 0.05


@dataclass
class StartSummary:
    """The results of `start`."""

    started: dict[str, str] = field(default_factory=dict)
    """The job of each config that was submitted."""
    there: dict[str, str] = field(default_factory=dict)
    """The unfinished job of each config that had one."""
    skipped: list[str] = field(default_factory=list)
    """Configs that are complete."""
    released: list[str] = field(default_factory=list)
    """Jobs that `stop` had held."""
    warnings: list[str] = field(default_factory=list)
    position: int = 0
    """The position in the journal before the start."""


def start(config: Config, client: Client, tasks: Sequence[Task], *, again: bool = False) -> StartSummary:
    """Submit tasks that are neither complete nor in the queue; with `again`, also complete ones. Release held jobs."""
    found = client.jobs(group=config.group)
    jobs, summary = latest(found.jobs), StartSummary(position=found.position)
    wanted = []
    for task in tasks:
        job = jobs.get(task.name)
        if job is not None and job.status in UNFINISHED:
            summary.there[task.name] = job.id
        elif marker_of(config, task.name).exists() and not again:
            summary.skipped.append(task.name)
        else:
            wanted.append(task)
    if wanted:
        launch = _prepare(config, client, wanted, summary)
        specs = [launch.spec(task, again=again) for task in wanted]
        request = SubmitRequest(jobs=specs, env=capture(os.environ), chdir=str(config.home))
        summary.started = dict(zip((task.name for task in wanted), client.submit(request), strict=True))
    summary.released = list(client.change("release", group=config.group, statuses=sorted(UNFINISHED)).ids)
    return summary


def _prepare(config: Config, client: Client, tasks: Sequence[Task], summary: StartSummary) -> Launch:
    """Return the settings for all tasks. Raise InputError for what would make tasks fail."""
    gpus = client.gpus().gpus[: config.whole("gpu_count")]
    if not gpus:
        raise InputError("there are no GPUs", hint="weft up --gpus 0,1 declares some; weft doctor shows why")
    numbers = tuple(gpu.gpu for gpu in gpus)
    for task in tasks:
        if task.gpu is not None and task.gpu not in numbers:
            raise InputError(
                f"there is no GPU {task.gpu} for {task.name}",
                hint=f"there are {', '.join(map(str, numbers))}: gpu_count is {config.whole('gpu_count')}",
            )
    wanted = config.whole("gpu_count")
    if len(gpus) < wanted:
        there = f"there {'is' if len(gpus) == 1 else 'are'} only {len(gpus)}"
        summary.warnings.append(f"gpu_count is {wanted}, but {there}; weft up --gpus declares others")
    conda, warning = find_conda(config, os.environ)
    summary.warnings += [warning] if warning else []
    _check_program(config, conda)
    memory = min(gpu.memory_mb for gpu in gpus) // config.whole("max_jobs_per_gpu")
    return Launch(config, client.paths.runtime, memory, numbers, conda, time.time())


def _check_program(config: Config, conda: str) -> None:
    """Raise InputError if the folder, script or interpreter is missing: every task would fail."""
    folder = config.path("work_dir")
    if not folder.is_dir():
        raise InputError(f"work_dir {folder} is not a folder", where=_origin(config, "work_dir"))
    if not (folder / script(config)).is_file():
        raise InputError(
            f"script_path: there is no {config.text('script_path')} in {folder}", where=_origin(config, "script_path"),
            hint="put it into work_dir or the workspace",
        )  # fmt: skip
    program = interpreter(config, conda=conda)
    if not conda and not config.text("pre_command") and shutil.which(program) is None:
        raise InputError(f"python_env: there is no program {program}", where=_origin(config, "python_env"))


def _origin(config: Config, key: str) -> str:
    return "" if config.origins[key] == DEFAULT else config.origins[key]


# ---- stopping


def stop(config: Config, client: Client) -> tuple[int, int]:
    """Hold jobs that wait or would run again. Return how many are held and how many still run."""
    client.change("hold", group=config.group, statuses=sorted(UNFINISHED))
    jobs = client.jobs(group=config.group).jobs
    return sum(job.status in PENDING for job in jobs), sum(job.status in ACTIVE for job in jobs)


def unfinished(config: Config, client: Client) -> list[JobDetailView]:
    jobs = client.jobs(group=config.group).jobs
    return [job for job in jobs if job.status in UNFINISHED]


def cancel_all(config: Config, client: Client) -> list[str]:
    """Cancel every unfinished task. Return the ids of their jobs."""
    return list(client.change("cancel", group=config.group, statuses=sorted(UNFINISHED)).ids)


def wait_until_ended(config: Config, client: Client) -> list[str]:
    """Wait for the tasks to end. Return the ids of jobs that have not ended in time."""
    until = time.monotonic() + CANCEL_TIMEOUT_S
    while left := unfinished(config, client):
        if time.monotonic() > until:
            break
        time.sleep(POLL_S)
    return [job.id for job in left]
