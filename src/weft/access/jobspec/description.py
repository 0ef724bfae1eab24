"""Job descriptions for `weft show`: each field of a job as a submitter would write it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from weft.access.jobspec.fields import FIELDS, Field
from weft.model import Job, NodeId, Slots, Task, Where
from weft.model.node import CONTAINERS
from weft.views.from_state.jobs_and_nodes import dependencies_of, jobs_per_gpu, share_of

Number = Callable[[NodeId, int], int]
"""Returns the number of a GPU that users know, given its node and its place among the node's GPUs."""


def describe(job: Job, number: Number) -> dict[str, Any]:
    """Return the job's fields by key, as a JSON task file has them. Fields that say nothing are omitted."""
    found = {field.key: _value(field, job, number) for field in FIELDS if field.shown}
    return {key: value for key, value in found.items() if says_something(value, DEFAULTS[key])}


def says_something(value: Any, default: Any) -> bool:
    """Return False for None, an empty text or list, and a 0 or False that is the default."""
    return bool(value) or (isinstance(value, int | float) and value != default)


def _value(field: Field, job: Job, number: Number) -> Any:
    if special := SPECIAL.get(field.key):
        return special(job, number)
    value = field.of(job)
    if isinstance(value, tuple):
        return dict(value) if value and isinstance(value[0], tuple) else list(value)
    return value


def _numbers(slots: Slots, number: Number) -> list[int]:
    return [number(node, gpu) for node, gpus in slots for gpu in gpus]


def _node(where: Where) -> str:
    named = [node for node, _ in (*where.pinned, *where.choice)]
    return next(iter(named or [value for key, value in where.labels if key == "node"]), "")


def _is_implied(job: Job, key: str, value: str) -> bool:
    """Return whether a label follows from another field: the name of the node, or the image."""
    return key == "node" or ((key, value) == CONTAINERS and job.task is not None and bool(job.task.image))


def _seconds(value: float | None) -> str | None:
    """Return a duration with its unit: as a time limit, a bare number would be minutes."""
    return None if value is None else f"{value:g}s"


def _time(value: float | None) -> str | None:
    from datetime import datetime

    return None if value is None else datetime.fromtimestamp(value).astimezone().isoformat(timespec="seconds")


def _duration(job: Job) -> str | None:
    """Return the declared duration, not the time limit that replaces a missing one."""
    return None if job.task and job.declared_s == job.task.time_limit_s else _seconds(job.declared_s)


def _array(job: Job) -> str | None:
    return None if job.task is None or job.task.array_index is None else str(job.task.array_index)


def _profile(job: Job) -> dict[str, float | str] | None:
    """Return the parts of the profile that say something."""
    found = job.profile
    if found is None:
        return None
    total_s = found.data_s + found.gpu_s + found.network_s
    parts: dict[str, float | str] = {"data": found.data_s, "gpu": found.gpu_s, "net": found.network_s}
    parts |= {"start": found.start_s, "memory": found.memory_mb, "model": found.model}
    if found.iteration_s != total_s:
        parts["iteration"] = found.iteration_s
    return {name: value for name, value in parts.items() if value}


SPECIAL: Final[Mapping[str, Callable[[Job, Number], Any]]] = {
    "memory": lambda job, _: job.memory_mb.plain(),
    "time": lambda job, _: _seconds(job.task.time_limit_s) if job.task else None,
    "min_run": lambda job, _: _seconds(job.task.min_run_s) if job.task else None,
    "grace": lambda job, _: _seconds(job.task.grace_s) if job.task else None,
    "begin": lambda job, _: _time(job.begin_at),
    "deadline": lambda job, _: _time(job.deadline_at),
    "duration": lambda job, _: _duration(job),
    "array": lambda job, _: _array(job),
    "after": lambda job, _: dependencies_of(job),
    "max_jobs_per_gpu": lambda job, _: jobs_per_gpu(job),
    "share": lambda job, _: share_of(job),
    "gpu_ids": lambda job, number: _numbers(job.where.pinned, number),
    "gpu_choice": lambda job, number: _numbers(job.where.choice, number),
    "node": lambda job, _: _node(job.where),
    "profile": lambda job, _: _profile(job),
    "labels": lambda job, _: {key: value for key, value in job.where.labels if not _is_implied(job, key, value)},
}
"""Fields whose form in the model differs from what users write."""
DEFAULTS: Final = {
    field.key: _value(field, Job("", task=Task()), lambda _node, gpu: gpu) for field in FIELDS if field.shown
}
"""The values of a job of which nothing was said."""
