"""Put the values of fields into a job: of a new one, and of one that `weft set` changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from weft.errors import InputError
from weft.inputs.quantities import check_name
from weft.jobspec.fields import BY_KEY, FIELDS, Field
from weft.model import WHOLE, Job, NodeId, PerRank, Share, Slots, Task, Where
from weft.server.jobs.admission import AdmissionRules
from weft.wire.convert import get
from weft.wire.messages import JobSpec

DEFAULT_MEMORY_MB: Final = 4096
BY_MESSAGE: Final = {field.message: field for field in FIELDS}
PLACES: Final = frozenset({"gpu_ids", "gpu_choice", "gpu_model", "node", "labels"})
"""Fields that say where a job may run."""
DERIVED: Final = PLACES | {"name", "gpus", "memory", "cpus", "max_jobs_per_gpu", "duration", "after"}
"""Fields whose value in a job is not the one that was given, or depends on other fields."""
Values = Mapping[str, Any]
"""Values of fields by key, as `convert.get` returns them."""


def values_of(spec: JobSpec, fields: Iterable[Field] | None = None) -> dict[str, Any]:
    """Return the values of these fields; by default, of those that were given."""
    found = [BY_MESSAGE[each.name] for each, _ in spec.ListFields()] if fields is None else fields
    return {field.key: get(spec, field.message) for field in found}


class JobEditor:
    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules

    def create(self, job: Job, values: Values) -> Job:
        """Return a new job with these values, and defaults for the others."""
        gpus = values.get("gpus")
        if gpus is None:
            gpus = len(values.get("gpu_ids", ())) or 1
        memory = values.get("memory") or (self._default_memory_mb(),)
        return self.edit(job, {**values, "gpus": gpus, "memory": memory})

    def edit(self, job: Job, values: Values) -> Job:
        """Return the job with these values; `after` is not put in, as it names other jobs."""
        task, parts = job.task or Task(), {"": dict[str, Any](), "task": dict[str, Any]()}
        for key, value in values.items():
            if key not in DERIVED and (path := BY_KEY[key].model):
                holder, _, attribute = path.rpartition(".")
                parts[holder][attribute] = value
        new_task = replace(task, **parts["task"]) if parts["task"] or job.task is None else task
        gpus = values.get("gpus", job.gpus)
        where = self._where(job.where, values) if not PLACES.isdisjoint(values) else job.where
        _check_gpus(gpus, where, new_task)
        cpus = values.get("cpus", job.cpus)
        return replace(
            job,
            **parts[""],
            name=check_name(values["name"]) if "name" in values else job.name,
            gpus=gpus,
            memory_mb=_memory_mb(values, job, gpus),
            cpus=cpus if gpus else max(cpus, 1),  # without GPUs and CPUs, any number of them would run at once
            share=_share(values["max_jobs_per_gpu"]) if "max_jobs_per_gpu" in values else job.share,
            where=where,
            declared_s=_declared_s(values, job, task, new_task),
            task=new_task,
        )

    def _default_memory_mb(self) -> int:
        largest = self._rules.largest_mb()
        return DEFAULT_MEMORY_MB if largest is None else min(DEFAULT_MEMORY_MB, largest)

    def _where(self, old: Where, values: Values) -> Where:
        labels = values.get("labels", tuple(pair for pair in old.labels if pair[0] != "node"))
        model = values.get("gpu_model", old.gpu_model)
        node = values.get("node") or _node_of(old)
        if not values.get("gpu_ids") and not values.get("gpu_choice"):
            kept = () if old.pinned or old.choice else self._rules.labels(node)
            return replace(old, gpu_model=model, labels=labels + kept)
        found = self._rules.node(node)
        pinned = self._slots("gpu_ids", found, values["gpu_ids"]) if "gpu_ids" in values else old.pinned
        choice = self._slots("gpu_choice", found, values["gpu_choice"]) if "gpu_choice" in values else old.choice
        return Where(model, labels, pinned, () if pinned else choice)

    def _slots(self, key: str, node: NodeId, numbers: Sequence[int]) -> Slots:
        """Return these GPUs as the core counts them."""
        try:
            places = tuple(self._rules.numbers.place(node, number) for number in numbers)
        except InputError as error:
            raise error.at(key=key) from None
        return ((node, places),) if places else ()


def _node_of(where: Where) -> NodeId:
    """Return the one node that a job may run on, if there is one."""
    named = [node for node, _ in (*where.pinned, *where.choice)]
    return next(iter(named or [value for key, value in where.labels if key == "node"]), "")


def _check_gpus(gpus: int, where: Where, task: Task) -> None:
    if task.per_gpu and not gpus:
        what = "one process for each GPU, but no GPU"
        raise InputError(what, hint="give it gpus, or leave per_gpu out", key="per_gpu")
    pinned = sum(len(each) for _, each in where.pinned)
    if pinned and pinned != gpus:
        raise InputError(f"it names {pinned}, and the job needs {gpus}", hint="name as many as it needs", key="gpu_ids")


def _memory_mb(values: Values, job: Job, gpus: int) -> PerRank:
    memory = PerRank(*values.get("memory", job.memory_mb))
    return memory if gpus or memory.differs else PerRank(0)


def _share(jobs_per_gpu: int) -> Share:
    return Share(1 / jobs_per_gpu, 1 / jobs_per_gpu) if jobs_per_gpu > 1 else WHOLE


def _declared_s(values: Values, job: Job, old: Task, new: Task) -> float | None:
    """Return how long it takes as its submitter says; the time limit stands for it where that is not said."""
    if "duration" in values:
        declared: float = values["duration"]
        return declared
    return new.time_limit_s if job.declared_s == old.time_limit_s else job.declared_s
