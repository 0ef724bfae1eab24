"""Applies an edited config to tasks that wait: their jobs keep their ids, and get the settings of a new job."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from weft.access.client import Client
from weft.access.wire.convert import pairs
from weft.access.wire.messages import JobSpec
from weft.model.status import PENDING
from weft.views.answers.jobs import JobDetailView
from weft.workspace.launch import RUNNER, Launch
from weft.workspace.tasks import RERUN_PARAM, Task

KEYS: Final = ("command", "chdir", "gpu_ids", "gpu_choice", "memory", "max_jobs_per_gpu", "retries", "params")
"""The fields of a job that depend on the config."""
CONFIG_KEYS: Final[Mapping[str, str]] = {
    "marker": "output_dir", "logs": "log_dir", "log_cap": "max_log_mb", "delay": "startup_delay",
    "scheduler_log": "scheduler_session_suffix", "variable": "cuda_visible_devices_var", "wrapped": "conda_env",
}  # fmt: skip
"""The config keys of the keeper's settings."""


def apply(client: Client, launch: Launch, task: Task, job: JobDetailView, begin_at: float | None) -> list[str]:
    """Give a waiting job the settings of a new one. Return the changes, one text for each.

    A job keeps its GPU unless the task names another. With `begin_at`, it also starts no earlier than that."""
    spec = launch.spec(_pinned(launch, task, job), again=_again(job), begin_at=begin_at)
    old, new = _values(job), _values_of(spec)
    changed = [key for key in KEYS if old[key] != new[key]]
    if not changed and begin_at is None:
        return []
    spec.priority = job.priority  # not from the config: the user may have set it
    reply = client.change("edit", [job.id], spec=spec)
    return [] if reply.refused else [text for key in changed for text in _describe(key, old[key], new[key])]


def _pinned(launch: Launch, task: Task, job: JobDetailView) -> Task:
    pin = next(iter(job.spec.get("gpu_ids", ())), None)
    return Task(task.name, task.path, pin) if task.gpu is None and pin in launch.gpus else task


def _again(job: JobDetailView) -> float | None:
    """Return the time before which markers do not count for this job; None if all count."""
    if RERUN_PARAM not in job.params:
        return None
    settings, _ = _split(job.command)
    return float(settings.get("again") or 0.0)


def _values(job: JobDetailView) -> dict[str, Any]:
    memory = job.spec.get("memory", 0)
    return {
        "command": list(job.command), "chdir": job.chdir, "params": dict(job.params), "retries": job.retries,
        "gpu_ids": list(job.spec.get("gpu_ids", ())), "gpu_choice": list(job.spec.get("gpu_choice", ())),
        "memory": [memory] if isinstance(memory, int) else list(memory),
        "max_jobs_per_gpu": job.max_jobs_per_gpu or 1,
    }  # fmt: skip


def _values_of(spec: JobSpec) -> dict[str, Any]:
    return {
        "command": list(spec.command), "chdir": spec.chdir, "params": dict(pairs(spec.params)),
        "retries": spec.retries, "gpu_ids": list(spec.gpu_ids), "gpu_choice": list(spec.gpu_choice),
        "memory": list(spec.memory_mb), "max_jobs_per_gpu": spec.max_jobs_per_gpu,
    }  # fmt: skip


# ---- descriptions


def _describe(key: str, old: Any, new: Any) -> Iterator[str]:
    """Yield the changes of a field in the words of the config."""
    if key == "command":
        yield from _command_changes(old, new)
    elif key == "max_jobs_per_gpu":
        yield f"max_jobs_per_gpu {old} -> {new}"
    elif key == "retries":
        yield f"max_retries {old} -> {new}"
    elif key == "chdir":
        yield f"work_dir {old} -> {new}"
    elif key in ("gpu_ids", "gpu_choice") and new:
        yield f"GPU {','.join(map(str, new))}"
    elif key == "params":
        yield "session_backend"


def _command_changes(old: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    (old_settings, old_words), (settings, words) = _split(old), _split(new)
    for name, key in CONFIG_KEYS.items():
        if old_settings.get(name) != settings.get(name):
            yield key
    if len(old_words) == len(words):
        yield from (f"{was} -> {word}" for was, word in zip(old_words, words, strict=True) if was != word)
    else:
        yield "command"


def _split(command: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the settings of the keeper, and the words of the task's own command."""
    words = list(command)
    if str(RUNNER) not in words or "--" not in words:
        return {}, words
    at = words.index("--")
    given = words[words.index(str(RUNNER)) + 1 : at]
    return dict(word.partition("=")[::2] for word in given), words[at + 1 :]


def pending(jobs: Mapping[str, JobDetailView]) -> dict[str, JobDetailView]:
    """Return the jobs that wait or are held, by the names of their tasks."""
    return {name: job for name, job in jobs.items() if job.status in PENDING}
