"""Apply the values of fields to a job: a new one, or one that `weft set` changes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from weft.access.jobspec.fields import FIELDS, Field
from weft.access.jobspec.job_names import looks_like_reference
from weft.access.wire.convert import converter, get
from weft.access.wire.messages import JobSpec
from weft.errors import InputError, WeftError
from weft.inputs.quantities import check_name, parse_share
from weft.model import WHOLE, Job, JobId, NodeId, PerRank, Share, Slots, Task, Where
from weft.model.groups import WORKSPACE
from weft.model.node import CONTAINERS
from weft.server.jobs.admission import AdmissionRules

DEFAULT_MEMORY_MB: Final = 4096
MAX_TEXT_CHARS: Final = 4096
"""The most characters of a text of a job, such as a path. The indices of an array may be more."""
PLACES: Final = frozenset({"gpu_ids", "gpu_choice", "gpu_model", "node", "labels"})
"""Fields that restrict where a job may run."""
DERIVED: Final = PLACES | {"name", "gpus", "memory", "cpus", "max_jobs_per_gpu", "share", "duration", "after"}
"""Fields whose value in a job differs from the given one, or depends on other fields."""
DIRECT: Final = {
    field.key: field.model.rpartition(".")[::2] for field in FIELDS if field.model and field.key not in DERIVED
}
"""The other fields: what holds each (a job, or its task), and the attribute."""


def _descriptor(field: Field) -> Any:
    """Return the descriptor of a field in `JobSpec`."""
    try:
        return JobSpec.DESCRIPTOR.fields_by_name[field.message]
    except KeyError:
        what = f"JobSpec has no field {field.message!r}: add it to JobSpec in weft.proto, then run make proto"
        raise WeftError(what) from None


CONVERTERS: Final = {
    descriptor: (field.key, converter(descriptor), field.bounds)
    for field in FIELDS
    for descriptor in [_descriptor(field)]
}
"""For each field of a message: its key, what turns its value into the model's form, and its bounds. Looked up once, not
per job."""
WANTS_GPUS: Final = frozenset({"memory", "gpu_model", "gpu_ids", "gpu_choice", "max_jobs_per_gpu", "share", "per_gpu"})
"""Fields with which a job asks for a GPU, even if it does not say how many and none is known."""
NEW: Final = Job("", task=Task())
"""A job with the model's defaults."""
Values = Mapping[str, Any]
"""Values of fields by key, as `convert.get` returns them."""
Attributes = dict[str, Any]


def values_of(spec: JobSpec, fields: Iterable[Field] | None = None) -> dict[str, Any]:
    """Return the values of these fields; by default, of those that were given, whose numbers must be in bounds."""
    if fields is not None:
        return {field.key: get(spec, field.message) for field in fields}
    values = {}
    for descriptor, value in spec.ListFields():
        key, convert, bounds = CONVERTERS[descriptor]
        if bounds is not None:
            _check_bounds(key, value, *bounds)
        if isinstance(value, str) and key != "array":
            check_text(key, value)
        values[key] = value if convert is None else convert(value)
    return values


def check_text(key: str, text: str) -> None:
    """Raise if a text is too long."""
    if len(text) > MAX_TEXT_CHARS:
        raise InputError(f"more than {MAX_TEXT_CHARS:,} characters", key=key)


def _check_bounds(key: str, value: Any, low: float, high: float) -> None:
    """Raise if a number, or one of several, is out of bounds."""
    for number in (value,) if isinstance(value, int | float) else value:
        if not low <= number <= high:
            raise InputError(f"{number:,} is out of range", hint=f"from {low:,} to {high:,}", key=key)


class JobEditor:
    """Applies values to jobs, under the rules of a backend."""

    def __init__(self, rules: AdmissionRules) -> None:
        self._rules = rules

    def create(self, job_id: JobId, user: str, key: str, values: dict[str, Any]) -> Job:
        """Return a new job with these values. Add defaults to them for GPUs and memory."""
        if values.get("gpus") is None:
            usual = 1 if self._rules.has_gpus() or not WANTS_GPUS.isdisjoint(values) else 0
            values["gpus"] = len(values.get("gpu_ids", ())) or usual
        if not values.get("memory"):
            values["memory"] = (self._default_memory_mb(),)
        job, task = self._attributes(NEW, values)
        return Job(job_id, user=user, task=Task(key=key, **task), **job)

    def edit(self, job: Job, values: Values) -> Job:
        """Return the job with these values, except `after`, which names other jobs."""
        changed, task = self._attributes(job, values)
        return replace(job, task=replace(job.task or Task(), **task), **changed)

    def _attributes(self, job: Job, values: Values) -> tuple[Attributes, Attributes]:
        """Return what these values make of a job: the attributes of the job, and those of its task."""
        own, task = Attributes(), Attributes()
        for key, value in values.items():
            if key in DIRECT:
                holder, attribute = DIRECT[key]
                (task if holder else own)[attribute] = value
        own["gpus"] = gpus = values.get("gpus", job.gpus)
        own["memory_mb"] = _memory_mb(values, job, gpus)
        own["cpus"] = _cpus(values, job, gpus)
        if values.get("cpus") is not None:
            task["cpu_limit"] = values["cpus"]
        own["declared_s"] = _declared_s(values, job)
        if "name" in values:
            own["name"] = _name(values["name"], values.get("group", job.group))
        if "share" in values or "max_jobs_per_gpu" in values:
            own["share"] = _share(values)
        if not PLACES.isdisjoint(values) or "image" in values:
            own["where"] = self._where(job, values)
        _check_gpus(gpus, own.get("where", job.where), values.get("per_gpu", job.task is not None and job.task.per_gpu))
        return own, task

    def _default_memory_mb(self) -> int:
        largest = self._rules.largest_mb()
        return DEFAULT_MEMORY_MB if largest is None else min(DEFAULT_MEMORY_MB, largest)

    def _where(self, job: Job, values: Values) -> Where:
        old = job.where
        labels = values.get("labels", tuple(pair for pair in old.labels if pair[0] != "node" and pair != CONTAINERS))
        if values.get("image", job.task.image if job.task is not None else ""):
            labels += tuple(pair for pair in self._rules.container_labels() if pair not in labels)
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


def _name(name: str, group: str) -> str:
    """Return the name, or raise if it would be read as a reference to other jobs. Tasks of a workspace are named after
    their configs, and by GROUP/NAME."""
    if looks_like_reference(name) and not group.startswith(WORKSPACE):
        what = f"{name!r} cannot be a name: commands would read it as a reference to jobs"
        raise InputError(what, hint=f"such as job-{name.strip('@~')}" if name.strip("@~") else "", key="name")
    return check_name(name)


def _node_of(where: Where) -> NodeId:
    """Return the one node that a job may run on, if there is one."""
    named = [node for node, _ in (*where.pinned, *where.choice)]
    return next(iter(named or [value for key, value in where.labels if key == "node"]), "")


def _check_gpus(gpus: int, where: Where, per_gpu: bool) -> None:
    if per_gpu and not gpus:
        what = "per_gpu starts one process for each GPU, but the job has none"
        raise InputError(what, hint="give it gpus, or leave per_gpu out", key="per_gpu")
    if where.pinned and (pinned := sum(len(each) for _, each in where.pinned)) != gpus:
        raise InputError(f"it names {pinned}, and the job needs {gpus}", hint="name as many as it needs", key="gpu_ids")


def _memory_mb(values: Values, job: Job, gpus: int) -> PerRank:
    memory = PerRank(*values.get("memory", job.memory_mb))
    return memory if gpus or memory.differs else PerRank(0)


def _cpus(values: Values, job: Job, gpus: int) -> int:
    """Return the CPUs that a job counts. Without GPUs it counts one, unless its user says how many: else any number of
    such jobs would run at once."""
    if "cpus" in values:
        return int(values["cpus"])
    is_as_before = job is not NEW and gpus == job.gpus
    return job.cpus if gpus or is_as_before else max(job.cpus, 1)


def _share(values: Values) -> Share:
    if "share" in values and "max_jobs_per_gpu" in values:
        what = "share does not go with max_jobs_per_gpu"
        raise InputError(what, key="share", hint="max_jobs_per_gpu=K stands for a share of 1/K: give one of them")
    if "share" in values:
        return Share(*parse_share(values["share"]))
    jobs_per_gpu = values["max_jobs_per_gpu"]
    return Share(1 / jobs_per_gpu, 1 / jobs_per_gpu) if jobs_per_gpu > 1 else WHOLE


def _declared_s(values: Values, job: Job) -> float | None:
    """Return the declared duration. Without one, it is the time limit."""
    old = job.task.time_limit_s if job.task is not None else None
    implied = job.declared_s if job.declared_s != old else values.get("time", old)
    declared: float | None = values.get("duration", implied)
    return declared
