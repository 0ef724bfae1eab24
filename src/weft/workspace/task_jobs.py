"""Starts, stops and cancels the tasks of a workspace. Tasks are ordinary jobs that share a group."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from weft.access.client import Client
from weft.access.jobspec.environment import capture
from weft.access.wire.messages import SubmitRequest
from weft.errors import InputError
from weft.model.status import ACTIVE, PENDING, UNFINISHED
from weft.views.answers.jobs import JobDetailView
from weft.workspace import config_changes
from weft.workspace.config import DEFAULT, Config
from weft.workspace.launch import Launch, find_conda, interpreter, script
from weft.workspace.status import latest
from weft.workspace.tasks import Task, all_tasks, marker_of

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
    changed: dict[str, list[str]] = field(default_factory=dict)
    """Changes of the edited config to each task that waits."""
    warnings: list[str] = field(default_factory=list)
    position: int = 0
    """The position in the journal before the start."""


def start(
    config: Config,
    client: Client,
    tasks: Sequence[Task],
    *,
    again: bool = False,
    log: Callable[[StartSummary], None] = lambda _: None,
) -> StartSummary:
    """Submit tasks that are neither complete nor in the queue; with `again`, also complete ones.

    Waiting tasks get the settings of the present config. Held ones are released. Call `log` before tasks can start."""
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
    waiting = config_changes.pending(jobs)
    if wanted or waiting:
        launch, now = _prepare(config, client, wanted, summary), time.time()
        turns = StartTurns(launch.gpus, config.number("startup_delay"), now)
        for task in _queued_tasks(config, tasks, waiting):
            job = waiting[task.name]
            begin_at = turns.next(task.gpu) if job.status == "held" else None
            if changes := config_changes.apply(client, launch, task, job, begin_at):
                summary.changed[task.name] = changes
        since = now if again else None
        specs = [launch.spec(task, again=since, begin_at=turns.next(task.gpu)) for task in wanted]
    summary.started = {task.name: "" for task in wanted}
    summary.released = [job.id for job in waiting.values() if job.status == "held"]
    log(summary)
    if wanted:
        request = SubmitRequest(jobs=specs, env=capture(os.environ), chdir=str(config.home))
        summary.started = dict(zip((task.name for task in wanted), client.submit(request), strict=True))
    summary.released = list(client.change("release", group=config.group, statuses=sorted(UNFINISHED)).ids)
    return summary


def _queued_tasks(config: Config, tasks: Sequence[Task], waiting: Mapping[str, JobDetailView]) -> list[Task]:
    """Return the tasks of these jobs in the order of their submission; without those whose config is gone."""
    known = {task.name: task for task in (*all_tasks(config), *tasks)}
    return [known[name] for name in waiting if name in known]


class StartTurns:
    """Spaces the starts on each GPU: a task that waits for its turn is not started yet and uses no GPU."""

    def __init__(self, gpus: Sequence[int], delay_s: float, now: float) -> None:
        self._gpus, self._delay_s, self._now = len(gpus), delay_s, now
        self._taken: Counter[int | None] = Counter()

    def next(self, gpu: int | None) -> float | None:
        """Return when the next task on this GPU may start; None: at once. Tasks without a GPU are balanced."""
        turn = self._taken[gpu] // (self._gpus if gpu is None else 1)
        self._taken[gpu] += 1
        return self._now + turn * self._delay_s if turn and self._delay_s else None


def _prepare(config: Config, client: Client, tasks: Sequence[Task], summary: StartSummary) -> Launch:
    """Return the settings for all tasks. Raise InputError for what would make tasks fail."""
    gpus = client.gpus().gpus[: config.whole("gpu_count")]
    if not gpus:
        raise InputError("there are no GPUs", hint="weft up --gpus 0,1 declares some; weft doctor shows why")
    numbers, wanted = tuple(gpu.gpu for gpu in gpus), config.whole("gpu_count")
    remedy = "weft up --gpus declares others"
    for task in tasks:
        if task.gpu is not None and task.gpu not in numbers:
            usable = f"usable: GPU {', '.join(map(str, numbers))}; gpu_count is {wanted}"
            raise InputError(
                f"there is no GPU {task.gpu} for {task.name}",
                hint=f"{usable}; {remedy}" if len(gpus) < wanted else usable,
            )
    if len(gpus) < wanted:
        there = f"there {'is' if len(gpus) == 1 else 'are'} only {len(gpus)}"
        summary.warnings.append(f"gpu_count is {wanted}, but {there}; {remedy}")
    conda, warning = find_conda(config, os.environ)
    summary.warnings += [warning] if warning else []
    _check_program(config, conda)
    memory = min(gpu.memory_mb for gpu in gpus) // config.whole("max_jobs_per_gpu")
    return Launch(config, client.paths.runtime, memory, numbers, conda)


def _check_program(config: Config, conda: str) -> None:
    """Raise InputError if the folder, script or interpreter is missing: every task would fail."""
    _check_output(config)
    folder = config.path("work_dir")
    if not folder.is_dir():
        raise InputError(f"work_dir {folder} is not a folder", where=_origin(config, "work_dir"))
    if not (folder / script(config)).is_file():
        raise InputError(
            f"script_path: there is no {config.text('script_path')} in {config.home} or {folder}",
            where=_origin(config, "script_path"), hint="put it into the workspace or work_dir",
        )  # fmt: skip
    program = interpreter(config, conda=conda)
    if not conda and not config.text("pre_command") and shutil.which(program) is None:
        raise InputError(f"python_env: there is no program {program}", where=_origin(config, "python_env"))


def _check_output(config: Config) -> None:
    """Raise InputError if markers cannot be written: every `start` would run complete tasks again."""
    folder = config.path("output_dir")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise InputError(
            f"output_dir {folder} cannot be written: {error.strerror}",
            where=_origin(config, "output_dir"),
            hint="name a folder for the markers of complete tasks",
        ) from None


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
