"""The status of a workspace: its GPUs and tasks, from jobs, markers and the files of runs."""

from __future__ import annotations

import heapq
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ClassVar, Final, Literal

from weft.access.client import Client
from weft.errors import InputError
from weft.model.status import PENDING
from weft.node.engine.shim import run_files
from weft.views.answers.base import Answer, View, field, replace_fields
from weft.views.answers.jobs import JobDetailView, ProgressView
from weft.views.answers.nodes import GpuView
from weft.workspace.config import Config
from weft.workspace.task.log_files import find_log_path, tasks_folder
from weft.workspace.tasks import NAME_PARAM, RERUN_PARAM, all_tasks, marker_of

TaskState = Literal["waiting", "held", "running", "done", "failed", "cancelled", "new"]
STATES: Final[Mapping[str, TaskState]] = {
    "blocked": "waiting", "waiting": "waiting", "held": "held", "starting": "running", "running": "running",
    "stopping": "running", "done": "done", "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip


class TaskView(View):
    """A config of the workspace, and its last job."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"progress": ProgressView}

    name: str = ""
    state: TaskState = "new"
    job: str | None = None
    run: int = 0
    gpu: int | None = None
    time_s: float | None = None
    retries: int = 0
    max_retries: int = 0
    preemptions: int = 0
    eta_s: float | None = None
    progress: ProgressView | None = None
    exit_code: int | None = None
    reason: str = ""
    warning: str = ""
    marker: str | None = None
    log: str | None = None


class WorkspaceGpuView(View):
    gpu: int = 0
    jobs: int = 0
    limit: int = 0
    memory_mb: int = 0
    used_mb: int | None = None
    reserved_mb: int = 0
    blocked: Sequence[str] = ()


class WorkspaceView(Answer):
    """The answer of `weft workspace status --json`."""

    PARTS: ClassVar[Mapping[str, type[View]]] = {"gpus": WorkspaceGpuView, "tasks": TaskView}

    task_name: str = ""
    config: str = ""
    session: str = ""
    log: str | None = None
    stopped: bool = False
    max_jobs_per_gpu: int = 0
    """The limit in the config, which the next `start` applies to waiting tasks."""
    counts: Mapping[str, int] = field(default_factory=dict)
    gpus: Sequence[WorkspaceGpuView] = ()
    tasks: Sequence[TaskView] = ()


def latest(jobs: Iterable[JobDetailView]) -> dict[str, JobDetailView]:
    """Return the latest job of each config."""
    return {job.params.get(NAME_PARAM, job.name): job for job in jobs}  # jobs come in the order of submission


def status(config: Config, client: Client | None, *, strict: bool = True) -> WorkspaceView:
    """Return the status of the workspace. Without `strict`, leave out configs that cannot be listed."""
    jobs = latest(client.jobs(group=config.group).jobs if client else ())
    folder = client.paths.jobs if client else None
    try:
        names = [task.name for task in all_tasks(config)]
    except InputError:
        if strict:
            raise
        names = []
    names += [name for name in jobs if name not in set(names)]
    gpus = _gpus(config, client.gpus().gpus, jobs.values()) if client else []
    found = [_task(config, name, jobs.get(name), folder) for name in names]
    tasks = estimate(found, slots=config.whole("max_jobs_per_gpu") * max(len(gpus), 1))
    counts = dict.fromkeys(("waiting", "running", "done", "failed", "cancelled", "new"), 0)
    for task in tasks:
        counts["waiting" if task.state == "held" else task.state] += 1
    return WorkspaceView(
        task_name=config.task_name, config=str(config.file), session=config.scheduler_session,
        log=scheduler_log(config), stopped=any(task.state == "held" for task in tasks),
        max_jobs_per_gpu=config.whole("max_jobs_per_gpu"), counts=counts, gpus=gpus,
        tasks=tasks,
    )  # fmt: skip


def is_busy(found: WorkspaceView) -> bool:
    """Return whether a task runs or waits to run."""
    return any(task.state in ("waiting", "running") for task in found.tasks)


def scheduler_log(config: Config) -> str | None:
    """Return the path of the scheduler's log; None if the workspace has no logs."""
    if not config.is_on("enable_logging"):
        return None
    return find_log_path(str(config.path("log_dir")), f"{config.scheduler_session}.log", config.group)


# ---- tasks


def _task(config: Config, name: str, job: JobDetailView | None, folder: Path | None) -> TaskView:
    marker = marker_of(config, name)
    marked = marker.exists()
    if job is None:
        gpu, time_s = _from_marker(marker)
        return TaskView(
            name=name, state="done" if marked else "new", gpu=gpu, time_s=time_s,
            marker=str(marker) if marked else None, log=_log(config, name, ""),
        )  # fmt: skip
    state, ran = STATES[job.status], has_run(job)
    run = run_files.run_dir(str(folder), job.id, job.run) if folder else ""
    warning = _warning(run)
    if state in ("failed", "cancelled") and marked and not _marker_is_older(job):
        warning, state = warning or f"it ended as {job.status}, but its marker exists", "done"
    return TaskView(
        name=name, state=state, job=job.id, run=job.run, gpu=job.last_gpus[0] if job.last_gpus and ran else None,
        time_s=job.time_s if ran else None, retries=job.failures, max_retries=job.retries,
        preemptions=job.preemptions, progress=job.progress, exit_code=job.exit_code, reason=job.reason,
        warning=warning, marker=str(marker) if marked else None, log=_log(config, name, run),
    )  # fmt: skip


def has_run(job: JobDetailView) -> bool:
    """Return whether the job runs, or ended with its last run. A job that waits for its next run holds no GPU."""
    return bool(job.run) and job.status not in PENDING


def _marker_is_older(job: JobDetailView) -> bool:
    """Return whether the marker is from before this job: `rerun` submitted the job, and it has not run yet."""
    return RERUN_PARAM in job.params and not job.run


def _from_marker(marker: Path) -> tuple[int | None, float | None]:
    """Return the GPU and the duration if Weft wrote the marker. A marker that the task wrote may hold anything."""
    try:
        with open(marker, encoding="utf-8", errors="replace") as file:
            fields = dict(line.strip().partition(": ")[::2] for line in file.read(4096).splitlines())
    except OSError:
        return None, None
    gpu = int(fields["gpu"]) if fields.get("gpu", "").isdecimal() else None
    try:
        return gpu, float(fields["duration_s"])
    except (KeyError, ValueError):
        return gpu, None


def _warning(run: str) -> str:
    try:
        with open(os.path.join(run, "warning"), encoding="utf-8", errors="replace") as file:
            return file.read(1000).strip().replace("\n", "; ")
    except OSError:
        return ""


def _log(config: Config, name: str, run: str) -> str | None:
    """Return the path of the task's log, or that of the run's output if the task has no log."""
    output = os.path.join(run, run_files.LOG) if run else None
    if not config.is_on("enable_logging"):
        return output
    path = find_log_path(tasks_folder(str(config.path("log_dir"))), f"{name}.log", f"{config.group}#{name}")
    return output if output and os.path.exists(output) and not os.path.exists(path) else path


# ---- GPUs


def _gpus(config: Config, found: Sequence[GpuView], jobs: Collection[JobDetailView]) -> list[WorkspaceGpuView]:
    """Return the GPUs with the limits in force: tasks keep the limit of their last `start`."""
    limits = {job.id: job.max_jobs_per_gpu or 1 for job in jobs}
    waiting_limits = [limits[job.id] for job in jobs if job.status in PENDING]
    usual_limit = min(waiting_limits, default=config.whole("max_jobs_per_gpu"))
    return [
        WorkspaceGpuView(
            gpu=gpu.gpu, jobs=len(gpu.jobs),
            limit=min([usual_limit, *(limits[job] for job in gpu.jobs if job in limits)]),
            memory_mb=gpu.memory_mb, used_mb=gpu.used_mb,
            reserved_mb=gpu.reserved_mb, blocked=[each.reason for each in gpu.blocked],
        )
        for gpu in found[: config.whole("gpu_count")]
    ]  # fmt: skip


# ---- estimates


def estimate(tasks: Sequence[TaskView], slots: int) -> list[TaskView]:
    """Return the tasks with estimated ends: by a task's progress, else by the mean duration of completed tasks."""
    durations_s = [task.time_s for task in tasks if task.state == "done" and task.time_s]
    mean_s = sum(durations_s) / len(durations_s) if durations_s else None
    running = {task.name: _left_s(task, mean_s) for task in tasks if task.state == "running"}
    found = [replace_fields(task, eta_s=running[task.name]) if task.name in running else task for task in tasks]
    if mean_s is None:
        return found
    free_in_s = [left if left is not None else mean_s for left in running.values()]
    free_in_s += [0.0] * max(slots - len(free_in_s), 0)
    heapq.heapify(free_in_s)
    for at, task in enumerate(found):
        if task.state == "waiting":
            ends_in_s = heapq.heappop(free_in_s) + mean_s
            found[at] = replace_fields(task, eta_s=ends_in_s)
            heapq.heappush(free_in_s, ends_in_s)
    return found


def _left_s(task: TaskView, mean_s: float | None) -> float | None:
    """Return the seconds that a running task has left: as it reports, else by its speed so far, else by the mean."""
    progress, time_s = task.progress or ProgressView(), task.time_s or 0.0
    if progress.eta_s is not None:
        return progress.eta_s
    if progress.step and progress.total and progress.step <= progress.total:
        return time_s * (progress.total - progress.step) / progress.step
    return None if mean_s is None else max(mean_s - time_s, 0.0)
