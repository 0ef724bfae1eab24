"""How a workspace stands: its GPUs and its tasks, put together from jobs, markers and the files of runs."""

from __future__ import annotations

import heapq
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from weft.client import Client
from weft.engines.process.shim import run_files
from weft.errors import InputError
from weft.workspace.config import Config
from weft.workspace.safelog import path_of, tasks_folder
from weft.workspace.tasks import AGAIN, NAME, all_tasks, marker_of

SCHEMA: Final = 1
STATES: Final = {
    "blocked": "waiting", "waiting": "waiting", "held": "held", "starting": "running", "running": "running",
    "stopping": "running", "done": "done", "failed": "failed", "cancelled": "cancelled",
}  # fmt: skip
UNFINISHED: Final = frozenset({"waiting", "held", "running"})
Row = dict[str, Any]


def latest(jobs: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The job of each config: the one submitted last."""
    found: dict[str, Mapping[str, Any]] = {}
    for job in jobs:  # in the order of submission
        found[job["params"].get(NAME, job["name"])] = job
    return found


def status(config: Config, client: Client | None, *, strict: bool = True) -> Row:
    """What `weft workspace status --json` prints. Without `strict`, configs that cannot be told are left out."""
    jobs = latest(client.query("job", group=config.group)["jobs"] if client else ())
    folder = client.places.jobs if client else None
    try:
        names = [task.name for task in all_tasks(config)]
    except InputError:
        if strict:
            raise
        names = []
    names += [name for name in jobs if name not in set(names)]
    tasks = [_task(config, name, jobs.get(name), folder) for name in names]
    gpus = _gpus(config, client.query("gpus")["gpus"]) if client else []
    estimate(tasks, slots=config.whole("max_jobs_per_gpu") * max(len(gpus), 1))
    counts = dict.fromkeys(("waiting", "running", "done", "failed", "cancelled", "new"), 0)
    for task in tasks:
        counts["waiting" if task["state"] == "held" else task["state"]] += 1
    return {
        "schema": SCHEMA,
        "task_name": config.task_name,
        "config": str(config.file),
        "session": config.scheduler_session,
        "log": scheduler_log(config),
        "stopped": any(task["state"] == "held" for task in tasks),
        "counts": counts,
        "gpus": gpus,
        "tasks": tasks,
    }


def is_busy(found: Row) -> bool:
    """Whether anything runs, or will by itself."""
    return any(task["state"] in ("waiting", "running") for task in found["tasks"])


def scheduler_log(config: Config) -> str | None:
    if not config.is_on("enable_logging"):
        return None
    return path_of(str(config.path("log_dir")), f"{config.scheduler_session}.log", config.group)


# ---- tasks


def _task(config: Config, name: str, job: Mapping[str, Any] | None, folder: Path | None) -> Row:
    marker = marker_of(config, name)
    row: Row = {
        "name": name, "state": "done" if marker.exists() else "new", "job": None, "run": 0, "gpu": None, "time_s": None,
        "retries": 0, "max_retries": 0, "preemptions": 0, "eta_s": None, "progress": None, "exit_code": None,
        "reason": "", "warning": "", "marker": str(marker) if marker.exists() else None, "log": None,
    }  # fmt: skip
    if job is None:
        _from_marker(row, marker)
        row["log"] = _log(config, name, "")
        return row
    row |= {
        "state": STATES[job["status"]], "job": job["id"], "run": job["run"], "retries": job["failures"],
        "max_retries": job["retries"], "preemptions": job["preemptions"], "exit_code": job["exit_code"],
        "reason": job["reason"], "progress": job["progress"],
        "gpu": job["last_gpus"][0] if job["last_gpus"] and has_run(job) else None,
        "time_s": job["time_s"] if has_run(job) else None,
    }  # fmt: skip
    run = run_files.run_dir(str(folder), job["id"], job["run"]) if folder else ""
    row["warning"] = _warning(run)
    if row["state"] in ("failed", "cancelled") and marker.exists() and not _is_older(job):
        row["warning"] = row["warning"] or f"it ended as {job['status']}, but its marker is there"
        row["state"] = "done"
    row["log"] = _log(config, name, run)
    return row


def has_run(job: Mapping[str, Any]) -> bool:
    """Whether it runs or ran to an end: one that waits to be run again is on no GPU."""
    return bool(job["run"]) and job["status"] not in ("waiting", "held", "blocked")


def _is_older(job: Mapping[str, Any]) -> bool:
    """A marker of before does not count for a job that was to run again and never did."""
    return AGAIN in job["params"] and not job["run"]


def _from_marker(row: Row, marker: Path) -> None:
    """What Weft wrote there; a task may have written anything, or nothing."""
    try:
        with open(marker, encoding="utf-8", errors="replace") as file:
            said = dict(line.strip().partition(": ")[::2] for line in file.read(4096).splitlines())
    except OSError:
        return
    if said.get("gpu", "").isdecimal():
        row["gpu"] = int(said["gpu"])
    try:
        row["time_s"] = float(said["duration_s"])
    except (KeyError, ValueError):
        return


def _warning(run: str) -> str:
    try:
        with open(os.path.join(run, "warning"), encoding="utf-8", errors="replace") as file:
            return file.read(1000).strip().replace("\n", "; ")
    except OSError:
        return ""


def _log(config: Config, name: str, run: str) -> str | None:
    """Where its log is or will be; what the run itself keeps, where there is to be none or none could be made."""
    kept = os.path.join(run, run_files.LOG) if run else None
    if not config.is_on("enable_logging"):
        return kept
    path = path_of(tasks_folder(str(config.path("log_dir"))), f"{name}.log", f"{config.group}#{name}")
    return kept if kept and os.path.exists(kept) and not os.path.exists(path) else path


# ---- GPUs


def _gpus(config: Config, found: Sequence[Mapping[str, Any]]) -> list[Row]:
    limit = config.whole("max_jobs_per_gpu")
    return [
        {
            "gpu": gpu["gpu"], "jobs": len(gpu["jobs"]), "limit": limit, "memory_mb": gpu["memory_mb"],
            "used_mb": gpu.get("used_mb"), "reserved_mb": gpu["reserved_mb"],
            "blocked": [each["reason"] for each in gpu["blocked"]],
        }
        for gpu in found[: config.whole("gpu_count")]
    ]  # fmt: skip


# ---- when


def estimate(tasks: Sequence[Row], slots: int) -> None:
    """Fills in when each may be done: by its own progress, else by how long others took."""
    took = [task["time_s"] for task in tasks if task["state"] == "done" and task["time_s"]]
    usual = sum(took) / len(took) if took else None
    free: list[float] = []
    for task in tasks:
        if task["state"] != "running":
            continue
        task["eta_s"] = _left_s(task, usual)
        free.append(task["eta_s"] if task["eta_s"] is not None else usual or 0.0)
    if usual is None:
        return
    free += [0.0] * max(slots - len(free), 0)
    heapq.heapify(free)
    for task in tasks:
        if task["state"] == "waiting":
            ends = heapq.heappop(free) + usual
            task["eta_s"] = ends
            heapq.heappush(free, ends)


def _left_s(task: Row, usual: float | None) -> float | None:
    """What a running task has left: as it says, else as fast as it went so far, else as long as others took."""
    progress, time_s = task["progress"] or {}, task["time_s"] or 0.0
    if progress.get("eta_s") is not None:
        return float(progress["eta_s"])
    step, total = progress.get("step"), progress.get("total")
    if step and total and step <= total:
        return float(time_s * (total - step) / step)
    return None if usual is None else max(usual - time_s, 0.0)
